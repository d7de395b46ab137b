"""Details: who holds one resource, and who waits for it.

It knows how much of that is told. It must never know how a viewer is reached.

A page that shows a resource asks every two seconds; however many do, each is made once a second.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from governor.core.types import SECOND, LeaseId, Nanos, TicketId
from governor.http import shown
from governor.http.shown import Json, Shown, encode
from governor.http.sight import Sight

# Of each list: nobody reads more than that, and the command line has all of them.
LISTED: Final = 100
_MADE_EVERY: Final[Nanos] = SECOND
# Different resources that are remembered at a time.
_KEPT: Final = 16


class Details:
    """What is told of one resource."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._made: dict[str, tuple[Nanos, bytes]] = {}

    def of(self, resource: str) -> bytes | None:
        """JSON, not older than a second; None when there is no such resource."""
        now = self._sight.clock.now()
        made = self._made.pop(resource, None)
        if made is None or now >= made[0] + _MADE_EVERY:
            told = self._tell(resource)
            if told is None:
                return None
            made = (now, encode(told))
        self._made[resource] = made
        if len(self._made) > _KEPT:
            del self._made[next(iter(self._made))]
        return made[1]

    def _tell(self, resource: str) -> Shown | None:
        driver = self._sight.driver
        ids = driver.lease_ids(resource)
        # One that is removed is there while it is lent.
        if not ids and driver.declared(resource) is None:
            return None
        members = driver.members(resource)
        return {
            "leases": list(self._leases(resource, ids)),
            "waiters": list(self._waiters(resource, driver.waiting(resource))),
            "members": [shown.member(member) for member in members[:LISTED]],
            "members_in_all": len(members),
            "windows": [shown.window(window) for window in driver.windows(resource)],
        }

    def _leases(self, resource: str, ids: Iterable[LeaseId]) -> Iterator[Json]:
        sessions = self._sight.sessions()
        for lease_id in islice(ids, LISTED):
            lease = self._sight.driver.lease(lease_id)
            if lease is not None:
                yield shown.lease(lease, resource, None if sessions is None else sessions.owners.get(lease_id))

    def _waiters(self, resource: str, tickets: Iterable[TicketId]) -> Iterator[Json]:
        sessions = self._sight.sessions()
        for ticket in islice(tickets, LISTED):
            waiter = self._sight.driver.waiter(ticket)
            if waiter is not None:
                asker = None if sessions is None else sessions.of_request(waiter.client, waiter.request_id)
                yield shown.waiter(waiter, resource, asker)
