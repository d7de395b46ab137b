"""A clock that a test moves by hand.

It knows the calls that are to come, and in what order. It must never read a clock of the machine's.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from governor.core.types import Nanos


@dataclass
class FakeTimer:
    """A call that comes when a test moves the clock there."""

    callback: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        """It will not come."""
        self.cancelled = True


@dataclass
class FakeClock:
    """A clock that stands still until it is moved; timers come in order, each at its own instant."""

    time: Nanos = 0
    _timers: list[tuple[Nanos, int, FakeTimer]] = field(default_factory=list)
    _count: int = 0

    def now(self) -> Nanos:
        """The instant it stands at."""
        return self.time

    def call_at(self, when: Nanos, callback: Callable[[], None]) -> FakeTimer:
        """Note the call."""
        timer = FakeTimer(callback)
        self._count += 1
        heappush(self._timers, (when, self._count, timer))
        return timer

    def advance(self, by: Nanos) -> None:
        """Move on; each timer that is due on the way comes at its instant."""
        end = self.time + by
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heappop(self._timers)
            self.time = max(self.time, when)
            if not timer.cancelled:
                timer.callback()
        self.time = end

    @property
    def pending(self) -> int:
        """How many calls are to come."""
        return sum(not timer.cancelled for _, _, timer in self._timers)
