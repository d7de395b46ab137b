"""Leases: what is lent until when, and the last that ended.

It knows ids, deadlines and ends. It must never know what a lease's permits are worth or who waits for them.
Two invariants: ids rise strictly, and a lease ends exactly once.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from governor.core.agenda import Agenda
from governor.core.ask import Ask
from governor.core.types import Ended, EndReason, Grant, LeaseId, Nanos

# How many ended leases are remembered, so that a late release or renewal is told why and when. The oldest is
# forgotten first; its id is then unknown.
REMEMBERED: Final = 10_000


@dataclass(slots=True, eq=False)
class Lease:
    """One grant: what was lent or spent of each thing that its ask ``wants``, in the same order.

    ``deadline`` is None when nothing was lent, and ``ends_as`` says what it ends as if it lives until then. ``end``
    and ``ended_at`` are set when it ends. ``renewals``: how often it was renewed, since a restart.
    """

    id: LeaseId
    ask: Ask
    grants: tuple[Grant, ...]
    granted_at: Nanos
    deadline: Nanos | None
    ends_as: EndReason = EndReason.EXPIRED
    end: EndReason | None = None
    ended_at: Nanos = 0
    renewals: int = 0

    @property
    def length(self) -> Nanos:
        """For how long a renewal extends it that does not say: as it was granted, if that is still allowed."""
        length = self.ask.length
        for resource, _ in self.ask.wants:
            if resource.limit.lends and resource.spec.max_lease < length:
                length = resource.spec.max_lease
        return length

    @property
    def grace(self) -> Nanos | None:
        """How long it outlives its holder, as its least patient resource says; None is until its deadline."""
        graces = [resource.grace(self.id) for resource, _ in self.ask.wants if resource.limit.lends]
        return min([grace for grace in graces if grace is not None], default=None)

    def ended(self, now: Nanos) -> Ended | None:
        """Why and how long ago it ended; None while it lives."""
        return None if self.end is None else Ended(self.end, now - self.ended_at)


class Leases:
    """The live leases by id, and the ended ones that are remembered. A lease's key on the agenda is its id.

    ``exhausted``: none can be given out. No id is left that the next start is sure not to give out again, or what is
    granted cannot be put on record.
    """

    __slots__ = (
        "_agenda",
        "_ceiling",
        "_ended",
        "_ended_order",
        "_live",
        "_sealed",
        "exhausted",
        "last_id",
        "live",
    )

    def __init__(self, agenda: Agenda, first_id: LeaseId) -> None:
        # The highest id given out so far.
        self.last_id = LeaseId(first_id - 1)
        self.exhausted = True
        self._sealed = False
        self._ceiling = self.last_id
        self._live: dict[LeaseId, Lease] = {}
        # The live lease of an id. Bound once: it is asked on the hottest path.
        self.live: Callable[[LeaseId], Lease | None] = self._live.get
        # Why and when those that are remembered ended. The lease itself is kept only if something stands for it yet:
        # ten thousand whole ones would be 10 MB that every pair of acquire and release walks through.
        self._ended: dict[LeaseId, tuple[EndReason, Nanos, Lease | None]] = {}
        # The ids in _ended, oldest first: the dict alone would take ever longer to find its oldest entry.
        self._ended_order: deque[LeaseId] = deque()
        self._agenda = agenda

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._live.values())

    def ids(self) -> list[LeaseId]:
        """Of the live ones, rising; a hundred thousand of them take a millisecond."""
        return sorted(self._live)

    def remembered(self, lease_id: LeaseId, now: Nanos) -> Ended | None:
        """Why and how long ago a lease ended; None when it lives, is forgotten or never was."""
        memory = self._ended.get(lease_id)
        return None if memory is None else Ended(memory[0], now - memory[1])

    @property
    def left(self) -> int:
        """How many more can be given out."""
        return 0 if self._sealed else self._ceiling - self.last_id

    def reserve(self, ceiling: LeaseId) -> None:
        """Ids up to ``ceiling`` may be given out; the ceiling never falls."""
        self._ceiling = max(self._ceiling, ceiling)
        self.exhausted = self._sealed or self.last_id >= self._ceiling

    @property
    def sealed(self) -> bool:
        """Whether what is granted cannot be put on record."""
        return self._sealed

    def seal(self, *, sealed: bool) -> None:
        """Whether none may be given out, however many ids are left."""
        self._sealed = sealed
        self.exhausted = sealed or self.last_id >= self._ceiling

    def restore(self, lease: Lease) -> None:
        """One of before a restart, live or ended; of the ended ones the oldest comes first."""
        self.last_id = max(self.last_id, lease.id)
        self.exhausted = self._sealed or self.last_id >= self._ceiling
        if lease.end is not None:
            self._ended[lease.id] = (lease.end, lease.ended_at, lease)
            self._ended_order.append(lease.id)
        else:
            assert lease.deadline is not None, "what was spent does not live"
            self._live[lease.id] = lease
            self._agenda.add(lease.id, lease.deadline)

    def past(self, lease_id: LeaseId) -> Lease | None:
        """One that has ended, if anything stands for it yet."""
        memory = self._ended.get(lease_id)
        return None if memory is None else memory[2]

    def grant(
        self,
        ask: Ask,
        grants: tuple[Grant, ...],
        deadline: Nanos | None,
        now: Nanos,
    ) -> Lease:
        """A new lease, with the next id; without a ``deadline`` it only stands for what was spent."""
        assert not self.exhausted, "I7: an id was given out that the next start may give out again"
        self.last_id += 1  # type: ignore[assignment]  # LeaseId(...) would be a call
        lease_id = self.last_id
        if lease_id >= self._ceiling:
            self.exhausted = True
        lease = Lease(lease_id, ask, grants, now, deadline)
        if deadline is not None:
            self._live[lease_id] = lease
            self._agenda.add(lease_id, deadline)
        return lease

    def move(self, lease: Lease, deadline: Nanos, ends_as: EndReason) -> None:
        """It ends at ``deadline`` instead, and if it lives until then, as ``ends_as``."""
        assert lease.deadline is not None, "what was spent has no deadline"
        self._agenda.drop(lease.id, lease.deadline)
        lease.deadline = deadline
        lease.ends_as = ends_as
        self._agenda.add(lease.id, deadline)

    def finish(
        self,
        lease: Lease,
        reason: EndReason,
        now: Nanos,
        settled: bool = False,  # noqa: FBT001, FBT002 - as in Lending.end
    ) -> Lease | None:
        """It has ended and is remembered; the one forgotten in its stead is returned, if anything stands for it.

        That is a request id, or the tickets of what was spent: those of a lent one ended with it. ``settled``: for this
        one no request id stands any more.
        """
        assert lease.end is None, "I6: a lease ended twice"
        lease_id, deadline, order = lease.id, lease.deadline, self._ended_order
        if deadline is not None:
            del self._live[lease_id]
            self._agenda.drop(lease_id, deadline)
        lease.end = reason
        lease.ended_at = now
        kept = lease if deadline is None or (lease.ask.event.request_id and not settled) else None
        self._ended[lease_id] = (reason, now, kept)
        order.append(lease_id)
        if len(order) > REMEMBERED:
            return self._ended.pop(order.popleft())[2]
        return None

    def forget(self, lease_id: LeaseId) -> Lease | None:
        """Of one that ended only why and when is remembered; the lease is returned, if anything stood for it yet."""
        memory = self._ended.get(lease_id)
        if memory is None or memory[2] is None:
            return None
        self._ended[lease_id] = (memory[0], memory[1], None)
        return memory[2]
