"""What an operator orders, where the stories of the transcripts do not reach: order, instants, restarts, neighbours."""

import pytest

from governor.core.effects import (
    Denied,
    Granted,
    LeaseEnded,
    OverrideOver,
    RestoreRefused,
    Steered,
    SteerProblem,
    SteerRefused,
)
from governor.core.events import (
    Acquire,
    Quarantine,
    Readmit,
    Reconfigure,
    Recycle,
    Restore,
    Revoke,
    SetOverride,
    SetStanding,
    Steer,
    Wake,
)
from governor.core.kinds.pool import MemberSpec, PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec
from governor.core.resource import Override, Remembered, ResourceSpec
from governor.core.types import SECOND, UNSAID, Claim, LeaseId, Outcome, Reason, Said, Standing, TicketId
from tests.core.declared import pool, rate_limit, semaphore
from tests.core.play import Play

PAUSE, DRAIN, OPEN = (SetStanding("db", standing) for standing in (Standing.PAUSED, Standing.DRAINING, Standing.OPEN))


# --- standing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [PAUSE, DRAIN])
def test_what_there_is_not_is_said_before_what_is_closed(order: SetStanding) -> None:
    """It will not come back by itself; of several closed ones the first is named."""
    play = Play(semaphore("db", 1), semaphore("disk", 1))
    play.do(SetStanding("disk", Standing.DRAINING))
    play.do(order)

    assert play.denial(play.ask("db", "nowhere")).reason is Reason.UNKNOWN_RESOURCE
    denial = play.denial(play.ask("db", "disk"))
    assert (denial.reason, denial.resource) == (Reason(order.standing), "db")
    assert play.denial(play.ask("disk", "db")).resource == "disk"


def test_a_closed_resource_has_nothing_available_and_all_its_capacity() -> None:
    """As it is shown: what is lent still counts against what there is."""
    play = Play(semaphore("db", 3))
    play.ask("db")
    play.do(PAUSE)

    shown = play.resource("db")
    assert (shown.standing, shown.available, shown.capacity, shown.in_use) == (Standing.PAUSED, 0, 3, 1)


def test_a_drain_tells_every_ticket_of_a_place() -> None:
    """With the client that asked."""
    play = Play(semaphore("db", 1))
    play.ask("db")
    for _ in range(2):
        play.ask("db", client="ann", request_id="r")

    told = [effect for effect in play.do(DRAIN) if isinstance(effect, Denied)]
    assert [(effect.ticket, effect.client, effect.denial.reason) for effect in told] == [
        (2, "ann", Reason.DRAINING),
        (3, "ann", Reason.DRAINING),
    ]


def test_who_is_told_of_a_drain_makes_room_in_other_lines() -> None:
    """In the same step."""
    play = Play(semaphore("db", 1), semaphore("disk", 1))
    play.ask("db")
    play.ask("db", "disk")
    behind = play.ask("disk")
    assert play.waits(behind)

    play.do(DRAIN)

    assert play.has(behind)


def test_a_resumed_line_moves_as_far_as_it_can() -> None:
    """Also for those who wait for what ripened meanwhile."""
    play = Play(semaphore("db", 2), rate_limit("api", (1, SECOND, 1)))
    play.ask("api")
    play.do(PAUSE)
    play.do(OPEN)
    both, alone = play.ask("db", "api"), play.ask("db")
    play.do(PAUSE)
    play.at(5 * SECOND)
    assert play.waits(both)

    play.do(OPEN)

    assert play.has(both)
    assert play.has(alone)


def test_what_an_operator_said_of_a_removed_resource_is_not_said_of_the_next() -> None:
    """Neither while it is lent yet, nor when it is declared again."""
    play = Play(semaphore("db", 2))
    play.ask("db")
    play.do(PAUSE)
    play.do(SetOverride("db", SemaphoreSpec(9), 60 * SECOND))
    play.reconfigure(semaphore("disk", 1))

    for order in (OPEN, SetOverride("db", None), Recycle("db")):
        assert play.steer(order) == SteerRefused("db", SteerProblem.REMOVED)
    play.reconfigure(semaphore("db", 3))
    shown = play.resource("db")
    assert (shown.standing, shown.override, shown.capacity) == (Standing.OPEN, None, 3)


