"""What a restart keeps, what it forgets, and what it refuses to make sense of (I7, I8, I12)."""

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from governor.core.effects import Effect, LeaseState, ReconfigureRefused, RestoreRefused
from governor.core.engine import Engine
from governor.core.events import Reconfigure, ReserveIds, Restore
from governor.core.kinds.pool import MemberSpec, Order
from governor.core.resource import Remembered, ResourceSpec
from governor.core.snapshot import Held, Past
from governor.core.types import SECOND, Claim, EndReason, Grant, LeaseId, Member, Nanos, Outcome, Reason
from tests.core.declared import pool, rate_limit, semaphore
from tests.core.play import Play
from tests.core.reborn import reborn, written

if TYPE_CHECKING:
    from governor.core.memory import Memory

LATER: Nanos = 5000 * SECOND
REMEMBERED = 10_000

db = semaphore("db", 2, lease=10 * SECOND)
api = rate_limit("api", (1, 10 * SECOND, 2))
conn = pool("conn", ["east", "west"])


def test_a_lease_is_as_it_was_but_for_the_clock() -> None:
    """Every fact of it, and the time that is left; the grace of the restart comes on top, once."""
    play = Play(db, api)
    play.ask("db", client="x", lease=3 * SECOND)
    play.ask("db", lease=4 * SECOND)
    ticket = play.ask("db", "api", client="ann", request_id="1", lease=20 * SECOND)
    play.at(5 * SECOND)
    before = play.held(ticket)
    assert before is not None
    assert (before.granted_at, before.waited, before.spent) == (3 * SECOND, 3 * SECOND, ("api",))

    play.restart(db, api, now=LATER, grace=SECOND)

    later = LATER - 5 * SECOND
    assert play.held(ticket) == replace(
        before, granted_at=before.granted_at + later, deadline=before.deadline + later + SECOND
    )


def test_a_lease_that_was_renewed_for_longer_falls_back_to_its_own_length() -> None:
    """A restart does not make the last renewal the rule; once its time is used up, renewals are for its own length."""
    play = Play(db)
    ticket = play.ask("db", lease=10 * SECOND)
    play.renew(play.lease(ticket), lease=60 * SECOND)

    play.restart(db, now=LATER)

    assert play.deadline(ticket) == LATER + 60 * SECOND
    play.at(LATER + 55 * SECOND)
    assert play.renew(play.lease(ticket))[0].remaining == 10 * SECOND
    assert play.deadline(ticket) == LATER + 65 * SECOND


def test_a_renewal_takes_away_nothing_of_the_grace_of_a_restart() -> None:
    """Its holder may have been told of all the time that is left, and the answer to the renewal may be lost."""
    play = Play(db)
    ticket = play.ask("db", lease=SECOND, client="ann", request_id="1")
    play.restart(db, now=LATER, grace=5 * SECOND)
    again = play.granted(play.ask("db", lease=SECOND, client="ann", request_id="1"))
    assert again.deadline == LATER + 6 * SECOND

    play.renew(again.lease)

    assert play.deadline(ticket) == LATER + 6 * SECOND


def test_an_orphan_stays_one() -> None:
    """Unless it is renewed, it ends as disconnected, though the daemon was down in between."""
    play = Play(db)
    left, back = play.ask("db"), play.ask("db")
    play.disconnect(play.lease(left), play.lease(back))

    play.restart(db, now=LATER)
    play.renew(play.lease(back))
    play.at(LATER + 10 * SECOND)

    assert [reason for _, _, reason in play.ends()] == [EndReason.DISCONNECTED, EndReason.EXPIRED]


@pytest.mark.parametrize("resource", ["db", "api"])
def test_a_repeat_finds_what_was_granted_and_never_gives_it_up(resource: str) -> None:
    """Whoever asked first may have had the answer, so it is not taken back when the repeat is not delivered."""
    play = Play(db, api)
    lease = play.lease(play.ask(resource, client="ann", request_id="1"))
    available = play.resource(resource).available

    play.restart(db, api, now=LATER)
    again = play.ask(resource, client="ann", request_id="1")
    play.abandon(again)

    assert (play.lease(again), play.granted(again).repeated) == (lease, True)
    assert play.resource(resource).available == available
    assert play.lease(play.ask(resource, client="ann", request_id="1")) == lease


