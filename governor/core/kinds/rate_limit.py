"""Rate limit: permits are spent and come back with time (GCRA, on integers).

It knows when the next permit is due. It must never know who spends them or who waits.
One invariant (I9): over any length of time it grants no more than the burst and what that time brings back.

The generic cell rate algorithm is defined in ITU-T Recommendation I.371, annex A (this is the form called
"virtual scheduling"), and in the ATM Forum's Traffic Management Specification 4.0. It keeps one number, the
theoretical arrival time: when everything spent will be back. An ask conforms if, once it is served, that
instant is no further off than a whole burst takes to come back. Nothing is rounded here: in a window of
``permits`` per ``period`` a nanosecond counts ``permits`` units, so that each permit is worth exactly
``period`` of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import ClassVar

from governor.core.limit import LimitSpec
from governor.core.memory import Memory, UnreadableError, number, rows, table
from governor.core.snapshot import MemberCounts, WindowView
from governor.core.types import Member, Nanos, Outcome


@dataclass(slots=True, frozen=True)
class Window:
    """``permits`` per ``period``, of which up to ``burst`` at once; 0 permits closes it."""

    permits: int
    period: Nanos
    burst: int


@dataclass(slots=True, frozen=True)
class RateLimitSpec:
    """All ``windows`` at once, the tightest decides; no window is unlimited."""

    kind: ClassVar[str] = "rate_limit"
    windows: tuple[Window, ...]

    def build(self, now: Nanos) -> "RateLimit":
        """The limit with nothing spent."""
        return RateLimit(self, now)


class _Meter:
    """What is spent of one window.

    ``speed`` is units a nanosecond, ``cost`` units a permit, ``depth`` units a burst. ``tat`` is the
    theoretical arrival time, in units.
    """

    __slots__ = ("burst", "cost", "depth", "speed", "tat")

    def __init__(self, window: Window, former: Sequence["_Meter"], now: Nanos) -> None:
        """Take over what was spent of the ``former`` windows; if there were none, nothing was."""
        assert window.period >= 1, "a window of no length"
        self.speed = window.permits
        self.cost = window.period
        self.burst = window.burst if window.permits else 0
        self.depth = self.burst * self.cost
        self.tat: int
        same = [meter.tat for meter in former if (meter.speed, meter.cost) == (self.speed, self.cost)]
        if same:
            self.tat = max(same)
            return
        # The fullest of those this may be a new version of, or else of all: a reload must not refill a limit.
        versions = [meter for meter in former if meter.cost == self.cost] or former
        spent = max((meter.spent(now) for meter in versions), default=Fraction(0))
        # Without this bound, lowering 1000/s to 1/h could shut the limit for six weeks. In a closed window
        # nothing ever comes back; it keeps what was spent for the day it is opened.
        if self.burst:
            spent = min(spent, Fraction(self.burst))
        self.tat = now * self.speed + ceil(spent * self.cost)

    def spent(self, now: Nanos) -> Fraction:
        """Permits that are not back yet."""
        return Fraction(max(0, self.tat - now * self.speed), self.cost)

    def remember(self, now: Nanos) -> int:
        """Units that are not back yet."""
        return max(0, self.tat - now * self.speed)

    def view(self, now: Nanos) -> WindowView:
        """Its numbers at this instant."""
        available = max(0, (self.depth + min(0, now * self.speed - self.tat)) // self.cost)
        next_at = None if available or not self.burst else _ceil_div(self.tat + self.cost - self.depth, self.speed)
        return WindowView(self.speed, self.cost, self.burst, available, next_at)

    def recall(self, units: int, now: Nanos) -> None:
        """So many are not back yet."""
        self.tat = now * self.speed + units


class RateLimit:
    """The state of one rate limit. When the clock steps back, time stands still until it has caught up."""

    __slots__ = ("_capacity", "_last", "_meters", "_since", "_spec", "in_use")
    lends: ClassVar[bool] = False

    def __init__(self, spec: RateLimitSpec, now: Nanos) -> None:
        self.in_use = 0
        self._meters: list[_Meter] = []
        # The instant of the last take; there was none yet.
        self._last = now - 1
        self._declare(spec, now)

    def _declare(self, spec: RateLimitSpec, now: Nanos) -> None:
        self._spec = spec
        self._meters = [_Meter(window, self._meters, now) for window in spec.windows]
        self._capacity = min([meter.burst for meter in self._meters], default=None)
        # What was taken before this instant was counted in other windows. So was what was taken at the very instant of
        # a reload; what is taken later in that instant cannot be told from it, and is not refunded either.
        self._since = now + 1 if self._last == now else now

    @property
    def capacity(self) -> int | None:
        """The smallest burst; None without a window."""
        return self._capacity

    @property
    def largest(self) -> int | None:
        """All of them."""
        return self._capacity

    @property
    def marks(self) -> int:
        """Whatever is spent or refunded."""
        return sum([meter.tat for meter in self._meters])

    def available(self, now: Nanos) -> int | None:
        """Permits that every window has left."""
        now = max(now, self._last)
        left = [(meter.depth + min(0, now * meter.speed - meter.tat)) // meter.cost for meter in self._meters]
        return max(0, min(left)) if left else None

    def windows(self, now: Nanos) -> tuple[WindowView, ...]:
        """Each window, in the declared order."""
        return tuple([meter.view(max(now, self._last)) for meter in self._meters])

    def can_take(self, permits: int, now: Nanos) -> bool:
        """Whether the ask conforms to every window."""
        if now < self._last:
            now = self._last
        for meter in self._meters:
            if permits > meter.burst or meter.tat + permits * meter.cost > now * meter.speed + meter.depth:
                return False
        return True

    def not_before(self, permits: int, ahead: int, now: Nanos) -> Nanos:
        """When the last window lets them pass, if each permit ahead goes as soon as it may.

        Exact for one window, unless those ahead ask for several at once or a nanosecond refills a burst.
        """
        start = max(now, self._last)
        latest = start
        for meter in self._meters:
            tat = max(meter.tat, start * meter.speed)
            if meter.burst == 1:
                # Here nothing is saved up: the part of a nanosecond that each one waits too long is lost.
                at = _ceil_div(tat, meter.speed) + ahead * _ceil_div(meter.cost, meter.speed)
            else:
                at = _ceil_div(tat + (permits + ahead) * meter.cost - meter.depth, meter.speed)
            latest = max(latest, at)
        return latest if latest > start else now

    def wake_at(self, permits: int, now: Nanos) -> Nanos | None:
        """When the ask conforms, unless it never will."""
        if self._capacity is not None and permits > self._capacity:
            return None
        return self.not_before(permits, 0, now)

    def members(self, now: Nanos) -> MemberCounts | None:
        """A rate limit has none."""

    def take(self, permits: int, now: Nanos) -> tuple[Member, ...]:
        """Spend ``permits`` in every window."""
        if now < self._last:
            now = self._last
        self._last = now
        for meter in self._meters:
            idle = now * meter.speed
            if meter.tat < idle:
                meter.tat = idle
            meter.tat += permits * meter.cost
        return ()

    def put_back(self, permits: int, members: tuple[Member, ...], taken: Nanos, now: Nanos) -> None:
        """Refund a take: all of it, unless something was taken later.

        Then a part of it may have come back with time and been taken again; to refund that part would grant
        it twice (I9). It is no more than what time brought between the two takes.
        """
        if taken < self._since:
            return
        for meter in self._meters:
            meter.tat -= max(0, permits * meter.cost - (self._last - taken) * meter.speed)

    def give_back(self, permits: int, members: tuple[Member, ...], outcome: Outcome, now: Nanos) -> None:
        """Nothing comes back of what was spent."""

    def reconfigure(self, spec: LimitSpec, now: Nanos) -> None:
        """Count in these windows from now on; what was spent stays spent."""
        assert isinstance(spec, RateLimitSpec)
        if spec != self._spec:
            self._declare(spec, max(now, self._last))

    def remember(self, now: Nanos) -> Memory:
        """What is spent of each window, in units; and since when takes count in these windows, and the last of them."""
        return {
            "spent": [meter.remember(now) for meter in self._meters],
            "last": self._last - now,
            "since": self._since - now,
        }

    def restore(self, permits: int, members: tuple[Member, ...], now: Nanos) -> None:
        """Nothing is lent here; what is spent is remembered as a whole."""

    def recall(self, memory: Memory, now: Nanos) -> None:
        """As much is spent as was then."""
        known = table(memory)
        spent = [number(units, at_least=0) for units in rows(known.get("spent"))]
        if len(spent) != len(self._meters):
            raise UnreadableError(f"expected what is spent of windows: {len(self._meters)}, found {len(spent)}")
        for meter, units in zip(self._meters, spent, strict=True):
            meter.recall(units, now)
        self._last = now + number(known.get("last"))
        self._since = now + number(known.get("since"))


def _ceil_div(units: int, speed: int) -> Nanos:
    return -(-units // speed)
