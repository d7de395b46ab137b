"""Leases whose daemon has died, or has said that it ends: until when they are relied on, by hand-moved time."""

import pytest

from governor.client.asks import SECOND
from governor.client.held import Held
from governor.process import Process
from governor.v1 import governor_pb2 as pb
from tests.client.scene import Scene, granted, handled, stopping, welcome

# What a client believes in beyond a break when leases outlive it by 2 s, and what it adds for a grace of 5 s.
BREAK = 1.8
GRACE = 4.5


def greeted(*, grace: float = 5, on_disconnect: float | None = 2) -> Scene:
    """With a daemon that promises something."""
    scene = Scene()
    scene.connect()
    scene.said()
    scene.hear(welcome(on_disconnect=on_disconnect, grace=grace), handled(1))
    return scene


def back(scene: Scene, *, claims: bool = True) -> None:
    """The next daemon is there, and has renewed what was claimed; or has not said so yet."""
    scene.connect()
    scene.said()
    scene.hear(welcome("s2", grace=5), handled(1 if claims else 0))


def die(scene: Scene) -> None:
    """Its process is dead."""
    scene.talk.died(scene.now)
    scene._collect()


def is_lost_after(scene: Scene, held: Held, seconds: float) -> None:
    """And not sooner."""
    scene.run(seconds - 0.01)
    assert held not in scene.lost
    scene.run(0.02)
    assert held in scene.lost


# --- killed -------------------------------------------------------------------------------------------------------


def test_a_death_makes_what_is_left_longer_by_the_grace() -> None:
    """Counted from when the daemon was last heard of, for it may have taken us for gone before it died."""
    scene = greeted()
    held = scene.held(length=60)
    scene.break_off()
    scene.run(1)
    die(scene)

    is_lost_after(scene, held, BREAK - 1 + GRACE)


def test_a_lease_ends_by_its_own_deadline_and_the_grace() -> None:
    """Whether that comes first, or nothing else does since its resource says keep."""
    scene = greeted()
    short, kept = scene.held(1, length=1), scene.held(2, length=10, keeps=True)
    scene.break_off()
    die(scene)

    is_lost_after(scene, short, 0.9 + GRACE)
    is_lost_after(scene, kept, 9 + GRACE - (0.9 + GRACE + 0.01))


def test_what_is_seen_too_late_saves_nothing() -> None:
    """The daemon may have lived until after it ended the lease, which is lost at once."""
    scene = greeted()
    held = scene.held(length=60)
    scene.break_off()
    scene.wait(BREAK)
    die(scene)

    assert scene.lost == [held]


def test_a_lease_that_ends_with_the_stream_is_lost_as_if_the_daemon_lived() -> None:
    """It may have seen the end of the stream, and only then have died."""
    scene = greeted()
    held = scene.held(length=60, on_disconnect=0)
    scene.break_off()
    die(scene)

    assert scene.lost == [held]


def test_a_daemon_that_promises_nothing_saves_nothing() -> None:
    """It remembers no leases, or may not."""
    scene = greeted(grace=0)
    held = scene.held(length=60)
    scene.break_off()
    die(scene)

    is_lost_after(scene, held, BREAK)


def test_there_is_one_grace_until_a_renewal() -> None:
    """The next daemon dies before it has answered: it gives no second one."""
    scene = greeted()
    held = scene.held(length=60)
    scene.break_off()
    die(scene)
    scene.run(1)
    back(scene, claims=False)
    scene.break_off()
    die(scene)

    is_lost_after(scene, held, BREAK)


def test_a_renewal_earns_another_grace() -> None:
    """As does a grant by the daemon that dies next."""
    scene = greeted()
    old = scene.held(1, length=60)
    scene.break_off()
    die(scene)
    scene.run(5)
    back(scene)
    new = scene.held(2, length=60)
    scene.break_off()
    die(scene)
    scene.run(BREAK + GRACE - 0.01)
    assert scene.lost == []

    scene.run(0.02)
    assert scene.lost == [old, new]


def test_a_renewal_counts_for_what_it_is() -> None:
    """What the death had added is over: of a short lease it was more than a renewal gives."""
    scene = greeted()
    held = scene.held(length=1)
    scene.break_off()
    die(scene)
    assert held.until - scene.now == (0.9 + GRACE) * SECOND
    back(scene)

    assert held.until - scene.now == 0.9 * SECOND


