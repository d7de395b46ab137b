"""When nothing was done for a while, leases get that time back, and nothing else does."""

from governor.core.effects import Frozen, LeaseEnded, LeaseState
from governor.core.types import MILLISECOND, SECOND, EndReason
from tests.core.declared import pool, rate_limit, semaphore
from tests.core.play import Play

db = semaphore("db", 5, lease=10 * SECOND)


def test_every_lease_ends_later_by_the_freeze() -> None:
    """Also those that should have ended meanwhile; nothing has."""
    play = Play(db)
    tickets = [play.ask("db", lease=length * SECOND) for length in (10, 20, 30)]

    effects = play.frozen_until(25 * SECOND)

    assert effects == [Frozen(25 * SECOND, 3)]
    assert [play.deadline(ticket) for ticket in tickets] == [35 * SECOND, 45 * SECOND, 55 * SECOND]


def test_no_lease_ends_within_the_next_second() -> None:
    """However short it was to be, and however short the freeze: what has arrived for it is to be heard first."""
    play = Play(db)
    soon, later = play.ask("db", lease=100 * MILLISECOND), play.ask("db", lease=10 * SECOND)
    play.at(90 * MILLISECOND)

    play.frozen_until(400 * MILLISECOND)

    assert (play.deadline(soon), play.deadline(later)) == (1400 * MILLISECOND, 10_310 * MILLISECOND)
    assert play.at(1400 * MILLISECOND - 1) == []
    assert play.renew(play.lease(soon))[0].state is LeaseState.RENEWED


def test_an_orphan_gets_its_grace_back_and_stays_one() -> None:
    """Whoever was to come back within it could not be heard either."""
    play = Play(db)
    ticket = play.ask("db")
    play.disconnect(play.lease(ticket))

    play.frozen_until(60 * SECOND)
    ends = [effect for effect in play.at(62 * SECOND) if isinstance(effect, LeaseEnded)]

    assert [(end.lease, end.reason, end.left) for end in ends] == [(play.lease(ticket), EndReason.DISCONNECTED, 0)]


def test_nobody_waits_longer() -> None:
    """The one who waits is not asleep: a wait ends when it was to, and is told after the freeze."""
    play = Play(semaphore("db", 1, lease=60 * SECOND))
    play.ask("db")
    impatient, patient = play.ask("db", wait=5 * SECOND), play.ask("db", wait=30 * SECOND)

    play.frozen_until(10 * SECOND)

    assert play.has(impatient) is False
    assert play.waits(patient)
    play.at(30 * SECOND)
    assert not play.waits(patient)


def test_what_time_brings_it_has_brought() -> None:
    """Rate limits and quarantines go on; and what they let through is granted now."""
    play = Play(rate_limit("api", (1, 10 * SECOND, 1)), pool("conn", ["east"], quarantine=5 * SECOND))
    play.ask("api")
    play.release(play.lease(play.ask("conn")))
    waiting = play.ask("api")

    play.frozen_until(15 * SECOND)

    assert play.granted(waiting).waited == 15 * SECOND
    assert play.has(play.ask("conn", wait=0))
