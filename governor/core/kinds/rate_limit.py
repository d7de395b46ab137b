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
from typing import ClassVar, Final

from governor.core.limit import LimitSpec
from governor.core.memory import Memory, UnreadableError, number, rows, table
from governor.core.snapshot import MemberCounts, WindowView
from governor.core.types import Member, Nanos, Outcome

# Of one limit. Whoever reloads it more often than that forgets those that would be back first.
_MAX_GONE: Final = 8
# The end of what never comes back by itself, since its window is closed.
_NEVER: Final[Nanos] = 1 << 62


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
    overridable: ClassVar[bool] = True
    windows: tuple[Window, ...]

    def build(self, now: Nanos) -> "RateLimit":
        """The limit with nothing spent."""
        return RateLimit(self, now)


class _Meter:
    """What is spent of one window.

    ``speed`` is units a nanosecond, ``cost`` units a permit, ``depth`` units a burst. ``tat`` is the
    theoretical arrival time, in units. ``aside``: units that are spent beyond that, and hold nobody up for now: what
    did not fit into a burst when a reload lowered it. They come back after all the others.
    """

    __slots__ = ("aside", "burst", "cost", "depth", "speed", "tat")

    def __init__(self, window: Window, former: Sequence["_Meter"], gone: Sequence["_Meter"], now: Nanos) -> None:
        """Take over what was spent of ``former`` windows, if there were any, and of ones that are ``gone`` since."""
        assert window.period >= 1, "a window of no length"
        self.speed = window.permits
        self.cost = window.period
        self.burst = window.burst if window.permits else 0
        self.depth = self.burst * self.cost
        self.tat: int
        idle = now * self.speed
        if same := [meter for meter in former if meter.key == self.key]:
            self.tat = max([meter.tat for meter in same])
            owed = max([meter.owed(now) for meter in same])
        else:
            # The fullest of those this may be a new version of, or else of all: a reload must not refill a limit. Nor
            # must two of them, there and back, so one that is declared again has spent what it would have by itself.
            versions = [meter for meter in former if meter.cost == self.cost] or former
            again = [meter for meter in gone if meter.cost == self.cost]
            spent = max([meter.spent(now) for meter in (*versions, *again)], default=Fraction(0))
            self.tat = idle
            owed = idle + ceil(spent * self.cost)
        # What is more than a burst is put aside, or 1000/s lowered to 1/h could be shut for six weeks. It is not
        # forgotten: it counts as soon as there is room for it in a larger burst.
        self.tat = max(self.tat, min(owed, idle + self.depth))
        self.aside = max(0, owed - max(self.tat, idle))

    @property
    def key(self) -> tuple[int, int]:
        """The same for windows of the same permits and period."""
        return self.speed, self.cost

    def aside_at(self, now: Nanos) -> int:
        """Units put aside that are not back yet."""
        return max(0, self.aside - max(0, now * self.speed - self.tat))

    def owed(self, now: Nanos) -> int:
        """The theoretical arrival time if nothing were put aside."""
        aside = self.aside_at(now)
        return max(self.tat, now * self.speed) + aside if aside else self.tat

    def spent(self, now: Nanos) -> Fraction:
        """Permits that are not back yet, those put aside among them."""
        return Fraction(self.remember(now) + self.aside_at(now), self.cost)

    def all_back_at(self, now: Nanos) -> Nanos:
        """When nothing of it is spent any more, if nobody spends anything."""
        owed = self.remember(now) + self.aside_at(now)
        if not owed:
            return now
        return now + _ceil_div(owed, self.speed) if self.speed else _NEVER

    def remember(self, now: Nanos) -> int:
        """Units that are not back yet, but for those put aside."""
        return max(0, self.tat - now * self.speed)

    def view(self, now: Nanos) -> WindowView:
        """Its numbers at this instant."""
        available = max(0, (self.depth + min(0, now * self.speed - self.tat)) // self.cost)
        next_at = None if available or not self.burst else _ceil_div(self.tat + self.cost - self.depth, self.speed)
        return WindowView(self.speed, self.cost, self.burst, available, next_at)

    def recall(self, units: int, aside: int, now: Nanos) -> None:
        """So many are not back yet, and so many of those put aside."""
        self.tat = now * self.speed + units
        self.aside = aside


class RateLimit:
    """The state of one rate limit. When the clock steps back, time stands still until it has caught up."""

    __slots__ = ("_capacity", "_gone", "_last", "_meters", "_since", "_spec", "in_use")
    lends: ClassVar[bool] = False
    roster: ClassVar[None] = None

    def __init__(self, spec: RateLimitSpec, now: Nanos) -> None:
        self.in_use = 0
        self._meters: list[_Meter] = []
        # Windows that are not declared any more, until all that was spent of them would be back.
        self._gone: list[_Meter] = []
        # The instant of the last take; there was none yet.
        self._last = now - 1
        self._declare(spec, now)

    def _declare(self, spec: RateLimitSpec, now: Nanos) -> None:
        self._spec = spec
        former, gone = self._meters, self._gone
        self._meters = [_Meter(window, former, gone, now) for window in spec.windows]
        declared = {meter.key for meter in self._meters}
        left = [meter for meter in (*gone, *former) if meter.key not in declared and meter.all_back_at(now) > now]
        # Of those that were declared twice the last one is as good as the other.
        self._gone = sorted({meter.key: meter for meter in left}.values(), key=lambda meter: meter.all_back_at(now))
        del self._gone[:-_MAX_GONE]
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
                if meter.aside:
                    meter.aside = meter.aside_at(now)
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

    def matters_until(self, now: Nanos) -> Nanos:
        """Until all is back that was spent, also of windows that are gone."""
        return max([meter.all_back_at(now) for meter in (*self._meters, *self._gone)], default=now)

    def remember(self, now: Nanos) -> Memory:
        """What is spent of each window, in units; and since when takes count in these windows, and the last of them.

        Seldom also what is put aside of each, and of windows that are gone their permits, period and units.
        """
        memory: dict[str, Memory] = {
            "spent": [meter.remember(now) for meter in self._meters],
            "last": self._last - now,
            "since": self._since - now,
        }
        if any(aside := [meter.aside_at(now) for meter in self._meters]):
            memory["aside"] = aside
        gone = [[*meter.key, meter.remember(now) + meter.aside_at(now)] for meter in self._gone]
        if gone := [each for each in gone if each[-1]]:
            memory["gone"] = gone
        return memory

    def restore(self, permits: int, members: tuple[Member, ...], now: Nanos) -> None:
        """Nothing is lent here; what is spent is remembered as a whole."""

    def recall(self, memory: Memory, now: Nanos) -> None:
        """As much is spent as was then."""
        known = table(memory)
        spent = self._units(known.get("spent"))
        aside = self._units(known["aside"]) if "aside" in known else [0] * len(spent)
        for meter, units, more in zip(self._meters, spent, aside, strict=True):
            meter.recall(units, more, now)
        self._gone = [_gone(row, now) for row in rows(known.get("gone", []))[-_MAX_GONE:]]
        self._last = now + number(known.get("last"))
        self._since = now + number(known.get("since"))

    def _units(self, memory: Memory) -> list[int]:
        units = [number(each, at_least=0) for each in rows(memory)]
        if len(units) != len(self._meters):
            raise UnreadableError(f"expected what is spent of windows: {len(self._meters)}, found {len(units)}")
        return units


def _gone(memory: Memory, now: Nanos) -> _Meter:
    numbers = rows(memory)
    if len(numbers) != 3:  # noqa: PLR2004 - as they are remembered
        raise UnreadableError(
            f"expected permits, period and units of a window that is gone, found {len(numbers)} values"
        )
    permits, period, units = (
        number(numbers[0], at_least=0),
        number(numbers[1], at_least=1),
        number(numbers[2], at_least=0),
    )
    meter = _Meter(Window(permits, period, 0), (), (), now)
    meter.recall(units, 0, now)
    return meter


def _ceil_div(units: int, speed: int) -> Nanos:
    return -(-units // speed)
