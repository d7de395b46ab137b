"""The driver: callers, tickets and the one timer, by a clock that a test moves."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Generic, TypeVar

import pytest

from governor.core.effects import (
    Denied,
    Effect,
    Granted,
    LeaseEnded,
    LeaseState,
    OverrideOver,
    Queued,
    Reconfigured,
    Steered,
    SteerProblem,
    SteerRefused,
)
from governor.core.engine import Engine
from governor.core.events import Event
from governor.core.kinds.pool import MemberSpec, PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec
from governor.core.resource import ResourceSpec
from governor.core.types import MILLISECOND, SECOND, Claim, EndReason, LeaseId, Nanos, Reason, Standing, TicketId
from governor.driver import Answer, Driver
from governor.testing.clock import FakeClock, FakeTimer
from tests.core.compared import compared

pytestmark = pytest.mark.usefixtures("never_blocks")

T = TypeVar("T")
C = TypeVar("C", bound=FakeClock)

MS: Nanos = MILLISECOND
LEASE: Nanos = 10 * SECOND
MAX_WAIT: Nanos = 60 * SECOND
GRACE: Nanos = 2 * SECOND

ONE = (Claim("one", 1),)
FOUR = (Claim("four", 1),)
SLOW = (Claim("slow", 1),)


@dataclass
class EarlyClock(FakeClock):
    """Its calls come 0.4 ms early, unless they are as near as that: then they are punctual."""

    early: int = 0

    def call_at(self, when: Nanos, callback: Callable[[], None]) -> FakeTimer:
        """Note the call for a little before."""
        if when - self.time > 400_000:
            when -= 400_000
            self.early += 1
        return super().call_at(when, callback)


class Rig(Generic[C]):
    """A driver on a fake clock, with the effects of every step on record."""

    def __init__(self, clock: C) -> None:
        self.clock = clock
        clock.advance(1_000 * SECOND)
        self.engine = Engine()
        self.driver = Driver(self.engine, self.clock)
        self.driver.reserve_ids(LeaseId(1_000_000))
        # The instants at which the driver woke only to know that it does.
        self.beats: list[Nanos] = []
        self.driver.beat_observers.append(lambda: self.beats.append(clock.time))
        self.driver.reconfigure(
            (
                spec("one", SemaphoreSpec(1)),
                spec("four", SemaphoreSpec(4)),
                spec("slow", RateLimitSpec((Window(1, SECOND, 1),))),
            )
        )
        self.effects: list[Effect] = []
        self.driver.observers.append(self.effects.extend)

    async def acquire(
        self, claims: tuple[Claim, ...], *, wait: Nanos | None = None, lease: Nanos | None = None, request_id: str = ""
    ) -> Answer:
        """Ask and stand in line, as a servicer does."""
        return await acquire(self.driver, claims, wait=wait, lease=lease, request_id=request_id)

    async def held(self, claims: tuple[Claim, ...] = ONE) -> LeaseId:
        """A lease that is granted at once."""
        answer = await self.acquire(claims)
        assert isinstance(answer, Granted)
        return answer.lease

    async def waiting(
        self, claims: tuple[Claim, ...] = ONE, *, wait: Nanos | None = None, request_id: str = ""
    ) -> "asyncio.Task[Answer]":
        """Somebody who stands in line already."""
        task = asyncio.create_task(self.acquire(claims, wait=wait, request_id=request_id))
        await turn()
        assert not task.done()
        return task

    @property
    def waiters(self) -> int:
        """How many stand in line."""
        return self.driver.snapshot().waiters

    @property
    def in_use(self) -> int:
        """Permits lent, over all resources."""
        return sum(resource.in_use for resource in self.driver.snapshot().resources)

    def ends(self) -> list[tuple[LeaseId, EndReason]]:
        """The leases that ended so far, and why."""
        return [(effect.lease, effect.reason) for effect in self.effects if isinstance(effect, LeaseEnded)]


Idle = Rig[FakeClock]


def spec(name: str, limit: LimitSpec, *, max_waiters: int = 2_000) -> ResourceSpec:
    """A resource with the lengths of these tests."""
    return ResourceSpec(name, limit, LEASE, 100 * LEASE, GRACE, MAX_WAIT, max_waiters)


async def acquire(
    driver: Driver,
    claims: tuple[Claim, ...],
    *,
    wait: Nanos | None = None,
    lease: Nanos | None = None,
    request_id: str = "",
) -> Answer:
    """Ask and stand in line, as a servicer does."""
    client = "web" if request_id else ""
    answer = driver.ask(claims, client=client, wait=wait, lease=lease, request_id=request_id)
    return await driver.answer(answer.ticket) if isinstance(answer, Queued) else answer


def at_once(call: Coroutine[object, None, T]) -> T:
    """What a call returns without giving up the event loop once."""
    try:
        call.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    pytest.fail("it gave up the event loop")


async def turn() -> None:
    """Everybody who can run has run."""
    await asyncio.sleep(0)


def lease_of(answer: Answer) -> LeaseId:
    """The lease of somebody who was granted one."""
    assert isinstance(answer, Granted)
    return answer.lease


def reason_of(answer: Answer) -> Reason:
    """Why somebody was refused."""
    assert isinstance(answer, Denied)
    return answer.denial.reason


@pytest.fixture
def rig() -> Idle:
    """Three resources, idle."""
    return Rig(FakeClock())


class TestAtOnce:
    """What can be answered is answered in the step that asks."""

    def test_a_grant_never_gives_up_the_loop(self, rig: Idle) -> None:
        """Nothing can come between a decision and its answer: no loop runs here at all."""
        answer = at_once(rig.acquire(ONE))

        assert isinstance(answer, Granted)
        assert rig.in_use == 1

    def test_a_refusal_never_gives_up_the_loop(self, rig: Idle) -> None:
        """Refusals for what was asked and for what is lent alike."""
        at_once(rig.acquire(ONE))

        assert reason_of(at_once(rig.acquire((Claim("other", 1),)))) is Reason.UNKNOWN_RESOURCE
        assert reason_of(at_once(rig.acquire(ONE, wait=0))) is Reason.NONE_FREE
        assert rig.waiters == 0

    def test_release_and_renew_never_give_up_the_loop(self, rig: Idle) -> None:
        """Each has a result for each id, in the order asked, whatever became of the id."""
        lease = lease_of(at_once(rig.acquire(ONE)))
        other = LeaseId(77)

        renewed = rig.driver.renew((other, lease), 3 * SECOND)
        released = rig.driver.release((lease, other, lease))

        assert [(r.lease, r.state) for r in renewed] == [(other, LeaseState.UNKNOWN), (lease, LeaseState.RENEWED)]
        assert renewed[1].remaining == 3 * SECOND
        assert [r.state for r in released] == [LeaseState.RELEASED, LeaseState.UNKNOWN, LeaseState.ENDED]

    async def test_tickets_are_never_used_twice(self, rig: Idle) -> None:
        """Each ask has a number of its own, whatever became of the ones before."""
        answers = [await rig.acquire(ONE, wait=0) for _ in range(3)]

        assert [answer.ticket for answer in answers] == [TicketId(1), TicketId(2), TicketId(3)]


class TestWaiting:
    """A caller that waits goes on when its ticket ends."""

    async def test_a_release_grants_the_next_in_the_same_turn(self, rig: Idle) -> None:
        """The permit is the waiter's before whoever released it goes on."""
        lease = await rig.held()
        waiter = await rig.waiting()

        rig.driver.release((lease,))

        assert (rig.in_use, rig.waiters) == (1, 0)
        assert lease_of(await waiter) == lease + 1

    async def test_the_line_is_served_in_the_order_of_asking(self, rig: Idle) -> None:
        """Ten waiters, one permit: their leases rise as they asked."""
        lease = await rig.held()
        waiters = [await rig.waiting() for _ in range(10)]

        served = [lease]
        for waiter in waiters:
            rig.driver.release((served[-1],))
            served.append(lease_of(await waiter))

        assert all(former < later for former, later in pairwise(served))

    async def test_a_lease_that_ends_grants_the_next(self, rig: Idle) -> None:
        """Exactly at its deadline, and not a nanosecond before."""
        lease = await rig.held()
        waiter = await rig.waiting()

        rig.clock.advance(LEASE - 1)
        await turn()
        assert not waiter.done()

        rig.clock.advance(1)
        assert lease_of(await waiter) == lease + 1
        assert rig.ends() == [(lease, EndReason.EXPIRED)]

    async def test_a_wait_is_over_at_its_deadline(self, rig: Idle) -> None:
        """Exactly then, with the reason, and the line is empty."""
        await rig.held()
        waiter = await rig.waiting(wait=3 * SECOND)

        rig.clock.advance(3 * SECOND - 1)
        await turn()
        assert not waiter.done()

        rig.clock.advance(1)
        answer = await waiter
        assert reason_of(answer) is Reason.WAIT_OVER
        assert isinstance(answer, Denied)
        assert answer.waited == 3 * SECOND
        assert rig.waiters == 0

    async def test_a_rate_limit_ripens_by_the_timer_alone(self, rig: Idle) -> None:
        """Nobody else calls: the timer comes when the next permit is due."""
        await rig.acquire(SLOW)
        first, second = await rig.waiting(SLOW), await rig.waiting(SLOW)

        rig.clock.advance(SECOND)
        await turn()
        assert (first.done(), second.done()) == (True, False)

        rig.clock.advance(SECOND)
        assert isinstance(await second, Granted)

    async def test_all_claims_come_together(self, rig: Idle) -> None:
        """An ask for two resources holds neither until it holds both."""
        one, four = await rig.held(ONE), [await rig.held(FOUR) for _ in range(4)]
        both = await rig.waiting(ONE + FOUR)

        rig.driver.release((one,))
        await turn()
        assert not both.done()
        assert rig.in_use == 4

        rig.driver.release((four[0],))
        assert [grant.resource for grant in _grants(await both)] == ["one", "four"]


