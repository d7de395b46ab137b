"""Driver: the only place where asyncio meets the engine.

It knows which caller waits for which ticket, and keeps one timer for whatever is due next. It must never decide
anything about permits. In one sentence: every caller that waits has a ticket in line, and every ticket in line a
caller that waits.

Each call is one synchronous step of the engine. A call that is answered at once never gives up the event loop, so
nothing can come between the decision and its answer; one that waits is woken by the very step that grants it.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from governor.clock import Clock, Timer
from governor.core.effects import (
    Denied,
    Effect,
    Granted,
    LeaseResult,
    Queued,
    Reconfigured,
    ReconfigureRefused,
    Released,
    Renewed,
    Restored,
    RestoreRefused,
    Revoked,
    Steered,
    SteerRefused,
)
from governor.core.engine import Engine
from governor.core.events import (
    Abandon,
    Acquire,
    Disconnect,
    Drain,
    Event,
    Pause,
    Quarantine,
    Readmit,
    Reconfigure,
    Recycle,
    Release,
    Renew,
    ReserveIds,
    Restore,
    Revoke,
    Seal,
    SetOverride,
    SetStanding,
    Steer,
    Wake,
)
from governor.core.limit import LimitSpec
from governor.core.resource import Remembered, ResourceSpec
from governor.core.types import MILLISECOND, SECOND, Claim, LeaseId, Nanos, Outcome, Standing, TicketId
from governor.looks import Looks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from governor.core.snapshot import Held, Past

Answer = Granted | Denied

# While anything is lent, how often the driver wakes only to know that it does; the first time soon, so that a daemon
# that dies often gets on, too. By this it can tell a pause: nothing is late by so much but in a process that stood.
BEAT: Final[Nanos] = SECOND
FIRST_BEAT: Final[Nanos] = 250 * MILLISECOND
PAUSED: Final[Nanos] = 250 * MILLISECOND
# The same for a start, in which one step may be long, and comes when the one before it is done: from step to step.
STARTS: Final[Nanos] = 2 * SECOND
_NEVER: Final[Nanos] = 1 << 63


class Driver(Looks):
    """An engine with a clock and callers.

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
        self._last_ticket = 0
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
        self._unwritable: set[str] = set()
        self.turn: Callable[[Nanos], Nanos] = _never
        self.turn_at: Nanos = _NEVER
        self._beat: Timer | None = None
        self._beat_at: Nanos = 0
        # An instant by which there was a sign of life, unless nothing ran.
        self._late_at: Nanos = _NEVER

    def ask(
        self,
        claims: tuple[Claim, ...],
        *,
        client: str = "",
        wait: Nanos | None = None,
        lease: Nanos | None = None,
        request_id: str = "",
        labels: tuple[tuple[str, str], ...] = (),
    ) -> Granted | Denied | Queued:
        """Ask. Whoever is `Queued` must, before giving up the event loop, say with `tell` who waits for the answer."""
        self._last_ticket += 1
        ticket = TicketId(self._last_ticket)
        for effect in self._step(Acquire(ticket, claims, client, wait, lease, request_id, labels)):
            if isinstance(effect, (Granted, Denied, Queued)) and effect.ticket == ticket:
                return effect
        raise AssertionError("the engine did not answer an ask")

    def tell(self, ticket: TicketId, caller: "Callable[[Answer], None]") -> None:
        """``caller`` is called with the answer to this ticket, in the step that makes it; it must not raise."""
        self._callers[ticket] = caller

    async def answer(self, ticket: TicketId) -> Answer:
        """The answer to a ticket in line.

        Cancelling it leaves the line in the same turn, or gives the grant back when one was just made.
        """
        caller: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.tell(ticket, partial(_settle, caller))
        try:
            return await caller
        except asyncio.CancelledError:
            self.abandon(ticket)
            raise

    def abandon(self, ticket: TicketId) -> None:
        """Whoever held this ticket is gone: it leaves the line, or its undelivered grant is taken back."""
        self._callers.pop(ticket, None)
        self._step(Abandon(ticket))

    def release(
        self, leases: tuple[LeaseId, ...], outcome: Outcome = Outcome.UNKNOWN, *, settled: bool = False
    ) -> tuple[LeaseResult, ...]:
        """Give leases back; a result for each, in order. ``settled``: nobody will repeat the asks for them."""
        for effect in self._step(Release(leases, outcome, settled)):
            if isinstance(effect, Released):
                return effect.results
        raise AssertionError("the engine did not answer a release")

    def renew(self, leases: tuple[LeaseId, ...], lease: Nanos | None = None) -> tuple[LeaseResult, ...]:
        """Extend leases to ``lease`` from now; a result for each, in order."""
        for effect in self._step(Renew(leases, lease)):
            if isinstance(effect, Renewed):
                return effect.results
        raise AssertionError("the engine did not answer a renewal")

    def disconnect(self, leases: tuple[LeaseId, ...]) -> None:
        """Whoever held these is gone: each ends, or will after a grace, or lives on, as its resources say."""
        self._step(Disconnect(leases))

    def reconfigure(self, resources: tuple[ResourceSpec, ...]) -> Reconfigured | ReconfigureRefused:
        """Declare exactly these resources, or change nothing."""
        for effect in self._step(Reconfigure(resources)):
            if isinstance(effect, (Reconfigured, ReconfigureRefused)):
                return effect
        raise AssertionError("the engine did not answer a reconfiguration")

    def drain(self) -> None:
        """Refuse new asks and everybody who waits; leases go on."""
        self._step(Drain())

    def reserve_ids(self, ceiling: LeaseId) -> None:
        """Lease ids up to ``ceiling`` may be given out."""
        self._step(ReserveIds(ceiling))

    def set_writable(self, writable: bool, *, by: str = "state") -> None:  # noqa: FBT001 - the one thing it sets
        """Whether anything may be granted, as far as it can be put on record; ``by`` whom, since all must agree."""
        if writable:
            self._unwritable.discard(by)
        else:
            self._unwritable.add(by)
        self._step(Seal(sealed=bool(self._unwritable)))

    def restore(
        self, leases: "Sequence[Held]", resources: "Sequence[Remembered]", past: "Sequence[Past]"
    ) -> Restored | RestoreRefused:
        """Go on where another ended; before anybody asks."""
        for effect in self._step(Restore(tuple(leases), tuple(resources), tuple(past))):
            if isinstance(effect, (Restored, RestoreRefused)):
                return effect
        raise AssertionError("the engine did not answer a restoration")

    def catch_turn(self) -> None:
        """Have ``turn`` called if its instant is over, though no step has come since."""
        now = self._clock.now()
        if now >= self.turn_at:
            self.turn_at = self.turn(now)

    # --- operators ------------------------------------------------------------------------------------------

    def revoke(self, leases: tuple[LeaseId, ...]) -> tuple[LeaseResult, ...]:
        """End leases now, whoever holds them; a result for each, in order."""
        for effect in self._step(Revoke(leases)):
            if isinstance(effect, Revoked):
                return effect.results
        raise AssertionError("the engine did not answer a revocation")

    def set_standing(self, resource: str, standing: Standing) -> Steered | SteerRefused:
        """Pause a resource, drain it, or open it again."""
        return self._steer(SetStanding(resource, standing))

    def set_override(self, resource: str, limit: LimitSpec | None, length: Nanos = 0) -> Steered | SteerRefused:
        """Put another limit in force for ``length`` from now; None: the declared one, at once."""
        return self._steer(SetOverride(resource, limit, 0 if limit is None else self._clock.now() + length))

    def recycle(self, resource: str, member: str | None = None) -> Steered | SteerRefused:
        """Have one member of a pool, or all, opened anew when it is next lent."""
        return self._steer(Recycle(resource, member))

    def quarantine(self, resource: str, member: str, length: Nanos | None = None) -> Steered | SteerRefused:
        """Keep a member out for ``length`` from now; None: until it is readmitted."""
        return self._steer(Quarantine(resource, member, None if length is None else self._clock.now() + length))

    def readmit(self, resource: str, member: str) -> Steered | SteerRefused:
        """End any quarantine of a member."""
        return self._steer(Readmit(resource, member))

    def _steer(self, order: Steer) -> Steered | SteerRefused:
        for effect in self._step(order):
            if isinstance(effect, (Steered, SteerRefused)):
                return effect
        raise AssertionError("the engine did not answer an order")

    # --- steps ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop the timers. Nothing ends on its own any more."""
        for timer in (self._timer, self._beat):
            if timer is not None:
                timer.cancel()
        self._timer = self._beat = None
        self._late_at = _NEVER

    def _step(self, event: Event) -> list[Effect]:
        """One step of the engine, and all that follows from it but the answer to whoever called."""
        now = self._clock.now()
        if now > self._late_at:
            self._paused(now)
        self.stepped_at = now
        if now >= self.turn_at:
            self.turn_at = self.turn(now)
        effects = self._do(event, now)
        if not self._beating:
            # Nobody can be heard yet: leases must not end because a start stood still, or is endless.
            self._late_at = now + STARTS
        return effects

    def _do(self, event: Event, now: Nanos) -> list[Effect]:
        effects = self._engine.handle(event, now=now)
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
        return effects

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
        self._do(Pause(length), now)
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


def _settle(caller: "asyncio.Future[Answer]", answer: Answer) -> None:
    if not caller.done():
        caller.set_result(answer)
