"""Agenda: what is due when, and what is due first.

It knows keys and instants. It must never know what a key stands for. One invariant: ``first`` is the smallest
instant on it.

A binary heap alone would do, but most entries are dropped long before they are due (a lease is released, a waiter
is granted), and a heap keeps such dead entries until they surface: a busy daemon would carry thirty seconds' worth
of them, or stop to sweep a million at once. So entries lie in buckets of about a quarter of a second, where adding
and dropping are plain dict operations, and only the front bucket is ever put in order. The idea is that of timing
wheels (Varghese and Lauck, 1987), with a dict in place of the wheel so that no instant is too far away.
"""

from heapq import heapify, heappop, heappush
from typing import Final

from governor.core.types import Nanos

NEVER: Final[Nanos] = 2**200  # later than any instant

_BUCKET_BITS: Final = 28  # 2**28 ns, about 0.27 s
_SLACK: Final = 64  # dead entries, or empty buckets, that are not worth a sweep


class Agenda:
    """Keys by the instant they are due; among equal instants the smaller key comes first.

    Nothing is due before ``bound``, which may be too early but is never too late: one comparison tells that there
    is nothing to do.
    """

    __slots__ = ("_buckets", "_front", "_front_number", "_order", "_sweep_at", "bound")

    def __init__(self) -> None:
        self.bound = NEVER
        # By number, the instant without its last bits; one that has become empty stays until it comes up or is swept.
        self._buckets: dict[int, dict[int, Nanos]] = {}
        # A heap of the numbers of all buckets.
        self._order: list[int] = []
        # How many buckets there may be before the empty ones are swept.
        self._sweep_at = _SLACK
        # The front bucket put in order: a heap of (due, key), also of entries that were dropped since.
        self._front: list[tuple[Nanos, int]] = []
        self._front_number: int | None = None

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def add(self, key: int, due: Nanos) -> None:
        """Put ``key``, which is not on the agenda, on it."""
        if due < self.bound:
            self.bound = due
        number = due >> _BUCKET_BITS
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._open(number)
        bucket[key] = due
        if number == self._front_number:
            heappush(self._front, (due, key))
            if len(self._front) > 2 * len(bucket) + _SLACK:
                self._sort(number)

    def drop(self, key: int, due: Nanos) -> None:
        """Take off ``key``, which was added with ``due``. Raises KeyError when it is not there."""
        del self._buckets[due >> _BUCKET_BITS][key]

    def first(self) -> tuple[Nanos, int] | None:
        """The earliest entry as (due, key); it stays on the agenda."""
        order = self._order
        while order:
            number = order[0]
            bucket = self._buckets[number]
            if not bucket:
                heappop(order)
                del self._buckets[number]
                continue
            if number != self._front_number:
                self._sort(number)
            front = self._front
            while bucket.get(front[0][1]) != front[0][0]:
                heappop(front)
            self.bound = front[0][0]
            return front[0]
        self._front_number = None
        self.bound = NEVER
        return None

    def overdue(self, now: Nanos) -> bool:
        """Whether anything is due by ``now``."""
        first = self.first()
        return first is not None and first[0] <= now

    def _open(self, number: int) -> dict[int, Nanos]:
        """A new bucket."""
        if len(self._buckets) >= self._sweep_at:
            self._sweep()
        bucket = self._buckets[number] = {}
        heappush(self._order, number)
        return bucket

    def _sort(self, number: int) -> None:
        """Make this bucket the front one, without dead entries."""
        self._front = [(due, key) for key, due in self._buckets[number].items()]
        heapify(self._front)
        self._front_number = number

    def _sweep(self) -> None:
        """Forget empty buckets; not again before there are twice as many buckets as are left."""
        self._buckets = {number: bucket for number, bucket in self._buckets.items() if bucket}
        self._order = list(self._buckets)
        heapify(self._order)
        self._sweep_at = 2 * len(self._buckets) + _SLACK
        self._front_number = None
