"""Restart: an engine that begins where another one ended.

It knows what of an engine outlives it, and how a new one takes it over. It must never know how it is written down.
"""

from collections.abc import Iterable

from governor.core import admission
from governor.core.ask import Ask
from governor.core.effects import Effect, Restored, RestoreRefused
from governor.core.events import Acquire, Restore
from governor.core.kinds import SPENT
from governor.core.leases import REMEMBERED, Lease
from governor.core.lending import Lending
from governor.core.memory import UnreadableError
from governor.core.resource import Remembered, Resource, ResourceSpec
from governor.core.snapshot import Held, Past
from governor.core.types import Claim, EndReason, Grant, LeaseId, Nanos, TicketId

# The ticket of whoever asked before the restart. Nobody can give it up, so what it was granted is never taken back.
_FORMER = TicketId(0)

# What all leases of the same grants have in common: the claims, and the resources that they are about or why they are
# about nothing.
_Shape = tuple[tuple[Claim, ...], admission.Wants | str]
_Shapes = dict[tuple[int, tuple[str, ...]], _Shape]


def held(lending: Lending, lease_id: LeaseId) -> Held | None:
    """All of a live lease."""
    lease = lending.leases.live(lease_id)
    if lease is None:
        return None
    assert lease.deadline is not None, "a lease without a deadline lent nothing, so it does not live"
    ask = lease.ask
    event = ask.event
    return Held(
        lease.id,
        lease.grants,
        lease.deadline,
        event.client,
        lease.length,
        event.request_id,
        event.labels,
        ask.length,
        lease.granted_at,
        lease.granted_at - ask.since,
        lease.ends_as is EndReason.DISCONNECTED,
        tuple([resource.spec.name for resource, _ in ask.wants if not resource.limit.lends]),
    )


def deadlines(lending: Lending, lease_ids: Iterable[LeaseId]) -> list[tuple[Nanos, bool, LeaseId]]:
    """Of live leases that which moves, without the trouble of the rest: a keep-alive may have ten thousand."""
    return [
        (lease.deadline, lease.ends_as is EndReason.DISCONNECTED, lease.id)
        for lease in map(lending.leases.live, lease_ids)
        if lease is not None and lease.deadline is not None
    ]


def past(lending: Lending, lease_id: LeaseId) -> Past | None:
    """A lease that has ended, if its request id stands for it yet."""
    lease = lending.leases.past(lease_id)
    if lease is None:
        return None
    assert lease.end is not None, "a lease that lives is not past"
    event = lease.ask.event
    if lending.register.of_request(event.client, event.request_id) is not lease:
        return None
    waited = lease.granted_at - lease.ask.since
    return Past(lease.id, event.claims, event.client, event.request_id, lease.end, lease.ended_at, waited)


def restore(lending: Lending, event: Restore, effects: list[Effect]) -> None:
    """Take over what was remembered, if it makes sense."""
    assert not len(lending.leases) + len(lending.waiters), "somebody asked before the restart was over"
    pools = {resource.spec.name for resource in lending.resources if resource.limit.roster is not None}
    shapes: _Shapes = {}
    told: list[tuple[LeaseId | str, str | None]] = [
        *[(lease.id, _restore_lease(lending, lease, pools, shapes)) for lease in event.leases],
        *[(lease.id, _restore_past(lending, lease)) for lease in event.past[-REMEMBERED:]],
        *[(remembered.spec.name, _recall(lending, remembered)) for remembered in event.resources],
        *[(fading_name(remembered), _recall_fading(lending, remembered)) for remembered in event.fading],
    ]
    problems = [(culprit, problem) for culprit, problem in told if problem is not None]
    if not problems:
        effects.append(Restored(len(lending.leases)))
        return
    sentences = [
        f"{culprit}: {problem}" if isinstance(culprit, str) else f"lease {culprit}: {problem}"
        for culprit, problem in problems
    ]
    effects.append(RestoreRefused(tuple(sentences), tuple([culprit for culprit, _ in problems])))


