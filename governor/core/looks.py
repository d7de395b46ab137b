"""Looks: what an engine shows of itself, to its shells and to operators.

It knows where everything is. It must never change anything, nor take long but for what is as long.
"""

from collections.abc import Iterable
from itertools import islice

from governor.core import admission, invariants, restart
from governor.core.ask import Ask
from governor.core.differences import Comparison
from governor.core.leases import Lease
from governor.core.lending import Lending
from governor.core.resource import Remembered, Resource, ResourceSpec
from governor.core.snapshot import Held, LeaseView, MemberView, Past, ResourceSnapshot, WaiterView, WindowView
from governor.core.types import Claim, EndReason, LeaseId, Nanos, Standing, TicketId


class Looks:
    """All that can be seen of what is lent. Names are of resources that there are, removed ones with leases too."""

    __slots__ = ("_lending",)

    def __init__(self, lending: Lending) -> None:
        self._lending = lending

    # --- what must be remembered ----------------------------------------------------------------------------

    @property
    def last_id(self) -> LeaseId:
        """The highest lease id given out so far."""
        return self._lending.leases.last_id

    @property
    def live_leases(self) -> int:
        """How many leases are held."""
        return len(self._lending.leases)

    def lease_of(self, client: str, request_id: str) -> LeaseId | None:
        """The live lease that this client's request id stands for."""
        known = self._lending.register.of_request(client, request_id)
        return known.id if isinstance(known, Lease) and known.end is None and known.deadline is not None else None

    def knows(self, client: str, request_id: str) -> bool:
        """Whether this client's request id stands for anything: a place in line, or a lease that lives or has ended."""
        return self._lending.register.of_request(client, request_id) is not None

    def client_of(self, lease_id: LeaseId) -> str | None:
        """Whose a lease is; None when it does not live."""
        lease = self._lending.leases.live(lease_id)
        return None if lease is None else lease.ask.event.client

    def request_id(self, lease_id: LeaseId) -> str:
        """Under which one a lease was asked for that lives, or has just been granted; empty: under none."""
        lease = self._lending.leases.live(lease_id) or self._lending.leases.past(lease_id)
        return "" if lease is None else lease.ask.event.request_id

    def held(self, lease_id: LeaseId) -> Held | None:
        """What a lease is, as of the last step; None when it does not live."""
        return restart.held(self._lending, lease_id)

    def deadlines(self, lease_ids: Iterable[LeaseId]) -> list[tuple[Nanos, bool, LeaseId]]:
        """When each of these that lives ends, and whether that is as one whose holder is gone."""
        return restart.deadlines(self._lending, lease_ids)

    def past(self, lease_id: LeaseId) -> Past | None:
        """What a lease was that has ended, if a request id still stands for it; else it need not be remembered."""
        return restart.past(self._lending, lease_id)

    def remembered(self) -> list[str]:
        """The resources that a restart must know: also removed ones that are lent."""
        return [resource.spec.name for resource in self._lending.resources]

    def remember(self, resource: str, *, now: Nanos) -> Remembered | None:
        """What a restart must know of one of those; None of any other."""
        known = self._named(resource)
        return None if known is None else known.remember(now)

    def fading(self, *, now: Nanos) -> tuple[Remembered, ...]:
        """What a restart must know of those that are neither declared nor lent, but of which too much is spent."""
        return tuple([resource.remember(now) for resource in self._lending.resources.fading])

    def fades(self, resource: str) -> bool:
        """Whether one of those has this name; another of it may be declared."""
        return self._lending.resources.fades(resource)

    def marks(self, resource: str) -> int | None:
        """Of one of those: another number after any change that must be remembered before its answer."""
        known = self._named(resource)
        return None if known is None else known.limit.marks

    def grace(self, lease_id: LeaseId) -> Nanos | None:
        """How long a live lease outlives its holder; None is until its deadline."""
        lease = self._lending.leases.live(lease_id)
        return None if lease is None else lease.grace

    def usual_lease(self, claims: Iterable[Claim]) -> Nanos | None:
        """How long a lease of all that lasts when its ask does not say; None when nothing of it would be lent."""
        named = [self._lending.resources.get((claim.resource, claim.key)) for claim in claims]
        return min([each.spec.lease for each in named if each is not None and each.limit.lends], default=None)

    def place(self, ticket: TicketId, *, now: Nanos) -> tuple[int, Nanos] | None:
        """Of a ticket in line, what ``Queued`` would say of it now: how many are ahead, and not before when."""
        known = self._lending.register.of_ticket(ticket)
        return admission.standing(known, now) if isinstance(known, Ask) else None

    # --- what operators see ---------------------------------------------------------------------------------

    def resource(self, name: str, *, now: Nanos) -> ResourceSnapshot | None:
        """The numbers of one, at this instant; None when there is none."""
        known = self._named(name)
        return None if known is None else known.snapshot(now)

    def lease_ids(self) -> list[LeaseId]:
        """The live leases, which something is lent under; rising. A hundred thousand of them take a millisecond."""
        return self._lending.leases.ids()

    def covers(self, lease_id: LeaseId, resource: str) -> bool:
        """Whether this resource is one of those that a live lease is about."""
        lease = self._lending.leases.live(lease_id)
        return lease is not None and any(grant.resource == resource for grant in lease.grants)

    def lease(self, lease_id: LeaseId) -> LeaseView | None:
        """A lease as of the last step; None when it does not live."""
        lease = self._lending.leases.live(lease_id)
        if lease is None or lease.deadline is None:
            return None
        ask = lease.ask
        return LeaseView(
            id=lease.id,
            client=ask.event.client,
            labels=ask.event.labels,
            grants=lease.grants,
            granted_at=lease.granted_at,
            deadline=lease.deadline,
            waited=lease.granted_at - ask.since,
            renewals=lease.renewals,
            orphaned=lease.ends_as is EndReason.DISCONNECTED,
            request_id=ask.event.request_id,
        )

    def waiting(self, resource: str | None, most: int | None = None) -> list[TicketId]:
        """One ticket of each place in a line, or of all that wait; first in line first, and no more than ``most``."""
        if resource is None:
            return [ask.tickets[0] for ask in islice(self._lending.waiters.all(), most)]
        known = self._named(resource)
        return [] if known is None else [ask.tickets[0] for ask in islice(known.line, most)]

    def waiter(self, ticket: TicketId) -> WaiterView | None:
        """The place in line that a ticket stands for; None when it does not wait."""
        ask = self._lending.register.of_ticket(ticket)
        if not isinstance(ask, Ask):
            return None
        return WaiterView(
            client=ask.event.client,
            labels=ask.event.labels,
            claims=ask.event.claims,
            since=ask.since,
            until=self._lending.waiters.latest(ask),
            tickets=tuple(ask.tickets),
            request_id=ask.event.request_id,
        )

    def paused(self, claims: Iterable[Claim]) -> tuple[str, ...]:
        """Those of what is claimed that are paused: until they are resumed, nobody can tell how long it takes."""
        named = [self._lending.resources.get((claim.resource, claim.key)) for claim in claims]
        return tuple([each.spec.name for each in named if each is not None and each.standing is Standing.PAUSED])

    def members(self, resource: str, *, now: Nanos) -> tuple[MemberView, ...]:
        """The members of one that has any."""
        known = self._named(resource)
        return () if known is None or known.limit.roster is None else known.limit.roster.views(now)

    def member(self, resource: str, member: str, *, now: Nanos) -> MemberView | None:
        """One of those, by its id."""
        known = self._named(resource)
        return None if known is None or known.limit.roster is None else known.limit.roster.view(member, now)

    def windows(self, resource: str, *, now: Nanos) -> tuple[WindowView, ...]:
        """The windows of one that has any."""
        known = self._named(resource)
        return () if known is None else known.limit.windows(now)

    def declared(self, resource: str) -> ResourceSpec | None:
        """What is declared of a resource, whatever is in force; None when it is not declared."""
        known = self._named(resource)
        return None if known is None or known.removed else known.spec

    def compare(self, specs: tuple[ResourceSpec, ...]) -> Comparison:
        """What `Reconfigure` would change, and whom that would tell what; some of it at a time."""
        return Comparison(self._lending, specs)

    # --- what tests see -------------------------------------------------------------------------------------

    def check(self, *, now: Nanos) -> None:
        """Raise AssertionError, naming the invariant, when the whole state breaks one; as slow as there is state."""
        invariants.check(self._lending, now)

    def _named(self, resource: str) -> Resource | None:
        return self._lending.resources.get((resource, ""))
