"""Looks: what can be seen of a running engine, now.

It knows an engine and a clock. It must never change anything.
"""

from typing import TYPE_CHECKING

from governor.clock import Clock
from governor.core.engine import Engine
from governor.core.resource import Remembered, ResourceSpec
from governor.core.snapshot import (
    Held,
    LeaseView,
    MemberView,
    Past,
    Peak,
    ResourceSnapshot,
    Snapshot,
    WaiterView,
    WindowView,
)
from governor.core.types import LeaseId, Nanos, TicketId

if TYPE_CHECKING:
    from collections.abc import Iterable

    from governor.core.differences import Difference


class Looks:
    """An engine as its shells see it; ``now`` is always."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def now(self) -> Nanos:
        """By the clock that all instants are of."""
        return self._clock.now()

    def snapshot(self) -> Snapshot:
        """The numbers of everything, now."""
        return self._engine.snapshot(now=self._clock.now())

    def peaks(self) -> list[Peak]:
        """The most of each resource since this was last asked."""
        return self._engine.peaks()

    @property
    def last_id(self) -> LeaseId:
        """The highest lease id given out so far."""
        return self._engine.last_id

    @property
    def live_leases(self) -> int:
        """How many leases are held."""
        return self._engine.live_leases

    # --- what must be remembered ----------------------------------------------------------------------------

    def held(self, lease: LeaseId) -> Held | None:
        """What a lease is, as of the last step; None when it does not live."""
        return self._engine.held(lease)

    def deadlines(self, leases: "Iterable[LeaseId]") -> list[tuple[Nanos, bool, LeaseId]]:
        """When each of these that lives ends, and whether that is as one whose holder is gone."""
        return self._engine.deadlines(leases)

    def lease_of(self, client: str, request_id: str) -> LeaseId | None:
        """The live lease that this client's request id stands for."""
        return self._engine.lease_of(client, request_id)

    def past(self, lease: LeaseId) -> Past | None:
        """What a lease was that has ended, if a request id still stands for it."""
        return self._engine.past(lease)

    def remembered(self) -> list[str]:
        """The names of all resources that a restart must know."""
        return self._engine.remembered()

    def remember(self, resource: str) -> Remembered:
        """What a restart must know of a resource that there is."""
        remembered = self._engine.remember(resource, now=self._clock.now())
        assert remembered is not None, "a resource was to be remembered that there is not"
        return remembered

    def fading(self) -> tuple[Remembered, ...]:
        """The same of those that are neither declared nor lent, but of which too much is spent."""
        return self._engine.fading(now=self._clock.now())

    def fades(self, resource: str) -> bool:
        """Whether one of those has this name; another of it may be declared."""
        return self._engine.fades(resource)

    def marks(self, resource: str) -> int | None:
        """Another number after any change of a resource that must not be forgotten; None when there is none."""
        return self._engine.marks(resource)

    def grace(self, lease_id: LeaseId) -> Nanos | None:
        """How long a live lease outlives its holder; None is until its deadline."""
        return self._engine.grace(lease_id)

    def place(self, ticket: TicketId) -> tuple[int, Nanos] | None:
        """Of a ticket in line, how many are ahead of it, and the first instant at which it could be granted."""
        return self._engine.place(ticket, now=self._clock.now())

    # --- what operators see ---------------------------------------------------------------------------------

    def resource(self, name: str) -> ResourceSnapshot | None:
        """The numbers of one, now; None when there is none."""
        return self._engine.resource(name, now=self._clock.now())

    def lease_ids(self, resource: str | None) -> list[LeaseId]:
        """The live leases that something is lent under, of one resource or all; rising."""
        return self._engine.lease_ids(resource)

    def lease(self, lease_id: LeaseId) -> LeaseView | None:
        """A lease as of the last step; None when it does not live."""
        return self._engine.lease(lease_id)

    def waiting(self, resource: str | None) -> list[TicketId]:
        """One ticket of each place in a line, or of all that wait; first in line first."""
        return self._engine.waiting(resource)

    def waiter(self, ticket: TicketId) -> WaiterView | None:
        """The place in line that a ticket stands for; None when it does not wait."""
        return self._engine.waiter(ticket)

    def members(self, resource: str) -> tuple[MemberView, ...]:
        """The members of a pool; nothing has members but a pool."""
        return self._engine.members(resource, now=self._clock.now())

    def windows(self, resource: str) -> tuple[WindowView, ...]:
        """The windows of a rate limit; nothing else has any."""
        return self._engine.windows(resource, now=self._clock.now())

    def declared(self, resource: str) -> ResourceSpec | None:
        """What is declared of a resource, whatever is in force; None when it is not declared."""
        return self._engine.declared(resource)

    def differences(self, specs: tuple[ResourceSpec, ...]) -> "tuple[Difference, ...]":
        """What to `reconfigure` would change now, and whom that would tell what."""
        return self._engine.differences(specs, now=self._clock.now())
