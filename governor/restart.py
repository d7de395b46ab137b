"""Restart: a driver that goes on where the daemon before it ended.

It knows what of a remembered instant is left now, and in which order an engine is told. It must never know where it was
written down.

For leases time stands still while no daemon runs: none ends because its holder had nobody to renew it with. For what is
spent or quarantined, and for an override, it goes on, if the machine has not been started anew meanwhile: whoever set
the limit counts in the time of the world.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from governor.core.effects import Effect, OverrideOver, Reconfigured, ReconfigureRefused, RestoreRefused
from governor.core.resource import Remembered, ResourceSpec
from governor.core.types import Nanos

if TYPE_CHECKING:
    from governor.core.snapshot import Held
    from governor.driver import Driver
    from governor.store import Stored


class RestartError(Exception):
    """What was remembered makes no sense."""


@dataclass(slots=True, frozen=True)
class Restarted:
    """How it went. ``stamp``: the last sign of life of the daemon before, by its clock; ``now``: what that is now.

    ``resources_by``: how far the instants of resources move, for which time has gone on. ``graced``: how many of the
    ``leases`` live longer by the ``grace``. ``kept``: what cannot become what it is to be, with why. ``change``: what
    became of everything else, compared with what was declared before. ``over``: resources with an override whose time
    has come while no daemon ran.
    """

    stamp: Nanos
    now: Nanos
    resources_by: Nanos
    leases: int
    graced: int
    grace: Nanos
    kept: tuple[str, ...]
    change: Reconfigured
    over: tuple[str, ...]


def go_on(
    driver: "Driver", stored: "Stored", specs: Sequence[ResourceSpec], grace: Nanos, now: Nanos, boot: str
) -> Restarted:
    """Let ``driver``, which is new, remember what was stored, then declare ``specs``. Raises RestartError.

    ``grace``: how much longer leases live that have not had one; not less than the daemon before has promised, since
    clients rely on that.
    """
    grace = max(grace, stored.promised)
    _declare(driver, [each.spec for each in stored.resources])
    stamp = last_sign_of_life(stored)
    by = now - stamp
    same_clock = boot != "" and boot == stored.boot and stamp <= now
    resources_by = 0 if same_clock else by
    resources = [_later(each, resources_by, now) for each in stored.resources]
    fading = [_later(each, resources_by, now) for each in stored.fading]
    leases = [_moved(row.held, by + (0 if row.graced else grace), by) for row in stored.leases]
    past = [replace(each, ended_at=each.ended_at + by) for each in stored.past]
    over: list[str] = []

    def see(effects: Sequence[Effect]) -> None:
        over.extend([effect.resource for effect in effects if isinstance(effect, OverrideOver)])

    driver.observers.append(see)
    outcome = driver.restore(leases, resources, past, fading)
    if isinstance(outcome, RestoreRefused):
        more = f" (and {len(outcome.problems) - 1} more)" if len(outcome.problems) > 1 else ""
        raise RestartError(f"{outcome.problems[0]}{more}")
    change = driver.reconfigure(tuple(specs))
    kept: tuple[str, ...] = ()
    if isinstance(change, ReconfigureRefused):
        kept = change.problems
        kinds = {each.spec.name: each.spec for each in stored.resources}
        lent = {each.name for each in driver.snapshot().resources if each.leases}
        change = _declare(
            driver,
            [kinds[spec.name] if spec.name in lent and kinds[spec.name].kind != spec.kind else spec for spec in specs],
        )
    driver.observers.remove(see)
    former = {each.spec.name for each in stored.resources if not each.declared}
    change = _since(change, former, specs)
    graced = sum([not row.graced for row in stored.leases]) if grace else 0
    return Restarted(stamp, now, resources_by, outcome.leases, graced, grace, kept, change, tuple(over))


def last_sign_of_life(stored: "Stored") -> Nanos:
    """The latest instant of which anything is known: a grant is written at once, the stamp only now and then."""
    return max(
        stored.stamp,
        max([row.held.granted_at for row in stored.leases], default=0),
        max([each.ended_at for each in stored.past], default=0),
        max([each.at for each in (*stored.resources, *stored.fading)], default=0),
    )


def _moved(held: "Held", deadline_by: Nanos, by: Nanos) -> "Held":
    held.deadline += deadline_by
    held.granted_at += by
    return held


def _later(resource: Remembered, by: Nanos, now: Nanos) -> Remembered:
    override = resource.override
    return replace(
        resource,
        at=min(now, resource.at + by),
        override=None if override is None else replace(override, until=override.until + by),
    )


def _since(change: Reconfigured, former: set[str], specs: Sequence[ResourceSpec]) -> Reconfigured:
    """The same but for what was ``former`` already, for which it is no change to be so still."""
    added = {*change.added, *former}
    return Reconfigured(
        added=tuple([spec.name for spec in specs if spec.name in added]),
        changed=tuple([name for name in change.changed if name not in former]),
        removed=tuple([name for name in change.removed if name not in former]),
    )


def _declare(driver: "Driver", specs: Sequence[ResourceSpec]) -> Reconfigured:
    change = driver.reconfigure(tuple(specs))
    if isinstance(change, ReconfigureRefused):
        raise RestartError(change.problems[0])
    return change
