"""Reload: other resources are declared, all of them or none.

It knows whom a new declaration tells what: who waits in vain now, and who need not wait any more. It must never know
how a kind counts.
"""

from governor.core import admission
from governor.core.effects import Effect, Reconfigured, ReconfigureRefused
from governor.core.lending import Lending
from governor.core.resource import Resource, ResourceSpec
from governor.core.types import Denial, Nanos, Reason


def declare(lending: Lending, specs: tuple[ResourceSpec, ...], now: Nanos, effects: list[Effect]) -> None:
    """Exactly these from now on, or nothing has changed."""
    problems = lending.resources.problems(specs)
    if problems:
        effects.append(ReconfigureRefused(problems))
        return
    change = lending.resources.declare(specs, now, lending.leases.last_id)
    effects.append(
        Reconfigured(
            added=tuple([resource.spec.name for resource in change.added]),
            changed=tuple([resource.spec.name for resource in change.changed]),
            removed=tuple([resource.spec.name for resource in change.gone]),
        )
    )
    for resource in change.gone:
        for ask in list(resource.line):
            lending.deny(ask, Denial(Reason.UNKNOWN_RESOURCE, resource.spec.name), now, effects)
    for resource in change.changed:
        heed(lending, resource, now, effects)
    lending.settle(now, now, effects)
    for resource in change.gone:
        if not resource.leases:
            lending.resources.retire(resource)


def heed(lending: Lending, resource: Resource, now: Nanos, effects: list[Effect]) -> None:
    """Another limit is in force: refuse whoever waits in vain, and have its line looked at."""
    for ask in list(resource.line):
        if denial := admission.above_capacity(ask.wants):
            lending.deny(ask, denial, now, effects)
    lending.touch(resource)