def test_the_request_id_of_an_ended_lease_still_says_so() -> None:
    """Nobody is granted twice for one request id because the daemon was down in between."""
    play = Play(db)
    play.release(play.lease(play.ask("db", client="ann", request_id="1")))
    play.at(3 * SECOND)

    play.restart(db, now=LATER)
    denial = play.denial(play.ask("db", client="ann", request_id="1"))

    assert denial.reason is Reason.LEASE_ENDED
    assert denial.ended is not None
    assert (denial.ended.reason, denial.ended.ago) == (EndReason.RELEASED, 3 * SECOND)


def test_what_nothing_stands_for_is_forgotten() -> None:
    """An ended lease without a request id, a settled one, one that was taken back: their ids are unknown."""
    play = Play(db)
    anonymous, settled, undelivered = (play.ask("db", request_id=request_id) for request_id in ("", "1", "2"))
    leases = [play.lease(ticket) for ticket in (anonymous, settled)]
    play.release(leases[0])
    play.release(leases[1], settled=True)
    play.abandon(undelivered)

    play.restart(db, now=LATER)

    assert [result.state for result in play.release(*leases)] == [LeaseState.UNKNOWN] * 2
    assert not play.granted(play.ask("db", request_id="1")).repeated
    assert not play.granted(play.ask("db", request_id="2")).repeated


def test_a_grant_that_was_taken_back_is_told() -> None:
    """So that whoever keeps the books can strike it out, also if nothing was lent."""
    play = Play(api)
    ticket = play.ask("api", request_id="1")
    lease = play.lease(ticket)
    assert play.engine.past(lease) is not None

    effects = play.abandon(ticket)

    assert [type(effect).__name__ for effect in effects] == ["Refunded"]
    assert play.engine.past(lease) is None


def test_what_the_engine_shows_of_leases_that_ended() -> None:
    """Of one with a request id, what a repeat would be told; of others, and of live ones, nothing."""
    play = Play(db, api)
    live, ended, spent = (
        play.ask(name, client="ann", request_id=str(number)) for number, name in enumerate(("db", "db", "api"))
    )
    play.at(SECOND)
    play.release(play.lease(ended))

    shown = [play.engine.past(play.lease(ticket)) for ticket in (live, ended, spent)]

    claims = (Claim("db", 1),)
    assert shown == [
        None,
        Past(play.lease(ended), claims, "ann", "1", EndReason.RELEASED, SECOND, waited=0),
        Past(play.lease(spent), (Claim("api", 1),), "ann", "2", EndReason.SPENT, 0, waited=0),
    ]


def test_nothing_is_remembered_of_what_is_not_there() -> None:
    """A resource that is not declared, nor draining; a draining one is remembered until its last lease is over."""
    play = Play(db, conn)
    lease = play.lease(play.ask("db"))
    play.reconfigure(conn)

    assert play.engine.marks("api") is None
    assert play.engine.remember("api", now=0) is None
    assert play.engine.remember("db", now=0) == Remembered(db, {}, 0, declared=False)
    assert play.engine.marks("db") == 0
    play.release(lease)
    assert play.engine.remember("db", now=0) is None


def test_a_mark_says_when_a_pool_must_be_remembered() -> None:
    """When a member was found broken, or well after that; not each time that one is lent."""
    play = Play(pool("conn", ["east"], quarantine=SECOND))
    marks = [play.engine.marks("conn")]
    for outcome in (Outcome.OK, Outcome.BROKEN, Outcome.UNKNOWN, Outcome.OK, Outcome.OK):
        play.at(play.now + 2 * SECOND)
        play.release(play.lease(play.ask("conn")), outcome=outcome)
        marks.append(play.engine.marks("conn"))

    changed = [before != after for before, after in pairwise(marks)]
    assert changed == [False, True, False, True, False]


def test_a_mark_says_when_a_rate_limit_must_be_remembered() -> None:
    """Whenever something is spent of it, and not while time brings it back."""
    play = Play(api)
    idle = play.engine.marks("api")
    play.ask("api")
    spent = play.engine.marks("api")
    play.at(10 * SECOND)

    assert idle != spent
    assert play.engine.marks("api") == spent


def test_what_did_not_fit_into_a_lower_burst_is_spent_after_a_restart_too() -> None:
    """Five of 5/10s were taken, and 1/10s holds now: the old limit once more does not give them back."""
    wide, narrow = rate_limit("api", (5, 10 * SECOND, 5)), rate_limit("api", (1, 10 * SECOND, 1))
    play = Play(wide)
    play.ask(("api", 5))
    play.reconfigure(narrow)

    play.restart(narrow, now=LATER)
    play.reconfigure(wide)

    assert play.resource("api").available == 0
    play.at(LATER + 9 * SECOND)
    assert play.resource("api").available == 4


