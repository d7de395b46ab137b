"""The dumb counterparts of the three kinds: what could be taken, computed the slow and obvious way.

They know arithmetic with fractions and lists of members. They must never know the code of the kinds.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from governor.core.events import Quarantine, Readmit, Recycle
from governor.core.kinds.pool import PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec
from governor.core.types import Member, Nanos, Outcome


class DumbSemaphore:
    """Two numbers."""

    lends = True

    def __init__(self, spec: SemaphoreSpec) -> None:
        self.permits = spec.permits
        self.in_use = 0

    def capacity(self) -> int | None:
        """None is unlimited."""
        return self.permits

    def available(self, at: Nanos) -> int | None:
        """What is not lent."""
        return None if self.permits is None else max(0, self.permits - self.in_use)

    def ready_at(self, permits: int, since: Nanos) -> Nanos | None:
        """The instant from which time alone would be enough; None is never."""
        free = self.available(since)
        return since if free is None or free >= permits else None

    def earliest(self, permits: int, ahead: int, now: Nanos) -> Nanos:
        """Something may come back at any instant."""
        return now

    def take(self, permits: int, members: tuple[Member, ...], now: Nanos) -> None:
        """Lend."""
        self.in_use += permits

    def give(self, permits: int, members: tuple[Member, ...], outcome: Outcome, now: Nanos) -> None:
        """Take back."""
        self.in_use -= permits

    def refund(self, permits: int, members: tuple[Member, ...], taken: Nanos, now: Nanos) -> None:
        """Take back what nobody saw."""
        self.in_use -= permits

    def reconfigure(self, spec: LimitSpec, now: Nanos) -> None:
        """Another number."""
        assert isinstance(spec, SemaphoreSpec)
        self.permits = spec.permits


@dataclass
class DumbMember:
    """What a pool remembers of a member, for as long as it is declared or lent."""

    lent: int = 0
    failures: int = 0
    generation: int = 1
    # The end of its quarantine; infinity is until an operator ends it.
    out_until: float = 0
    by_operator: bool = False
    # The generation that is not to be lent once more.
    stale: int = 0


class DumbPool:
    """Slots, and a quarantine for each member. Which member is lent next is not its business: it is told."""

    lends = True

    def __init__(self, spec: PoolSpec) -> None:
        self.spec = spec
        self.members = {member.id: DumbMember() for member in spec.members}
        self.last_take = 0

    @property
    def in_use(self) -> int:
        """Slots lent, of declared members and of those that are gone from the declaration."""
        return sum(member.lent for member in self.members.values())

    def capacity(self) -> int | None:
        """Slots of the declared members."""
        return sum(member.max_leases for member in self.spec.members)

    def slots(self, at: Nanos, *, all_back: bool = False) -> int:
        """Free slots of the members that are not in quarantine at that instant."""
        return sum(
            max(0, declared.max_leases - (0 if all_back else self.members[declared.id].lent))
            for declared in self.spec.members
            if self.members[declared.id].out_until <= at
            # Like what is lent it may come back at any instant.
            or (all_back and self.members[declared.id].out_until == math.inf)
        )

    def available(self, at: Nanos) -> int | None:
        """Free slots, and no more than the shrunk pool allows. After a take, there is no way back before it."""
        return max(0, min(self.slots(max(at, self.last_take)), (self.capacity() or 0) - self.in_use))

    def instants(self, since: Nanos) -> list[Nanos]:
        """That instant and every end of a quarantine after it."""
        ends = {int(member.out_until) for member in self.members.values() if member.out_until < math.inf}
        return [since, *sorted(end for end in ends if end > since)]

    def ready_at(self, permits: int, since: Nanos) -> Nanos | None:
        """The first end of a quarantine after which there are enough slots."""
        return next((at for at in self.instants(since) if (self.available(at) or 0) >= permits), None)

    def earliest(self, permits: int, ahead: int, now: Nanos) -> Nanos:
        """As if everything lent came back at once: only quarantines hold."""
        return next(at for at in self.instants(now) if self.slots(at, all_back=True) >= permits)

    def take(self, permits: int, members: tuple[Member, ...], now: Nanos) -> None:
        """Lend these members; each must have a free slot and be no longer in quarantine."""
        declared = {member.id: member for member in self.spec.members}
        self.last_take = now
        assert len(members) == permits, f"{permits} permits of a pool, but members {members}"
        for member in members:
            own = self.members[member.id]
            assert own.out_until <= now, f"I2: {member.id} was lent out of quarantine"
            assert own.lent < declared[member.id].max_leases, f"I2: {member.id} is lent too often"
            own.generation += own.stale == own.generation
            assert (member.attributes, member.generation) == (declared[member.id].attributes, own.generation)
            own.lent += 1

    def give(self, permits: int, members: tuple[Member, ...], outcome: Outcome, now: Nanos) -> None:
        """Take back; one that is broken stays out for twice as long each time, until it was ok once.

        What is said of an earlier generation says nothing about this one.
        """
        for member in members:
            own = self.members[member.id]
            own.lent -= 1
            if outcome is Outcome.BROKEN and member.generation == own.generation:
                until = now + min(self.spec.quarantine * 2**own.failures, self.spec.max_quarantine)
                if until > own.out_until:
                    own.out_until, own.by_operator = until, False
                own.failures += 1
                own.generation += 1
            elif outcome is Outcome.OK and member.generation == own.generation:
                own.failures = 0
        self.forget()

    def steer(self, order: Recycle | Quarantine | Readmit, now: Nanos) -> tuple[bool, list[str]]:
        """An operator says something of members; whether that changes anything, and of which."""
        named = [member.id for member in self.spec.members if order.member in {None, member.id}]
        news = [id_ for id_ in named if self.steer_one(order, self.members[id_], now)]
        return bool(news), news if order.member is None else named

    def steer_one(self, order: Recycle | Quarantine | Readmit, own: DumbMember, now: Nanos) -> bool:
        """Whether it changes anything."""
        out = own.out_until > now
        match order:
            case Recycle():
                before = (own.generation, own.stale)
                if own.lent:
                    own.stale = own.generation
                else:
                    own.generation += 1
                return before != (own.generation, own.stale)
            case Quarantine():
                until = math.inf if order.until is None else order.until
                changed = not out or (own.out_until, own.by_operator) != (until, True)
                own.out_until, own.by_operator = until, True
                return changed
            case Readmit():
                changed = out or own.failures > 0
                own.out_until, own.failures = 0, 0
                return changed

    def forget(self) -> None:
        """Members that are neither declared nor lent are as if they had never been."""
        declared = {member.id for member in self.spec.members}
        self.members = {id_: own for id_, own in self.members.items() if own.lent or id_ in declared}

    def refund(self, permits: int, members: tuple[Member, ...], taken: Nanos, now: Nanos) -> None:
        """Take back what nobody saw."""
        self.give(permits, members, Outcome.UNKNOWN, now)

    def reconfigure(self, spec: LimitSpec, now: Nanos) -> None:
        """Other members; those that stay, or are still lent, keep their state."""
        assert isinstance(spec, PoolSpec)
        self.spec = spec
        self.members = {member.id: DumbMember() for member in spec.members} | self.members
        self.forget()


class Leak:
    """What drains away steadily, in exact fractions of a permit."""

    def __init__(self, rate: Fraction, spent: Fraction, now: Nanos) -> None:
        self.rate = rate
        self.spent = spent
        self.at = now

    def left(self, at: Nanos) -> Fraction:
        """What is not back yet then, if nobody takes anything."""
        return max(Fraction(0), self.spent - self.rate * (at - self.at))

    def change(self, permits: int | Fraction, now: Nanos) -> None:
        """Take permits out, or put them back (negative)."""
        self.spent = max(Fraction(0), self.left(now) + permits)
        self.at = now


class Bucket:
    """One window: a leak that holds up whoever asks, and beside it one of all that was spent, as if bottomless."""

    def __init__(self, window: Window, owed: Fraction, spent: Fraction, now: Nanos) -> None:
        self.window = window
        self.leak = Leak(self.rate, spent, now)
        self.owed = Leak(self.rate, owed, now)

    @property
    def rate(self) -> Fraction:
        """Permits a nanosecond."""
        return Fraction(self.window.permits, self.window.period)

    @property
    def burst(self) -> int:
        """Permits at once; none of a window that is closed."""
        return self.window.burst if self.window.permits else 0

    def change(self, permits: int | Fraction, now: Nanos) -> None:
        """Take permits out, or put them back (negative)."""
        self.leak.change(permits, now)
        self.owed.change(permits, now)

    def holds(self, permits: int, now: Nanos) -> Nanos:
        """The first instant from ``now`` on at which so many more could be spent, were it bottomless."""
        too_many = self.leak.left(now) + permits - self.burst
        return now if too_many <= 0 else now + math.ceil(too_many / self.rate)


class DumbRateLimit:
    """A bucket for each window; all of them must have room."""

    lends = False
    in_use = 0

    def __init__(self, spec: RateLimitSpec, now: Nanos) -> None:
        self.buckets = [Bucket(window, Fraction(0), Fraction(0), now) for window in spec.windows]
        # Windows that are gone, by their permits and period, which drain on.
        self.gone: dict[tuple[int, Nanos], Leak] = {}
        self.last_take = now - 1
        self.since = now

    def capacity(self) -> int | None:
        """The smallest burst."""
        return min((bucket.burst for bucket in self.buckets), default=None)

    def available(self, at: Nanos) -> int | None:
        """Whole permits in the tightest window."""
        at = max(at, self.last_take)
        left = [math.floor(bucket.burst - bucket.leak.left(at)) for bucket in self.buckets]
        return max(0, min(left)) if left else None

    def ready_at(self, permits: int, since: Nanos) -> Nanos | None:
        """Time always does it. Nothing can be undone that was spent after that instant."""
        at = max([self.last_take, since, *(b.holds(permits, max(since, self.last_take)) for b in self.buckets)])
        return since if at == self.last_take else at

    def earliest(self, permits: int, ahead: int, now: Nanos) -> Nanos:
        """Those ahead are served first, as soon as they can be.

        From a burst of 1 they are served one by one, and the rest of the nanosecond that each waits is lost.
        """
        instants = [now]
        for bucket in self.buckets:
            if bucket.burst > 1:
                instants.append(bucket.holds(permits + ahead, now))
                continue
            served = Bucket(bucket.window, Fraction(0), bucket.leak.left(now), now)
            at = served.holds(1, now)
            for _ in range(ahead):
                served.change(1, at)
                at = served.holds(1, at)
            instants.append(at)
        return max(instants)

    def take(self, permits: int, members: tuple[Member, ...], now: Nanos) -> None:
        """Spend."""
        self.last_take = now
        for bucket in self.buckets:
            bucket.change(permits, now)

    def give(self, permits: int, members: tuple[Member, ...], outcome: Outcome, now: Nanos) -> None:
        """What is spent does not come back."""

    def refund(self, permits: int, members: tuple[Member, ...], taken: Nanos, now: Nanos) -> None:
        """What nobody saw was not spent, but for what came back with time and may have been taken again."""
        if taken < self.since:
            return
        for bucket in self.buckets:
            bucket.change(-max(Fraction(0), permits - bucket.rate * (self.last_take - taken)), now)

    def reconfigure(self, spec: LimitSpec, now: Nanos) -> None:
        """Other windows. One that was there goes on; another owes the most that was spent.

        That is of the windows of its own period, or if there were none, of all, and of those of its period that are
        gone. Of what is owed a burst holds up whoever asks; more than that only where it already did.
        """
        assert isinstance(spec, RateLimitSpec)
        # What was granted later cannot be undone.
        now = max(now, self.last_take)
        before, self.buckets = self.buckets, []
        for window in spec.windows:
            same = [old for old in before if (old.window.permits, old.window.period) == (window.permits, window.period)]
            period = [old for old in before if old.window.period == window.period]
            owed = [old.owed.left(now) for old in same or period or before]
            if not same:
                owed += [leak.left(now) for (_, length), leak in self.gone.items() if length == window.period]
            # A new window counts in fractions of its own, and never in favour of whoever asks.
            owes = Fraction(math.ceil(max(owed, default=Fraction(0)) * window.period), window.period)
            shut = max([old.leak.left(now) for old in same], default=Fraction(0))
            room = Fraction(window.burst if window.permits else 0)
            self.buckets.append(Bucket(window, owes, max(shut, min(owes, room)), now))
        declared = {(window.permits, window.period) for window in spec.windows}
        self.gone |= {(old.window.permits, old.window.period): old.owed for old in before}
        self.gone = {key: leak for key, leak in self.gone.items() if key not in declared and leak.left(now)}
        # What was taken in this very instant cannot be told from what is taken in it later.
        self.since = now + 1 if self.last_take == now else now


DumbLimit = DumbSemaphore | DumbPool | DumbRateLimit


def dumb(spec: LimitSpec, now: Nanos) -> DumbLimit:
    """The dumb counterpart of a declared limit, idle."""
    match spec:
        case SemaphoreSpec():
            return DumbSemaphore(spec)
        case PoolSpec():
            return DumbPool(spec)
        case RateLimitSpec():
            return DumbRateLimit(spec, now)
        case _:
            raise AssertionError(spec)
