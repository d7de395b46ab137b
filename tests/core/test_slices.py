"""When very much is due at once, each event makes only so much of it happen, and nobody notices but by the clock.

Until the rest has happened, too, the engine is behind. What is said here is all that is different then.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from governor.core.effects import Denied, Effect, Granted, LeaseEnded, LeaseState
from governor.core.engine import AT_ONCE, Engine
from governor.core.events import Abandon, Acquire, Event, Reconfigure, Release, ReserveIds, Wake
from governor.core.resource import ResourceSpec
from governor.core.types import MILLISECOND, SECOND, Claim, EndReason, LeaseId, Nanos, Outcome, Reason, TicketId
from tests.core.declared import pool, rate_limit, semaphore
from tests.core.play import Play

db = semaphore("db", 3, lease=10 * SECOND, max_wait=1000 * SECOND)


def ends(effects: list[Effect]) -> list[LeaseId]:
    """The leases that ended."""
    return [effect.lease for effect in effects if isinstance(effect, LeaseEnded)]


def test_one_event_ends_at_most_a_thousand_leases() -> None:
    """The rest follows with the next events, and the timer is armed for now."""
    many = 2 * AT_ONCE + 1
    play = Play(semaphore("db", None, lease=10 * SECOND))
    for _ in range(many):
        play.ask("db")
    play.unseen_until(10 * SECOND)

    for ended in (AT_ONCE, AT_ONCE, 1):
        assert play.engine.next_deadline() == 10 * SECOND
        assert len(ends(play.do(Wake()))) == ended
    assert play.engine.next_deadline() is None


def behind(*resources: ResourceSpec, at: Nanos = 20 * SECOND) -> Play:
    """An engine in which nothing that is due has happened yet, nor will by itself."""
    play = Play(*resources)
    play.engine._at_once = 0
    play.unseen_until(at)
    return play


def test_what_is_over_is_not_renewed_or_released_or_orphaned() -> None:
    """Whatever an event names is brought up to date first: it ends as it would have, and once."""
    play = behind(db, at=0)
    renewed, released, orphaned = (play.lease(play.ask("db")) for _ in range(3))
    play.unseen_until(10 * SECOND)

    assert play.renew(renewed)[0].state is LeaseState.ENDED
    assert play.release(released, released)[1].state is LeaseState.ENDED
    assert ends(play.disconnect(orphaned, orphaned)) == [orphaned]
    assert play.ends() == [(10 * SECOND, lease, EndReason.EXPIRED) for lease in (renewed, released, orphaned)]


def test_what_is_not_over_is_renewed() -> None:
    """Although other leases should have ended already."""
    play = behind(db, at=0)
    over, live = play.ask("db", lease=SECOND), play.ask("db")
    play.unseen_until(5 * SECOND)

    assert play.renew(play.lease(live))[0].state is LeaseState.RENEWED
    assert play.engine.held(play.lease(over)) is not None


def test_the_last_thing_that_is_over_may_be_one_that_is_named() -> None:
    """Then nothing is left that would wake anybody: the line moves at once (I3)."""
    play = behind(semaphore("db", 1, lease=10 * SECOND, max_wait=1000 * SECOND), at=0)
    lease, waiting = play.lease(play.ask("db")), play.ask("db")
    play.unseen_until(10 * SECOND)

    play.release(lease)

    assert play.granted(waiting).deadline == 20 * SECOND


def test_a_repeat_of_what_is_over_is_told_so() -> None:
    """The lease of that request id has ended; an older one is left as it is."""
    play = behind(db, at=0)
    other, lease = play.ask("db"), play.ask("db", request_id="1")
    play.unseen_until(10 * SECOND)

    assert play.denial(play.ask("db", request_id="1")).reason is Reason.LEASE_ENDED
    assert play.held(lease) is None
    assert play.held(other) is not None


def test_a_repeat_at_a_place_where_nobody_waits_any_more_is_a_new_ask() -> None:
    """It does not inherit the place, as it would not if every wait had ended on time."""
    play = behind(semaphore("db", 1, max_wait=5 * SECOND, lease=1000 * SECOND), at=0)
    play.ask("db")
    first, other = play.ask("db", request_id="1"), play.ask("db")
    play.unseen_until(5 * SECOND)

    again = play.ask("db", request_id="1")

    assert play.denial(first).reason is Reason.WAIT_OVER
    assert play.waits(other)
    assert play.engine.place(again, now=play.now) == (1, play.now)


def test_who_gives_up_too_late_was_told() -> None:
    """A wait that is over ended by itself; one that is not, by its caller."""
    play = behind(semaphore("db", 1, lease=1000 * SECOND), at=0)
    play.ask("db")
    over, not_over = play.ask("db", wait=SECOND), play.ask("db", wait=10 * SECOND)
    play.unseen_until(5 * SECOND)

    assert [type(effect) for effect in play.abandon(over)] == [Denied]
    assert [type(effect).__name__ for effect in play.abandon(not_over)] == ["Abandoned"]


def test_an_undelivered_grant_that_is_over_has_expired() -> None:
    """It is not taken back, for it has ended; a refund of what it spent would come too late."""
    play = behind(db, at=0)
    ticket = play.ask("db")
    play.ask("db")
    play.unseen_until(10 * SECOND)

    assert ends(play.abandon(ticket)) == [play.lease(ticket)]
    assert play.ends()[0][2] is EndReason.EXPIRED


def test_who_does_not_wait_may_be_refused_what_comes_back_in_a_moment() -> None:
    """And who waits has it then, before anybody who came later (I4)."""
    play = behind(semaphore("db", 1, lease=10 * SECOND), at=0)
    play.ask("db")
    play.unseen_until(10 * SECOND)

    refused, waits, later = play.ask("db", wait=0), play.ask("db"), play.ask("db")
    assert play.denial(refused).reason is Reason.NONE_FREE
    play.engine._at_once = 1
    play.do(Wake())

    assert play.has(waits)
    assert play.waits(later)


def test_a_line_moves_only_as_the_engine_catches_up() -> None:
    """Ann's wait was over before a permit came back, but nobody has told her so: it is hers, for she is first."""
    play = behind(semaphore("db", 1, lease=1000 * SECOND), semaphore("other", 1, lease=SECOND), at=0)
    lease = play.lease(play.ask("db"))
    play.ask("other")
    ann, cleo = play.ask("db", wait=5 * SECOND), play.ask("db", wait=30 * SECOND)
    play.unseen_until(10 * SECOND)

    play.release(lease)
    assert play.waits(ann)
    play.engine._at_once = AT_ONCE
    play.do(Wake())

    assert play.has(ann)
    assert play.waits(cleo)