def test_what_was_remembered_earlier_counts_from_then() -> None:
    """A rate limit that was remembered 4 s before the daemon's last sign of life has had these 4 s to recover."""
    play = Play(api)
    play.ask(("api", 2))
    book = written(play.engine, play.now)
    play.engine, _ = reborn(replace(book, stamp=4 * SECOND), [api], now=LATER, ceiling=LeaseId(10))
    play.now = LATER

    assert play.denial(play.ask("api", wait=0)).retry_after == 6 * SECOND


def test_ids_go_on_above_the_highest() -> None:
    """Even if whoever counts them has lost count; but not above what is on record."""
    held, specs = book_of(db)
    engine = restored(specs, replace(held, id=LeaseId(7)), ceiling=7)
    assert engine.last_id == 7
    play = Play()
    play.engine = engine

    assert play.denial(play.ask("db")).reason is Reason.STATE_UNWRITABLE
    play.reserve_ids(8)
    assert play.lease(play.ask("db")) == 8


def test_what_was_spent_of_something_that_is_gone_is_nobodys_business() -> None:
    """Not of a resource that was removed, nor of a semaphore that has its name now and is not held by that lease."""
    play = Play(db, api)
    lease = play.lease(play.ask("api", "db"))
    play.reconfigure(db, semaphore("api", 1))

    play.restart(db, semaphore("api", 1), now=LATER)

    assert play.resource("api").in_use == 0
    assert play.renew(lease)[0].state is LeaseState.RENEWED
    held = play.engine.held(lease)
    assert held is not None
    assert held.spent == ("api",)
    play.restart(db, now=2 * LATER)
    assert play.release(lease)[0].state is LeaseState.RELEASED


def test_a_member_that_nobody_declares_any_more_is_known_while_it_is_lent() -> None:
    """With its generation, its quarantine and its attributes, for the day on which it is declared again."""
    both = pool("conn", [MemberSpec("east", (("at", "1"),)), MemberSpec("west", (("at", "1"),), 2)])
    play = Play(both)
    play.ask("conn")
    broken, held = play.ask("conn"), play.ask("conn")
    play.release(play.lease(broken), outcome=Outcome.BROKEN)
    play.reconfigure(pool("conn", ["east"]))
    play.restart(pool("conn", ["east"]), now=LATER)

    play.reconfigure(both)
    play.at(LATER + SECOND)
    again = play.granted(play.ask("conn"))

    assert play.held(held) is not None
    assert again.grants[0].members == (Member("west", (("at", "1"),), 2),)


def test_a_member_that_is_neither_declared_nor_lent_is_forgotten() -> None:
    """Declared again some day, it is a new one: of the first generation, and in no quarantine."""
    held, specs = book_of(conn)
    known = {name: {"opened": 0, "idle": 0, "generation": 3} for name in ("east", "north")}
    play = Play()
    play.engine = restored(specs, held, Remembered(conn, known, 0))

    play.reconfigure(pool("conn", ["east", "west", "north"], order=Order.FIFO))

    members = [play.granted(play.ask("conn")).grants[0].members for _ in range(2)]
    assert members == [(Member("west", (), 1),), (Member("north", (), 1),)]


def test_a_member_that_is_lent_in_part_is_free_for_the_rest() -> None:
    """One lease of two lives: after a restart one more is granted, and no third."""
    shared = pool("conn", [MemberSpec("east", (), 2)])
    play = Play(shared)
    play.ask("conn")
    play.restart(shared, now=LATER)

    assert play.has(play.ask("conn"))
    assert play.denial(play.ask("conn", wait=0)).reason is Reason.NONE_FREE


def test_a_member_lent_later_than_the_pool_was_remembered_keeps_its_generation() -> None:
    """A lease may be written down without the pool: the later generation stands."""
    held, specs = book_of(conn)
    lent = replace(held.grants[0], members=(Member("east", (), 5),))
    memory = Remembered(conn, {"east": {"opened": 0, "idle": 0, "generation": 3}}, 0)
    engine = restored(specs, replace(held, grants=(lent,)), memory)
    play = Play()
    play.engine = engine

    play.release(held.id)

    assert play.granted(play.ask("conn")).grants[0].members == (Member("east", (), 5),)


