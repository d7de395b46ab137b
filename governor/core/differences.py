"""Differences: what other declarations would change, and whom that would tell what.

It knows how to try a reload out beside the state itself. It must never change that. Nothing is estimated: who waits is
put in line before copies of the limits, and those are reloaded by the very code that does it.
"""

from copy import deepcopy
from dataclasses import dataclass, replace
from enum import StrEnum

from governor.core import reload
from governor.core.agenda import NEVER
from governor.core.ask import Ask
from governor.core.effects import Denied, Effect, Granted
from governor.core.lending import Lending
from governor.core.resource import Resource, ResourceSpec
from governor.core.types import LeaseId, Nanos


class What(StrEnum):
    """What becomes of a resource."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(slots=True, frozen=True)
class Difference:
    """One resource that would change: from ``before`` to ``after``, None is not declared.

    ``over_limit``: permits lent beyond the capacity then in force, so many must come back before the next grant; of a
    removed one 0, since there is none. Waiters are counted as places in line. ``refused``: those that would be refused
    at once because of this resource, and the ``most_asked`` of it by one of them. ``granted``: those with a claim on
    it that would be granted at once. ``problem``: why all of it would be refused; nobody is refused or granted then
    because of this resource, and of the others it is said what would happen if this one stayed as it is.
    """

    resource: str
    what: What
    before: ResourceSpec | None
    after: ResourceSpec | None
    in_use: int = 0
    leases: int = 0
    waiters: int = 0
    over_limit: int = 0
    refused: int = 0
    most_asked: int = 0
    granted: int = 0
    problem: str = ""


def between(lending: Lending, specs: tuple[ResourceSpec, ...], now: Nanos) -> tuple[Difference, ...]:
    """Added and changed ones in the order of ``specs``, then the removed ones. What did not change is left out."""
    problems = {spec.name: problem for spec in specs for problem in lending.resources.problems((spec,))}
    present = {resource.spec.name: resource for resource in lending.resources}
    names = {spec.name for spec in specs}
    found = [_difference(present.get(spec.name), spec, now) for spec in specs]
    found += [_difference(resource, None, now) for name, resource in present.items() if name not in names]
    tried = _try_out(
        lending, tuple([present[spec.name].spec if spec.name in problems else spec for spec in specs]), now
    )
    differences = []
    for each in found:
        if each is None:
            continue
        if problem := problems.get(each.resource):
            differences.append(replace(each, over_limit=0, problem=problem))
            continue
        refused = [
            claim.permits
            for effect in tried
            if isinstance(effect, Denied) and effect.denial.resource == each.resource
            for claim in effect.claims
            if claim.resource == each.resource
        ]
        granted = sum(
            isinstance(effect, Granted) and any(grant.resource == each.resource for grant in effect.grants)
            for effect in tried
        )
        differences.append(replace(each, refused=len(refused), most_asked=max(refused, default=0), granted=granted))
    return tuple(differences)


def _difference(resource: Resource | None, after: ResourceSpec | None, now: Nanos) -> Difference | None:
    """What can be said of it without trying anything out; None if it stays as it is."""
    before = None if resource is None or resource.removed else resource.spec
    if after is None:
        if resource is None or before is None:
            return None
        limit = resource.limit
        return Difference(before.name, What.REMOVED, before, None, limit.in_use, resource.leases, len(resource.line))
    if before == after:
        return None
    what = What.ADDED if before is None else What.CHANGED
    if resource is None:
        return Difference(after.name, what, None, after)
    override = resource.override if resource.spec.kind == after.kind else None
    capacity = (after if override is None else override).limit.build(now).capacity
    in_use = resource.limit.in_use
    over_limit = 0 if capacity is None else max(0, in_use - capacity)
    return Difference(after.name, what, before, after, in_use, resource.leases, len(resource.line), over_limit)


def _try_out(lending: Lending, specs: tuple[ResourceSpec, ...], now: Nanos) -> list[Effect]:
    """What a reload would do to who waits. Beside lines nothing can be refused or granted, so only those are tried."""
    trial = Lending(LeaseId(lending.leases.last_id + 1))
    trial.leases.reserve(LeaseId(lending.leases.last_id + lending.leases.left))
    lines = [resource for resource in lending.resources if resource.line.permits]
    trial.resources.declare(tuple([resource.spec for resource in lines]), now)
    twins: dict[int, Resource] = {}
    for resource in lines:
        twin = trial.resources.get((resource.spec.name, resource.key))
        assert twin is not None, "it was just declared"
        trial.resources.override(twin, resource.override, now)
        twin.limit = deepcopy(resource.limit)
        twin.leases = resource.leases
        twin.stand(resource.standing)
        twins[id(resource)] = twin
    for ask in lending.waiters.all():
        wants = [(twins[id(resource)], permits) for resource, permits in ask.wants]
        again = Ask(ask.event, ask.tickets[:1], wants, ask.length, ask.since)
        trial.waiters.join(again)
        trial.waiters.wait(again.tickets[0], NEVER, None)
        trial.register.enter(again, again)
    effects: list[Effect] = []
    names = {resource.spec.name for resource in lines}
    reload.declare(trial, tuple([spec for spec in specs if spec.name in names]), now, effects)
    return effects
