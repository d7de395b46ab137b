"""Steering: what an operator orders about one resource.

It knows when an order can be obeyed, and whom it tells what. It must never decide anything by who the operator says he
is. In one sentence: an order that cannot be obeyed, or is obeyed already, changes nothing.
"""

from typing import assert_never

from governor.core import reload
from governor.core.agenda import NEVER
from governor.core.effects import Effect, OverrideOver, Steered, SteerProblem, SteerRefused
from governor.core.events import Quarantine, Readmit, Recycle, SetOverride, SetStanding, Steer
from governor.core.lending import Lending
from governor.core.resource import Override, Resource
from governor.core.types import Claim, Denial, Nanos, Reason, Standing


def steer(lending: Lending, order: Steer, now: Nanos, effects: list[Effect]) -> None:
    """Obey, or say why not; the answer is the first of the effects."""
    resource = lending.resources.get((order.resource, ""))
    if resource is None:
        effects.append(SteerRefused(order.resource, SteerProblem.UNKNOWN_RESOURCE))
    elif resource.removed:
        effects.append(SteerRefused(order.resource, SteerProblem.REMOVED))
    elif isinstance(order, SetStanding):
        _stand(lending, resource, order, now, effects)
    elif isinstance(order, SetOverride):
        _override(lending, resource, order, now, effects)
    else:
        effects.append(_members(resource, order, now))
        lending.touch(resource)


def end_overrides(lending: Lending, claims: tuple[Claim, ...], now: Nanos, effects: list[Effect]) -> None:
    """Of what is claimed, the limit that is in force by ``now`` counts, however much else is due."""
    for claim in claims:
        resource = lending.resources.get((claim.resource, claim.key))
        if resource is not None and resource.override is not None and resource.override.until <= now:
            override_over(lending, resource, resource.override.until, now, effects)


def override_over(lending: Lending, resource: Resource, at: Nanos, now: Nanos, effects: list[Effect]) -> None:
    """The declared limit is in force again, since the instant ``at``."""
    effects.append(OverrideOver(resource.spec.name))
    lending.resources.override(resource, None, at)
    reload.heed(lending, resource, now, effects)


def _stand(lending: Lending, resource: Resource, order: SetStanding, now: Nanos, effects: list[Effect]) -> None:
    standing = order.standing
    changed = resource.standing is not standing
    # Whoever says the same once more and why, where another or nobody has said why, is the one to be asked about it.
    says_why = standing is not Standing.OPEN and order.said.reason not in ("", resource.said.reason)
    effects.append(Steered(resource.spec.name, changed or says_why))
    if changed or says_why:
        resource.stand(standing, order.said)
    if standing is Standing.DRAINING:
        for ask in list(resource.line):
            lending.deny(ask, Denial(Reason.DRAINING, resource.spec.name), now, effects)
    elif changed:
        lending.touch(resource)


def _override(lending: Lending, resource: Resource, order: SetOverride, now: Nanos, effects: list[Effect]) -> None:
    name = resource.spec.name
    override = None if order.limit is None else Override(order.limit, order.until, order.said)
    if not resource.spec.limit.overridable:
        effects.append(SteerRefused(name, SteerProblem.POOL))
    elif override is not None and override.limit.kind != resource.spec.kind:
        effects.append(SteerRefused(name, SteerProblem.OTHER_KIND))
    elif override is not None and override.until <= now:
        effects.append(SteerRefused(name, SteerProblem.OVER))
    else:
        changed = override != resource.override
        effects.append(Steered(name, changed))
        if changed:
            lending.resources.override(resource, override, now)
            reload.heed(lending, resource, now, effects)


def _members(resource: Resource, order: Recycle | Quarantine | Readmit, now: Nanos) -> Steered | SteerRefused:
    name, roster, member = resource.spec.name, resource.limit.roster, order.member
    if roster is None:
        return SteerRefused(name, SteerProblem.NOT_A_POOL)
    if member is not None and not roster.declares(member):
        return SteerRefused(name, SteerProblem.UNKNOWN_MEMBER)
    match order:
        case Recycle():
            news = roster.recycle(member, now)
            return Steered(name, bool(news), news if member is None else (member,))
        case Quarantine():
            until = NEVER if order.until is None else order.until
            if until <= now:
                return SteerRefused(name, SteerProblem.OVER)
            return Steered(name, roster.keep_out(order.member, until, order.said, now), (order.member,))
        case Readmit():
            return Steered(name, roster.readmit(order.member, now), (order.member,))
        case _:
            assert_never(order)
