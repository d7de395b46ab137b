"""History: the last ten minutes of each resource, in buckets of ten seconds.

It knows how much was in use and how many waited, at most, in each bucket. It must never know who looks at it.

It has no timer. Whoever makes the steps calls `turn` before the first one that comes after a bucket has ended. Nothing
changes without a step, so the buckets that have ended meanwhile are known, too: all was as it is now.
"""

from array import array
from collections.abc import Callable, Iterable
from typing import Final

from governor.core.snapshot import Peak
from governor.core.types import SECOND, Nanos

BUCKET: Final[Nanos] = 10 * SECOND
BUCKETS: Final = 60


class _Ring:
    """The last buckets of one resource, each at its number modulo their count; ``first``: the oldest that it saw."""

    __slots__ = ("first", "in_use", "waiters")

    def __init__(self, first: int) -> None:
        self.first = first
        self.in_use = array("q", bytes(8 * BUCKETS))
        self.waiters = array("q", bytes(8 * BUCKETS))

    def write(self, buckets: Iterable[int], in_use: int, waiters: int) -> None:
        for bucket in buckets:
            self.in_use[bucket % BUCKETS] = in_use
            self.waiters[bucket % BUCKETS] = waiters


class History:
    """A ring of buckets for each resource that there is. Buckets are numbered from the beginning of the clock."""

    def __init__(self, peaks: Callable[[], Iterable[Peak]], now: Nanos) -> None:
        """``peaks``: the most of each resource since they were last asked for, as they are now."""
        self._peaks = peaks
        self._rings: dict[str, _Ring] = {}
        # The number of the bucket that has not ended yet.
        self._open = now // BUCKET
        for peak in peaks():
            self._rings[peak.resource] = _Ring(self._open)

    @property
    def last(self) -> int:
        """The number of the last bucket that has ended."""
        return self._open - 1

    @property
    def ends_at(self) -> Nanos:
        """When the bucket ends that is not over yet."""
        return (self._open + 1) * BUCKET

    def turn(self, now: Nanos) -> Nanos:
        """End the buckets that are over by ``now``, before anything else happens; when the next one is."""
        former, current = self._open, now // BUCKET
        if current <= former:
            return self.ends_at
        rings = self._rings
        self._rings = {}
        # What is older than the ring is long would only be overwritten.
        still = range(max(former + 1, current - BUCKETS), current)
        for peak in self._peaks():
            ring = self._rings[peak.resource] = rings.get(peak.resource) or _Ring(former)
            ring.write((former,), peak.in_use, peak.waiters)
            ring.write(still, peak.in_use_now, peak.waiters_now)
        self._open = current
        return self.ends_at

    def between(self, first: int, last: int, resource: str) -> tuple[list[int], list[int]]:
        """What was in use and who waited in these buckets, as far as they have ended and are known: the later ones."""
        ring = self._rings.get(resource)
        if ring is None:
            return [], []
        wanted = [
            number % BUCKETS
            for number in range(max(first, self._open - BUCKETS, ring.first), min(last + 1, self._open))
        ]
        return [ring.in_use[index] for index in wanted], [ring.waiters[index] for index in wanted]
