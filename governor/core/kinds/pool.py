"""Pool: lends members, each with a stable id and the attributes an operator gave it.

It knows which member is free, lent, quarantined or due for recycling. It must never know what a member is.
One invariant: a member takes turns if, and only if, it is declared, has a free slot and is not quarantined.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush
from typing import ClassVar, Final

from governor.core.agenda import NEVER
from governor.core.limit import LimitSpec
from governor.core.member import PoolMember
from governor.core.memory import Memory, table
from governor.core.snapshot import MemberCounts, MemberView, WindowView
from governor.core.turns import Turns
from governor.core.types import Member, Nanos, Outcome, Said


class Order(StrEnum):
    """Which free member is lent next: the last returned, the longest returned, or the one lent least.

    Never returned counts as longest ago. Lent least is the fewest slots lent now, then the fewest ever lent.
    Among equals the declared order decides.
    """

    LIFO = "lifo"
    FIFO = "fifo"
    LEAST_USED = "least_used"


@dataclass(slots=True, frozen=True)
class MemberSpec:
    """One member; ``max_leases`` is how many may share it at once (at least 1)."""

    id: str
    attributes: tuple[tuple[str, str], ...] = ()
    max_leases: int = 1


@dataclass(slots=True, frozen=True)
class PoolSpec:
    """A pool of members in their declared order, their ids unique; no members closes it.

    ``quarantine``: how long a member that came back broken is kept out, doubled each further time it comes
    back broken without an ``ok`` between, up to ``max_quarantine``. ``max_lifetime``, ``idle_timeout``: a
    member this old, or unlent for this long, is recycled when it is next lent: its generation rises. None is
    never.
    """

    kind: ClassVar[str] = "pool"
    # It has the members that it has.
    overridable: ClassVar[bool] = False
    members: tuple[MemberSpec, ...]
    order: Order = Order.LIFO
    quarantine: Nanos = 1_000_000_000
    max_quarantine: Nanos = 60_000_000_000
    max_lifetime: Nanos | None = None
    idle_timeout: Nanos | None = None

    def build(self, now: Nanos) -> "Pool":
        """The pool with every member free and as good as new."""
        return Pool(self, now)


# Each slot of an ask is lent by itself, and a thousand of them take about a millisecond.
MAX_ASK: Final = 1000

# Python 3.11 takes as long to look up a member of an enum as to call a function.
_OK: Final = Outcome.OK
_BROKEN: Final = Outcome.BROKEN

# Who has the least key is lent next. Undoing a lending restores the key: it is the same member's turn again.
_KEYS: Final[dict[Order, Callable[[PoolMember], int]]] = {
    Order.LIFO: lambda member: -member.returned,
    Order.FIFO: lambda member: member.returned,
    Order.LEAST_USED: lambda member: (member.lent << 64) + member.lendings,
}


class Pool:
    """The state of one pool."""

    __slots__ = (
        "_capacity",
        "_declared",
        "_free",
        "_members",
        "_quarantined",
        "_returns",
        "_spec",
        "_turns",
        "in_use",
        "marks",
    )
    lends: ClassVar[bool] = True

    def __init__(self, spec: PoolSpec, now: Nanos) -> None:
        self.in_use = 0
        # How often a member was found broken, or well again, or an operator said something of it.
        self.marks = 0
        # All members by id: those declared, and those removed but still lent.
        self._members: dict[str, PoolMember] = {}
        # How often anything came back: the clock of the orders.
        self._returns = 0
        self.reconfigure(spec, now)

    def reconfigure(self, spec: LimitSpec, now: Nanos) -> None:
        """Lend these members from now on; those it knows, be it as removed but lent, keep their state."""
        assert isinstance(spec, PoolSpec)
        former = self._members
        declared: list[PoolMember] = []
        for index, each in enumerate(spec.members):
            member = former.pop(each.id) if each.id in former else PoolMember(each.id, now)
            member.declare(each.attributes, each.max_leases, index)
            declared.append(member)
        removed = [member for member in former.values() if member.lent]
        for member in removed:
            member.remove()
        self._spec = spec
        self._declared = declared
        self._members = {member.record.id: member for member in (*declared, *removed)}
        assert len(self._members) == len(declared) + len(removed), "two members of the same id"
        self._capacity = sum(member.max_leases for member in declared)
        self._arrange()

    def _arrange(self) -> None:
        """Who takes turns, and who is quarantined, as the members themselves have it."""
        # Slots of the members that take turns.
        self._free = 0
        self._turns = Turns(self._declared, _KEYS[self._spec.order])
        # A heap of (end, index) of the quarantines whose end was not seen yet.
        self._quarantined: list[tuple[Nanos, int]] = []
        for member in self._declared:
            if member.until is not None:
                heappush(self._quarantined, (member.until, member.index))
            elif member.free:
                self._free += member.free
                self._turns.enter(member)

    @property
    def capacity(self) -> int | None:
        """Slots of all declared members."""
        return self._capacity

    @property
    def largest(self) -> int | None:
        """All slots, as far as one step can lend them without holding up everybody else."""
        return min(self._capacity, MAX_ASK)

    def available(self, now: Nanos) -> int | None:
        """Slots free on members that are not quarantined, less what is lent on members that are removed."""
        self._readmit(now)
        return max(0, min(self._free, self._capacity - self.in_use))

    def can_take(self, permits: int, now: Nanos) -> bool:
        """Whether so many slots are free, and would not be lent beyond a capacity that has shrunk."""
        if self._quarantined:
            self._readmit(now)
        return permits <= self._free and self.in_use + permits <= self._capacity

    def not_before(self, permits: int, ahead: int, now: Nanos) -> Nanos:
        """When enough quarantines are over; whatever else is lent may come back at any instant."""
        self._readmit(now)
        # What is kept out until it is readmitted may come back at any instant, too.
        slots = [(now if until == NEVER else until, self._declared[i].max_leases) for until, i in self._quarantined]
        return _enough(permits - self._capacity + sum(count for _, count in slots), slots, now)

    def wake_at(self, permits: int, now: Nanos) -> Nanos | None:
        """When the quarantines of enough free slots are over."""
        self._readmit(now)
        if self.in_use + permits > self._capacity:
            return None
        slots = [(until, self._declared[index].free) for until, index in self._quarantined]
        at = _enough(permits - self._free, slots, now)
        return None if at == NEVER else at

    def members(self, now: Nanos) -> MemberCounts | None:
        """How many declared members have a free slot, are fully lent, or are quarantined, lent or not."""
        self._readmit(now)
        free = sum(member.place is not None for member in self._declared)
        quarantined = len(self._quarantined)
        return MemberCounts(free, len(self._declared) - free - quarantined, quarantined)

    def matters_until(self, now: Nanos) -> Nanos:
        """What an operator takes out of the config he is done with: its members begin anew."""
        return now

    def take(self, permits: int, now: Nanos) -> tuple[Member, ...]:
        """Lend whoever's turn it is, for each permit anew: one member may be lent several times."""
        if self._quarantined:
            self._readmit(now)
        self.in_use += permits
        self._free -= permits
        # For one permit, as usual, a comprehension would cost more than the lending.
        if permits == 1:
            return (self._lend(now),)
        return tuple([self._lend(now) for _ in range(permits)])

    def put_back(self, permits: int, members: tuple[Member, ...], taken: Nanos, now: Nanos) -> None:
        """Undo a take: each member has its turn again."""
        self.in_use -= permits
        for record in members:
            member = self._members.get(record.id)
            if member is not None:
                member.unlend()
                self._welcome(member)

    def give_back(self, permits: int, members: tuple[Member, ...], outcome: Outcome, now: Nanos) -> None:
        """Take members back and heed how they were.

        What is said of an earlier generation says nothing about what was opened since, and is not heeded.
        """
        self.in_use -= permits
        for record in members:
            member = self._members.get(record.id)
            if member is None:
                continue
            if record.generation == member.record.generation:
                if outcome is _OK:
                    self.marks += member.heal()
                elif outcome is _BROKEN:
                    self._quarantine(member, now)
            self._returns += 1
            member.come_back(self._returns, now)
            self._welcome(member)

    def remember(self, now: Nanos) -> Memory:
        """What each member has been through."""
        self._readmit(now)
        return {member.record.id: member.remember(now) for member in self._members.values()}

    def restore(self, permits: int, members: tuple[Member, ...], now: Nanos) -> None:
        """These are lent, even if some are not declared, or not that often."""
        self.in_use += permits
        for record in members:
            member = self._members.get(record.id)
            if member is None:
                member = self._members[record.id] = PoolMember(record.id, now)
                member.record = record
            member.hold(record)
            if member.place is not None:
                self._free -= 1
                if member.free:
                    self._turns.enter(member)
                else:
                    self._turns.leave(member)

    def recall(self, memory: Memory, now: Nanos) -> None:
        """Each member has been through that; of one that is neither declared nor lent nobody needs to know."""
        for member_id, known in table(memory).items():
            if (member := self._members.get(member_id)) is not None:
                member.recall(known, now)
        self._returns = max([member.returned for member in self._members.values()], default=0)
        self._arrange()

    # --- what operators see and order -----------------------------------------------------------------------

    @property
    def roster(self) -> "Pool":
        """Its members."""
        return self

    def windows(self, now: Nanos) -> tuple[WindowView, ...]:
        """It obeys no rate."""
        return ()

    def views(self, now: Nanos) -> tuple[MemberView, ...]:
        """Each member, in the declared order; those that are removed and still lent come last."""
        self._readmit(now)
        return tuple([member.view() for member in self._members.values()])

    def view(self, member_id: str, now: Nanos) -> MemberView | None:
        """One member; None when there is none of this name."""
        self._readmit(now)
        member = self._members.get(member_id)
        return None if member is None else member.view()

    def declares(self, member_id: str) -> bool:
        """Whether there is such a member, and not only since it is still lent."""
        member = self._members.get(member_id)
        return member is not None and member.max_leases > 0

    def recycle(self, member_id: str | None, now: Nanos) -> tuple[str, ...]:
        """Have this member, or all, opened anew. The ids of those for which that is news."""
        found = [member for member in self._declared if member_id is None or member.record.id == member_id]
        news = tuple([member.record.id for member in found if member.recycle(now)])
        self.marks += len(news)
        return news

    def keep_out(self, member_id: str, until: Nanos, said: Said, now: Nanos) -> bool:
        """Quarantine a declared member until then, `NEVER` is until it is readmitted; whether that changes anything."""
        self._readmit(now)
        changed = self._members[member_id].keep_out(until, said)
        self.marks += changed
        self._arrange()
        return changed

    def readmit(self, member_id: str, now: Nanos) -> bool:
        """End the quarantine of a declared member, and its row of failures; whether there was any."""
        self._readmit(now)
        member = self._members[member_id]
        was_out = member.until is not None
        member.readmit()
        changed = member.heal() or was_out
        self.marks += changed
        self._arrange()
        return changed

    # --- moves ----------------------------------------------------------------------------------------------

    def _lend(self, now: Nanos) -> Member:
        member = self._turns.next()
        record = member.lend(self._spec.max_lifetime, self._spec.idle_timeout, now)
        if member.lent < member.max_leases:
            self._turns.enter(member)
        else:
            self._turns.leave(member)
        return record

    def _welcome(self, member: PoolMember) -> None:
        """One of its slots has come back."""
        if member.lent < member.max_leases:
            if member.until is None:
                self._free += 1
                self._turns.enter(member)
        elif not member.lent:
            # It has no slots of its own, so it is removed, and nobody holds it any more.
            del self._members[member.record.id]

    def _quarantine(self, member: PoolMember, now: Nanos) -> None:
        if member.place is not None:
            self._free -= member.free
            self._turns.leave(member)
        self.marks += 1
        was_out = member.until is not None
        member.fail(self._spec.quarantine, self._spec.max_quarantine, now)
        if was_out:
            # An operator keeps it out, perhaps for less long.
            self._arrange()
        elif member.max_leases and member.until is not None:
            heappush(self._quarantined, (member.until, member.index))

    def _readmit(self, now: Nanos) -> None:
        """Let members whose quarantine is over take turns; whether at once or when asked shows nowhere."""
        while self._quarantined and self._quarantined[0][0] <= now:
            member = self._declared[heappop(self._quarantined)[1]]
            member.readmit()
            if member.free:
                self._free += member.free
                self._turns.enter(member)


def _enough(missing: int, slots: list[tuple[Nanos, int]], now: Nanos) -> Nanos:
    """When ``missing`` of the slots that come at these instants have come; there are enough."""
    at = now
    for until, count in sorted(slots):
        if missing <= 0:
            break
        missing -= count
        at = until
    assert missing <= 0, "asked when more will be free than there ever are"
    return at