def test_a_kind_that_was_changed_meanwhile_is_refused_and_the_old_one_serves() -> None:
    """As a reload: all of the new declaration is refused while leases on the old kind live, and says why."""
    play = Play(db)
    lease = play.lease(play.ask("db"))

    answer = play.restart(pool("db", ["east"]), now=LATER)

    assert isinstance(answer, ReconfigureRefused)
    assert "db" in answer.problems[0]
    assert play.release(lease)[0].state is LeaseState.RELEASED
    assert play.has(play.ask("db"))


def test_of_past_leases_with_one_request_id_the_latest_stands() -> None:
    """An id that was forgotten may have been used again; of what is live there can be no other."""
    held, specs = book_of(db)
    first, second = past(1, "1"), past(2, "1")
    engine = restored(specs, replace(held, id=LeaseId(5), request_id="2"), past=(first, second, past(3, "2")))
    play = Play()
    play.engine = engine

    assert [engine.past(LeaseId(number)) for number in (1, 2, 3)] == [None, second, None]
    assert play.lease(play.ask("db", request_id="2")) == 5


def test_no_more_past_leases_come_back_than_are_remembered() -> None:
    """The latest of them."""
    _, specs = book_of(db)
    ended = [past(number, str(number)) for number in range(1, REMEMBERED + 2)]
    engine = restored(specs, past=tuple(ended))

    assert engine.past(LeaseId(1)) is None
    assert engine.past(LeaseId(2)) == ended[1]
    play = Play()
    play.engine = engine
    play.release(play.lease(play.ask("db")))
    assert engine.past(LeaseId(2)) is None
    assert not play.granted(play.ask("db", request_id="2")).repeated


def test_a_restart_comes_before_any_ask() -> None:
    """Else a permit might be lent twice; it would be a bug of whoever drives the engine."""
    play = Play(db)
    play.ask("db")

    with pytest.raises(AssertionError, match="before the restart was over"):
        play.do(Restore(()))


LEASE = Held(LeaseId(1), (Grant("db", 1),), SECOND, "ann", SECOND, "1", (), SECOND, 0, 0, orphaned=False)


@pytest.mark.parametrize(
    ("lease", "problem"),
    [
        (replace(LEASE, id=LeaseId(0)), "there is one of this id already, or cannot be"),
        (replace(LEASE, id=LeaseId(9), request_id="2"), "there is one of this id already, or cannot be"),
        (replace(LEASE, request_id="9"), "another lease has its request id, 9"),
        (replace(LEASE, grants=()), "claims: expected 1 to 64 claims"),
        (replace(LEASE, grants=(Grant("db", -1),)), "claims[0].permits: expected a number from 1 to 2147483647"),
        (replace(LEASE, granted_for=0), "lease: expected a length of at least 1ms"),
        (replace(LEASE, grants=(Grant("gone", 1),)), "its resource gone is not there"),
        (replace(LEASE, grants=(Grant("conn", 2, (Member("east"),)),)), "it holds 1 members of conn, for permits: 2"),
        (replace(LEASE, grants=(Grant("db", 1, (Member("east"),)),)), "it holds 1 members of db, for permits: 1"),
        (replace(LEASE, spent=("db",)), "it holds nothing that comes back"),
        (replace(LEASE, grants=(Grant("api", 1),)), "it holds nothing that comes back"),
    ],
)
def test_a_lease_that_makes_no_sense_is_refused(lease: Held, problem: str) -> None:
    """Somebody has damaged or edited what was written: each problem is told, and nothing is guessed."""
    good = replace(LEASE, id=LeaseId(9), request_id="9")

    assert refused((db, api, conn), good, lease) == (f"lease {lease.id}: {problem}",)


def test_a_past_lease_that_makes_no_sense_is_refused() -> None:
    """As a live one is."""
    wrong = (replace(past(1, "1"), claims=()), past(2, "2"), past(2, "3"))

    assert refused((db,), past=wrong) == (
        "lease 1: claims: expected 1 to 64 claims",
        "lease 2: there is one of this id already, or cannot be",
    )


