"""What is declared of a resource, as the YAML would say it, and how two declarations differ.

It knows how each setting is written. It must never show what an attribute of a member is: that may have come from a
variable of the environment, and be a secret.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from governor.config.change import SettingChange
from governor.config.values import KEEP, RELEASE, UNLIMITED
from governor.core.kinds.pool import MemberSpec, PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec
from governor.core.resource import ResourceSpec
from governor.core.types import Nanos
from governor.units import Rate, format_duration, format_rate

# In the place of what must not be shown.
HIDDEN: Final = "(not shown)"
NEVER: Final = "never"
# Between a rate and its burst, where both stand in one line.
BURST: Final = " burst "

# Of the members of one pool, which may have a thousand: how many are named in a line, and how many changes are told.
_NAMED: Final = 20
_TOLD: Final = 50


def settings(spec: ResourceSpec) -> dict[str, str]:
    """All that holds of a resource, its limit first."""
    return limit_settings(spec.limit) | {
        "lease": format_duration(spec.lease),
        "max_lease": format_duration(spec.max_lease),
        "on_disconnect": _on_disconnect(spec.on_disconnect),
        "max_wait": format_duration(spec.max_wait),
        "max_waiters": str(spec.max_waiters),
    }


def limit_settings(limit: LimitSpec) -> dict[str, str]:
    """What is particular to its kind."""
    match limit:
        case SemaphoreSpec():
            return {"permits": UNLIMITED if limit.permits is None else str(limit.permits)}
        case RateLimitSpec():
            return _rates(limit.windows)
        case PoolSpec():
            return _pool(limit)
        case _:
            raise AssertionError(f"{limit.kind}: nobody has said how to write this")


def changes(before: ResourceSpec, after: ResourceSpec) -> list[SettingChange]:
    """What differs; of what both kinds have, if they are of two kinds."""
    old, new = settings(before), settings(after)
    kind = [SettingChange("kind", before.kind, after.kind)] if before.kind != after.kind else []
    members = []
    if isinstance(before.limit, PoolSpec) and isinstance(after.limit, PoolSpec):
        members = _some(list(_members(before.limit, after.limit)))
    plain = [SettingChange(name, old.get(name, ""), new.get(name, "")) for name in old | new]
    return kind + [change for change in plain if change.before != change.after] + members


def declared(spec: ResourceSpec) -> list[SettingChange]:
    """What there will be of one that was not there."""
    return [SettingChange(name, "", text) for name, text in settings(spec).items()]


def _on_disconnect(grace: Nanos | None) -> str:
    if grace is None:
        return KEEP
    return format_duration(grace) if grace else RELEASE


# --- rates ------------------------------------------------------------------------------------------------------


def _rates(windows: tuple[Window, ...]) -> dict[str, str]:
    if not windows:
        return {"rate": UNLIMITED}
    if len(windows) == 1:
        return {"rate": _rate(windows[0]), "burst": str(windows[0].burst)}
    return {"windows": ", ".join(map(_window, windows))}


def _rate(window: Window) -> str:
    """Such as ``100/s``."""
    return format_rate(Rate(window.permits, window.period))


def _window(window: Window) -> str:
    rate = _rate(window)
    return rate if window.burst == window.permits else f"{rate}{BURST}{window.burst}"


# --- pools ------------------------------------------------------------------------------------------------------


def _pool(pool: PoolSpec) -> dict[str, str]:
    members = pool.members
    counted = all(member == MemberSpec(str(number)) for number, member in enumerate(members, 1))
    return {
        **({"size": str(len(members))} if counted else {"members": _names(members)}),
        "order": pool.order,
        "quarantine": format_duration(pool.quarantine),
        "max_quarantine": format_duration(pool.max_quarantine),
        "max_lifetime": NEVER if pool.max_lifetime is None else format_duration(pool.max_lifetime),
        "idle_timeout": NEVER if pool.idle_timeout is None else format_duration(pool.idle_timeout),
    }


def _names(members: tuple[MemberSpec, ...]) -> str:
    named = ", ".join([member.id for member in islice(members, _NAMED)])
    return named if len(members) <= _NAMED else f"{named} and {len(members) - _NAMED} more"


def _members(before: PoolSpec, after: PoolSpec) -> Iterator[SettingChange]:
    old, new = ({member.id: member for member in pool.members} for pool in (before, after))
    for name in old | new:
        was, will = old.get(name), new.get(name)
        if was is not None and will is not None:
            yield from _member(was, will)
        else:
            yield SettingChange(f"members.{name}", _shares(was), _shares(will))
    kept = [name for name in old if name in new]
    if kept != [name for name in new if name in old]:
        yield SettingChange("members", "as declared", "in another order")


def _shares(member: MemberSpec | None) -> str:
    return "" if member is None else f"max_leases {member.max_leases}"


def _member(was: MemberSpec, will: MemberSpec) -> Iterator[SettingChange]:
    where = f"members.{was.id}"
    if was.max_leases != will.max_leases:
        yield SettingChange(f"{where}.max_leases", str(was.max_leases), str(will.max_leases))
    old, new = dict(was.attributes), dict(will.attributes)
    for key in old | new:
        if old.get(key) != new.get(key):
            yield SettingChange(f"{where}.{key}", HIDDEN if key in old else "", HIDDEN if key in new else "")


def _some(told: list[SettingChange]) -> list[SettingChange]:
    if len(told) <= _TOLD:
        return told
    return [*told[:_TOLD], SettingChange("members", "", f"and {len(told) - _TOLD} more changes")]
