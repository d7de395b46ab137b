"""What an outsider knows of the engine: which events went in, which effects came out, in what order.

It checks I4 to I8 as the effects come in and keeps the sums for I1 to I3 and I11.
It must never ask the engine anything.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from governor.core.effects import (
    Abandoned,
    Denied,
    Effect,
    Frozen,
    Granted,
    LeaseEnded,
    LeaseExtended,
    LeaseOrphaned,
    OverrideOver,
    Queued,
    Reconfigured,
    ReconfigureRefused,
    Refunded,
    Released,
    Renewed,
    Revoked,
    Steered,
    SteerRefused,
)
from governor.core.events import (
    Abandon,
    Acquire,
    Disconnect,
    Event,
    Freeze,
    Reconfigure,
    Release,
    Revoke,
    SetOverride,
)
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.limit import LimitSpec
from governor.core.resource import ResourceSpec
from governor.core.types import SECOND, EndReason, LeaseId, Nanos, Reason, TicketId


@dataclass
class Asked:
    """One ticket that went in, and how it came out."""

    ask: Acquire
    at: Nanos
    end: str = ""


@dataclass
class Lent:
    """One grant that came out."""

    ask: Acquire
    grant: Granted
    at: Nanos
    lends: frozenset[str]
    deadline: Nanos | None
    holders: set[TicketId]
    ended: bool = False
    orphaned: bool = False


@dataclass
class Record:
    """The books of an outsider."""

    asked: dict[TicketId, Asked] = field(default_factory=dict)
    # Tickets without an end, in the order of asking. Those of one request id wait in the place of the first.
    places: list[list[TicketId]] = field(default_factory=list)
    # Since when there has been somebody in that place.
    since: dict[TicketId, Nanos] = field(default_factory=dict)
    leases: dict[LeaseId, Lent] = field(default_factory=dict)
    counters: Counter[str] = field(default_factory=Counter)
    declared: dict[str, ResourceSpec] = field(default_factory=dict)
    overrides: dict[str, LimitSpec] = field(default_factory=dict)
    # Every grant of every window since it was last reconfigured, but for those that nobody received.
    spent: dict[tuple[str, Window], list[tuple[Nanos, int, LeaseId]]] = field(default_factory=dict)
    abandoned: set[TicketId] = field(default_factory=set)

    def take_down(self, event: Event, effects: Sequence[Effect], now: Nanos) -> None:
        """One step of the engine."""
        if isinstance(event, Acquire):
            self.asked[event.ticket] = Asked(event, now)
        for effect in effects:
            if isinstance(effect, Granted | Denied | Queued) and effect.ticket not in self.since:
                # Only now: what was due before may have emptied the place that it would have shared.
                self._stand_in_line(self.asked[effect.ticket].ask)
            match effect:
                case Granted():
                    self._granted(effect, now)
                case Denied() | Abandoned():
                    self._ended_badly(effect, now)
                case Queued():
                    assert not self.asked[effect.ticket].end, "queued after its end"
                    assert effect.not_before >= now
                case Reconfigured():
                    assert isinstance(event, Reconfigure)
                    self._reconfigured(event, effect)
                case Steered():
                    self._steered(event, effect)
                case OverrideOver():
                    self._put_in_force(effect.resource, self.declared[effect.resource].limit)
                    del self.overrides[effect.resource]
                case Released() | Renewed() | Revoked() | ReconfigureRefused() | SteerRefused():
                    pass
                case _:
                    self._of_leases(effect, event, now)
        # Afterwards: what was due before may have granted in this very step the ticket that is abandoned in it.
        self._given_up(event)

    def _given_up(self, event: Event) -> None:
        """Which tickets nobody holds any more who could say so once more."""
        match event:
            case Abandon():
                self.abandoned.add(event.ticket)
                self._spent_in_vain(event.ticket)
            case Release(settled=True):
                for id_ in set(event.leases) & set(self.leases):
                    self.leases[id_].holders.clear()
            case _:
                pass

    # --- tickets ----------------------------------------------------------------------------------------------

    def _stand_in_line(self, ask: Acquire) -> None:
        if ask.request_id:
            for place in self.places:
                first = self.asked[place[0]].ask
                same = (first.client, first.request_id, first.claims)
                if same == (ask.client, ask.request_id, ask.claims):
                    self.since[ask.ticket] = self.since[place[0]]
                    place.append(ask.ticket)
                    return
        self.places.append([ask.ticket])
        self.since[ask.ticket] = self.asked[ask.ticket].at

    def _end(self, ticket: TicketId, how: str) -> Asked:
        asked = self.asked[ticket]
        assert not asked.end, f"I6: ticket {ticket} was {asked.end} and then {how}"
        asked.end = how
        self.counters[how] += 1
        return asked

    def _leave(self, ticket: TicketId) -> list[TicketId]:
        place = next(place for place in self.places if ticket in place)
        place.remove(ticket)
        if not place:
            self.places = [place for place in self.places if place]
        return place

    def _granted(self, grant: Granted, now: Nanos) -> None:
        asked = self._end(grant.ticket, "granted")
        assert grant.ticket not in self.abandoned, "I5: granted after it was abandoned"
        assert grant.client == asked.ask.client
        if not grant.repeated:
            self._nobody_overtaken(grant)
        self._leave(grant.ticket)
        if grant.repeated:
            self._same_lease_again(grant, asked.ask)
        else:
            self._new_lease(grant, asked.ask, now)

    def _nobody_overtaken(self, grant: Granted) -> None:
        mine = next(place for place in self.places if grant.ticket in place)
        wanted = {claim.resource for claim in self.asked[grant.ticket].ask.claims}
        for place in self.places[: self.places.index(mine)]:
            theirs = {claim.resource for claim in self.asked[place[0]].ask.claims}
            assert not wanted & theirs, f"I4: ticket {grant.ticket} overtook {place}"

    def _new_lease(self, grant: Granted, ask: Acquire, now: Nanos) -> None:
        assert grant.lease > max(self.leases, default=0), "I7: lease ids must rise"
        assert tuple((g.resource, g.permits, g.key) for g in grant.grants) == tuple(
            (claim.resource, claim.permits, claim.key) for claim in ask.claims
        )
        if ask.request_id:
            for lease in self.leases.values():
                same = (lease.ask.client, lease.ask.request_id) == (ask.client, ask.request_id)
                assert lease.ended or not same, "I8: two live leases for one request id"
        lends = frozenset(g.resource for g in grant.grants if self.declared[g.resource].kind != "rate_limit")
        assert (grant.deadline is None) == (not lends)
        assert grant.deadline is None or grant.deadline > now, "born dead"
        assert grant.waited == now - self.since[ask.ticket]
        holders = {grant.ticket}
        self.leases[grant.lease] = Lent(ask, grant, now, lends, grant.deadline, holders, ended=not lends)
        self.counters["leases granted"] += bool(lends)
        for part in grant.grants:
            for (name, _), spent in self.spent.items():
                if name == part.resource:
                    spent.append((now, part.permits, grant.lease))

    def _same_lease_again(self, grant: Granted, ask: Acquire) -> None:
        lease = self.leases[grant.lease]
        assert (lease.ask.client, lease.ask.request_id) == (ask.client, ask.request_id)
        assert ask.request_id, "I8: repeated without a request id"
        assert (grant.grants, grant.deadline) == (lease.grant.grants, lease.deadline)
        assert grant.waited == lease.grant.waited
        lease.holders.add(grant.ticket)
        assert not lease.ended or not lease.lends, "I8: the grant of an ended lease was repeated"

    def _ended_badly(self, effect: Denied | Abandoned, now: Nanos) -> None:
        asked = self._end(effect.ticket, "denied" if isinstance(effect, Denied) else "abandoned")
        assert effect.claims == asked.ask.claims
        # Who does not wait has not waited, also beside an earlier ask of the same request id that does.
        idle = isinstance(effect, Denied) and effect.denial.reason is Reason.NONE_FREE
        assert effect.waited == (0 if idle else now - self.since[effect.ticket])
        self._leave(effect.ticket)

    # --- leases -----------------------------------------------------------------------------------------------

    def _of_leases(self, effect: Effect, event: Event, now: Nanos) -> None:
        match effect:
            case LeaseEnded():
                self._lease_ended(effect, event, now)
            case LeaseExtended():
                self._extended(effect, now)
            case LeaseOrphaned():
                self._orphaned(effect, event, now)
            case Frozen():
                self._frozen(effect, event, now)
            case Refunded():
                assert isinstance(event, Abandon)
                assert not self.leases[effect.lease].lends, "what was lent comes back as a lease that ends"
            case _:
                raise AssertionError(effect)

    def _extended(self, effect: LeaseExtended, now: Nanos) -> None:
        lease = self.leases[effect.lease]
        assert not lease.ended, "a renewal revived an ended lease"
        assert lease.deadline is not None
        assert effect.left == lease.deadline - now > 0
        lease.deadline, lease.orphaned = effect.deadline, False

    def _frozen(self, effect: Frozen, event: Event, now: Nanos) -> None:
        assert isinstance(event, Freeze)
        live = self.live()
        assert (effect.length, effect.leases) == (event.length, len(live))
        for lease in live:
            assert lease.deadline is not None
            lease.deadline = max(lease.deadline + event.length, now + SECOND)

    def restarted(self) -> None:
        """Whoever waited is gone, and whoever was granted something cannot say any more that he never heard of it."""
        assert not self.places, "their calls have ended"
        for lease in self.leases.values():
            lease.holders.clear()

    def _orphaned(self, effect: LeaseOrphaned, event: Event, now: Nanos) -> None:
        assert isinstance(event, Disconnect)
        assert effect.lease in event.leases
        lease = self.leases[effect.lease]
        assert not lease.ended, "an ended lease was orphaned"
        assert lease.deadline is not None
        assert now < effect.deadline <= lease.deadline, "a grace never makes a lease longer"
        assert not lease.orphaned or effect.deadline < lease.deadline, "told twice"
        lease.deadline, lease.orphaned = effect.deadline, True

    def _lease_ended(self, effect: LeaseEnded, event: Event, now: Nanos) -> None:
        lease = self.leases[effect.lease]
        assert not lease.ended, f"I6: lease {effect.lease} ended twice"
        assert effect.reason is not EndReason.SPENT
        assert effect.grants == lease.grant.grants
        assert effect.client == lease.ask.client
        assert effect.held == now - lease.at
        assert lease.deadline is not None
        assert effect.left == lease.deadline - now
        over = EndReason.DISCONNECTED if lease.orphaned else EndReason.EXPIRED
        early = {
            Release: EndReason.RELEASED,
            Abandon: EndReason.DISCONNECTED,
            Disconnect: EndReason.DISCONNECTED,
            Revoke: EndReason.REVOKED,
        }
        expected = over if effect.left <= 0 else early.get(type(event))
        assert effect.reason is expected, "a lease lives until its deadline, and ends as whatever ended it"
        lease.ended = True
        self.counters["leases ended"] += 1
        if isinstance(event, Abandon) and effect.left > 0:
            self._refund(effect.lease)

    def live(self) -> list[Lent]:
        """The leases that have not ended."""
        return [lease for lease in self.leases.values() if not lease.ended]

    def in_use(self, resource: str) -> int:
        """I1: the sum over the live leases."""
        return sum(
            grant.permits
            for lease in self.live()
            for grant in lease.grant.grants
            if grant.resource == resource and resource in lease.lends
        )

    # --- resources --------------------------------------------------------------------------------------------

    def _reconfigured(self, event: Reconfigure, effect: Reconfigured) -> None:
        before, self.declared = self.declared, {spec.name: spec for spec in event.resources}
        names = (effect.added, effect.changed, effect.removed)
        assert all(len(set(some)) == len(some) for some in names)
        limits = {name: self.overrides.get(name, spec.limit) for name, spec in before.items()}
        self.overrides = {
            name: limit
            for name, limit in self.overrides.items()
            if name in self.declared and self.declared[name].kind == limit.kind
        }
        in_force = {name: self.overrides.get(name, spec.limit) for name, spec in self.declared.items()}
        self.spent = {
            (name, window): self.spent.get((name, window), []) if limits.get(name) == limit else []
            for name, limit in in_force.items()
            if isinstance(limit, RateLimitSpec)
            for window in limit.windows
        }

    def _steered(self, event: Event, effect: Steered) -> None:
        if isinstance(event, SetOverride) and effect.changed:
            self._put_in_force(event.resource, event.limit or self.declared[event.resource].limit)
            self.overrides.pop(event.resource, None)
            if event.limit is not None:
                self.overrides[event.resource] = event.limit

    def _put_in_force(self, name: str, limit: LimitSpec) -> None:
        """What was spent of other windows says nothing of these."""
        if self.overrides.get(name, self.declared[name].limit) != limit and isinstance(limit, RateLimitSpec):
            self.spent = {key: spent for key, spent in self.spent.items() if key[0] != name}
            self.spent |= {(name, window): [] for window in limit.windows}

    def _spent_in_vain(self, ticket: TicketId) -> None:
        """A grant of rate limits only has no lease to end, but is refunded when nobody is left who received it."""
        for id_, lease in self.leases.items():
            if ticket in lease.holders:
                lease.holders.remove(ticket)
                if not lease.holders and not lease.lends:
                    self._refund(id_)

    def _refund(self, id_: LeaseId) -> None:
        for spent in self.spent.values():
            spent[:] = [one for one in spent if one[2] != id_]


def never_more(window: Window, spent: Sequence[tuple[Nanos, int, LeaseId]]) -> None:
    """I9 for all stretches of time that end with the newest grant."""
    end = spent[-1][0] if spent else 0
    total = 0
    for start, permits, _ in reversed(spent):
        total += permits
        bound = window.burst + Fraction(window.permits * (end - start), window.period)
        assert total <= bound, f"I9: {total} permits within {end - start} ns, but {bound} is the most"