def test_a_new_declaration_waits_for_nothing() -> None:
    """All that is due happens before it, however much it is."""
    play = behind(db, at=0)
    tickets = [play.ask("db") for _ in range(3)]
    play.unseen_until(10 * SECOND)

    play.reconfigure(db)

    assert [play.held(ticket) for ticket in tickets] == [None] * 3


resources = (
    semaphore("db", 2, lease=5 * MILLISECOND),
    semaphore("jobs", 1, lease=7 * MILLISECOND),
    pool("conn", ["east", "west"], quarantine=3 * MILLISECOND, lease=4 * MILLISECOND),
    rate_limit("api", (1, 3 * MILLISECOND, 2)),
)
names = st.sampled_from([resource.name for resource in resources])
wants = st.lists(names, min_size=1, max_size=2, unique=True)
lengths = st.integers(1, 12).map(lambda length: length * MILLISECOND)
asks = st.lists(st.tuples(wants, lengths, lengths, st.integers(0, MILLISECOND)), min_size=5, max_size=30)


@settings(max_examples=200)
@given(asks=asks, broken=st.booleans(), silence=lengths, at_once=st.integers(1, 3))
def test_in_slices_the_same_happens_as_in_one_go(
    asks: list[tuple[list[str], Nanos, Nanos, Nanos]], silence: Nanos, at_once: int, *, broken: bool
) -> None:
    """In the same order and with the same numbers, if nothing is asked in between."""
    one, sliced = Engine(), Engine(at_once=at_once)
    now: Nanos = 0
    events: list[tuple[Nanos, Event]] = [(0, ReserveIds(LeaseId(1000))), (0, Reconfigure(resources))]
    for number, (wanted, wait, lease, passed) in enumerate(asks, 1):
        now += passed
        ask = Acquire(TicketId(number), tuple(Claim(name, 1) for name in wanted), wait=wait, lease=lease)
        events.append((now, ask))
        if broken and number % 4 == 0:
            events.append((now, Release((LeaseId(number // 2),), Outcome.BROKEN)))
            events.append((now, Abandon(TicketId(number // 3))))
    for at, event in [*events, (now + silence, Wake())]:
        expected = one.handle(event, now=at)
        happened: list[Effect] = []
        while (due := sliced.next_deadline()) is not None and due <= at:
            happened += sliced.handle(Wake(), now=at)
            sliced.check(now=at)
        happened += sliced.handle(event, now=at)

        assert happened == expected
        assert sliced.snapshot(now=at) == one.snapshot(now=at)
    assert sliced.next_deadline() == one.next_deadline()


@settings(max_examples=200)
@given(asks=asks, at_once=st.integers(0, 2))
def test_whatever_comes_in_between_nobody_overtakes_and_nothing_is_lent_twice(
    asks: list[tuple[list[str], Nanos, Nanos, Nanos]], at_once: int
) -> None:
    """Every invariant of the whole state holds while the engine is behind, and when it has caught up all of them do."""
    engine = Engine(at_once=at_once)
    engine.handle(ReserveIds(LeaseId(1000)), now=0)
    engine.handle(Reconfigure(resources), now=0)
    now: Nanos = 0
    granted: list[TicketId] = []
    for number, (wanted, wait, lease, passed) in enumerate(asks, 1):
        now += 4 * passed
        ask = Acquire(TicketId(number), (Claim(wanted[0], 1),), wait=wait, lease=lease)
        granted += [effect.ticket for effect in engine.handle(ask, now=now) if isinstance(effect, Granted)]
        engine.check(now=now)
    engine._at_once = 1
    while (due := engine.next_deadline()) is not None:
        now = max(now, due)
        granted += [effect.ticket for effect in engine.handle(Wake(), now=now) if isinstance(effect, Granted)]
        engine.check(now=now)

    for resource in resources:
        line = [ticket for ticket in granted if asks[ticket - 1][0][0] == resource.name]
        assert line == sorted(line), "I4: somebody overtook"
    snapshot = engine.snapshot(now=now)
    assert (snapshot.leases, snapshot.waiters) == (0, 0)
