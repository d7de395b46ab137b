"""Member: what one member of a pool has been through.

It knows its slots, how its lendings ended, and when what was opened on it must be opened anew. It must never
know the other members or whose turn it is. One invariant: its generation only rises, and has risen before
anybody is lent what was opened too long ago or is known to be broken.
"""

from typing import Final

from governor.core.agenda import NEVER
from governor.core.memory import Memory, number, table, text
from governor.core.snapshot import MemberState, MemberView
from governor.core.types import UNSAID, Member, Nanos, Said

# By then any quarantine has reached its cap; counting on would only make ever longer numbers.
_MAX_FAILURES: Final = 64


class PoolMember:
    """The state of one member.

    ``record`` is the member as it is lent, with its present generation. ``index``: where it stands among the
    declared ones. ``max_leases``: its slots, 0 when it is declared no more. ``lent``: slots lent now.
    ``lendings``: how often one ever was. ``returned`` orders members by when something last came back to
    them, 0 is never. ``until``: the end of its quarantine, None outside of one; `NEVER` is until it is readmitted.
    ``by_operator``: who quarantined it, and ``said`` what he says besides. ``failures``: how often in a row it was seen
    to be broken. ``place`` is the business of ``Turns``.
    """

    __slots__ = (
        "_idle_since",
        "_opened",
        "_stale",
        "by_operator",
        "failures",
        "index",
        "lendings",
        "lent",
        "max_leases",
        "place",
        "record",
        "returned",
        "said",
        "until",
    )

    def __init__(self, member_id: str, now: Nanos) -> None:
        # Kept rather than made for each lending: making one costs more than all the rest of it.
        self.record = Member(member_id)
        self.index = 0
        self.max_leases = 0
        self.lent = 0
        self.lendings = 0
        self.returned = 0
        self.until: Nanos | None = None
        self.by_operator = False
        self.said = UNSAID
        self.failures = 0
        self.place: int | None = None
        self._opened = now
        self._idle_since = now
        # The generation that is to be opened anew when it is next lent, if it still is that one.
        self._stale = 0

    def declare(self, attributes: tuple[tuple[str, str], ...], max_leases: int, index: int) -> None:
        """What the operator says of it from now on; who holds it already keeps what it was told.

        With other attributes, such as another endpoint, what was opened on it must be opened anew.
        """
        assert max_leases >= 1, "a member that nobody could hold"
        moved = self.lendings > 0 and attributes != self.record.attributes
        self.record = Member(self.record.id, attributes, self.record.generation + moved)
        self.max_leases = max_leases
        self.index = index

    def remove(self) -> None:
        """It is declared no more, but still lent."""
        self.max_leases = 0

    @property
    def free(self) -> int:
        """Slots that nobody holds."""
        return self.max_leases - self.lent if self.lent < self.max_leases else 0

    def lend(self, max_lifetime: Nanos | None, idle_timeout: Nanos | None, now: Nanos) -> Member:
        """Lend one slot; first recycle what has reached its lifetime, has lain idle for the timeout, or is to be."""
        if (
            (self._stale and self._stale == self.record.generation)
            or (max_lifetime is not None and now - self._opened >= max_lifetime)
            or (idle_timeout is not None and not self.lent and now - self._idle_since >= idle_timeout)
        ):
            self._recycle(now)
        self.lent += 1
        self.lendings += 1
        return self.record

    def unlend(self) -> None:
        """Undo a lending that nobody used: it is as idle as it was, and last came back when it did."""
        self.lent -= 1
        self.lendings -= 1

    def come_back(self, returned: int, now: Nanos) -> None:
        """One slot has come back, as the ``returned``-th of the whole pool."""
        self.lent -= 1
        self.returned = returned
        self._idle_since = now

    def heal(self) -> bool:
        """It was seen to work: the next failure counts as the first. Whether it had failed before."""
        failed = self.failures > 0
        self.failures = 0
        return failed

    def fail(self, quarantine: Nanos, max_quarantine: Nanos, now: Nanos) -> None:
        """It was seen to be broken: what is open on it is void, and it is kept out for a while; not for less long."""
        self.failures = min(self.failures + 1, _MAX_FAILURES)
        self._recycle(now)
        until = now + min(max_quarantine, quarantine << (self.failures - 1))
        if self.until is None or self.until < until:
            self._keep(until)

    def keep_out(self, until: Nanos, said: Said) -> bool:
        """An operator says until when, and it counts for more than what was; whether that changes anything."""
        same = self.by_operator and self.until == until
        if same and said.reason in ("", self.said.reason):
            return False
        self._keep(until, by_operator=True, said=said)
        return True

    def readmit(self) -> None:
        """Its quarantine is over."""
        self._keep(None)

    def recycle(self, now: Nanos) -> bool:
        """What is open on it must be opened anew: now, or if it is lent, when it is next lent. Whether that is news."""
        if not self.lent:
            self._recycle(now)
            return True
        former, self._stale = self._stale, self.record.generation
        return former != self._stale

    def view(self) -> MemberView:
        """As an operator sees it."""
        record = self.record
        if not self.max_leases:
            state = MemberState.REMOVED
        elif self.until is not None:
            state = MemberState.QUARANTINED
        else:
            state = MemberState.FREE if self.free else MemberState.LENT
        return MemberView(
            id=record.id,
            state=state,
            attributes=record.attributes,
            generation=record.generation,
            max_leases=self.max_leases,
            lent=self.lent,
            lendings=self.lendings,
            failures=self.failures,
            until=None if self.until == NEVER else self.until,
            by_operator=self.by_operator,
            said=self.said,
        )

    def hold(self, record: Member) -> None:
        """One slot has been lent since before a restart, as this."""
        if record.generation > self.record.generation:
            self.record = Member(self.record.id, self.record.attributes, record.generation)
        self.lent += 1
        self.lendings += 1

    def remember(self, now: Nanos) -> Memory:
        """All that sets it apart from a new one, but for what is lent; times are lengths from now."""
        memory: dict[str, Memory] = {"opened": now - self._opened, "idle": now - self._idle_since}
        if self.record.generation > 1:
            memory["generation"] = self.record.generation
        if self.lendings:
            memory["lendings"] = self.lendings
        if self.returned:
            memory["returned"] = self.returned
        if self.failures:
            memory["failures"] = self.failures
        if self._stale == self.record.generation:
            memory["stale"] = self._stale
        if self.until is not None:
            length = None if self.until == NEVER else self.until - now
            memory["kept" if self.by_operator else "quarantine"] = length
            if self.said != UNSAID:
                memory["said"] = self.said.plain()
        if not self.max_leases:
            # Nobody declares it any more, so nobody else knows.
            memory["attributes"] = dict(self.record.attributes)
        return memory

    def recall(self, memory: Memory, now: Nanos) -> None:
        """Be as it was when this was remembered, which counts as ``now``; what is lent stays lent."""
        known = table(memory)
        self._opened = now - number(known.get("opened"))
        self._idle_since = now - number(known.get("idle"))
        self.lendings = max(self.lent, number(known.get("lendings", 0)))
        self.returned = number(known.get("returned", 0), at_least=0)
        self.failures = number(known.get("failures", 0), at_least=0)
        attributes = self.record.attributes
        if "attributes" in known and not self.max_leases:
            attributes = tuple([(name, text(value)) for name, value in table(known["attributes"]).items()])
        # A lease that is written down later than this may have a later generation.
        generation = max(self.record.generation, number(known.get("generation", 1), at_least=1))
        self.record = Member(self.record.id, attributes, generation)
        self._stale = number(known.get("stale", 0), at_least=0)
        if "quarantine" in known:
            self.until = now + number(known["quarantine"])
        if "kept" in known:
            kept, said = known["kept"], table(known.get("said", {}))
            by = Said(text(said.get("actor", "")), text(said.get("reason", "")), text(said.get("client", "")))
            self._keep(NEVER if kept is None else now + number(kept), by_operator=True, said=by)

    def _keep(self, until: Nanos | None, *, by_operator: bool = False, said: Said = UNSAID) -> None:
        self.until, self.by_operator, self.said = until, by_operator, said

    def _recycle(self, now: Nanos) -> None:
        record = self.record
        self.record = Member(record.id, record.attributes, record.generation + 1)
        self._opened = now
        # Else an undone lending would leave it to be recycled once more for the same idleness.
        self._idle_since = now
