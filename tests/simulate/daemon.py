"""Daemon: an engine with a store, callers and a clock, that is stopped now and then, and dies.

It knows what a shell must do: step, write, and only then answer; a heartbeat; a restart from what is written. It must
never know who asks or why.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from governor.core.effects import (
    Abandoned,
    Denied,
    Effect,
    Granted,
    LeaseResult,
    LeaseState,
    Queued,
    ReconfigureRefused,
    Released,
    Renewed,
    Restored,
)
from governor.core.engine import Engine
from governor.core.events import (
    Abandon,
    Acquire,
    Disconnect,
    Event,
    Freeze,
    Reconfigure,
    Release,
    Renew,
    ReserveIds,
    Restore,
    Wake,
)
from governor.core.resource import Remembered, ResourceSpec
from governor.core.types import MILLISECOND, SECOND, Denial, LeaseId, Nanos, Reason, TicketId
from tests.simulate.manner import Answer, Declaration, Manner, Tell, Told
from tests.simulate.store import Scribe, Store, Tables, empty
from tests.simulate.world import World

BEAT: Final = SECOND
LATE: Final = SECOND // 4
_PLENTY: Final = LeaseId(10**9)


class Daemon:
    """One after the other, as each dies; ``declared`` is what the operator has declared last.

    ``obeys`` is called with what is in force from now on, and ``mourners`` with the number of each daemon that dies.
    """

    def __init__(
        self, world: World, manner: Manner, declared: Declaration, obeys: Callable[[Declaration], None]
    ) -> None:
        self.declared = self.in_force = declared
        self.obeys = obeys
        self.mourners: list[Callable[[int], None]] = []
        self.manner = manner
        self.store = Store()
        self.boots = 0
        self.up = False
        self.freezes = 0
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
        # Of each lease, the last connection by which its holder was heard since this daemon lives.
        self._heard: dict[LeaseId, int] = {}
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
            self._ask(replace(ask, ticket=ticket))

        def give_up() -> None:
            if ticket and boot == self.boots:
                self._receive(lambda: self._abandon(ticket))

        self._receive(arrive)
        return give_up

    def name(self, event: Release | Renew, tell: Tell, connection: int) -> None:
        """Somebody gives leases back, or renews them, by his so-manieth connection."""

        def arrive() -> None:
            self._heard.update(dict.fromkeys(event.leases, connection))
            for effect in self._named(event):
                if isinstance(effect, Released | Renewed):
                    self._answer(tell, effect)

        self._receive(arrive)

    def disconnect(self, lease: LeaseId, boot: int, connection: int) -> None:
        """Whoever held this is known to be gone, unless he has come by another connection since, or the daemon has."""

        def arrive() -> None:
            if boot == self.boots and self._heard.get(lease, 0) <= connection:
                self._step(Disconnect((lease,)))

        self._receive(arrive)

    def declare(self, declared: Declaration) -> None:
        """The operator has written something else."""
        self.declared = declared
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
        for told in self.mourners:
            told(self.boots)
        self.boots += 1
        self._inbox.clear()
        self._answers.clear()
        self._unsent.clear()
        self._callers.clear()
        self._heard.clear()
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
        self._promise = self._grace
        self._reload()
        self.store.append(self._scribe.everything(self.clock, self._promise))
        self.store.durable = self.store.written
        self.up = True
        self._beat(self.boots)
        self._arm()

    def _engine_of(self, tables: Tables, now: Nanos) -> Engine:
        """What these tables mean, whatever part of all that was written they are (I12)."""
        later, grace = now - tables.stamp, max(self._grace, tables.promised)
        leases = [
            replace(
                row.held,
                granted_at=row.held.granted_at + later,
                deadline=row.held.deadline + later + (0 if row.graced else grace),
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

    def _ask(self, ask: Acquire) -> None:
        """As far as this client may: what is asked for already he may have."""
        most = self.in_force.max_lease
        if most is not None and not self.engine.knows(ask.client, ask.request_id):
            if ask.lease is not None and ask.lease > most:
                self._effects([Denied(ask.ticket, Denial(Reason.PERMISSION_DENIED), ask.claims, 0, ask.client)])
                return
            usual = self.engine.usual_lease(ask.claims)
            if ask.lease is None and usual is not None and usual > most:
                ask = replace(ask, lease=most)
        self._step(ask)

    def _named(self, event: Release | Renew) -> list[Effect]:
        """Likewise: nothing is renewed for longer than this client may have it."""
        most = self.in_force.max_lease
        if most is None or isinstance(event, Release):
            return self._step(event)
        if event.lease is None or event.lease <= most:
            return self._step(replace(event, most=most))
        denial = Denial(Reason.PERMISSION_DENIED)
        return [Renewed(tuple([LeaseResult(lease, LeaseState.REFUSED, denial=denial) for lease in event.leases]))]

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
            self.freezes += 1
            self._effects(self.engine.handle(Freeze(now - self._alive), now=now))
        self._alive = now
        effects = self.engine.handle(event, now=now)
        self._effects(effects)
        return effects

    @property
    def _grace(self) -> Nanos:
        """What a daemon that starts now gives leases."""
        return self.declared.restart_grace if self.manner.grace is None else self.manner.grace

    def _reload(self) -> None:
        """All of it or nothing; a daemon that starts does without the kinds that cannot be."""
        wanted = self.declared
        if self._refuses(wanted.specs):
            if self.up:
                return
            former = {known.spec.name: known.spec for name in self.engine.remembered() if (known := self._known(name))}
            lent = {shown.name for shown in self.engine.snapshot(now=self.clock).resources if shown.leases}
            specs = [
                former[spec.name] if spec.name in lent and former[spec.name].kind != spec.kind else spec
                for spec in wanted.specs
            ]
            wanted = replace(wanted, specs=tuple(specs))
            assert not self._refuses(wanted.specs), "what was in force cannot be"
        self.in_force = wanted
        self.obeys(wanted)

    def _refuses(self, specs: tuple[ResourceSpec, ...]) -> bool:
        return any(isinstance(effect, ReconfigureRefused) for effect in self._step(Reconfigure(specs)))

    def _known(self, name: str) -> Remembered | None:
        return self.engine.remember(name, now=self.clock)

    def _effects(self, effects: Sequence[Effect]) -> None:
        self._scribe.observe(effects)
        for effect in effects:
            if isinstance(effect, Queued):
                self._answer(self._callers[effect.ticket], effect)
            elif isinstance(effect, Granted | Denied):
                tell = self._callers.pop(effect.ticket, None)
                if tell is not None:
                    self._answer(tell, effect)
            elif isinstance(effect, Abandoned):
                self._callers.pop(effect.ticket, None)

    def _abandon(self, ticket: TicketId) -> None:
        self._callers.pop(ticket, None)
        self._step(Abandon(ticket))

    def _answer(self, tell: Tell, answer: Answer) -> None:
        outlives = self.engine.grace(answer.lease) if isinstance(answer, Granted) else 0
        told = Told(answer, self.clock, self.boots, self._promise, outlives)
        self._answers.append(lambda: tell(told))

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