def _restore_lease(lending: Lending, former: Held, pools: set[str], shapes: "_Shapes") -> str | None:
    """Hold what it held; why not, if it cannot be."""
    # As a rule very many have the same grants, as one object, which needs to be looked into but once.
    key = (id(former.grants), former.spent)
    claims, wants = shapes.get(key) or shapes.setdefault(key, _shape(lending, former, pools))
    event = Acquire(_FORMER, claims, former.client, None, former.granted_for, former.request_id, former.labels)
    if problem := _misfit(lending, former.id, event):
        return problem
    if lending.register.of_request(event.client, event.request_id):
        return f"another lease has its request id, {event.request_id}"
    if isinstance(wants, str):
        return wants
    for (resource, permits), grant in zip(wants, former.grants, strict=True):
        limit = resource.limit
        limit.restore(permits, grant.members, former.granted_at)
        resource.leases += limit.lends
    ask = Ask(event, [_FORMER], wants, former.granted_for, former.granted_at - former.waited)
    ends_as = EndReason.DISCONNECTED if former.orphaned else EndReason.EXPIRED
    lease = Lease(former.id, ask, former.grants, former.granted_at, former.deadline, ends_as)
    lending.leases.restore(lease)
    lending.register.enter_request(ask, lease)
    return None


def _shape(lending: Lending, former: Held, pools: set[str]) -> "_Shape":
    """What it claimed, and what that is about; or why it is about nothing."""
    claims = tuple([Claim(grant.resource, grant.permits, grant.key) for grant in former.grants])
    wants: admission.Wants = []
    for grant in former.grants:
        name, members = grant.resource, len(grant.members)
        resource = _spent(name) if name in former.spent else lending.resources.get((name, grant.key))
        if resource is None:
            return claims, f"its resource {name} is not there"
        if members != (grant.permits if name in pools and name not in former.spent else 0):
            return claims, f"it holds {members} members of {name}, for permits: {grant.permits}"
        wants.append((resource, grant.permits))
    lends = any(resource.limit.lends for resource, _ in wants)
    return claims, wants if lends else "it holds nothing that comes back"


def _spent(name: str) -> Resource:
    """Stands for whatever a permit was spent of that is never asked for again."""
    return Resource(ResourceSpec(name, SPENT, 0, 0, None, 0, 0), agenda_key=0, now=0)


def _restore_past(lending: Lending, former: Past) -> str | None:
    """Let its request id stand for it; why not, if it cannot be."""
    event = Acquire(_FORMER, former.claims, former.client, request_id=former.request_id)
    if problem := _misfit(lending, former.id, event):
        return problem
    known = lending.register.of_request(event.client, event.request_id)
    if isinstance(known, Lease) and known.end is None:
        # It had been forgotten when it was used once more. Likewise, of two past ones the later stands.
        return None
    grants = tuple([Grant(claim.resource, claim.permits, (), claim.key) for claim in former.claims])
    ask = Ask(event, [_FORMER], [], 0, former.ended_at - former.waited)
    lease = Lease(former.id, ask, grants, former.ended_at, None, end=former.reason, ended_at=former.ended_at)
    lending.leases.restore(lease)
    lending.register.enter_request(ask, lease)
    return None


def _misfit(lending: Lending, lease_id: LeaseId, event: Acquire) -> str | None:
    """Why there cannot be a lease of this id, with this ask."""
    if lease_id < 1 or lending.leases.live(lease_id) or lending.leases.past(lease_id):
        return "there is one of this id already, or cannot be"
    denial = admission.malformed(event)
    return None if denial is None else f"{denial.field}: expected {denial.expected}"


def fading_name(remembered: Remembered) -> str:
    """What one that is declared no more is called beside the resource that may have its name now."""
    return f"{remembered.spec.name} (declared before, as a {remembered.spec.kind})"


def _recall_fading(lending: Lending, remembered: Remembered) -> str | None:
    """Let what is declared no more recall what was spent of it; why not, if it cannot."""
    resource = lending.resources.get((remembered.spec.name, ""))
    if resource is not None and resource.spec.kind == remembered.spec.kind:
        return "is declared"
    try:
        lending.resources.recall_fading(remembered)
    except UnreadableError as error:
        return f"what it remembers makes no sense: {error}"
    return None


def _recall(lending: Lending, remembered: Remembered) -> str | None:
    """Let a resource recall what its kind remembers; why not, if it cannot."""
    resource = lending.resources.get((remembered.spec.name, ""))
    if resource is None or resource.spec != remembered.spec:
        return "is not declared as it was remembered"
    override = remembered.override
    if override is not None and (override.limit.kind != resource.spec.kind or not override.limit.overridable):
        return f"its limit cannot be that of a {override.limit.kind} for a while"
    resource.stand(remembered.standing, remembered.said)
    resource.graces = remembered.graces
    lending.resources.override(resource, override, remembered.at)
    try:
        resource.limit.recall(remembered.memory, remembered.at)
    except UnreadableError as error:
        return f"what it remembers makes no sense: {error}"
    return None
