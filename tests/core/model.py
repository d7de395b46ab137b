"""The engine once more, dumb: lists, scans over everything, and one rule after the other as DESIGN.md states them.

It knows the semantics. It must never know how the engine keeps its books, and it must never be fast.
It leaves to the engine what the semantics leave open: the numbers of leases and the choice of pool members.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from governor.core.effects import Effect, Granted, SteerProblem
from governor.core.events import (
    Abandon,
    Acquire,
    Disconnect,
    Drain,
    Event,
    Freeze,
    Quarantine,
    Readmit,
    Reconfigure,
    Recycle,
    Release,
    Renew,
    ReserveIds,
    Restore,
    Revoke,
    Seal,
    SetOverride,
    SetStanding,
    Steer,
    Wake,
)
from governor.core.resource import Override, ResourceSpec
from governor.core.types import (
    MAX_CLAIMS,
    MAX_PERMITS,
    MIN_LEASE,
    SECOND,
    Claim,
    EndReason,
    Grant,
    LeaseId,
    Member,
    Nanos,
    Outcome,
    Reason,
    Standing,
    TicketId,
)
from tests.core.model_limits import DumbLimit, DumbPool, dumb

# How often one ask may be repeated in line; a lease that was asked about so often is never taken back.
MOST_TICKETS: Final = 16

# Something that must have happened, as plain values: a word, who it happened to, and the numbers.
Fact = tuple[object, ...]


@dataclass
class Resource:
    """A declared resource, or one that is declared no more."""

    spec: ResourceSpec
    limit: DumbLimit
    removed: bool = False
    standing: Standing = Standing.OPEN
    override: Override | None = None

    @property
    def closed(self) -> bool:
        """Nothing is granted of it."""
        return self.removed or self.standing is not Standing.OPEN

    @property
    def in_force(self) -> ResourceSpec:
        """As declared, but for the override."""
        return self.spec if self.override is None else replace(self.spec, limit=self.override.limit)


@dataclass
class Place:
    """A place in line; several tickets share it when they carry the same request id, and each has its own wait."""

    tickets: list[TicketId]
    ask: Acquire
    length: Nanos
    since: Nanos
    deadlines: dict[TicketId, Nanos]


@dataclass
class Lease:
    """A lease, for ever: the dumb model forgets nothing."""

    id: LeaseId
    ask: Acquire
    grants: dict[str, Grant]
    limits: dict[str, DumbLimit]
    # Of each resource the longest `on_disconnect` that there has been since the grant.
    graces: dict[str, Nanos | None]
    holders: list[TicketId]
    length: Nanos
    granted: Nanos
    waited: Nanos
    deadline: Nanos | None
    ended: tuple[EndReason, Nanos] | None = None
    surely_received: bool = False
    orphaned: bool = False


@dataclass
class Model:
    """The whole state, and what must have happened in the step at hand."""

    resources: dict[str, Resource] = field(default_factory=dict)
    line: list[Place] = field(default_factory=list)
    leases: dict[LeaseId, Lease] = field(default_factory=dict)
    requests: dict[tuple[str, str], LeaseId] = field(default_factory=dict)
    # Rate limits that are declared no more.
    spent: dict[str, Resource] = field(default_factory=dict)
    draining: bool = False
    next_id: int = 1
    ceiling: int = 0
    sealed: bool = False
    facts: list[Fact] = field(default_factory=list)
    _settled: Nanos = 0
    _told: dict[TicketId, Granted] = field(default_factory=dict)

    def handle(self, event: Event, now: Nanos, effects: Sequence[Effect]) -> list[Fact]:
        """What must have happened in this step; ``effects`` are asked only for lease numbers and members."""
        self.facts = []
        self._told = {effect.ticket: effect for effect in effects if isinstance(effect, Granted)}
        if isinstance(event, Freeze):
            self._freeze(event.length, now)
        self._settle(now)
        match event:
            case Acquire():
                self._acquire(event, now)
            case Abandon():
                self._abandon(event.ticket, now)
            case Release() | Renew() | Disconnect():
                self._of_holders(event, now)
            case Reconfigure():
                self._reconfigure(event.resources, now)
            case Wake() | Freeze():
                pass
            case Revoke():
                self.facts.append(("revoked", *[self._revoke(id_, now) for id_ in event.leases]))
            case Restore():
                raise AssertionError("the model itself lives on: it is told with `restart`")
            case SetStanding() | SetOverride() | Recycle() | Quarantine() | Readmit():
                self._steer(event, now)
            case Drain() | Seal() | ReserveIds():
                self._of_the_daemon(event)
        self._settle(now)
        return self.facts

    def _of_the_daemon(self, event: Drain | Seal | ReserveIds) -> None:
        match event:
            case Drain():
                self.draining = True
                for place in list(self.line):
                    self._deny(place, Reason.DRAINING)
            case Seal():
                self.sealed = event.sealed
            case ReserveIds():
                self.ceiling = max(self.ceiling, event.ceiling)

    def restart(self) -> None:
        """All who asked are gone, and may have had their answers; what ended is forgotten, but for request ids."""
        self.line.clear()
        self.draining = self.sealed = False
        for id_, lease in list(self.leases.items()):
            if lease.ended is not None and self.requests.get((lease.ask.client, lease.ask.request_id)) != id_:
                del self.leases[id_]
            lease.holders, lease.surely_received = [], True

    def _freeze(self, length: Nanos, now: Nanos) -> None:
        """All that time does not count for leases."""
        live = [lease for lease in self.leases.values() if lease.ended is None]
        for lease in live:
            assert lease.deadline is not None
            lease.deadline = max(lease.deadline + length, now + SECOND)
        self.facts.append(("frozen", length, len(live)))

    # --- time -------------------------------------------------------------------------------------------------

    def due(self) -> list[tuple[Nanos, int, "Due"]]:
        """All that will happen by itself, soonest first.

        At one instant overrides are over, leases end, permits ripen, waits end.
        """
        coming: list[tuple[Nanos, int, Due]] = [
            (resource.override.until, -1, resource) for resource in self.resources.values() if resource.override
        ]
        coming += [
            (lease.deadline, 0, lease)
            for lease in self.leases.values()
            if lease.ended is None and lease.deadline is not None
        ]
        for place in self.line:
            ripe = self._ripe_at(place)
            if ripe is not None:
                coming.append((ripe, 1, place))
            coming += [(place.deadlines[ticket], 2, ticket) for ticket in place.tickets]
        return sorted(coming, key=lambda due: (*due[:2], due[1] == 1 and self._left_open(due[2])))

    def _left_open(self, who: "Due") -> bool:
        """Of those with no line in common the engine may serve any first; it matters when ids run out."""
        return isinstance(who, Place) and who.tickets[0] not in self._told

    def _settle(self, now: Nanos) -> None:
        """Everything due by now happens, in order; the grants among it are made now."""
        while due := [one for one in self.due() if one[0] <= now]:
            instant, _, who = due[0]
            self._settled = max(self._settled, instant)
            if isinstance(who, Resource):
                self.facts.append(("override over", who.spec.name))
                self._put_in_force(who, None, instant)
            elif isinstance(who, Lease):
                reason = EndReason.DISCONNECTED if who.orphaned else EndReason.EXPIRED
                self._end(who, reason, Outcome.UNKNOWN, now)
            elif isinstance(who, Place):
                self._grant(who, now)
            else:
                self._give_up(who, ("denied", who, Reason.WAIT_OVER))
        self._settled = now

    def _ripe_at(self, place: Place) -> Nanos | None:
        """The first instant from here on at which it is granted if nothing else happens; None is never."""
        if self.sealed or self.next_id > self.ceiling:
            return None
        if any(self._ahead(claim, place) or self.resources[claim.resource].closed for claim in place.ask.claims):
            return None
        instants = [self.limit(c).ready_at(c.permits, self._settled) for c in place.ask.claims]
        known = [instant for instant in instants if instant is not None]
        return max(known) if len(known) == len(instants) else None

    # --- lines ------------------------------------------------------------------------------------------------

    def limit(self, claim: Claim) -> DumbLimit:
        """The limit that a claim is about."""
        return self.resources[claim.resource].limit

    def _ahead(self, claim: Claim, place: Place | None) -> list[Place]:
        """Who stands before this place in the line of a claim, or everybody who does."""
        line = [p for p in self.line if any(c.resource == claim.resource for c in p.ask.claims)]
        return line[: line.index(place)] if place is not None else line

    def _not_before(self, claims: Sequence[Claim], place: Place | None, now: Nanos) -> Nanos:
        """When a newcomer with these claims, or this place, could be granted at the earliest."""
        instants = []
        for claim in claims:
            ahead = sum(
                c.permits
                for other in self._ahead(claim, place)
                for c in other.ask.claims
                if c.resource == claim.resource
            )
            instants.append(self.limit(claim).earliest(claim.permits, ahead, now))
        return max([now, *instants])

    def _acquire(self, ask: Acquire, now: Nanos) -> None:
        refusal = self._refusal(ask, now)
        if refusal is not None:
            self.facts.append(("denied", ask.ticket, *refusal))
            return
        if self._same_place(ask, now) or self._same_lease(ask):
            return
        specs = [self.resources[claim.resource].spec for claim in ask.claims]
        wait = min(spec.max_wait for spec in specs)
        wait = wait if ask.wait is None else min(wait, ask.wait)
        lengths = [self.resources[c.resource].spec.lease for c in ask.claims if self.limit(c).lends]
        length = min(lengths, default=0) if ask.lease is None else ask.lease
        place = Place([ask.ticket], ask, length, now, {ask.ticket: now + wait})
        nobody = not any(self._ahead(claim, None) for claim in ask.claims)
        free = all(self.limit(c).ready_at(c.permits, now) == now for c in ask.claims)
        if nobody and free:
            self._grant(place, now)
            return
        if wait and any(len(self._ahead(c, None)) >= self.resources[c.resource].spec.max_waiters for c in ask.claims):
            self.facts.append(("denied", ask.ticket, Reason.LINE_FULL))
            return
        first = self._not_before(ask.claims, None, now)
        if wait == 0 or first > now + wait:
            reason = Reason.HOPELESS if wait else Reason.NONE_FREE
            self.facts.append(("denied", ask.ticket, reason, first - now or None))
            return
        ahead = max(len(self._ahead(claim, None)) for claim in ask.claims)
        self.line.append(place)
        self.facts.append(("queued", ask.ticket, ahead, first))

    def _refusal(self, ask: Acquire, now: Nanos) -> tuple[object, ...] | None:
        """Why the ask cannot even join what is there; in the order in which the reasons are looked for."""
        broken = malformed(ask)
        if broken is not None:
            return (Reason.MALFORMED, broken)
        known = self._known(ask)
        if known is not None:
            return self._refusal_of_repeat(ask, known, now)
        if self.draining:
            return (Reason.DRAINING,)
        for claim in ask.claims:
            resource = self.resources.get(claim.resource)
            if resource is None or resource.removed:
                return (Reason.UNKNOWN_RESOURCE,)
        for claim in ask.claims:
            if self.resources[claim.resource].closed:
                return (Reason(self.resources[claim.resource].standing), claim.resource)
        if ask.lease is not None and ask.lease > self._longest({c.resource for c in ask.claims}):
            return (Reason.MALFORMED, "lease")
        for claim in ask.claims:
            capacity = self.limit(claim).capacity()
            if capacity is not None and claim.permits > capacity:
                return (Reason.ABOVE_CAPACITY, claim.resource, claim.permits, capacity)
        if self.sealed or self.next_id > self.ceiling:
            return (Reason.STATE_UNWRITABLE,)
        return None

    def _refusal_of_repeat(self, ask: Acquire, known: Place | Lease, now: Nanos) -> tuple[object, ...] | None:
        """Why the ask cannot share what there is under its request id."""
        if known.ask.claims != ask.claims:
            return (Reason.REQUEST_ID_REUSED,)
        if isinstance(known, Place):
            return (Reason.LINE_FULL,) if len(known.tickets) == MOST_TICKETS else None
        if known.ended is None or known.ended[0] is EndReason.SPENT:
            return None
        return (Reason.LEASE_ENDED, known.ended[0], now - known.ended[1])

    def _longest(self, names: Iterable[str]) -> Nanos:
        """The longest lease that all of these allow; what lends nothing allows any."""
        resources = [self.resources[name] for name in names if name in self.resources]
        return min((r.spec.max_lease for r in resources if r.limit.lends), default=sys.maxsize)

    # --- request ids ------------------------------------------------------------------------------------------

    def _known(self, ask: Acquire) -> Place | Lease | None:
        if not ask.request_id:
            return None
        name = (ask.client, ask.request_id)
        for place in self.line:
            if (place.ask.client, place.ask.request_id) == name:
                return place
        return self.leases[self.requests[name]] if name in self.requests else None

    def _same_place(self, ask: Acquire, now: Nanos) -> bool:
        place = self._known(ask)
        if not isinstance(place, Place):
            return False
        wait = min(self.resources[claim.resource].spec.max_wait for claim in ask.claims)
        wait = wait if ask.wait is None else min(wait, ask.wait)
        if wait == 0:
            self.facts.append(("denied", ask.ticket, Reason.NONE_FREE, None))
            return True
        latest = place.since + min(self.resources[claim.resource].spec.max_wait for claim in ask.claims)
        # After a reload that might be over; then it may wait for as long as the others do.
        latest = max(latest, *[place.deadlines[ticket] for ticket in place.tickets])
        place.deadlines[ask.ticket] = min(now + wait, latest)
        place.tickets.append(ask.ticket)
        self.facts.append(("queued", ask.ticket, *self.stands(place, now)))
        return True

    def stands(self, place: Place, now: Nanos) -> tuple[int, Nanos]:
        """How many are ahead of a place, and the first instant at which it could be granted."""
        ahead = max(len(self._ahead(claim, place)) for claim in place.ask.claims)
        return ahead, self._not_before(place.ask.claims, place, now)

    def _same_lease(self, ask: Acquire) -> bool:
        lease = self._known(ask)
        if not isinstance(lease, Lease):
            return False
        if len(lease.holders) < MOST_TICKETS:
            lease.holders.append(ask.ticket)
        else:
            lease.surely_received = True
        self.facts.append(("granted", ask.ticket, lease.id, lease.deadline, "repeated"))
        return True

    # --- the ends of tickets ----------------------------------------------------------------------------------

    def _grant(self, place: Place, now: Nanos) -> None:
        if place in self.line:
            self.line.remove(place)
        self.next_id += 1
        told = [self._told[ticket] for ticket in place.tickets if ticket in self._told]
        assert len(told) == len(place.tickets), f"tickets {place.tickets} should have been granted: {self.facts}"
        assert len({grant.lease for grant in told}) == 1, "tickets of one request id got different leases"
        ask = place.ask
        grants = {grant.resource: grant for grant in told[0].grants}
        assert [(g.resource, g.permits) for g in told[0].grants] == [(c.resource, c.permits) for c in ask.claims]
        for claim in ask.claims:
            self.limit(claim).take(claim.permits, grants[claim.resource].members, now)
        lent = any(self.limit(claim).lends for claim in ask.claims)
        lease = Lease(
            id=told[0].lease,
            ask=ask,
            grants=grants,
            limits={claim.resource: self.limit(claim) for claim in ask.claims},
            graces={claim.resource: self.resources[claim.resource].spec.on_disconnect for claim in ask.claims},
            holders=list(place.tickets),
            length=place.length,
            granted=now,
            waited=now - place.since,
            deadline=now + place.length if lent else None,
            ended=None if lent else (EndReason.SPENT, now),
        )
        self.leases[lease.id] = lease
        if ask.request_id:
            self.requests[ask.client, ask.request_id] = lease.id
        for number, ticket in enumerate(place.tickets):
            self.facts.append(("granted", ticket, lease.id, lease.deadline, "repeated" if number else "new"))

    def _deny(self, place: Place, reason: Reason, *numbers: object) -> None:
        self.line.remove(place)
        for ticket in place.tickets:
            self.facts.append(("denied", ticket, reason, *numbers))

    def _give_up(self, ticket: TicketId, fact: Fact) -> None:
        """One ticket leaves the line, if it is there, and its place with the last of them."""
        for place in list(self.line):
            if ticket in place.tickets:
                place.tickets.remove(ticket)
                self.facts.append(fact)
                if not place.tickets:
                    self.line.remove(place)

    def _abandon(self, ticket: TicketId, now: Nanos) -> None:
        self._give_up(ticket, ("abandoned", ticket))
        for lease in self.leases.values():
            if ticket in lease.holders:
                lease.holders.remove(ticket)
                if (
                    not lease.holders
                    and not lease.surely_received
                    and (lease.ended is None or lease.ended[0] is EndReason.SPENT)
                ):
                    self._take_back(lease, now)

    def _take_back(self, lease: Lease, now: Nanos) -> None:
        """A grant that nobody received: as if it had never been, and so its request id may ask again."""
        for name, limit in lease.limits.items():
            if not limit.lends:
                limit.refund(lease.grants[name].permits, (), lease.granted, now)
        if lease.ended is not None:
            self.facts.append(("refunded", lease.id))
        self._end(lease, EndReason.DISCONNECTED, Outcome.UNKNOWN, now)
        if lease.ask.request_id:
            del self.requests[lease.ask.client, lease.ask.request_id]

    # --- the ends of leases -----------------------------------------------------------------------------------

    def _end(self, lease: Lease, reason: EndReason, outcome: Outcome, now: Nanos) -> None:
        if lease.ended is not None:
            return
        lease.ended = (reason, now)
        members: tuple[Member, ...] = ()
        for name, limit in lease.limits.items():
            members = lease.grants[name].members
            limit.give(lease.grants[name].permits, members, outcome, now)
        assert lease.deadline is not None
        self.facts.append(("ended", lease.id, reason, now - lease.granted, lease.deadline - now))
        for name in list(self.resources):
            if self.resources[name].removed and not self.held(name):
                del self.resources[name]

    def held(self, name: str) -> list[Lease]:
        """The live leases that something of this resource is lent to."""
        return [
            lease
            for lease in self.leases.values()
            if lease.ended is None and name in lease.limits and lease.limits[name].lends
        ]

    def _of_holders(self, event: Release | Renew | Disconnect, now: Nanos) -> None:
        """Something happens to leases one after the other."""
        match event:
            case Release():
                self.facts.append(("released", *[self._release(id_, event.outcome, now) for id_ in event.leases]))
                if event.settled:
                    self._forget_requests(event.leases)
            case Renew():
                self.facts.append(("renewed", *[self._renew(id_, event, now) for id_ in event.leases]))
            case Disconnect():
                for id_ in event.leases:
                    self._disconnect(id_, now)

    def _release(self, id_: LeaseId, outcome: Outcome, now: Nanos) -> Fact:
        lease = self.leases.get(id_)
        if lease is None:
            return (id_, "unknown")
        if lease.ended is not None:
            return (id_, "ended", lease.ended[0], now - lease.ended[1])
        self._end(lease, EndReason.RELEASED, outcome, now)
        return (id_, "released")

    def _revoke(self, id_: LeaseId, now: Nanos) -> Fact:
        lease = self.leases.get(id_)
        if lease is None:
            return (id_, "unknown")
        if lease.ended is not None:
            return (id_, "ended", lease.ended[0], now - lease.ended[1])
        self._end(lease, EndReason.REVOKED, Outcome.UNKNOWN, now)
        return (id_, "revoked")

    def _renew(self, id_: LeaseId, event: Renew, now: Nanos) -> Fact:
        lease = self.leases.get(id_)
        if lease is None:
            return (id_, "unknown")
        if lease.ended is not None:
            return (id_, "ended", lease.ended[0], now - lease.ended[1])
        longest = self._longest(name for name, limit in lease.limits.items() if limit.lends)
        assert lease.deadline is not None
        length = event.lease
        if length is None:
            length = min(self.renewal(lease), self.renewal(lease) if event.most is None else event.most)
            deadline = max(lease.deadline, now + length)
        elif MIN_LEASE <= length <= longest:
            deadline = now + length
        else:
            return (id_, "refused")
        self.facts.append(("extended", id_, lease.deadline - now, deadline))
        lease.deadline = deadline
        lease.orphaned = False
        return (id_, "renewed", length)

    def renewal(self, lease: Lease) -> Nanos:
        """How long it lives after a renewal that does not say."""
        return min(lease.length, self._longest(name for name, limit in lease.limits.items() if limit.lends))

    def _disconnect(self, id_: LeaseId, now: Nanos) -> None:
        """Its holder is gone, and the least patient of the resources that lent it something decides."""
        lease = self.leases.get(id_)
        if lease is None or lease.ended is not None:
            return
        graces = [lease.graces[name] for name, limit in lease.limits.items() if limit.lends]
        known = [grace for grace in graces if grace is not None]
        if not known:
            return
        if min(known) == 0:
            self._end(lease, EndReason.DISCONNECTED, Outcome.UNKNOWN, now)
            return
        assert lease.deadline is not None
        before = (lease.orphaned, lease.deadline)
        lease.orphaned, lease.deadline = True, min(lease.deadline, now + min(known))
        if (lease.orphaned, lease.deadline) != before:
            self.facts.append(("orphaned", id_, lease.deadline))

    def _forget_requests(self, ids: Sequence[LeaseId]) -> None:
        """Of leases that ended: whoever asked for them will not ask again, and nobody is left to give them up."""
        for name, id_ in list(self.requests.items()):
            if id_ in ids and self.leases[id_].ended is not None:
                del self.requests[name]
        for id_ in ids:
            if id_ in self.leases and self.leases[id_].ended is not None:
                self.leases[id_].holders.clear()

    # --- other resources --------------------------------------------------------------------------------------

    def _reconfigure(self, specs: tuple[ResourceSpec, ...], now: Nanos) -> None:
        wanted = {spec.name: spec for spec in specs}
        stuck = [
            name
            for name, spec in wanted.items()
            if name in self.resources and self.resources[name].spec.kind != spec.kind and self.held(name)
        ]
        if stuck:
            self.facts.append(("refused", len(stuck)))
            return
        declared = {name: r for name, r in self.resources.items() if not r.removed}
        added = {name for name in wanted if name not in declared}
        removed = {name for name in declared if name not in wanted}
        changed = {name for name, r in declared.items() if name in wanted and r.spec != wanted[name]}
        replaced = {name for name in changed if declared[name].spec.kind != wanted[name].kind}
        told = (added | replaced, changed - replaced, removed | replaced)
        self.facts.append(("reconfigured", *map(frozenset, told)))
        for place in list(self.line):
            if any(claim.resource in removed | replaced for claim in place.ask.claims):
                self._deny(place, Reason.UNKNOWN_RESOURCE)
        old, self.resources = self.resources, {}
        for name, spec in wanted.items():
            former = old.get(name) if name not in replaced else None
            limit = self._follow(spec, former or self._again(spec), now)
            said = Resource(spec, limit) if former is None else former
            self.resources[name] = Resource(spec, limit, standing=said.standing, override=said.override)
        for name, resource in old.items():
            if name not in wanted and self.held(name):
                if resource.override is not None:
                    resource.limit.reconfigure(resource.spec.limit, now)
                self.resources[name] = Resource(resource.spec, resource.limit, removed=True)
        for lease in self.leases.values():
            for name in lease.graces.keys() & wanted.keys():
                both = (lease.graces[name], wanted[name].on_disconnect)
                lease.graces[name] = None if both[0] is None or both[1] is None else max(both[0], both[1])
        self._keep_spent([old[name] for name in removed | replaced], now)
        self._deny_the_impossible()

    def _deny_the_impossible(self) -> None:
        for place in list(self.line):
            for claim in place.ask.claims:
                capacity = self.limit(claim).capacity()
                if capacity is not None and claim.permits > capacity:
                    self._deny(place, Reason.ABOVE_CAPACITY, claim.resource, claim.permits, capacity)
                    break

    def _keep_spent(self, gone: list[Resource], now: Nanos) -> None:
        """What is declared no more, and lends nothing, may be declared again."""
        for resource in gone:
            if not resource.limit.lends:
                if resource.override is not None:
                    resource.limit.reconfigure(resource.spec.limit, now)
                self.spent[resource.spec.name] = Resource(resource.spec, resource.limit)

    def _again(self, spec: ResourceSpec) -> Resource | None:
        """What has the same name and kind, and was declared before."""
        former = self.spent.get(spec.name)
        return self.spent.pop(spec.name) if former is not None and former.spec.kind == spec.kind else None

    def _follow(self, spec: ResourceSpec, former: Resource | None, now: Nanos) -> DumbLimit:
        """The limit of what is declared now."""
        if former is None:
            return dumb(spec.limit, now)
        if former.spec.limit != spec.limit and former.override is None:
            former.limit.reconfigure(spec.limit, now)
        return former.limit

    # --- operators --------------------------------------------------------------------------------------------

    def _steer(self, order: Steer, now: Nanos) -> None:
        """An operator says something of one resource."""
        resource = self.resources.get(order.resource)
        problem = self._steer_problem(order, resource, now)
        if resource is None or problem is not None:
            self.facts.append(("not steered", order.resource, problem))
            return
        match order:
            case SetStanding():
                self.facts.append(("steered", order.resource, resource.standing is not order.standing))
                resource.standing = order.standing
                if order.standing is Standing.DRAINING:
                    for place in list(self.line):
                        if any(claim.resource == order.resource for claim in place.ask.claims):
                            self._deny(place, Reason.DRAINING, order.resource)
            case SetOverride():
                override = None if order.limit is None else Override(order.limit, order.until)
                self.facts.append(("steered", order.resource, override != resource.override))
                self._put_in_force(resource, override, now)
            case _:
                assert isinstance(resource.limit, DumbPool)
                changed, members = resource.limit.steer(order, now)
                self.facts.append(("steered", order.resource, changed, *members))

    def _steer_problem(self, order: Steer, resource: Resource | None, now: Nanos) -> SteerProblem | None:
        if resource is None:
            return SteerProblem.UNKNOWN_RESOURCE
        if resource.removed:
            return SteerProblem.REMOVED
        if isinstance(order, SetStanding):
            return None
        if isinstance(order, SetOverride):
            if resource.spec.kind == "pool":
                return SteerProblem.POOL
            if order.limit is not None and order.limit.kind != resource.spec.kind:
                return SteerProblem.OTHER_KIND
            return SteerProblem.OVER if order.limit is not None and order.until <= now else None
        if not isinstance(resource.limit, DumbPool):
            return SteerProblem.NOT_A_POOL
        if order.member is not None and order.member not in {member.id for member in resource.limit.spec.members}:
            return SteerProblem.UNKNOWN_MEMBER
        over = isinstance(order, Quarantine) and order.until is not None and order.until <= now
        return SteerProblem.OVER if over else None

    def _put_in_force(self, resource: Resource, override: Override | None, now: Nanos) -> None:
        before, resource.override = resource.in_force, override
        if before.limit != resource.in_force.limit:
            resource.limit.reconfigure(resource.in_force.limit, now)
            self._deny_the_impossible()


Due = Resource | Lease | Place | TicketId


def malformed(ask: Acquire) -> str | None:
    """The field that no engine could make sense of."""
    if not 1 <= len(ask.claims) <= MAX_CLAIMS:
        return "claims"
    for number, claim in enumerate(ask.claims):
        if not 1 <= claim.permits <= MAX_PERMITS:
            return f"claims[{number}].permits"
        if any(claim.resource == other.resource for other in ask.claims[:number]):
            return f"claims[{number}].resource"
        if claim.key:
            return f"claims[{number}].key"
    if ask.wait is not None and ask.wait < 0:
        return "wait"
    if ask.lease is not None and ask.lease < MIN_LEASE:
        return "lease"
    return None
