"""Differences: what other declarations would change, and whom that would tell what.

It knows how to try a reload out beside the state itself, some of it at a time. It must never change that. Nothing is
estimated: who waits is put in line before copies of the limits, and those are reloaded by the very code that does it.
"""

from copy import deepcopy
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from governor.core import reload
from governor.core.agenda import NEVER
from governor.core.ask import Ask, Place
from governor.core.effects import Denied, Effect, Granted
from governor.core.lending import Lending
from governor.core.resource import Resource, ResourceSpec
from governor.core.types import LeaseId, Nanos

# Resources that are compared in one step, some five microseconds each; and one line with those that are linked to it,
# with some ten microseconds for each who waits there.
AT_ONCE: Final = 100


class Fate(StrEnum):
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
    what: Fate
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


class Comparison:
    """Other declarations beside those in force: what each resource would become, as of when it is looked at.

    Resources are named at the start. Those whose lines are linked, by asks that stand in several, are compared in one
    step, for one may have to be refused or granted because of another.
    """

    def __init__(self, lending: Lending, specs: tuple[ResourceSpec, ...]) -> None:
        self._lending = lending
        self._specs = {spec.name: spec for spec in specs}
        present = [resource.spec.name for resource in lending.resources]
        # Added and changed ones in the order of ``specs``, then the removed ones.
        self._order = list(dict.fromkeys([*self._specs, *present]))
        self._next = 0
        self._found: dict[str, Difference] = {}
        # Of those that have been tried out with others.
        self._tried: set[str] = set()

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What was found; what does not change is left out."""
        return tuple([self._found[name] for name in self._order if name in self._found])

    def step(self, now: Nanos) -> bool:
        """Compare some more: up to `AT_ONCE`, or until a line has been tried out. Whether that was all."""
        end = min(self._next + AT_ONCE, len(self._order))
        while self._next < end:
            name = self._order[self._next]
            self._next += 1
            resource = self._lending.resources.get((name, ""))
            found = None if name in self._tried else _difference(resource, self._specs.get(name), now)
            if found is None:
                continue
            if resource is None or not resource.line.permits:
                self._found[name] = self._refusable(found)
                continue
            self._try_out(resource, now)
            break
        return self._next == len(self._order)

    def _problem(self, name: str) -> str:
        spec = self._specs.get(name)
        return "" if spec is None else "".join(self._lending.resources.problems((spec,)))

    def _refusable(self, found: Difference) -> Difference:
        problem = self._problem(found.resource)
        return replace(found, over_limit=0, problem=problem) if problem else found

    def _try_out(self, first: Resource, now: Nanos) -> None:
        lines = _linked(first)
        specs = {}
        for resource in lines:
            spec = self._specs.get(resource.spec.name)
            if spec is not None:
                specs[spec.name] = resource.spec if self._problem(spec.name) else spec
        effects = _reload(self._lending, lines, tuple(specs.values()), now)
        for resource in lines:
            name = resource.spec.name
            self._tried.add(name)
            found = _difference(resource, self._specs.get(name), now)
            if found is None:
                continue
            found = self._refusable(found)
            self._found[name] = found if found.problem else _told(found, effects)


def _told(found: Difference, effects: list[Effect]) -> Difference:
    """With whom that would tell what."""
    name = found.resource
    refused = [
        claim.permits
        for effect in effects
        if isinstance(effect, Denied) and effect.denial.resource == name
        for claim in effect.claims
        if claim.resource == name
    ]
    granted = sum(
        isinstance(effect, Granted) and any(grant.resource == name for grant in effect.grants) for effect in effects
    )
    return replace(found, refused=len(refused), most_asked=max(refused, default=0), granted=granted)


def _linked(first: Resource) -> list[Resource]:
    """It, and all in whose lines somebody waits who also waits in one of these."""
    lines = {first.spec.name: first}
    unseen = [first]
    while unseen:
        for ask in unseen.pop().line:
            for resource, _ in ask.wants:
                if resource.spec.name not in lines:
                    lines[resource.spec.name] = resource
                    unseen.append(resource)
    return list(lines.values())


def _difference(resource: Resource | None, after: ResourceSpec | None, now: Nanos) -> Difference | None:
    """What can be said of it without trying anything out; None if it stays as it is."""
    before = None if resource is None or resource.removed else resource.spec
    if after is None:
        if resource is None or before is None:
            return None
        limit = resource.limit
        return Difference(before.name, Fate.REMOVED, before, None, limit.in_use, resource.leases, len(resource.line))
    if before == after:
        return None
    what = Fate.ADDED if before is None else Fate.CHANGED
    if resource is None:
        return Difference(after.name, what, None, after)
    override = resource.override if resource.spec.kind == after.kind else None
    capacity = (after if override is None else override).limit.build(now).capacity
    in_use = resource.limit.in_use
    over_limit = 0 if capacity is None else max(0, in_use - capacity)
    return Difference(after.name, what, before, after, in_use, resource.leases, len(resource.line), over_limit)


def _reload(lending: Lending, lines: list[Resource], specs: tuple[ResourceSpec, ...], now: Nanos) -> list[Effect]:
    """What it would do to who waits in these lines, which are linked to no others; nobody else is told anything."""
    trial = Lending(LeaseId(lending.leases.last_id + 1))
    trial.leases.reserve(LeaseId(lending.leases.last_id + lending.leases.left))
    trial.resources.declare(tuple([resource.spec for resource in lines]), now, trial.leases.last_id)
    twins: dict[int, Resource] = {}
    asks: dict[Place, Ask] = {}
    for resource in lines:
        twin = trial.resources.get((resource.spec.name, resource.key))
        assert twin is not None, "it was just declared"
        trial.resources.override(twin, resource.override, now)
        twin.limit = deepcopy(resource.limit)
        twin.leases = resource.leases
        twin.stand(resource.standing)
        twins[id(resource)] = twin
        asks.update([(ask.place, ask) for ask in resource.line])
    for _, ask in sorted(asks.items()):
        wants = [(twins[id(resource)], permits) for resource, permits in ask.wants]
        again = Ask(ask.event, ask.tickets[:1], wants, ask.length, ask.since)
        trial.waiters.join(again)
        trial.waiters.wait(again.tickets[0], NEVER, None)
        trial.register.enter(again, again)
    effects: list[Effect] = []
    reload.declare(trial, specs, now, effects)
    return effects