class TestHolders:
    """What becomes of leases whose holder is gone, or has its answer, and what can be seen of both."""

    async def test_a_grace_is_over_by_the_timer_alone(self, rig: Idle) -> None:
        """Nobody calls: the timer, which was armed for the deadline, comes when the grace is over."""
        lease = await rig.held()
        waiter = await rig.waiting()

        rig.driver.disconnect((lease,))
        rig.clock.advance(GRACE - 1)
        await turn()
        assert not waiter.done()

        rig.clock.advance(1)
        assert lease_of(await waiter) == lease + 1
        assert rig.ends() == [(lease, EndReason.DISCONNECTED)]

    async def test_who_comes_back_within_the_grace_keeps_the_lease(self, rig: Idle) -> None:
        """For its whole length."""
        lease = await rig.held()
        rig.driver.disconnect((lease,))
        rig.clock.advance(GRACE - 1)

        (result,) = rig.driver.renew((lease,))
        assert result.remaining == LEASE
        rig.clock.advance(LEASE - 1)

        assert rig.ends() == []

    async def test_a_lease_is_shown_while_it_lives(self, rig: Idle) -> None:
        """With the deadline that it has by now."""
        lease = await rig.held()
        rig.driver.disconnect((lease,))

        held = rig.driver.held(lease)

        assert held is not None
        assert (held.id, held.deadline, held.length) == (lease, rig.clock.time + GRACE, LEASE)
        assert [(grant.resource, grant.permits) for grant in held.grants] == [("one", 1)]
        rig.clock.advance(GRACE)
        assert rig.driver.held(lease) is None

    async def test_a_place_is_shown_while_it_is_waited_at(self, rig: Idle) -> None:
        """How many are ahead, and how long it takes yet at the least."""
        await rig.acquire(SLOW)
        tickets = [answer.ticket for answer in (rig.driver.ask(SLOW), rig.driver.ask(SLOW))]
        assert [rig.driver.place(ticket) for ticket in tickets] == [(0, SECOND), (1, 2 * SECOND)]

        rig.clock.advance(SECOND)

        assert [rig.driver.place(ticket) for ticket in tickets] == [None, (0, SECOND)]

    async def test_a_settled_release_frees_the_request_id(self, rig: Idle) -> None:
        """An unsettled one leaves the answer that the lease has ended."""
        for settled in (False, True):
            request_id = f"settled: {settled}"
            lease = lease_of(await rig.acquire(ONE, request_id=request_id))
            assert rig.driver.release((lease,), settled=settled)[0].state is LeaseState.RELEASED

            again = await rig.acquire(ONE, request_id=request_id)

            assert isinstance(again, Granted) == settled

    async def test_a_caller_whose_wait_is_over_is_told_alone(self, rig: Idle) -> None:
        """Whoever repeated the same ask waits on, at the same place."""
        lease = await rig.held()
        first = await rig.waiting(wait=SECOND, request_id="1")
        between = await rig.waiting()
        second = await rig.waiting(wait=5 * SECOND, request_id="1")

        rig.clock.advance(SECOND)
        assert reason_of(await first) is Reason.WAIT_OVER
        rig.driver.release((lease,))

        assert lease_of(await second) == lease + 1
        assert not between.done()
        between.cancel()


