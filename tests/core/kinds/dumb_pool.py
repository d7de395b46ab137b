"""A pool as one would write it without a thought of speed: it looks at every member each time."""

from dataclasses import dataclass
from typing import ClassVar

from governor.core.kinds.pool import MemberSpec, Order, PoolSpec
from governor.core.limit import LimitSpec
from governor.core.memory import Memory
from governor.core.snapshot import MemberCounts, WindowView
from governor.core.types import Member, Nanos, Outcome


@dataclass
class Entry:
    """One member and all that happened to it."""

    spec: MemberSpec
    born: Nanos
    idle_since: Nanos
    declared: bool = True
    generation: int = 1
    lent: int = 0
    lendings: int = 0
    failures: int = 0
    returned: int = 0
    shut_until: Nanos | None = None

    def free(self, now: Nanos) -> int:
        """Slots that can be lent now."""
        shut = self.shut_until is not None and now < self.shut_until
        return max(0, self.spec.max_leases - self.lent) if self.declared and not shut else 0


class DumbPool:
    """Behaves as a pool should."""

    lends: ClassVar[bool] = True
    marks: ClassVar[int] = 0
    roster: ClassVar[None] = None

    def __init__(self, spec: PoolSpec, now: Nanos) -> None:
        self.spec = spec
        self.in_use = 0
        self.returns = 0
        self.entries = {each.id: Entry(each, now, now) for each in spec.members}

    @property
    def capacity(self) -> int:
        """All slots."""
        return sum(each.max_leases for each in self.spec.members)

    @property
    def largest(self) -> int:
        """All slots: there are few."""
        return self.capacity

    def matters_until(self, now: Nanos) -> Nanos:
        """No longer than it is declared."""
        return now

    def windows(self, now: Nanos) -> tuple[WindowView, ...]:
        """It obeys no rate."""
        return ()

    def available(self, now: Nanos) -> int:
        """Free slots, as far as what is lent in all leaves room for them."""
        free = sum(entry.free(now) for entry in self.entries.values())
        return max(0, min(free, self.capacity - self.in_use))

    def can_take(self, permits: int, now: Nanos) -> bool:
        """Whether as many are available."""
        return permits <= self.available(now)

    def ends(self, now: Nanos) -> list[Nanos]:
        """Instants at which more than now may be available, by time alone."""
        ends = [entry.shut_until for entry in self.entries.values() if entry.shut_until is not None]
        return [now, *sorted(end for end in ends if end > now)]

    def not_before(self, permits: int, ahead: int, now: Nanos) -> Nanos:
        """Try each of those instants as if nothing were lent."""
        for at in self.ends(now):
            usable = [e for e in self.entries.values() if e.declared and (e.shut_until is None or e.shut_until <= at)]
            if permits <= sum(entry.spec.max_leases for entry in usable):
                return at
        raise AssertionError("more than there ever is")

    def wake_at(self, permits: int, now: Nanos) -> Nanos | None:
        """Try each of those instants."""
        return next((at for at in self.ends(now) if self.can_take(permits, at)), None)

    def members(self, now: Nanos) -> MemberCounts:
        """Count them."""
        declared = [entry for entry in self.entries.values() if entry.declared]
        quarantined = sum(entry.shut_until is not None and entry.shut_until > now for entry in declared)
        free = sum(entry.free(now) > 0 for entry in declared)
        return MemberCounts(free, len(declared) - free - quarantined, quarantined)

    def rank(self, entry: Entry) -> tuple[int, ...]:
        """The least comes first."""
        place = [each.id for each in self.spec.members].index(entry.spec.id)
        match self.spec.order:
            case Order.LIFO:
                return (-entry.returned, place)
            case Order.FIFO:
                return (entry.returned, place)
            case Order.LEAST_USED:
                return (entry.lent, entry.lendings, place)

    def lend(self, now: Nanos) -> Member:
        """One slot of whoever comes first."""
        entry = min((entry for entry in self.entries.values() if entry.free(now)), key=self.rank)
        lifetime, idle = self.spec.max_lifetime, self.spec.idle_timeout
        old = lifetime is not None and entry.born + lifetime <= now
        if old or (idle is not None and entry.lent == 0 and entry.idle_since + idle <= now):
            entry.generation += 1
            entry.born = entry.idle_since = now
        entry.lent += 1
        entry.lendings += 1
        return Member(entry.spec.id, entry.spec.attributes, entry.generation)

    def take(self, permits: int, now: Nanos) -> tuple[Member, ...]:
        """One slot after the other."""
        self.in_use += permits
        return tuple(self.lend(now) for _ in range(permits))

    def put_back(self, permits: int, members: tuple[Member, ...], taken: Nanos, now: Nanos) -> None:
        """Count it as never lent."""
        self.in_use -= permits
        for member in members:
            self.entries[member.id].lent -= 1
            self.entries[member.id].lendings -= 1
        self.forget()

    def give_back(self, permits: int, members: tuple[Member, ...], outcome: Outcome, now: Nanos) -> None:
        """Note how it was."""
        self.in_use -= permits
        for member in members:
            entry = self.entries[member.id]
            self.returns += 1
            entry.lent -= 1
            entry.returned = self.returns
            entry.idle_since = now
            if member.generation != entry.generation:
                continue
            if outcome is Outcome.OK:
                entry.failures = 0
            if outcome is Outcome.BROKEN:
                entry.failures += 1
                entry.generation += 1
                entry.born = now
                length = self.spec.quarantine * 2 ** (entry.failures - 1)
                entry.shut_until = now + min(length, self.spec.max_quarantine)
        self.forget()

    def forget(self) -> None:
        """Nobody needs to know of what is neither declared nor lent."""
        self.entries = {name: entry for name, entry in self.entries.items() if entry.declared or entry.lent}

    def reconfigure(self, spec: LimitSpec, now: Nanos) -> None:
        """Other members, or the same with other numbers."""
        assert isinstance(spec, PoolSpec)
        self.spec = spec
        for entry in self.entries.values():
            entry.declared = False
        for each in spec.members:
            entry = self.entries.setdefault(each.id, Entry(each, now, now))
            if entry.lendings and entry.spec.attributes != each.attributes:
                entry.generation += 1
            entry.spec = each
            entry.declared = True
        self.forget()

    def remember(self, now: Nanos) -> Memory:
        """It lives for ever."""
        raise NotImplementedError

    def restore(self, permits: int, members: tuple[Member, ...], now: Nanos) -> None:
        """It lives for ever."""
        raise NotImplementedError

    def recall(self, memory: Memory, now: Nanos) -> None:
        """It lives for ever."""
        raise NotImplementedError
