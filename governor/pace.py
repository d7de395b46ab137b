"""Pace: how fast lines move, for people who want to know how long it will take yet.

It knows, of each resource that was waited for, how far apart its grants came while somebody stood in line. It must
never be what a decision is made from: an estimate may be wrong.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from governor.core.types import Claim, Grant, Nanos

# How much a new interval counts for: the last ten or so are what the mean is of.
_SHARE: Final = 8


class Pace:
    """Of each resource the mean time between grants that were waited for, as a moving mean."""

    def __init__(self) -> None:
        # The instant of the last such grant, and the mean.
        self._seen: dict[str, tuple[Nanos, Nanos]] = {}

    def granted(self, grants: Sequence[Grant], waited: Nanos, now: Nanos) -> None:
        """Something was granted at ``now`` to somebody who had ``waited``."""
        for grant in grants:
            before = self._seen.get(grant.resource)
            if before is None:
                self._seen[grant.resource] = (now, waited)
                continue
            last, mean = before
            # Whoever came after the last one went was not kept waiting for all of the time since.
            interval = min(now - last, waited)
            self._seen[grant.resource] = (now, mean + (interval - mean) // _SHARE)

    def forget(self, resources: Iterable[str]) -> None:
        """These are no longer declared."""
        for name in resources:
            self._seen.pop(name, None)

    def expected(self, claims: Sequence[Claim], ahead: int, at_least: Nanos) -> Nanos | None:
        """How long an ask with ``ahead`` others before it is likely to take yet; None when nothing is known.

        ``at_least`` is what rate limits can tell.
        """
        means = [self._seen[claim.resource][1] for claim in claims if claim.resource in self._seen]
        longest = max([at_least, *[mean * (ahead + 1) for mean in means]])
        return longest if longest > 0 else None