def test_what_changes_its_kind_has_no_override_of_the_other() -> None:
    """Its end would be about nothing."""
    play = Play(semaphore("db", 2))
    play.do(SetOverride("db", SemaphoreSpec(9), 60 * SECOND))

    play.reconfigure(pool("db", ["a"]))

    assert play.engine.next_deadline() is None
    assert play.resource("db").capacity == 1


# --- overrides ----------------------------------------------------------------------------------------------


def test_an_override_is_of_a_number_of_its_own_kind_and_for_a_time_to_come() -> None:
    """A pool has members, not a number; a refused order changes nothing."""
    play = Play(semaphore("jobs", 2), pool("db", ["a"]))
    play.at(60 * SECOND)

    for name, limit, until, problem in (
        ("db", SemaphoreSpec(9), 90, SteerProblem.POOL),
        ("jobs", PoolSpec((MemberSpec("a"),)), 90, SteerProblem.OTHER_KIND),
        ("jobs", SemaphoreSpec(9), 60, SteerProblem.OVER),
    ):
        assert play.steer(SetOverride(name, limit, until * SECOND)) == SteerRefused(name, problem)
    assert [play.resource(name).override for name in ("jobs", "db")] == [None, None]


def test_at_the_very_instant_of_its_end_the_declared_limit_counts() -> None:
    """Before a lease that ends then is lent on, and before whoever asks then."""
    play = Play(semaphore("db", 1, lease=10 * SECOND))
    play.do(SetOverride("db", SemaphoreSpec(2), 10 * SECOND))
    play.ask("db", lease=60 * SECOND)
    play.ask("db")
    waiter = play.ask("db")

    effects = play.at(10 * SECOND)

    assert [type(effect) for effect in effects] == [OverrideOver, LeaseEnded]
    assert play.waits(waiter)
    assert play.denial(play.ask("db", wait=0)).reason is Reason.NONE_FREE


def test_the_end_of_less_serves_whoever_waits() -> None:
    """In the same step, by the timer alone; a second override took the place of the first."""
    play = Play(semaphore("db", 3))
    play.do(SetOverride("db", SemaphoreSpec(0), 5 * SECOND))
    play.do(SetOverride("db", SemaphoreSpec(1), 10 * SECOND))
    play.ask("db")
    waiters = [play.ask("db") for _ in range(3)]

    play.at(10 * SECOND)

    assert [play.waits(waiter) for waiter in waiters] == [False, False, True]
    assert [play.granted(waiter).waited for waiter in waiters[:2]] == [10 * SECOND] * 2


def test_nobody_asks_under_a_limit_that_is_over_however_far_behind_the_engine_is() -> None:
    """The end comes late only to whom nobody names."""
    play = Play(semaphore("db", 1), semaphore("many", None, lease=SECOND), at_once=2)
    for _ in range(5):
        play.ask("many")
    play.do(SetOverride("db", SemaphoreSpec(2), 2 * SECOND))
    play.unseen_until(3 * SECOND)

    first, second = play.ask("db", wait=0), play.ask("db", wait=0)

    assert play.has(first)
    assert play.denial(second).reason is Reason.NONE_FREE
    assert play.resource("db").override is None


@pytest.mark.parametrize(
    "order", [PAUSE, SetOverride("db", SemaphoreSpec(5), 60 * SECOND), Recycle("conn"), Quarantine("conn", "a")]
)
def test_an_order_comes_after_all_that_is_due(order: Steer) -> None:
    """However much it is."""
    play = Play(semaphore("db", 9, lease=SECOND), pool("conn", ["a"], lease=SECOND), at_once=2)
    for _ in range(9):
        play.ask("db")
    play.ask("conn")
    play.unseen_until(2 * SECOND)

    effects = play.do(order)

    assert len([effect for effect in effects if isinstance(effect, LeaseEnded)]) == 10
    assert isinstance(effects[-1], Steered)


def test_of_leases_that_are_over_a_revocation_says_so() -> None:
    """Also when the engine is behind: they have expired before."""
    play = Play(semaphore("db", 9, lease=SECOND), at_once=1)
    leases = [play.lease(play.ask("db")) for _ in range(5)]
    play.unseen_until(2 * SECOND)

    assert [result.state.value for result in play.revoke(leases[-1], leases[-1])] == ["ended", "ended"]
    assert {reason.value for _, _, reason in play.ends()} == {"expired"}


