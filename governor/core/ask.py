"""Ask: one acquire while it waits and, once granted, what its lease was asked for.

It knows who asked for what. It must never know whether it can be granted.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NewType

from governor.core.events import Acquire
from governor.core.types import Nanos, TicketId

if TYPE_CHECKING:
    from governor.core.resource import Resource

# The one global sequence that waiters are ordered by. Places only ever rise; 0 is nobody's.
Place = NewType("Place", int)

# How many tickets one ask may have: how often it may be repeated under its request id.
MAX_TICKETS: Final = 16


@dataclass(slots=True, eq=False)
class Ask:
    """What was asked for, by whom, since when. Each of ``tickets`` gets the answer.

    There are several tickets when the ask was repeated under its request id; ``event`` is the first of those asks.
    ``wants`` is its claims with their resources looked up. ``length`` is that of the lease to be. ``place`` is set
    while it waits.
    """

    event: Acquire
    tickets: list[TicketId]
    wants: "list[tuple[Resource, int]]"
    length: Nanos
    since: Nanos
    place: Place = Place(0)

    @property
    def at_head(self) -> bool:
        """Whether it is the first in each of its lines."""
        for resource, _ in self.wants:  # noqa: SIM110  (a generator costs more than the loop)
            if resource.line.head is not self:
                return False
        return True

    def takeable(self, now: Nanos) -> bool:
        """Whether all that it wants could be taken now, lines aside."""
        for resource, permits in self.wants:
            if resource.closed or not resource.limit.can_take(permits, now):
                return False
        return True
