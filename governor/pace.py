"""Pace: how fast lines move, for people who want to know how long it will take yet.

It knows, of each resource that was waited for, how far apart its grants came while somebody stood in line. It must
never be what a decision is made from: an estimate may be wrong.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from governor.core.types import Claim, Grant, Nanos

# How many intervals the mean is of, more or less.
_INTERVALS: Final = 8


class Pace:
    """Of each resource the mean time between grants that were waited for, as a moving mean."""

    def __init__(self) -> None:
        # The instant of the last such grant, the mean, and how many intervals it is of: after one grant, none.
        self._seen: dict[str, tuple[Nanos, Nanos, int]] = {}

    def granted(self, grants: Sequence[Grant], waited: Nanos, now: Nanos) -> None:
        """Something was granted at ``now`` to somebody who had ``waited``."""
        for grant in grants:
            before = self._seen.get(grant.resource)
            if before is None:
                # How long this one waited says when it came, not how fast the line moves.
                self._seen[grant.resource] = (now, 0, 0)
                continue
            last, mean, number = before
            number = min(number + 1, _INTERVALS)
            # Whoever came after the last one went was not kept waiting for all of the time since.
            interval = min(now - last, waited)
            self._seen[grant.resource] = (now, mean + (interval - mean) // number, number)

    def forget(self, resources: Iterable[str]) -> None:
        """These are no longer declared."""
        for name in resources:
            self._seen.pop(name, None)

    def expected(
        self, claims: Sequence[Claim], ahead: int, at_least: Nanos, *, waited: Nanos, now: Nanos
    ) -> Nanos | None:
        """How long an ask with ``ahead`` others before it is likely to take yet; None when nothing is known.

        ``at_least`` is what rate limits can tell. It has ``waited`` already: if nobody was granted anything in all of
        that time, the line moves more slowly than it did.
        """
        longest = at_least
        for claim in claims:
            last, mean, number = self._seen.get(claim.resource, (0, 0, 0))
            if number:
                longest = max(longest, max(mean, min(now - last, waited)) + mean * ahead)
        return longest if longest > 0 else None