def test_a_freeze_of_the_daemon_does_not_move_the_end_of_an_override() -> None:
    """It is in the time of the world."""
    play = Play(semaphore("db", 1, lease=10 * SECOND))
    play.ask("db")
    play.do(SetOverride("db", SemaphoreSpec(2), 5 * SECOND))

    effects = play.frozen_until(6 * SECOND)

    assert OverrideOver("db") in effects
    assert not any(isinstance(effect, LeaseEnded) for effect in effects)


def test_an_override_that_is_over_at_the_restart_is_over_with_it() -> None:
    """At once; whoever would have been too many is not granted."""
    spec = semaphore("db", 1)
    kept = Remembered(spec, {}, 90 * SECOND, Standing.PAUSED, Override(SemaphoreSpec(2), 95 * SECOND))
    again = Play(at_once=1)
    again.now = 100 * SECOND
    again.do(Reconfigure((spec,)))
    again.do(restore(kept))

    effects = again.do(Reconfigure((spec,)))

    assert OverrideOver("db") in effects
    assert again.resource("db").standing is Standing.PAUSED
    assert again.resource("db").capacity == 1


def test_windows_of_an_override_are_remembered_as_they_are() -> None:
    """The memory is of the limit in force, whatever is declared."""
    spec = rate_limit("api", (1, SECOND, 2))
    play = Play(spec)
    limit = RateLimitSpec((Window(5, SECOND, 5), Window(60, 60 * SECOND, 9)))
    play.do(SetOverride("api", limit, 30 * SECOND))
    play.ask(("api", 4))

    play.restart(spec, now=SECOND)

    assert play.resource("api").available == 1
    play.at(SECOND + 30 * SECOND)
    assert play.resource("api").available == 2


@pytest.mark.parametrize(
    ("spec", "limit"),
    [
        (semaphore("db", 1), RateLimitSpec(())),
        (pool("db", ["a"]), PoolSpec((MemberSpec("b"),))),
    ],
)
def test_an_override_that_cannot_be_is_not_restored(spec: ResourceSpec, limit: LimitSpec) -> None:
    """Of another kind, or of a pool."""
    play = Play(spec)
    memory = spec.limit.build(0).remember(0)

    refused = play.do(restore(Remembered(spec, memory, 0, override=Override(limit, SECOND))))[0]

    assert isinstance(refused, RestoreRefused)
    assert refused.problems == (f"db: its limit cannot be that of a {limit.kind} for a while",)


# --- leases -------------------------------------------------------------------------------------------------


def test_what_was_revoked_frees_everything_it_held() -> None:
    """Each in its line, in the same step; a rate limit keeps what is spent."""
    play = Play(semaphore("db", 1), pool("conn", ["a"]), rate_limit("api", (1, 60 * SECOND, 1)))
    lease = play.lease(play.ask("db", "conn", "api"))
    waiters = [play.ask("db"), play.ask("conn")]

    play.revoke(lease)

    assert all(play.has(waiter) for waiter in waiters)
    assert play.resource("api").available == 0


def test_a_revocation_names_each_lease_in_the_order_asked() -> None:
    """Once revoked, then ended."""
    play = Play(semaphore("db", 2))
    first, second = (play.lease(play.ask("db")) for _ in range(2))

    results = play.revoke(second, LeaseId(99), first, second)

    assert [(result.lease, result.state.value) for result in results] == [
        (second, "revoked"),
        (99, "unknown"),
        (first, "revoked"),
        (second, "ended"),
    ]


# --- members ------------------------------------------------------------------------------------------------


def test_a_lent_member_is_recycled_when_it_is_next_lent() -> None:
    """A report of before is about something that has been replaced, and twice the same changes nothing."""
    play = Play(pool("conn", [MemberSpec("a", (), 2)]))
    old = play.lease(play.ask("conn"))
    assert play.steer(Recycle("conn", "a")) == Steered("conn", changed=True, members=("a",))
    assert play.steer(Recycle("conn", "a")) == Steered("conn", changed=False, members=("a",))
    assert play.steer(Recycle("conn")) == Steered("conn", changed=False)

    new = play.granted(play.ask("conn"))
    assert new.grants[0].members[0].generation == 2
    play.release(old, outcome=Outcome.BROKEN)
    assert play.engine.members("conn", now=0)[0].until is None
    assert play.granted(play.ask("conn")).grants[0].members[0].generation == 2


