"""Sense: whether all that was read of a file can be true at once, and what is left of it when some of it is not.

It knows that an engine would take it over. It must never know why the engine does not, nor where it was read.
"""

from dataclasses import replace

from governor.core.effects import RestoreRefused
from governor.core.engine import Engine
from governor.core.events import Reconfigure, Restore
from governor.core.kinds.pool import MemberSpec, PoolSpec
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec
from governor.core.resource import Remembered, ResourceSpec
from governor.core.restart import fading_name
from governor.core.types import SECOND, LeaseId, Nanos
from governor.store.rows import LeaseRow, Stored


def problems(stored: Stored) -> str:
    """What makes no sense, the first of it and how much more there is; empty if all does."""
    refused = _refused(stored)
    if refused is None:
        return ""
    more = f" (and {len(refused.problems) - 1} more)" if len(refused.problems) > 1 else ""
    return f"{refused.problems[0]}{more}"


def without_nonsense(stored: Stored, lost: list[str]) -> Stored:
    """All of it that makes sense together; what does not is told in ``lost``."""
    while (refused := _refused(stored)) is not None:
        lost += refused.problems
        culprits = set(refused.culprits)
        past = [each for each in stored.past if each.id not in culprits]
        # Of two of one id, one that lives and one that has ended, the former is believed.
        culprits.difference_update([each.id for each in stored.past])
        leases = [row for row in stored.leases if row.held.id not in culprits]
        resources = [_idle(each) if each.spec.name in culprits else each for each in stored.resources]
        fading = [each for each in stored.fading if fading_name(each) not in culprits]
        rest = replace(stored, leases=leases, past=past, resources=resources, fading=fading)
        assert rest != stored, f"it does not help to do without {refused.culprits}"
        stored = rest
    return stored


def stand_ins(leases: list[LeaseRow], known: set[str], at: Nanos, lost: list[str]) -> list[Remembered]:
    """Resources for what is lent of those of which nothing is ``known``; the config will say what they are."""
    lent: dict[str, set[str]] = {}
    for row in leases:
        for grant in row.held.grants:
            if grant.resource not in known and grant.resource not in row.held.spent:
                lent.setdefault(grant.resource, set()).update([member.id for member in grant.members])
    lost += [f"resource {name}: all but what is lent of it" for name in lent]
    specs = [ResourceSpec(name, _limit(members), SECOND, SECOND, None, 0, 0) for name, members in lent.items()]
    return [_idle(Remembered(spec, {}, at)) for spec in specs]


def _limit(members: set[str]) -> LimitSpec:
    """Only a pool has members."""
    if members:
        return PoolSpec(tuple([MemberSpec(member) for member in sorted(members)]))
    return SemaphoreSpec(None)


def _refused(stored: Stored) -> RestoreRefused | None:
    """Let an engine of its own take it over."""
    engine = Engine(first_id=LeaseId(stored.reserved + 1))
    engine.handle(Reconfigure(tuple([each.spec for each in stored.resources])), now=stored.stamp)
    leases = tuple([row.held for row in stored.leases])
    restore = Restore(leases, tuple(stored.resources), tuple(stored.past), tuple(stored.fading))
    outcome = engine.handle(restore, now=stored.stamp)[0]
    return outcome if isinstance(outcome, RestoreRefused) else None


def _idle(resource: Remembered) -> Remembered:
    """Nothing is spent of it, and nothing is quarantined."""
    spec = resource.spec if resource.override is None else resource.override
    return replace(resource, memory=spec.limit.build(resource.at).remember(resource.at))
