"""Daemon: an engine with a store, callers and a clock, that is stopped now and then, and dies.

It knows what a shell must do: step, write, and only then answer; a heartbeat; a restart from what is written. It must
never know who asks or why.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from governor.core.effects import Abandoned, Denied, Effect, Granted, Released, Renewed, Restored
from governor.core.engine import Engine
from governor.core.events import (
    Abandon,
    Acquire,
    Disconnect,
    Event,
    Pause,
    Reconfigure,
    Release,
    Renew,
    ReserveIds,
    Restore,
    Wake,
)
from governor.core.resource import ResourceSpec
from governor.core.types import MILLISECOND, SECOND, LeaseId, Nanos, TicketId
from tests.simulate.store import Scribe, Store, Tables, empty
from tests.simulate.world import World

BEAT: Final = SECOND
LATE: Final = SECOND // 4
_PLENTY: Final = LeaseId(10**9)

# The end of an ask, or the answer to a release or renewal, and the daemon's own clock then.
Answer = Granted | Denied | Released | Renewed
Tell = Callable[[Answer, Nanos], None]


@dataclass
class Manner:
    """How this daemon and its store are, drawn once for each seed.

    ``to_disk`` is how long it takes until what was written is sure to survive, 0 if it is at once; ``grace`` what a
    restart adds to the time of a lease, once; ``dies`` how likely it dies in the middle of a turn. One that is
    ``hasty`` answers before it is sure, which is a fault.
    """

    at_once: int
    to_disk: Nanos
    grace: Nanos
    dies: float
    hasty: bool = False


class Daemon:
    """One after the other, as each dies; ``specs`` is what the operator has declared."""

    def __init__(self, world: World, manner: Manner, specs: tuple[ResourceSpec, ...]) -> None:
        self.specs = specs
        # To be told when what is declared has come into force.
        self.obeyed: list[Callable[[], None]] = []
        self.manner = manner
        self.store = Store()
        self.boots = 0
        self.up = False
        self.pauses = 0
        self._world = world
        self._offset: Nanos = 0
        self._stopped_until: Nanos = 0
        self._turn_due = False
        self._inbox: list[Callable[[], object]] = []
        # What is to be answered, and how many transactions must be sure to survive before it is.
        self._answers: list[Callable[[], None]] = []
        self._unsent: list[tuple[int, Callable[[], None]]] = []
        self._callers: dict[TicketId, Tell] = {}
        self._tickets = 0
        self._alive: Nanos = 0
        self._armed: Nanos | None = None
        self._start(empty())

    # --- what is asked of it --------------------------------------------------------------------------------------

    def acquire(self, ask: Acquire, tell: Tell) -> Callable[[], None]:
        """Somebody asks, under a ticket of the daemon's own; he is to call what is returned when he gives up."""
        boot, ticket = self.boots, TicketId(0)

        def arrive() -> None:
            nonlocal ticket
            self._tickets += 1
            ticket = TicketId(self._tickets)
            self._callers[ticket] = tell
            self._step(replace(ask, ticket=ticket))

        def give_up() -> None:
            if ticket and boot == self.boots:
                self._receive(lambda: self._abandon(ticket))

        self._receive(arrive)
        return give_up

    def name(self, event: Release | Renew, tell: Tell) -> None:
        """Somebody gives leases back, or renews them."""

        def arrive() -> None:
            for effect in self._step(event):
                if isinstance(effect, Released | Renewed):
                    self._answer(tell, effect)

        self._receive(arrive)

    def disconnect(self, leases: tuple[LeaseId, ...]) -> None:
        """Whoever held these is known to be gone."""
        self._receive(lambda: self._step(Disconnect(leases)))

    def declare(self, specs: tuple[ResourceSpec, ...], obeyed: Callable[[], None]) -> None:
        """The operator has written something else; he is told when it is in force."""
        self.specs = specs
        self.obeyed.append(obeyed)
        self._receive(self._reload)

    # --- what befalls it ------------------------------------------------------------------------------------------

    def stop(self, length: Nanos) -> None:
        """Nothing is done for a while; what arrives waits."""
        self._stopped_until = max(self._stopped_until, self._world.now + length)

    def die(self, down: Nanos) -> None:
        """It is killed. All that was promised survives, and perhaps some of the rest; another one starts later."""
        if not self.up:
            return
        self.up = False
        self.boots += 1
        self._inbox.clear()
        self._answers.clear()
        self._unsent.clear()
        self._callers.clear()
        prefixes = self.store.prefixes()
        for tables in self._world.chance.sample(prefixes, min(2, len(prefixes))):
            self._engine_of(tables, now=tables.stamp)
        survive = self._world.chance.randint(self.store.durable, self.store.written)
        tables = self.store.fail(survive)
        self._world.after(down, lambda: self._start(tables))

    @property
    def clock(self) -> Nanos:
        """Its own, which is another one each time."""
        return self._world.now + self._offset

    # --- how it works ---------------------------------------------------------------------------------------------

    def _start(self, tables: Tables) -> None:
        """Go on from what is written, if only in part; nothing is answered before all of it is written anew."""
        self._offset = self._world.chance.randrange(10**6) * SECOND
        self._tickets, self._alive, self._armed = 0, self.clock, None
        self.engine = self._engine_of(tables, now=self.clock)
        self._scribe = Scribe(self.engine, graced=tables.leases)
        self._reload()
        self.store.append(self._scribe.everything(self.clock))
        self.store.durable = self.store.written
        self.up = True
        self._beat(self.boots)
        self._arm()

    def _engine_of(self, tables: Tables, now: Nanos) -> Engine:
        """What these tables mean, whatever part of all that was written they are (I12)."""
        later = now - tables.stamp
        leases = [
            replace(
                row.held,
                granted_at=row.held.granted_at + later,
                deadline=row.held.deadline + later + (0 if row.graced else self.manner.grace),
            )
            for row in tables.leases.values()
        ]
        past = sorted(tables.past.values(), key=lambda ended: ended.ended_at)
        engine = Engine(first_id=tables.last_id + 1, at_once=self.manner.at_once)
        engine.handle(ReserveIds(_PLENTY), now=now)
        engine.handle(Reconfigure(tuple([known.spec for known in tables.resources.values()])), now=now)
        restore = Restore(
            tuple(leases),
            tuple([replace(known, at=known.at + later) for known in tables.resources.values()]),
            tuple([replace(ended, ended_at=ended.ended_at + later) for ended in past]),
            tuple([replace(known, at=known.at + later) for known in tables.fading]),
        )
        assert engine.handle(restore, now=now) == [Restored(len(leases))], "I12"
        engine.check(now=now)
        return engine

    def _receive(self, what: Callable[[], object]) -> None:
        """Something has arrived: it is dealt with in the next turn, along with whatever else arrives until then."""
        if self.up:
            self._inbox.append(what)
            self._schedule(self._world.chance.randrange(200_000))

    def _schedule(self, length: Nanos) -> None:
        if not self._turn_due:
            self._turn_due = True
            boot = self.boots
            self._world.after(max(length, self._stopped_until - self._world.now), lambda: self._turn(boot))

    def _turn(self, boot: int) -> None:
        """Deal with all that is there, write, and answer when what was written is sure to survive."""
        self._turn_due = False
        if not self.up:
            return
        if boot != self.boots or self._stopped_until > self._world.now:
            self._schedule(0)
            return
        inbox, self._inbox = self._inbox, []
        for what in inbox:
            what()
        self.engine.check(now=self.clock)
        if self._might_die():
            return
        self._write(heartbeat=False)
        if not self._might_die():
            self._arm()

    def _might_die(self) -> bool:
        if self._world.chance.random() < self.manner.dies:
            self.die(self._world.between(10 * MILLISECOND, 20 * SECOND))
        return not self.up

    def _step(self, event: Event) -> list[Effect]:
        """One step of the engine, after the time that was lost if any was."""
        now = self.clock
        if self.engine.live_leases and now - self._alive > BEAT + LATE:
            self.pauses += 1
            self._effects(self.engine.handle(Pause(now - self._alive), now=now))
        self._alive = now
        effects = self.engine.handle(event, now=now)
        self._effects(effects)
        return effects

    def _reload(self) -> None:
        self._step(Reconfigure(self.specs))
        for told in self.obeyed:
            told()
        self.obeyed.clear()

    def _effects(self, effects: Sequence[Effect]) -> None:
        self._scribe.observe(effects)
        for effect in effects:
            if isinstance(effect, Granted | Denied):
                tell = self._callers.pop(effect.ticket, None)
                if tell is not None:
                    self._answer(tell, effect)
            elif isinstance(effect, Abandoned):
                self._callers.pop(effect.ticket, None)

    def _abandon(self, ticket: TicketId) -> None:
        self._callers.pop(ticket, None)
        self._step(Abandon(ticket))

    def _answer(self, tell: Tell, answer: Answer) -> None:
        now = self.clock
        self._answers.append(lambda: tell(answer, now))

    def _write(self, *, heartbeat: bool) -> None:
        transaction = self._scribe.transaction(self.clock, heartbeat=heartbeat)
        if transaction is not None:
            self.store.append(transaction)
        number = self.store.written
        self._unsent += [(number, send) for send in self._answers]
        self._answers.clear()
        if self.manner.hasty:
            self._send(number)
        if not self.manner.to_disk:
            self._is_durable(number)
        else:
            boot, length = self.boots, self._world.between(self.manner.to_disk // 10, self.manner.to_disk)
            self._world.after(length, lambda: self._is_durable(number) if boot == self.boots and self.up else None)

    def _is_durable(self, number: int) -> None:
        self.store.durable = max(self.store.durable, number)
        self._send(self.store.durable)

    def _send(self, number: int) -> None:
        """All answers about what is in the first ``number`` transactions."""
        ready = [send for needs, send in self._unsent if needs <= number]
        self._unsent = [(needs, send) for needs, send in self._unsent if needs > number]
        for send in ready:
            send()

    def _arm(self) -> None:
        """A timer for whatever is due next, which may be late."""
        due = self.engine.next_deadline()
        if due is not None and due != self._armed:
            self._armed = due
            boot, late = self.boots, self._world.chance.randrange(2 * MILLISECOND)
            self._world.after(due - self.clock + late, lambda: self._on_timer(boot, due))

    def _on_timer(self, boot: int, due: Nanos) -> None:
        if boot == self.boots and self._armed == due:
            self._armed = None
            self._receive(lambda: self._step(Wake()))

    def _beat(self, boot: int) -> None:
        """While there are leases, a sign of life each second."""
        if boot != self.boots or not self.up:
            return
        if self._stopped_until > self._world.now:
            self._world.after(self._stopped_until - self._world.now, lambda: self._beat(boot))
            return
        if self.engine.live_leases:
            self._step(Wake())
            self._write(heartbeat=True)
            self._arm()
        self._world.after(BEAT, lambda: self._beat(boot))