def test_a_recycled_member_that_failed_meanwhile_is_not_recycled_twice() -> None:
    """What is broken is opened anew anyway."""
    play = Play(pool("conn", ["a"]))
    lease = play.lease(play.ask("conn"))
    play.do(Recycle("conn"))
    play.release(lease, outcome=Outcome.BROKEN)
    play.at(SECOND)

    assert play.granted(play.ask("conn")).grants[0].members[0].generation == 2


def test_a_member_that_is_kept_out_may_be_reported_broken() -> None:
    """It is out for as long as the longer of the two says, and until an operator's word in any case."""
    play = Play(pool("conn", ["a", "b", "c"], quarantine=10 * SECOND))
    leases = [play.lease(play.ask("conn")) for _ in range(3)]
    play.do(Quarantine("conn", "a", 5 * SECOND))
    play.do(Quarantine("conn", "b", 50 * SECOND))
    play.do(Quarantine("conn", "c"))

    play.release(*leases, outcome=Outcome.BROKEN)

    assert [(m.until, m.by_operator, m.failures) for m in play.engine.members("conn", now=0)] == [
        (10 * SECOND, False, 1),
        (50 * SECOND, True, 1),
        (None, True, 1),
    ]
    play.at(60 * SECOND)
    assert play.resource("conn").available == 2


def test_whoever_waits_for_a_member_that_is_kept_out_is_not_hopeless() -> None:
    """It may be let in at any instant; until then no timer is armed for it."""
    play = Play(pool("conn", ["a", "b"]))
    play.do(Quarantine("conn", "a"))
    play.do(Quarantine("conn", "b", 60 * SECOND))
    waiter = play.ask("conn", wait=SECOND)
    assert play.waits(waiter)

    play.do(Readmit("conn", "a"))

    assert play.has(waiter)


def test_a_wait_for_a_member_that_is_back_by_then_is_woken_for_it() -> None:
    """Also when that was said after the wait had begun."""
    play = Play(pool("conn", ["a"]))
    lease = play.lease(play.ask("conn"))
    waiter = play.ask("conn", wait=20 * SECOND)
    play.do(Quarantine("conn", "a", 10 * SECOND))
    play.release(lease, outcome=Outcome.OK)

    play.at(10 * SECOND)

    assert play.granted(waiter).waited == 10 * SECOND


def test_what_is_said_of_members_survives_a_restart() -> None:
    """Until when they are kept out, that an operator did it, and what is to be recycled when it comes back."""
    spec = pool("conn", ["a", "b", "c"])
    play = Play(spec)
    play.ask("conn")
    play.do(Recycle("conn", "a"))
    play.do(Quarantine("conn", "b"))
    play.do(Quarantine("conn", "c", 50 * SECOND))
    before = play.engine.members("conn", now=0)

    play.restart(spec, now=0)

    assert play.engine.members("conn", now=0) == before
    play.release(LeaseId(1))
    assert play.granted(play.ask("conn")).grants[0].members[0].generation == 2


def test_the_line_of_a_pool_follows_an_operator() -> None:
    """Who is let in again is lent in the step of the order."""
    play = Play(pool("conn", ["a"]))
    play.do(Quarantine("conn", "a"))
    waiter = play.ask("conn")

    effects = play.do(Readmit("conn", "a"))

    assert [type(effect) for effect in effects] == [Steered, Granted]
    assert play.has(waiter)


def test_everybody_is_told_of_by_name() -> None:
    """Whoever is refused at once, too, and whoever leaves the line."""
    play = Play(semaphore("db", 1))
    play.do(PAUSE)
    effects = play.do(Acquire(TicketId(50), (Claim("db", 1),), "ann"))
    assert [effect.client for effect in effects if isinstance(effect, Denied)] == ["ann"]
    play.do(OPEN)
    play.ask("db")
    play.ask("db", client="ben", wait=SECOND)
    play.now = 2 * SECOND
    effects = play.do(Wake())
    assert [effect.client for effect in effects if isinstance(effect, Denied)] == ["ben"]


