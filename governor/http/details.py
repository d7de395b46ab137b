"""Details: who holds one resource, and who waits for it.

It knows how much of that is told. It must never know how a viewer is reached.

A page that shows a resource asks every two seconds; however many do, each is made once a second. Which leases are of a
resource nobody has written down, so all are looked at, some in each turn of the event loop.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from governor.access import ALL, Client
from governor.core.types import SECOND, LeaseId, Nanos, TicketId
from governor.http import shown
from governor.http.shown import Json, encode
from governor.http.sight import Sight

# Of each list: nobody reads more than that, and the command line has all of them.
LISTED: Final = 100
# Leases that are looked at in one turn of the event loop, a third of a microsecond each.
LOOKED_AT: Final = 1000
_MADE_EVERY: Final[Nanos] = SECOND
# Different resources that are remembered at a time.
_KEPT: Final = 16


class Details:
    """What is told of one resource."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        # Those for whoever reads all, and for each who does not by what he reads.
        self._made: dict[tuple[str, tuple[str, ...]], tuple[Nanos, bytes]] = {}

    def of(self, resource: str, reader: Client | None = None) -> bytes | Iterator[bytes] | None:
        """JSON, not older than a second, or made as it is sent; None when there is no such resource.

        What is not of the ``reader``'s resources has no name in it; None reads all.
        """
        made = self._made.get((resource, _seen_by(reader)))
        if made is not None and self._sight.clock.now() < made[0] + _MADE_EVERY:
            return made[1]
        # One that is removed is there while it is lent.
        return None if self._sight.driver.resource(resource) is None else self._make(resource, reader)

    def _make(self, resource: str, reader: Client | None) -> Iterator[bytes]:
        """What is shown; before it some space for each turn of the event loop in which it was looked for."""
        driver, found = self._sight.driver, list[LeaseId]()
        known = driver.resource(resource)
        most = 0 if known is None else min(LISTED, known.leases)
        ids = driver.lease_ids() if most else []
        for start in range(0, len(ids), LOOKED_AT):
            found += [lease for lease in ids[start : start + LOOKED_AT] if driver.covers(lease, resource)]
            if len(found) >= most:
                break
            yield b" "
        members = driver.members(resource)
        made = encode(
            {
                "leases": list(self._leases(resource, found[:LISTED])),
                "waiters": list(self._waiters(resource, driver.waiting(resource, LISTED), reader)),
                "members": [shown.member(member) for member in members[:LISTED]],
                "members_in_all": len(members),
                "windows": [shown.window(window) for window in driver.windows(resource)],
            }
        )
        key = (resource, _seen_by(reader))
        self._made.pop(key, None)
        self._made[key] = (self._sight.clock.now(), made)
        if len(self._made) > _KEPT:
            del self._made[next(iter(self._made))]
        yield made

    def _leases(self, resource: str, ids: Iterable[LeaseId]) -> Iterator[Json]:
        sessions = self._sight.sessions()
        for lease_id in ids:
            lease = self._sight.driver.lease(lease_id)
            if lease is not None:
                yield shown.lease(lease, resource, None if sessions is None else sessions.owners.get(lease_id))

    def _waiters(self, resource: str, tickets: Iterable[TicketId], reader: Client | None) -> Iterator[Json]:
        sessions = self._sight.sessions()
        for ticket in tickets:
            waiter = self._sight.driver.waiter(ticket)
            if waiter is not None:
                asker = None if sessions is None else sessions.of_request(waiter.client, waiter.request_id)
                others = [claim.resource for claim in waiter.claims if claim.resource != resource]
                if reader is not None:
                    others = list(filter(reader.covers, others))
                yield shown.waiter(waiter, resource, others, asker)


def _seen_by(reader: Client | None) -> tuple[str, ...]:
    return (ALL,) if reader is None or ALL in reader.resources else reader.resources
