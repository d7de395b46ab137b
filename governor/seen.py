"""Seen: an engine as its shells see it, now.

It knows an engine and a clock. It must never change anything. What is said of each look is in `core.looks`.
"""

from governor.clock import Clock
from governor.core.engine import Engine
from governor.core.resource import Remembered
from governor.core.snapshot import MemberView, ResourceSnapshot, Snapshot, WindowView
from governor.core.types import LeaseId, Nanos, TicketId


class Seen:
    """Whatever needs an instant is of now; the rest is the engine's own."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self.peaks = engine.peaks
        self.held, self.past, self.lease_of = engine.held, engine.past, engine.lease_of
        self.knows, self.client_of = engine.knows, engine.client_of
        self.deadlines, self.grace, self.usual_lease = engine.deadlines, engine.grace, engine.usual_lease
        self.remembered, self.marks, self.fades = engine.remembered, engine.marks, engine.fades
        self.lease_ids, self.lease, self.covers = engine.lease_ids, engine.lease, engine.covers
        self.waiting, self.waiter = engine.waiting, engine.waiter
        self.paused, self.request_id = engine.paused, engine.request_id
        self.declared, self.compare = engine.declared, engine.compare

    def now(self) -> Nanos:
        """By the clock that all instants are of."""
        return self._clock.now()

    @property
    def last_id(self) -> LeaseId:
        """The highest lease id given out so far."""
        return self._engine.last_id

    @property
    def live_leases(self) -> int:
        """How many leases are held."""
        return self._engine.live_leases

    def snapshot(self) -> Snapshot:
        """The numbers of everything."""
        return self._engine.snapshot(now=self._clock.now())

    def resource(self, name: str) -> ResourceSnapshot | None:
        """The numbers of one."""
        return self._engine.resource(name, now=self._clock.now())

    def members(self, resource: str) -> tuple[MemberView, ...]:
        """The members of one that has any."""
        return self._engine.members(resource, now=self._clock.now())

    def member(self, resource: str, member: str) -> MemberView | None:
        """One of those, by its id."""
        return self._engine.member(resource, member, now=self._clock.now())

    def windows(self, resource: str) -> tuple[WindowView, ...]:
        """The windows of one that has any."""
        return self._engine.windows(resource, now=self._clock.now())

    def place(self, ticket: TicketId) -> tuple[int, Nanos] | None:
        """How many stand before a ticket in line, and how long it takes yet at the least, as far as limits can tell."""
        now = self._clock.now()  # once: what could be at once would else be some microseconds away
        place = self._engine.place(ticket, now=now)
        return None if place is None else (place[0], place[1] - now)

    def remember(self, resource: str) -> Remembered:
        """What a restart must know of a resource that there is."""
        remembered = self._engine.remember(resource, now=self._clock.now())
        assert remembered is not None, "a resource was to be remembered that there is not"
        return remembered

    def fading(self) -> tuple[Remembered, ...]:
        """The same of those that are neither declared nor lent."""
        return self._engine.fading(now=self._clock.now())