@pytest.mark.parametrize(
    ("resource", "problem"),
    [
        (Remembered(semaphore("gone", 1), {}, 0), "is not declared as it was remembered"),
        (Remembered(semaphore("db", 1), {}, 0), "is not declared as it was remembered"),
        (Remembered(api, {}, 0), "what it remembers makes no sense: expected a list, found None"),
        (
            Remembered(api, {"spent": [-1], "last": 0, "since": 0}, 0),
            "what it remembers makes no sense: expected a whole number of at least 0, found -1",
        ),
        (
            Remembered(api, {"spent": [1, 2], "last": 0, "since": 0}, 0),
            "what it remembers makes no sense: expected what is spent of windows: 1, found 2",
        ),
        (
            Remembered(api, {"spent": [1], "last": True, "since": 0}, 0),
            "what it remembers makes no sense: expected a whole number, found True",
        ),
        (Remembered(conn, ["east"], 0), "what it remembers makes no sense: expected names with values, found ['east']"),
        (
            Remembered(conn, {"east": "a" * 50}, 0),
            f"what it remembers makes no sense: expected names with values, found '{'a' * 36}...",
        ),
    ],
)
def test_a_memory_that_makes_no_sense_is_refused(resource: Remembered, problem: str) -> None:
    """Of a resource that is not there, or of another kind."""
    assert refused((db, api, conn), resources=(resource,)) == (f"{resource.spec.name}: {problem}",)


@pytest.mark.parametrize(
    ("fading", "problem"),
    [
        (Remembered(api, {"spent": [1], "last": 0, "since": 0}, 0), "is declared"),
        (
            Remembered(rate_limit("db", (1, SECOND, 1)), {"spent": "all"}, 0),
            "what it remembers makes no sense: expected a list, found 'all'",
        ),
    ],
)
def test_what_fades_is_not_declared_and_makes_sense(fading: Remembered, problem: str) -> None:
    """Though another kind may have its name."""
    play = Play(db, api, conn)

    refusal = play.engine.handle(Restore((), (), (), (fading,)), now=0)[0]

    assert isinstance(refusal, RestoreRefused)
    assert refusal.problems == (f"{fading.spec.name} (declared before, as a rate_limit): {problem}",)


def test_attributes_that_make_no_sense_are_refused() -> None:
    """Those of a member that is lent but not declared."""
    held, _ = book_of(conn)
    memory: Memory = {"east": {"opened": 0, "idle": 0, "attributes": {"at": 5}}}
    nobody = pool("conn", [])

    problems = refused((nobody,), held, resources=(Remembered(nobody, memory, 0),))

    assert problems == ("conn: what it remembers makes no sense: expected a text, found 5",)


def book_of(spec: ResourceSpec) -> tuple[Held, tuple[ResourceSpec, ...]]:
    """A lease on one permit of a resource, and all that is declared."""
    play = Play(spec)
    held = play.held(play.ask(spec.name))
    assert held is not None
    return held, (spec,)


def past(number: int, request_id: str) -> Past:
    """One that was released."""
    return Past(LeaseId(number), (Claim("db", 1),), "", request_id, EndReason.RELEASED, 0, waited=0)


def restore(
    specs: tuple[ResourceSpec, ...],
    *leases: Held,
    resources: tuple[Remembered, ...],
    past: tuple[Past, ...],
    ceiling: int,
) -> tuple[Engine, list[Effect]]:
    """A new engine that is told all this."""
    engine = Engine()
    engine.handle(ReserveIds(LeaseId(ceiling)), now=0)
    engine.handle(Reconfigure(specs), now=0)
    return engine, engine.handle(Restore(leases, resources, past), now=0)


def restored(
    specs: tuple[ResourceSpec, ...],
    *leases_and_resources: Held | Remembered,
    past: tuple[Past, ...] = (),
    ceiling: int = 10**6,
) -> Engine:
    """The engine that all this makes."""
    leases = [one for one in leases_and_resources if isinstance(one, Held)]
    resources = tuple([one for one in leases_and_resources if isinstance(one, Remembered)])
    engine, effects = restore(specs, *leases, resources=resources, past=past, ceiling=ceiling)
    assert not isinstance(effects[0], RestoreRefused), effects
    return engine


def refused(
    specs: tuple[ResourceSpec, ...],
    *leases: Held,
    resources: tuple[Remembered, ...] = (),
    past: tuple[Past, ...] = (),
) -> tuple[str, ...]:
    """Why all this makes no engine."""
    _, effects = restore(specs, *leases, resources=resources, past=past, ceiling=10**6)
    assert isinstance(effects[0], RestoreRefused)
    return effects[0].problems
