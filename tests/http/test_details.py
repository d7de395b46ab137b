"""Who holds a resource and who waits for it."""

import json
from typing import Any

import pytest

from governor.core.kinds.pool import MemberSpec
from governor.core.snapshot import WaiterView
from governor.core.types import SECOND, Claim, LeaseId, TicketId
from governor.http.details import LISTED, LOOKED_AT, Details
from governor.testing.clock import FakeClock
from tests.core.declared import pool, rate_limit, semaphore
from tests.http.scene import Scene


class Detailed(Scene):
    """A scene, and what is told of one of its resources."""

    def __init__(self) -> None:
        self.time = FakeClock(5 * SECOND)
        super().__init__(self.time)
        self.declare(semaphore("db", 4), rate_limit("api", (10, SECOND, 10)))
        self.details = Details(self.sight)

    def of(self, name: str) -> Any:  # noqa: ANN401  (what JSON says)
        """What is told now, not what was told within the last second."""
        self.time.advance(SECOND)
        told = self.told(name)
        return None if told is None else json.loads(told)

    def told(self, name: str) -> bytes | None:
        """All that is sent, as it is made."""
        told = self.details.of(name)
        return told if told is None or isinstance(told, bytes) else b"".join(told)


@pytest.fixture
def scene() -> Detailed:
    """A semaphore and a rate limit."""
    return Detailed()


def test_leases_are_told_with_their_holders(scene: Detailed) -> None:
    """By name, and by process if it is a session's; the oldest first."""
    first = scene.take("db", permits=2, client="ann")
    scene.own(first, pid=4711, host="web-1")
    second = scene.take("db", "api", client="bob")

    assert scene.of("db")["leases"] == [
        {
            "id": first, "client": "ann", "pid": 4711, "host": "web-1", "permits": 2, "members": [],
            "since": 5000, "ends": 35_000, "renewals": 0, "orphaned": False,
        },
        {
            "id": second, "client": "bob", "pid": 0, "host": "", "permits": 1, "members": [],
            "since": 5000, "ends": 35_000, "renewals": 0, "orphaned": False,
        },
    ]  # fmt: skip


def test_waiters_are_told_in_their_order(scene: Detailed) -> None:
    """With what else they want, since when, and until when."""
    scene.take("db", permits=4)
    scene.wait("db", "api", permits=2, client="ann")
    scene.time.advance(SECOND)
    scene.wait("db", client="bob")

    ann, bob = scene.of("db")["waiters"]
    assert (ann["client"], ann["permits"], ann["others"], ann["since"], ann["until"]) == (
        "ann",
        2,
        ["api"],
        5000,
        35_000,
    )
    assert (bob["client"], bob["permits"], bob["others"], bob["since"]) == ("bob", 1, [], 6000)


def test_members_are_told_by_id_and_state(scene: Detailed) -> None:
    """What is lent of whom, in which generation, and until when one is kept out; their attributes are secrets."""
    attributes = (("endpoint", "postgres://user:s3cret@db1"),)
    scene.declare(pool("db", [MemberSpec("one", attributes, 2), MemberSpec("two"), MemberSpec("three")]))
    lease = scene.take("db", permits=2)
    scene.driver.quarantine("db", "two", 60 * SECOND)
    scene.driver.quarantine("db", "three", None)
    told = scene.of("db")

    assert told["members_in_all"] == 3
    assert {member["id"]: (member["state"], member["until"]) for member in told["members"]} == {
        "one": (told["members"][0]["state"], None),
        "two": ("quarantined by an operator", 65_000),
        "three": ("quarantined by an operator", None),
    }
    assert told["leases"][0]["id"] == lease
    assert "s3cret" not in json.dumps(told)


def test_windows_are_told_as_the_config_has_them(scene: Detailed) -> None:
    """With what could be had at once, and when the next one comes."""
    scene.declare(rate_limit("api", (10, SECOND, 10), (100, 60 * SECOND, 20)))
    scene.take("api", permits=10)
    told = json.loads(scene.told("api") or b"")

    assert [(window["rate"], window["burst"], window["available"]) for window in told["windows"]] == [
        ("10/s", 10, 0),
        ("100/m", 20, 10),
    ]
    assert told["windows"][0]["next"] == 5100
    assert told["leases"] == []