class TestTimer:
    """One timer, for the earliest thing that is due."""

    def test_nothing_due_no_timer(self, rig: Idle) -> None:
        """An idle daemon is never woken by its own clock."""
        assert rig.clock.pending == 0

    async def test_only_the_earliest_deadline_has_a_timer(self, rig: Idle) -> None:
        """However many leases and waits there are."""
        for seconds in (7, 3, 5):
            await rig.acquire(FOUR, lease=seconds * SECOND)
        await rig.held()
        _ = await rig.waiting(wait=4 * SECOND)

        assert rig.clock.pending == 2  # the other is the heartbeat
        assert rig.driver._timer_at == rig.clock.time + 3 * SECOND

    async def test_the_timer_is_never_later_than_what_is_due(self, rig: Idle) -> None:
        """After any step of a long random history, and each deadline is met to the nanosecond."""
        rng = random.Random(6)
        held: list[LeaseId] = []
        for _ in range(2_000):
            match rng.randrange(4):
                case 0:
                    answer = await rig.acquire(FOUR, wait=0, lease=rng.randint(1, 50) * SECOND // 10)
                    held += [answer.lease] if isinstance(answer, Granted) else []
                case 1 if held:
                    rig.driver.release((held.pop(rng.randrange(len(held))),))
                case 2 if held:
                    rig.driver.renew((rng.choice(held),), rng.randint(1, 50) * SECOND // 10)
                case _:
                    rig.clock.advance(rng.randint(0, SECOND))
            due = rig.engine.next_deadline()
            assert rig.clock.pending <= 2  # the other is the heartbeat
            assert due is None or (rig.clock.pending >= 1 and rig.driver._timer_at <= due)

        expired = [effect for effect in rig.effects if isinstance(effect, LeaseEnded) and effect.left <= 0]
        assert len(expired) > 50
        assert {effect.left for effect in expired} == {0}

    async def test_a_timer_that_comes_early_is_set_again(self) -> None:
        """Some loops count in milliseconds: an early call changes nothing and costs one turn."""
        rig = Rig(EarlyClock())
        await rig.held()

        rig.clock.advance(LEASE - 1)
        assert rig.clock.early > 1
        assert (rig.in_use, rig.clock.pending) == (1, 2)

        rig.clock.advance(1)
        assert (rig.in_use, rig.clock.pending) == (0, 1)
        rig.clock.advance(SECOND)
        assert rig.clock.pending == 0

    async def test_a_timer_that_comes_late_ends_everything_in_order(self, rig: Idle) -> None:
        """What ended earlier ends first, and whoever waited is granted now, not in the past."""
        lease = lease_of(await rig.acquire(ONE, lease=30 * MS))
        short = lease_of(await rig.acquire(FOUR, lease=20 * MS))
        waiter = await rig.waiting()

        rig.clock.time += 200 * MS
        rig.clock.advance(0)

        assert rig.ends() == [(short, EndReason.EXPIRED), (lease, EndReason.EXPIRED)]
        answer = await waiter
        assert isinstance(answer, Granted)
        assert answer.deadline == rig.clock.time + LEASE

    async def test_when_everything_is_over_no_timer_is_left(self, rig: Idle) -> None:
        """A timer whose reason has gone comes once more, at most, and is not set again (I10)."""
        rig.driver.release((await rig.held(),))

        rig.clock.advance(LEASE)

        assert rig.clock.pending == 0

    async def test_lag_is_told_to_whoever_asks(self) -> None:
        """How long after its instant the timer came; never less than nothing, also when it came early."""
        rig = Rig(EarlyClock())
        lags: list[Nanos] = []
        rig.driver.lag_observers.append(lags.append)
        await rig.held()

        rig.clock.advance(LEASE - 1)
        rig.clock.time += 8
        rig.clock.advance(0)

        assert lags == [0, 7]

    async def test_close_stops_the_timer(self, rig: Idle) -> None:
        """Nothing ends on its own any more; twice does no harm."""
        await rig.held()

        rig.driver.close()
        rig.driver.close()

        assert rig.clock.pending == 0


class TestCancelling:
    """A caller that is cancelled leaves the line, or gives back what was just granted."""

    async def test_the_line_is_left_in_the_same_turn(self, rig: Idle) -> None:
        """As soon as the cancelled caller runs, it stands nowhere."""
        await rig.held()
        waiter = await rig.waiting()

        waiter.cancel()
        await turn()

        assert waiter.cancelled()
        assert rig.waiters == 0

    async def test_whoever_blocked_the_line_frees_it(self, rig: Idle) -> None:
        """A head that wants much leaves; those behind it that can be granted are, in the same turn (I5)."""
        for _ in range(2):
            await rig.held(FOUR)
        big = await rig.waiting((Claim("four", 3),))
        small = [await rig.waiting(FOUR) for _ in range(2)]

        big.cancel()
        await turn()

        assert (rig.in_use, rig.waiters) == (4, 0)
        assert [type(await waiter) for waiter in small] == [Granted, Granted]

    async def test_cancelled_in_the_very_turn_of_the_grant(self, rig: Idle) -> None:
        """python/cpython#90155: the permit is not lost with the caller, but the next one's."""
        lease = await rig.held()
        first, second = await rig.waiting(), await rig.waiting()

        rig.driver.release((lease,))  # grants the first, which has not run yet
        first.cancel()
        answer = await second

        assert first.cancelled()
        assert lease_of(answer) == lease + 2
        assert rig.ends() == [(lease, EndReason.RELEASED), (LeaseId(lease + 1), EndReason.DISCONNECTED)]
        assert (rig.in_use, rig.waiters) == (1, 0)

    async def test_cancelled_just_before_the_grant(self, rig: Idle) -> None:
        """The other order within the turn: granted to somebody who is doomed already, and passed on all the same."""
        lease = await rig.held()
        first, second = await rig.waiting(), await rig.waiting()

        first.cancel()
        rig.driver.release((lease,))

        assert isinstance(await second, Granted)
        assert first.cancelled()
        assert (rig.in_use, rig.waiters) == (1, 0)

    async def test_a_whole_line_cancelled_in_the_turn_of_the_grant(self, rig: Idle) -> None:
        """Each passes the permit on to one who passes it on; in the end it is free."""
        lease = await rig.held()
        line = [await rig.waiting() for _ in range(20)]

        rig.driver.release((lease,))
        for waiter in line:
            waiter.cancel()
        await asyncio.wait(line)

        assert (rig.in_use, rig.waiters) == (0, 0)
        assert isinstance(at_once(rig.acquire(ONE, wait=0)), Granted)

    async def test_cancelled_in_the_turn_of_a_refusal(self, rig: Idle) -> None:
        """Nothing is left of it either way."""
        await rig.held()
        waiter = await rig.waiting(wait=SECOND)

        rig.clock.advance(SECOND)
        waiter.cancel()
        await asyncio.wait([waiter])

        assert waiter.cancelled()
        assert rig.waiters == 0

    async def test_a_spent_permit_comes_back_when_nobody_got_it(self, rig: Idle) -> None:
        """A rate limit refunds a grant whose caller was cancelled in the turn it was made."""
        await rig.acquire(SLOW)
        waiter = await rig.waiting(SLOW)

        rig.clock.advance(SECOND)
        waiter.cancel()
        await asyncio.wait([waiter])

        assert isinstance(await rig.acquire(SLOW, wait=0), Granted)

    async def test_a_grant_that_could_not_be_delivered_is_taken_back(self, rig: Idle) -> None:
        """`abandon`, by whoever carries the answer; the next in line has it in the same step."""
        answer = await rig.acquire(ONE)
        waiter = await rig.waiting()

        rig.driver.abandon(answer.ticket)

        assert rig.waiters == 0
        assert isinstance(await waiter, Granted)

    async def test_abandon_is_safe_in_any_state(self, rig: Idle) -> None:
        """Refused, released, abandoned before, never issued: nothing happens."""
        granted, refused = await rig.acquire(ONE), await rig.acquire(ONE, wait=0)
        rig.driver.release((lease_of(granted),))
        later = await rig.held()

        for ticket in (granted.ticket, refused.ticket, granted.ticket, TicketId(10**9)):
            rig.driver.abandon(ticket)

        assert rig.driver.live_leases == 1
        assert (rig.driver.release((later,)))[0].state is LeaseState.RELEASED


class TestRequestIds:
    """One request id from two callers: one place, one lease."""

    async def test_both_get_the_same_lease(self, rig: Idle) -> None:
        """Whoever repeats an ask stands at the same place and is answered with it."""
        lease = await rig.held()
        twins = [await rig.waiting(request_id="r") for _ in range(2)]

        rig.driver.release((lease,))
        answers = [await twin for twin in twins]

        assert {lease_of(answer) for answer in answers} == {lease + 1}
        assert [answer.repeated for answer in answers if isinstance(answer, Granted)] == [False, True]
        assert rig.in_use == 1

    @pytest.mark.parametrize("gone", [0, 1])
    @pytest.mark.parametrize("when", ["waiting", "before the grant", "after the grant"])
    async def test_one_is_cancelled_and_the_other_gets_it(self, rig: Idle, gone: int, when: str) -> None:
        """Whichever of them goes, and whenever."""
        lease = await rig.held()
        twins = [await rig.waiting(request_id="r") for _ in range(2)]
        behind = await rig.waiting()

        if when != "after the grant":
            twins[gone].cancel()
        if when == "waiting":
            await turn()
        rig.driver.release((lease,))
        twins[gone].cancel()
        answer = await twins[1 - gone]

        assert twins[gone].cancelled()
        assert lease_of(answer) == lease + 1
        assert not behind.done()
        assert (rig.in_use, rig.waiters) == (1, 1)

    async def test_both_are_cancelled_in_the_turn_of_the_grant(self, rig: Idle) -> None:
        """The last one to go gives it back, once."""
        lease = await rig.held()
        twins = [await rig.waiting(request_id="r") for _ in range(2)]
        behind = await rig.waiting()

        rig.driver.release((lease,))
        for twin in twins:
            twin.cancel()

        assert lease_of(await behind) == lease + 2
        assert rig.ends()[1:] == [(LeaseId(lease + 1), EndReason.DISCONNECTED)]

    async def test_a_repeat_of_a_granted_ask_does_not_wait(self, rig: Idle) -> None:
        """The answer that was lost comes again; losing it again takes nothing from whoever has it."""
        first = await rig.acquire(ONE, request_id="r")

        again = at_once(rig.acquire(ONE, request_id="r"))
        rig.driver.abandon(again.ticket)

        assert lease_of(again) == lease_of(first)
        assert rig.in_use == 1


class TestObservers:
    """Whoever counts sees everything, in order, before any caller goes on."""

    async def test_every_effect_is_seen_once(self, rig: Idle) -> None:
        """Of calls, of the timer, of a reload and of callers that go."""
        lease = await rig.held()
        waiter = await rig.waiting(wait=SECOND)
        rig.clock.advance(SECOND)
        await waiter
        leaver = await rig.waiting()
        leaver.cancel()
        await turn()
        rig.driver.renew((lease,))
        rig.driver.disconnect((lease,))
        rig.clock.advance(LEASE)
        rig.driver.reconfigure((spec("one", SemaphoreSpec(2)),))
        rig.driver.drain()
        await rig.acquire(ONE)

        assert [type(effect).__name__ for effect in rig.effects] == [
            "Granted",
            "Queued",
            "Denied",
            "Queued",
            "Abandoned",
            "LeaseExtended",
            "Renewed",
            "LeaseOrphaned",
            "LeaseEnded",
            "Reconfigured",
            "Denied",
        ]

    async def test_observers_come_before_callers(self, rig: Idle) -> None:
        """When a caller goes on, what it is told has been counted."""
        lease = await rig.held()
        seen: list[str] = []
        rig.driver.observers.append(lambda effects: seen.extend(type(effect).__name__ for effect in effects))

        async def ask() -> None:
            await rig.acquire(ONE)
            seen.append("caller")

        waiter = asyncio.create_task(ask())
        await turn()
        rig.driver.release((lease,))
        await waiter

        assert seen == ["Queued", "LeaseEnded", "Released", "Granted", "caller"]

    async def test_each_observer_sees_the_same(self, rig: Idle) -> None:
        """And steps without effects, too: a wake-up that changed nothing is a step."""
        steps: list[Sequence[Effect]] = []
        others: list[Sequence[Effect]] = []
        rig.driver.observers += [steps.append, others.append]

        await rig.held()
        rig.driver.abandon(TicketId(10**9))

        assert steps == others
        assert [len(step) for step in steps] == [1, 0]


class TestReload:
    """What an operator changes reaches whoever waits."""

    async def test_growing_wakes_waiters(self, rig: Idle) -> None:
        """In the step that grows it."""
        await rig.held()
        waiter = await rig.waiting()

        outcome = rig.driver.reconfigure((spec("one", SemaphoreSpec(2)),))

        assert outcome == Reconfigured(added=(), changed=("one",), removed=("four", "slow"))
        assert isinstance(await waiter, Granted)

    async def test_removing_tells_waiters(self, rig: Idle) -> None:
        """It is unknown from now on."""
        await rig.held()
        waiter = await rig.waiting()

        rig.driver.reconfigure(())

        assert reason_of(await waiter) is Reason.UNKNOWN_RESOURCE

    async def test_growing_for_somebody_who_is_gone(self, rig: Idle) -> None:
        """Cancelled in the turn in which the reload granted it: the next one has it."""
        await rig.held()
        first, second = await rig.waiting(), await rig.waiting()

        rig.driver.reconfigure((spec("one", SemaphoreSpec(2)),))
        first.cancel()

        assert isinstance(await second, Granted)
        assert rig.in_use == 2


class TestDrain:
    """The end is near: nobody new, nobody waits, leases go on."""

    async def test_waiters_are_answered(self, rig: Idle) -> None:
        """All of them, in the same step; the line is empty."""
        await rig.held()
        waiters = [await rig.waiting() for _ in range(3)]

        rig.driver.drain()

        assert rig.waiters == 0
        assert [reason_of(await waiter) for waiter in waiters] == [Reason.DRAINING] * 3

    async def test_leases_go_on(self, rig: Idle) -> None:
        """They may be renewed and given back; nobody is granted what comes back."""
        lease = await rig.held()
        rig.driver.drain()

        assert (rig.driver.renew((lease,)))[0].state is LeaseState.RENEWED
        assert (rig.driver.release((lease,)))[0].state is LeaseState.RELEASED
        assert rig.driver.live_leases == 0
        assert reason_of(at_once(rig.acquire(ONE))) is Reason.DRAINING
        assert rig.driver.snapshot().draining


class TestIds:
    """Lease ids that are not on record are not given out."""

    async def test_waiters_outlast_a_shortage(self, rig: Idle) -> None:
        """New asks are refused meanwhile; who stands in line is granted as soon as there are ids again."""
        engine = Engine()
        driver = Driver(engine, rig.clock)
        driver.reserve_ids(LeaseId(1))
        driver.reconfigure((spec("one", SemaphoreSpec(1)),))
        lease = lease_of(await acquire(driver, ONE))
        assert reason_of(at_once(acquire(driver, ONE))) is Reason.STATE_UNWRITABLE

        driver.reserve_ids(LeaseId(2))
        waiters = [asyncio.create_task(acquire(driver, ONE)) for _ in range(2)]
        await turn()
        driver.release((lease,))
        lease = lease_of(await waiters[0])
        driver.release((lease,))
        await turn()
        assert not waiters[1].done()

        driver.reserve_ids(LeaseId(3))
        assert lease_of(await waiters[1]) == driver.last_id == LeaseId(3)


@pytest.mark.parametrize("seed", range(6))
async def test_a_thousand_callers_cancelled_at_random_leave_nothing_behind(rig: Idle, seed: int) -> None:
    """Grants, cancels, releases and time in any order within a turn: in the end nothing is in use or waits (I10)."""
    rng = random.Random(seed)
    tasks: list[asyncio.Task[Answer]] = []
    held: list[LeaseId] = []
    handled = 0

    def ask() -> None:
        claims = rng.choice([ONE, FOUR, SLOW, (Claim("four", rng.randint(1, 4)),), ONE + FOUR, FOUR + SLOW])
        wait = rng.choice([None, None, rng.randint(0, 20 * SECOND)])
        request_id = rng.choice(["", f"{claims}{rng.randint(1, 30)}"])
        lease = rng.choice([None, rng.randint(1, 30) * SECOND])
        tasks.append(asyncio.create_task(rig.acquire(claims, wait=wait, lease=lease, request_id=request_id)))

    async def release() -> None:
        if held:
            rig.driver.release((held.pop(rng.randrange(len(held))),))

    while len(tasks) < 1_000 or handled < len(tasks):
        # Any number of things happen within one turn of the loop, in any order.
        for _ in range(rng.randint(1, 8)):
            match rng.randrange(6):
                case 0 | 1 if len(tasks) < 1_000:
                    ask()
                case 2 | 3 if tasks:
                    rng.choice(tasks[handled:] or tasks).cancel()
                case 4:
                    await release()
                case _:
                    rig.clock.advance(rng.choice([0, 1, rng.randint(0, SECOND)]))
        await turn()
        rig.engine.check(now=rig.clock.time)
        while handled < len(tasks) and tasks[handled].done():
            task = tasks[handled]
            handled += 1
            if not task.cancelled() and isinstance(answer := task.result(), Granted):
                held.append(answer.lease)
    outcomes = {"cancelled" if task.cancelled() else type(task.result()).__name__ for task in tasks}
    taken_back = sum(reason is EndReason.DISCONNECTED for _, reason in rig.ends())

    rig.clock.advance(32 * SECOND)  # the longest lease, and a last heartbeat

    assert outcomes == {"Granted", "Denied", "cancelled"}
    assert taken_back > 0
    assert any(isinstance(effect, Queued) for effect in rig.effects)
    assert (rig.in_use, rig.waiters, rig.driver.live_leases) == (0, 0, 0)
    assert rig.driver._callers == {}
    assert rig.clock.pending == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


def _grants(answer: Answer) -> Sequence[Claim]:
    assert isinstance(answer, Granted)
    return [Claim(grant.resource, grant.permits) for grant in answer.grants]


class TestHeart:
    """It beats while anything is lent, and by that the driver knows when it did not run."""

    async def test_it_beats_while_anything_is_lent(self, rig: Idle) -> None:
        """Soon, then every second, and once more after the end; an idle daemon is not woken."""
        began = rig.clock.time
        lease = await rig.held()
        rig.clock.advance(3 * SECOND)
        rig.driver.release((lease,))
        rig.clock.advance(60 * SECOND)

        assert [beat - began for beat in rig.beats] == [250 * MS, 1250 * MS, 2250 * MS, 3250 * MS]
        assert rig.clock.pending == 0

    async def test_what_arrived_in_a_freeze_is_heard_before_anything_ends(self, rig: Idle) -> None:
        """However long it was, and whatever comes first: each lease ends as much later, and not within a second."""
        lost: list[Nanos] = []
        rig.driver.freeze_observers.append(lost.append)
        renewed, silent = await rig.held(), lease_of(await rig.acquire(FOUR))
        rig.clock.advance(1250 * MS)

        rig.clock.time += 25 * SECOND
        assert rig.driver.renew((renewed,))[0].state is LeaseState.RENEWED
        rig.clock.advance(0)

        assert lost == [25 * SECOND]
        assert rig.ends() == []
        rig.clock.advance(LEASE - 1250 * MS - 1)
        assert rig.ends() == []
        rig.clock.advance(1)
        assert rig.ends() == [(silent, EndReason.EXPIRED)]

    async def test_a_beat_that_comes_late_is_a_freeze_too(self, rig: Idle) -> None:
        """Nothing else came first."""
        lost: list[Nanos] = []
        rig.driver.freeze_observers.append(lost.append)
        await rig.held()
        rig.clock.advance(1250 * MS)
        rig.clock.time += 11 * SECOND
        rig.clock.advance(0)
        rig.clock.advance(SECOND)

        assert lost == [11 * SECOND]
        assert rig.ends() == []

    async def test_what_a_freeze_brings_is_counted_from_its_end(self, rig: Idle) -> None:
        """Who is granted what ripened in it, and reckons from the last step, reckons with no more than was granted."""
        await rig.held()
        rig.driver.ask(SLOW)
        waiting = rig.driver.ask(FOUR + SLOW)
        assert isinstance(waiting, Queued)
        lengths: list[Nanos | None] = []

        def granted(answer: Answer) -> None:
            assert isinstance(answer, Granted)
            assert answer.deadline is not None
            lengths.append(answer.deadline - rig.driver.stepped_at)

        rig.driver.tell(waiting.ticket, granted)
        rig.clock.time += 25 * SECOND
        rig.clock.advance(0)

        assert lengths == [LEASE]

    async def test_a_step_within_a_beat_makes_no_second_heart(self, rig: Idle) -> None:
        """Such as to take back what a beat could not put on record: however often, one beat a second, and an end."""
        lease = await rig.held()
        rig.driver.beat_observers.append(lambda: rig.driver.set_writable(True))
        rig.clock.advance(5_250 * MS)
        began, rig.beats[:] = rig.clock.time, []
        for _ in range(5):
            rig.driver.renew((lease,))
            rig.clock.advance(SECOND)

        assert [beat - began for beat in rig.beats] == [1000 * MS, 2000 * MS, 3000 * MS, 4000 * MS, 5000 * MS]
        rig.driver.close()
        assert rig.clock.pending == 0

    async def test_to_be_a_little_late_is_no_freeze(self, rig: Idle) -> None:
        """A busy machine is: a quarter of a second beyond the beat."""
        lost: list[Nanos] = []
        rig.driver.freeze_observers.append(lost.append)
        await rig.held()
        rig.clock.time += 500 * MS
        rig.clock.advance(0)

        assert lost == []

    def test_without_leases_nothing_is_a_freeze(self, rig: Idle) -> None:
        """There is nothing that it could have cost."""
        lost: list[Nanos] = []
        rig.driver.freeze_observers.append(lost.append)
        rig.clock.advance(3600 * SECOND)
        rig.driver.drain()

        assert lost == []


class TestStart:
    """Until it is over nobody can be heard, and the driver does not beat."""

    @staticmethod
    def starting(clock: FakeClock) -> tuple[Driver, list[Effect]]:
        """A driver that remembers a lease, and what happens to it from then on."""
        specs = (spec("one", SemaphoreSpec(1)),)
        former = Driver(Engine(first_id=LeaseId(1)), clock)
        former.reserve_ids(LeaseId(10))
        former.reconfigure(specs)
        granted = former.ask(ONE, wait=0)
        assert isinstance(granted, Granted)
        held = former.held(granted.lease)
        assert held is not None
        former.close()
        driver = Driver(Engine(first_id=LeaseId(11)), clock, beating=False)
        driver.reconfigure(specs)
        effects: list[Effect] = []
        driver.observers.append(effects.extend)
        driver.restore([held], [former.remember("one")], [])
        return driver, effects

    @pytest.mark.parametrize("first", ["a timer", "a step", "a renewal", "the end"])
    async def test_a_start_that_stands_still_ends_nothing(self, first: str) -> None:
        """Whatever comes first after it: leases end as much later."""
        clock = FakeClock()
        driver, effects = self.starting(clock)
        lost: list[Nanos] = []
        driver.freeze_observers.append(lost.append)

        clock.time += 2 * LEASE
        if first == "a timer":
            clock.advance(0)
        elif first == "a step":
            driver.reserve_ids(LeaseId(20))
        elif first == "a renewal":
            assert driver.renew((LeaseId(1),))[0].state is LeaseState.RENEWED
        driver.begin_to_beat()

        assert lost == [2 * LEASE]
        clock.advance(LEASE - 1)
        assert not any(isinstance(effect, LeaseEnded) for effect in effects)
        clock.advance(1)
        assert any(isinstance(effect, LeaseEnded) for effect in effects)
        driver.close()

    async def test_a_start_that_takes_its_time_is_no_freeze(self) -> None:
        """With very many leases a step may be long."""
        clock = FakeClock()
        driver, effects = self.starting(clock)
        lost: list[Nanos] = []
        driver.freeze_observers.append(lost.append)
        clock.time += 1900 * MS
        driver.reserve_ids(LeaseId(20))
        clock.time += 1900 * MS
        driver.begin_to_beat()
        clock.advance(SECOND)

        assert lost == []
        assert not any(isinstance(effect, LeaseEnded) for effect in effects)
        driver.close()


class TestOperators:
    """What is ordered is one step of the engine, like everything else."""

    async def test_whoever_waits_hears_of_an_order_in_its_step(self, rig: Idle) -> None:
        """Refused by a drain, granted by an override or a revocation."""
        held = await rig.held()
        first = asyncio.ensure_future(rig.acquire(ONE))
        second = asyncio.ensure_future(rig.acquire(ONE))
        third = asyncio.ensure_future(rig.acquire(ONE))
        await turn()

        (result,) = rig.driver.revoke((held,))
        assert result.state is LeaseState.REVOKED
        lease_of(await first)
        assert rig.driver.set_override("one", SemaphoreSpec(2), 5 * SECOND) == Steered("one", changed=True)
        lease_of(await second)
        assert rig.driver.set_standing("one", Standing.DRAINING) == Steered("one", changed=True)
        assert reason_of(await third) is Reason.DRAINING

    async def test_an_override_is_over_by_the_timer(self, rig: Idle) -> None:
        """Though nobody holds anything and nobody asks."""
        rig.driver.set_override("one", SemaphoreSpec(2), 5 * SECOND)
        override = rig.driver.snapshot().resources[0].override
        assert override is not None
        assert override.until == rig.clock.time + 5 * SECOND

        rig.clock.advance(5 * SECOND)

        assert rig.effects[-1] == OverrideOver("one")
        assert rig.driver.snapshot().resources[0].override is None

    def test_what_operators_see_is_of_now(self, rig: Idle) -> None:
        """By the clock of the driver."""
        driver = rig.driver
        assert isinstance(driver.ask(SLOW), Granted)
        queued = driver.ask(SLOW)
        assert isinstance(queued, Queued)
        lease = lease_of(at_once(rig.acquire(FOUR)))

        assert driver.lease_ids() == [lease]
        assert driver.covers(lease, "four")
        seen = driver.lease(lease)
        assert seen is not None
        assert seen.deadline == rig.clock.time + LEASE
        assert driver.waiting(None) == driver.waiting("slow") == [queued.ticket]
        waiter = driver.waiter(queued.ticket)
        assert waiter is not None
        assert waiter.claims == SLOW
        assert driver.windows("slow")[0].next_at == rig.clock.time + SECOND
        assert driver.members("slow") == ()
        declared = driver.declared("slow")
        assert declared is not None
        assert [each.what for each in compared(driver.compare((declared,)), rig.clock.time)] == ["removed", "removed"]

    def test_members_are_steered(self) -> None:
        """By length of time, or until further notice."""
        clock = FakeClock()
        driver = Driver(Engine(), clock)
        driver.reconfigure((spec("db", PoolSpec((MemberSpec("a"),))),))

        assert driver.quarantine("db", "a", 5 * SECOND) == Steered("db", changed=True, members=("a",))
        assert driver.members("db")[0].until == clock.time + 5 * SECOND
        assert driver.quarantine("db", "a") == Steered("db", changed=True, members=("a",))
        assert driver.readmit("db", "a") == Steered("db", changed=True, members=("a",))
        assert driver.recycle("db") == Steered("db", changed=True, members=("a",))
        assert driver.recycle("db", "b") == SteerRefused("db", SteerProblem.UNKNOWN_MEMBER)


# --- asks that are alike ----------------------------------------------------------------------------------------


def alike(rig: "Rig[C]", ids: "Iterator[str]", claims: tuple[Claim, ...]) -> list[Granted | Denied | Queued]:
    """Asked by one client, each to wait as long as it may."""
    return rig.driver.ask_alike(ids, claims, "web", None, None, ())


async def test_asks_that_are_alike_are_answered_in_their_order_and_observed_together(rig: Idle) -> None:
    """What is granted by the first is not there for the others; whoever counts effects misses none."""
    steps: list[list[Effect]] = []
    rig.driver.observers.append(lambda effects: steps.append(list(effects)))

    answers = alike(rig, iter("abcd"), FOUR)

    assert [type(answer) for answer in answers] == [Granted] * 4
    assert [answer.ticket for answer in answers] == sorted(answer.ticket for answer in answers)
    assert steps == [answers]
    assert (await rig.acquire(FOUR, wait=0)).ticket > answers[-1].ticket


async def test_of_asks_that_are_alike_nobody_asks_on_before_it_is_known_who_waits(rig: Idle) -> None:
    """The first one that must wait is the last that is answered: its caller can be told of before anything happens."""
    ids = iter("abcdefg")
    answers = alike(rig, ids, FOUR)

    assert [type(answer) for answer in answers] == [Granted] * 4 + [Queued]
    assert list(ids) == ["f", "g"]


async def test_who_waits_while_the_engine_is_behind_is_told_by_the_ask_that_comes_next() -> None:
    """Each ask makes some of what is due happen, and so may one that is like the one that it grants something to."""
    rig = Rig(FakeClock())
    rig.engine = Engine(at_once=1)
    rig.driver = Driver(rig.engine, rig.clock)
    rig.driver.reserve_ids(LeaseId(1_000_000))
    rig.driver.reconfigure((spec("one", SemaphoreSpec(1)), spec("four", SemaphoreSpec(4))))
    for claims, length in ((FOUR, LEASE), (FOUR, LEASE), (ONE, LEASE + 1)):
        assert isinstance(rig.driver.ask(claims, lease=length), Granted)
    rig.clock.time += 2 * LEASE  # nothing has run since
    rig.driver._late_at = 2**62
    told: list[Answer] = []
    ids = iter("abc")

    for _ in ids:
        answers = alike(rig, chain(ids), ONE)
        for answer in answers:
            if isinstance(answer, Queued):
                rig.driver.tell(answer.ticket, told.append)
        assert len(answers) <= 1
    rig.clock.advance(1)

    assert [type(answer) for answer in told] == [Granted]


async def test_what_was_granted_before_a_fault_is_observed(rig: Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would never be on record, and never be counted."""
    handle = rig.engine.handle
    events: list[object] = []

    def fails(event: Event, *, now: Nanos) -> list[Effect]:
        events.append(event)
        if len(events) == 3:
            raise ZeroDivisionError
        return handle(event, now=now)

    monkeypatch.setattr(Engine, "handle", lambda _, event, *, now: fails(event, now=now))
    rig.effects.clear()
    with pytest.raises(ZeroDivisionError):
        alike(rig, iter("abcd"), FOUR)

    assert [type(effect) for effect in rig.effects] == [Granted] * 2
    assert isinstance(rig.driver.ask(FOUR, wait=0), Granted), "a ticket is used once"