def test_orders_to_what_there_is_not_say_so() -> None:
    """Whatever is ordered."""
    play = Play(semaphore("db", 1))
    orders: list[Steer] = [
        SetStanding("x", Standing.PAUSED),
        SetOverride("x", None),
        Recycle("x"),
        Quarantine("x", "a"),
        Readmit("x", "a"),
    ]
    for order in orders:
        assert play.do(order) == [SteerRefused("x", SteerProblem.UNKNOWN_RESOURCE)]
    assert play.do(Revoke(())) != []


# --- who says so, and why -----------------------------------------------------------------------------------

JOE, ANN = Said("joe", "the provider is down", "ops"), Said("ann", "a sale")


def test_what_is_said_stands_beside_what_is_ordered_over_a_restart() -> None:
    """Of a standing, of an override and of a member: who has ordered it, and why."""
    spec = semaphore("db", 2), pool("conn", ["a", "b"])
    play = Play(*spec)
    play.do(SetStanding("db", Standing.PAUSED, JOE))
    play.do(SetOverride("db", SemaphoreSpec(5), 60 * SECOND, ANN))
    play.do(Quarantine("conn", "a", said=JOE))
    play.do(Quarantine("conn", "b", 60 * SECOND, ANN))

    for _ in range(2):
        shown = play.resource("db")
        assert shown.override is not None
        assert (shown.said, shown.override.said) == (JOE, ANN)
        assert [member.said for member in play.engine.members("conn", now=play.now)] == [JOE, ANN]
        play.restart(*spec, now=play.now)


def test_what_is_said_goes_with_what_was_ordered() -> None:
    """A resumed resource, a restored member and a limit as it is declared are nobody's doing."""
    play = Play(semaphore("db", 2), pool("conn", ["a"]))
    play.do(SetStanding("db", Standing.DRAINING, JOE))
    play.do(Quarantine("conn", "a", said=ANN))

    play.do(SetStanding("db", Standing.OPEN, JOE))
    play.do(Readmit("conn", "a"))

    assert play.resource("db").said == play.engine.members("conn", now=0)[0].said == UNSAID
    play.do(SetStanding("db", Standing.PAUSED, JOE))
    play.reconfigure(pool("conn", ["a"]))
    play.reconfigure(semaphore("db", 2))
    assert play.resource("db").said == UNSAID


def test_whoever_says_why_is_heard_also_where_it_is_so_already() -> None:
    """To say nothing, or the same, changes nothing: who said it first has said it."""
    play = Play(semaphore("db", 2), pool("conn", ["a"]))
    for said, changed, heard in (
        (UNSAID, True, UNSAID),
        (JOE, True, JOE),
        (Said("eve"), False, JOE),
        (Said("eve", JOE.reason), False, JOE),
        (ANN, True, ANN),
    ):
        assert play.steer(SetStanding("db", Standing.PAUSED, said)) == Steered("db", changed)
        assert play.resource("db").said == heard
        assert play.steer(Quarantine("conn", "a", 60 * SECOND, said)) == Steered("conn", changed, ("a",))
        assert play.engine.members("conn", now=0)[0].said == heard
    assert play.steer(SetStanding("db", Standing.OPEN, ANN)) == Steered("db", changed=True)
    assert play.steer(SetStanding("db", Standing.OPEN, JOE)) == Steered("db", changed=False)


def test_a_member_that_comes_back_broken_for_longer_is_kept_out_by_that() -> None:
    """And by nobody's word."""
    play = Play(pool("conn", ["a"], quarantine=60 * SECOND))
    lease = play.lease(play.ask("conn"))
    play.do(Quarantine("conn", "a", SECOND, JOE))

    play.release(lease, outcome=Outcome.BROKEN)

    (member,) = play.engine.members("conn", now=0)
    assert (member.by_operator, member.said) == (False, UNSAID)


def test_one_member_is_seen_alone() -> None:
    """By its id, in a resource that has any."""
    play = Play(semaphore("db", 2), pool("conn", ["a", "b"]))

    assert play.engine.member("conn", "b", now=0) == play.engine.members("conn", now=0)[1]
    for resource, member in (("conn", "c"), ("db", "a"), ("x", "a")):
        assert play.engine.member(resource, member, now=0) is None


def restore(*resources: Remembered) -> Restore:
    """Only these."""
    return Restore((), resources)
