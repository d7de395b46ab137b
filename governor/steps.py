"""Steps: when the engine makes one, and all that follows from it.

It knows the clock, has one timer for whatever is due next, and finds out by its heartbeat that nothing ran for a while.
It must never know what an event means.
"""

from typing import TYPE_CHECKING, Final

from governor.clock import Clock, Timer
from governor.core.effects import Denied, Effect, Granted
from governor.core.engine import Engine
from governor.core.events import Event, Pause, Wake
from governor.core.types import MILLISECOND, SECOND, Nanos, TicketId
from governor.seen import Seen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

Answer = Granted | Denied

# While anything is lent, how often the driver wakes only to know that it does; the first time soon, so that a daemon
# that dies often gets on, too. By this it can tell a pause: nothing is late by so much but in a process that stood.
BEAT: Final[Nanos] = SECOND
FIRST_BEAT: Final[Nanos] = 250 * MILLISECOND
PAUSED: Final[Nanos] = 250 * MILLISECOND
# The same for a start, in which one step may be long, and comes when the one before it is done: from step to step.
STARTS: Final[Nanos] = 2 * SECOND
_NEVER: Final[Nanos] = 1 << 63


class Steps(Seen):
    """An engine with a clock and a timer.

    ``observers`` are called with the effects of each step, before any caller goes on; ``lag_observers`` with how
    many nanoseconds after its instant the timer came; ``pause_observers`` with how long nothing ran at all;
    ``beat_observers`` every second while anything is lent, and once more. They must be quick and must not raise.

    ``commit``: whoever is about to tell somebody what has happened calls this first. False, or an awaitable of that:
    what was granted since could not be put on record, and has been taken back. ``unrecorded``: whether that would
    take a transaction, here and now. ``gathering``: somebody will call it within milliseconds, so that what nobody is
    about to be told of may wait until then.

    ``turn`` is called before the first step at or after ``turn_at``, and says when the next time is.
    """

    def __init__(self, engine: Engine, clock: Clock, *, beating: bool = True) -> None:
        """``beating``: or else only from `begin_to_beat` on; a start that takes its time is no pause until `STARTS`."""
        super().__init__(engine, clock)
        self._beating = beating
        self._callers: dict[TicketId, Callable[[Answer], None]] = {}
        self._timer: Timer | None = None
        self._timer_at: Nanos = 0
        # The instant of the last step: what it granted has its whole length left by then.
        self.stepped_at: Nanos = 0
        self.observers: list[Callable[[Sequence[Effect]], None]] = []
        self.lag_observers: list[Callable[[Nanos], None]] = []
        self.pause_observers: list[Callable[[Nanos], None]] = []
        self.beat_observers: list[Callable[[], None]] = []
        self.commit: Callable[[], bool | Awaitable[bool]] = _nothing_to_write
        self.unrecorded: Callable[[], bool] = _all_is_written
        self.gathering = False
        self.turn: Callable[[Nanos], Nanos] = _never
        self.turn_at: Nanos = _NEVER
        self._beat: Timer | None = None
        self._beat_at: Nanos = 0
        # An instant by which there was a sign of life, unless nothing ran.
        self._late_at: Nanos = _NEVER

    def catch_turn(self) -> None:
        """Have ``turn`` called if its instant is over, though no step has come since."""
        now = self._clock.now()
        if now >= self.turn_at:
            self.turn_at = self.turn(now)

    def close(self) -> None:
        """Stop the timers. Nothing ends on its own any more."""
        for timer in (self._timer, self._beat):
            if timer is not None:
                timer.cancel()
        self._timer = self._beat = None
        self._late_at = _NEVER

    def _step(self, event: Event) -> list[Effect]:
        """One step of the engine, and all that follows from it but the answer to whoever called."""
        now = self._look_at_clock()
        effects = self._engine.handle(event, now=now)
        self._follow(effects, now)
        return effects

    def _look_at_clock(self) -> Nanos:
        """The instant of a step that is to come."""
        now = self._clock.now()
        if now > self._late_at:
            self._paused(now)
        self.stepped_at = now
        if now >= self.turn_at:
            self.turn_at = self.turn(now)
        if not self._beating:
            # Nobody can be heard yet: leases must not end because a start stood still, or is endless.
            self._late_at = now + STARTS
        return now

    def _follow(self, effects: list[Effect], now: Nanos) -> None:
        """All that follows from what has happened."""
        if self._callers:
            for effect in effects:
                if isinstance(effect, (Granted, Denied)):
                    caller = self._callers.pop(effect.ticket, None)
                    if caller is not None:
                        caller(effect)
        self._arm()
        if self._beat is None and self._beating and self._engine.live_leases:
            self._beat_in(FIRST_BEAT, now)
        # Last, so that a fault in one of them leaves no caller hanging; callers go on only after this step anyway.
        for observe in self.observers:
            observe(effects)

    def _arm(self) -> None:
        """Have the timer come no later than the next thing is due.

        A timer that would come too early is left alone: it costs one idle turn, while moving it would cost every
        call that takes and returns a lease.
        """
        if self._timer is not None and not self._engine.due_before(self._timer_at):
            return
        due = self._engine.next_deadline()
        if due is None or (self._timer is not None and self._timer_at <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._clock.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        lag = self._clock.now() - self._timer_at
        for observe in self.lag_observers:
            observe(max(0, lag))
        self._step(Wake())

    # --- the heartbeat --------------------------------------------------------------------------------------

    def begin_to_beat(self) -> None:
        """From now on the driver is meant to run at any time."""
        now = self._clock.now()
        if now > self._late_at:
            self._paused(now)
        self.stepped_at, self._late_at = now, _NEVER
        self._beating = True
        if self._beat is None and self._engine.live_leases:
            self._beat_in(FIRST_BEAT, now)

    def _beat_in(self, length: Nanos, now: Nanos) -> None:
        if self._beat is not None:
            # What a beat brought about, such as a write that failed, was a step that began to beat anew.
            self._beat.cancel()
        self._beat_at = now + length
        self._late_at = self._beat_at + PAUSED
        self._beat = self._clock.call_at(self._beat_at, self._on_beat)

    def _on_beat(self) -> None:
        now = self._clock.now()
        if now > self._late_at:
            self._paused(now)
        self.stepped_at = now
        self._beat, self._late_at = None, _NEVER
        for observe in self.beat_observers:
            observe()
        if self._engine.live_leases:
            # By a fresh look: what the observers did meanwhile, such as to write, was no pause.
            self._beat_in(BEAT, self._clock.now())

    def _paused(self, now: Nanos) -> None:
        """Nothing ran since the last step or beat: leases live as much longer, and what has arrived is heard first."""
        # Whoever is granted something meanwhile has it from now on.
        length, self.stepped_at = now - self.stepped_at, now
        self._late_at = _NEVER
        self._follow(self._engine.handle(Pause(length), now=now), now)
        # With very many leases that itself takes so long that it would count as the next one.
        self._late_at = max(self._beat_at, self._clock.now()) + PAUSED
        for observe in self.pause_observers:
            observe(length)


def _nothing_to_write() -> bool:
    return True


def _never(_now: Nanos) -> Nanos:
    return _NEVER


def _all_is_written() -> bool:
    return False
