"""What the log says of losses: whatever becomes of a thousand leases at once, a person can read it."""

import logging

import pytest

from governor.client.telling import tell
from tests.client.scene import Scene, ended, handled


@pytest.fixture
def scene(caplog: pytest.LogCaptureFixture) -> Scene:
    """A client that is greeted, and whose log is read."""
    caplog.set_level(logging.WARNING, "governor.client")
    scene = Scene()
    scene.greeted()
    return scene


def told(scene: Scene, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says when the program is told of what is lost by now."""
    scene.talk.keeping.losses, scene.lost = scene.lost, []
    caplog.clear()
    tell(scene.talk)
    return caplog.messages


def test_one_lease_has_a_line(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """With its id, what it was for, and why."""
    scene.held(7)
    scene.hear(ended(7, "revoked"), handled(2))

    assert told(scene, caplog) == ["lease 7 on x is lost: revoked"]
    assert told(scene, caplog) == []


@pytest.mark.parametrize(
    ("leases", "names"),
    [
        (2, "1, 2"),
        (5, "1, 2, 3, 4, 5"),
        (6, "1, 2, 3, 4, 5 and 1 more"),
        (20_000, "1, 2, 3, 4, 5 and 19,995 more"),
    ],
)
def test_many_leases_have_one_line(leases: int, names: str, scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """How many they are, and which are the first. Each is told to whoever holds it all the same."""
    heard = []
    for number in range(1, leases + 1):
        scene.held(number).watch(lambda number=number: heard.append(number))  # type: ignore[misc]
    scene.break_off()
    scene.wait(2)
    scene.tick()

    assert told(scene, caplog) == [f"{leases:,} leases are lost ({names}): unreachable"]
    assert heard == list(range(1, leases + 1))


def test_each_reason_has_a_line(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """They want different things done about them, and there are few."""
    for number in range(1, 5):
        scene.held(number)
    scene.hear(ended(1, "revoked"), ended(2, "expired"), ended(3, "revoked"), ended(4, "revoked"), handled(2))

    assert told(scene, caplog) == [
        "3 leases are lost (1, 3, 4): revoked",
        "lease 2 on x is lost: expired",
    ]
