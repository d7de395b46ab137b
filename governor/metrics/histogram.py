"""Histograms: durations, counted by how long they were.

It knows two ways to divide time: at the bounds that people think in, 1 ms or 30 s, and at these and at powers of the
square root of two as well, in which native histograms are told. It must never know what lasted so long.

The finer way costs each count two more steps of its search, so it is for those whom somebody asks for native
histograms. What was counted before is then as coarse as it was, and nothing is counted twice or lost.
"""

from bisect import bisect_left
from functools import cache
from typing import Final, NamedTuple

from governor.core.types import MILLISECOND, SECOND, Nanos

# From 1 ms to 1 h: half a decade apart up to ten seconds, then where people set timeouts. The default lease
# and longest wait, 30 s, is one of them, so that within and beyond it can be told apart exactly.
TIMES: Final[tuple[Nanos, ...]] = (
    *(n * MILLISECOND for n in (1, 3, 10, 30, 100, 300)),
    *(n * SECOND for n in (1, 3, 10, 30, 60, 300, 900, 3600)),
)
# The bucket at 0 holds those who did not wait at all: most of them, on a good day.
WAITS: Final[tuple[Nanos, ...]] = (0, *TIMES)
# Lateness is measured against a lease of seconds; beyond ten it is an outage, however long.
LAGS: Final[tuple[Nanos, ...]] = tuple(bound for bound in TIMES if bound <= 10 * SECOND)
# Transactions take microseconds, unless a disk is in the way.
WRITES: Final[tuple[Nanos, ...]] = (*(n * MILLISECOND // 100 for n in (1, 3, 10, 30)), *LAGS)

# Of native histograms: two buckets for each power of two, so a quantile is right to a fifth of itself.
SCHEMA: Final = 1
# The buckets with these numbers are told apart, from 8 us to 36 h; bucket i ends at 2 to the i/2 seconds. Below the
# first of them is the one at zero, and whatever is above the last counts as the next.
FIRST: Final = -34
LAST: Final = 34


def native_bound(index: int) -> Nanos:
    """Where a native bucket ends, to the nanosecond below."""
    return int(2 ** (index / 2) * SECOND)


_NATIVE: Final = {native_bound(index): index for index in range(FIRST - 1, LAST + 1)}


@cache
def finer(bounds: tuple[Nanos, ...]) -> tuple[Nanos, ...]:
    """These and those of native histograms."""
    return tuple(sorted({*bounds, *_NATIVE}))


class Exemplar(NamedTuple):
    """One of those that were counted: the span that has all of it, and when that was, by the wall clock."""

    value: Nanos
    trace_id: str
    span_id: str
    at: Nanos


class Histogram:
    """Counts of durations, each under the smallest bound it is not above; the last are above all bounds.

    ``told``: the bounds that people think in. ``bounds`` are the same, or finer. ``exemplars``: the last of each bucket
    of those that are told, by its number; None while nothing is traced.
    """

    __slots__ = ("bounds", "counts", "exemplars", "told", "total")

    def __init__(self, told: tuple[Nanos, ...], *, fine: bool = False) -> None:
        self.told = told
        self.bounds = finer(told) if fine else told
        self.counts = [0] * (len(self.bounds) + 1)
        self.total: Nanos = 0
        self.exemplars: dict[int, Exemplar] | None = None

    def add(self, value: Nanos) -> None:
        """Count one duration."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def exemplify(self, exemplar: Exemplar) -> None:
        """Show this one beside the count of its bucket, in which it is counted already."""
        if self.exemplars is None:
            self.exemplars = {}
        self.exemplars[bisect_left(self.told, exemplar.value)] = exemplar

    def copy(self) -> "Histogram":
        """The same counts, which stay as they are now."""
        twin = Histogram.__new__(Histogram)
        twin.told, twin.bounds, twin.counts, twin.total = self.told, self.bounds, self.counts[:], self.total
        twin.exemplars = None if self.exemplars is None else self.exemplars.copy()
        return twin

    def refine(self) -> None:
        """Count more finely from now on; what is above all bounds stays above all those of before."""
        if self.bounds is not self.told:
            return
        coarse, self.bounds = self.counts, finer(self.told)
        self.counts = [0] * (len(self.bounds) + 1)
        for bound, count in zip((*self.told, self.told[-1] + 1), coarse, strict=True):
            self.counts[bisect_left(self.bounds, bound)] += count

    def native(self) -> tuple[int, dict[int, int]]:
        """How many are in the native bucket at zero, and in each other one that has any, by its number."""
        fine = self
        if self.bounds is self.told:
            fine = self.copy()
            fine.refine()
        zero = 0
        buckets: dict[int, int] = {}
        for index, count in zip(_indices(fine.bounds), fine.counts, strict=True):
            if index < FIRST:
                zero += count
            elif count:
                buckets[index] = buckets.get(index, 0) + count
        return zero, buckets


@cache
def _indices(bounds: tuple[Nanos, ...]) -> tuple[int, ...]:
    """The number of the native bucket that each cell is in."""
    ends = sorted(_NATIVE)
    return (*(FIRST - 1 + bisect_left(ends, bound) for bound in bounds), LAST + 1)
