"""Short ways to declare resources in tests, every default filled in as the YAML would.

It knows the specs only. It must never know the engine.
"""

from collections.abc import Iterable
from typing import Final

from governor.core.kinds.pool import MemberSpec, Order, PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec
from governor.core.resource import ResourceSpec
from governor.core.types import SECOND, Nanos

DAY: Final[Nanos] = 86_400 * SECOND


def declared(
    name: str,
    limit: LimitSpec,
    *,
    lease: Nanos = 30 * SECOND,
    max_lease: Nanos = DAY,
    on_disconnect: Nanos | None = 2 * SECOND,
    max_wait: Nanos = 30 * SECOND,
    max_waiters: int = 1000,
) -> ResourceSpec:
    """A resource with the defaults of the YAML."""
    return ResourceSpec(
        name=name,
        limit=limit,
        lease=lease,
        max_lease=max_lease,
        on_disconnect=on_disconnect,
        max_wait=max_wait,
        max_waiters=max_waiters,
    )


def semaphore(
    name: str,
    permits: int | None,
    *,
    lease: Nanos = 30 * SECOND,
    max_lease: Nanos = DAY,
    on_disconnect: Nanos | None = 2 * SECOND,
    max_wait: Nanos = 30 * SECOND,
    max_waiters: int = 1000,
) -> ResourceSpec:
    """A semaphore; None permits is unlimited."""
    return declared(
        name,
        SemaphoreSpec(permits=permits),
        lease=lease,
        max_lease=max_lease,
        on_disconnect=on_disconnect,
        max_wait=max_wait,
        max_waiters=max_waiters,
    )


def pool(
    name: str,
    members: Iterable[str | MemberSpec],
    *,
    order: Order = Order.LIFO,
    quarantine: Nanos = SECOND,
    max_quarantine: Nanos = 60 * SECOND,
    lease: Nanos = 30 * SECOND,
    on_disconnect: Nanos | None = 2 * SECOND,
    max_wait: Nanos = 30 * SECOND,
    max_waiters: int = 1000,
) -> ResourceSpec:
    """A pool; a member given by its id alone is lent to one at a time."""
    specs = tuple(member if isinstance(member, MemberSpec) else MemberSpec(member) for member in members)
    limit = PoolSpec(specs, order=order, quarantine=quarantine, max_quarantine=max_quarantine)
    return declared(name, limit, lease=lease, on_disconnect=on_disconnect, max_wait=max_wait, max_waiters=max_waiters)


def rate_limit(
    name: str, *windows: tuple[int, Nanos, int], max_wait: Nanos = 30 * SECOND, max_waiters: int = 1000
) -> ResourceSpec:
    """A rate limit of windows (permits, period, burst); none is unlimited."""
    limit = RateLimitSpec(tuple(Window(*window) for window in windows))
    return declared(name, limit, max_wait=max_wait, max_waiters=max_waiters)