def test_whoever_may_have_read_a_hello_may_take_us_for_gone_again() -> None:
    """The next daemon renews what is claimed, and ends it when the grace of that break is over."""
    scene = greeted()
    held = scene.held(length=60)
    scene.break_off()
    die(scene)
    scene.run(0.5)
    scene.connect()
    assert scene.said()
    scene.run(1)
    scene.break_off()

    is_lost_after(scene, held, BREAK - 1)


def test_an_attempt_that_nobody_answers_costs_nothing() -> None:
    """A proxy takes us in and sends us away: as long as nothing was heard, nothing is said that could be read."""
    scene = greeted()
    held = scene.held(length=60)
    scene.break_off()
    die(scene)
    for _ in range(6):
        scene.connect(mute=True)
        assert scene.run(0.5, alive=False) == []
        scene.break_off()
        scene.run(0.5)

    is_lost_after(scene, held, BREAK + GRACE - 6)


def test_a_hello_that_is_not_answered_counts_as_silence_does() -> None:
    """The connection stands, so the daemon notices after four seconds that nobody answers it."""
    scene = greeted()
    held = scene.held(length=60, keeps=False, on_disconnect=0.1)
    scene.break_off()
    die(scene)
    scene.run(0.05)
    scene.connect()
    assert scene.said()

    is_lost_after(scene, held, 4 + 0.09)


def test_a_hello_to_a_daemon_that_was_not_known_to_be_the_next_counts_as_well() -> None:
    """The death is seen only after it was said."""
    scene = greeted()
    held = scene.held(length=60)
    scene.break_off()
    scene.connect()
    assert scene.said()
    scene.run(0.5)
    scene.break_off()
    die(scene)

    is_lost_after(scene, held, BREAK - 0.5)


def test_a_release_is_retried_for_as_much_longer() -> None:
    """The permit would come back by itself only when the lease is over."""
    scene = greeted()
    held = scene.held(length=2)
    scene.break_off()
    scene.release(held)
    die(scene)
    scene.run(1.8 + 1 + GRACE - 0.1)
    scene.connect()

    assert [lease for message in scene.said() for lease in message.releases] == [held.id]


# --- stopped ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_disconnect", [0.0, 2.0])
def test_a_daemon_that_ends_in_good_order_takes_nobody_for_gone(on_disconnect: float) -> None:
    """What it leaves alone is ours to its own deadline, whatever its resource says of breaks."""
    scene = greeted()
    held = scene.held(length=30, on_disconnect=on_disconnect)
    scene.hear(stopping())
    scene.run(1)
    scene.break_off()

    is_lost_after(scene, held, 29 - 1)


def test_its_end_is_a_death_like_any_other() -> None:
    """From then on time stands still, and there is a grace."""
    scene = greeted()
    held = scene.held(length=30)
    scene.hear(stopping())
    scene.break_off()
    scene.run(5)
    die(scene)

    is_lost_after(scene, held, 29 - 5 + GRACE)


def test_the_next_daemon_may_take_us_for_gone_again() -> None:
    """Once it has welcomed us, and once it may have read a hello."""
    scene = greeted()
    held = scene.held(length=60)
    scene.hear(stopping())
    scene.break_off()
    scene.run(5)
    back(scene)
    scene.break_off()
    is_lost_after(scene, held, BREAK)

    scene = greeted()
    held = scene.held(length=60)
    scene.hear(stopping())
    scene.break_off()
    scene.run(5)
    scene.connect()
    scene.said()
    scene.break_off()
    is_lost_after(scene, held, BREAK)


# --- without anything held ----------------------------------------------------------------------------------------


def test_who_holds_nothing_speaks_at_once() -> None:
    """It costs nobody a round trip to begin."""
    scene = Scene()
    ask = scene.ask()
    scene.connect(mute=True)
    (first,) = scene.said()
    assert first.hello.client

    scene.hear(welcome(), granted(ask, 1), handled(1))
    assert isinstance(scene.answer(ask), Held)


def test_who_welcomed_us_is_known_as_far_as_it_told() -> None:
    """Each time anew."""
    scene = Scene()
    scene.connect()
    scene.said()
    told = welcome()
    told.welcome.process.CopyFrom(pb.Process(boot="b", pid_namespace=1, pid=2, started=3))
    scene.hear(told, handled(1))
    assert scene.talk.process == Process("b", 1, 2, 3)
    scene.break_off()
    scene.greeted()
    assert scene.talk.process is None