def test_what_may_be_a_secret_is_not_told(scene: Detailed) -> None:
    """Nobody is asked who they are here: no labels, request ids or ids of sessions."""
    scene.driver.ask((Claim("db", 4),), client="ann", request_id="req-s3cret", labels=(("token", "label-s3cret"),))
    answer = scene.driver.ask((Claim("db", 1),), client="bob", request_id="r-s3cret", labels=(("token", "s3cret"),))
    scene.own(scene.driver.lease_ids()[0], pid=1, host="h")
    session = next(iter(scene.sessions.owners.values()))
    told = json.dumps(scene.of("db"))

    assert answer is not None
    assert "ann" in told
    assert "bob" in told
    assert "s3cret" not in told
    assert session.id not in told


def test_of_very_many_the_first_are_told(scene: Detailed) -> None:
    """How many there are in all is in the row."""
    scene.declare(semaphore("db", LISTED + 50))
    leases = [scene.take("db") for _ in range(LISTED + 50)]
    for _ in range(LISTED + 1):
        scene.wait("db")
    told = scene.of("db")

    assert [lease["id"] for lease in told["leases"]] == leases[:LISTED]
    assert len(told["waiters"]) == LISTED


@pytest.mark.parametrize("of", ["db", "other"])
def test_however_much_is_lent_and_waited_for_nothing_takes_long_at_once(scene: Detailed, of: str) -> None:
    """Leases of one resource are looked for in slices, each a turn of the loop; no line is walked to its end."""
    scene.declare(semaphore("db", 5 * LOOKED_AT), semaphore("other", 5 * LOOKED_AT, max_waiters=10 * LISTED))
    leases = {
        "other": [scene.take("other") for _ in range(LISTED // 2)],
        "db": [scene.take("db") for _ in range(4 * LOOKED_AT)],
    }
    leases["other"].append(scene.take("other", permits=4 * LOOKED_AT))
    for _ in range(3 * LISTED):
        scene.wait("other", permits=LOOKED_AT)
    covers, waiter, looked = scene.driver.covers, scene.driver.waiter, [0]

    def looked_at(lease_id: LeaseId, resource: str) -> bool:
        looked[-1] += 1
        return covers(lease_id, resource)

    def looked_at_waiter(ticket: TicketId) -> WaiterView | None:
        looked[-1] += 1
        return waiter(ticket)

    scene.driver.covers, scene.driver.waiter = looked_at, looked_at_waiter
    told = b""
    for chunk in scene.details.of(of) or ():
        assert isinstance(chunk, bytes)
        assert chunk
        told += chunk
        looked.append(0)

    assert max(looked) <= LOOKED_AT + LISTED
    assert len(looked) > (1 if of == "db" else 4)
    assert [lease["id"] for lease in json.loads(told)["leases"]] == leases[of][:LISTED]


def test_what_is_not_there_is_not_told(scene: Detailed) -> None:
    """A removed resource is there until its last lease ends."""
    assert scene.of("nope") is None
    lease = scene.take("db")
    scene.declare(semaphore("other", 1))
    assert [lease["id"] for lease in scene.of("db")["leases"]] == [lease]
    scene.driver.release((lease,))
    assert scene.of("db") is None


def test_it_is_made_once_a_second_however_many_ask(scene: Detailed) -> None:
    """And remembered for few resources."""
    first = scene.told("db")
    scene.take("db")
    assert scene.details.of("db") is first
    scene.time.advance(SECOND)
    assert scene.told("db") != first

    scene.declare(*(semaphore(f"r{number}", 1) for number in range(100)))
    for number in range(100):
        scene.told(f"r{number}")
    assert len(scene.details._made) <= 16


def test_an_orphaned_lease_is_told_as_such(scene: Detailed) -> None:
    """Its holder is gone, and so is its process."""
    lease = scene.take("db", client="ann")
    scene.driver.disconnect((lease,))

    told = scene.of("db")["leases"][0]
    assert told["orphaned"] is True
    assert told["ends"] == 7000
