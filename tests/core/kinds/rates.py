"""Short words for the tests of rate limits."""

from typing import Final

from governor.core.kinds.rate_limit import RateLimit, RateLimitSpec, Window
from governor.core.types import SECOND, Nanos

MINUTE: Final = 60 * SECOND
YEAR: Final = 365 * 24 * 60 * MINUTE


def spec(*windows: Window) -> RateLimitSpec:
    """A rate limit of these windows."""
    return RateLimitSpec(windows)


def take(limit: RateLimit, permits: int, now: Nanos) -> bool:
    """Take them if that can be done."""
    taken = limit.can_take(permits, now)
    if taken:
        assert limit.take(permits, now) == ()
    return taken
