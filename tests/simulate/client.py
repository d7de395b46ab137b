"""Client: a program that borrows, works and gives back, over a network that loses what it will.

It knows what a client of governor does when an answer does not come: it asks again under the same request id. It must
never know what the daemon does; all that it sees goes into the history.
"""

from collections.abc import Callable, Generator
from typing import Final

from governor.core.effects import Denied, Granted, LeaseState, Queued, Released, Renewed
from governor.core.events import Acquire, Release, Renew
from governor.core.types import MILLISECOND, SECOND, Claim, LeaseId, Nanos, Outcome, Reason, TicketId
from tests.history.log import DEAD, GRANTED, NEVER, RENEWED, Call, History, Verb
from tests.simulate.daemon import Daemon
from tests.simulate.manner import Told
from tests.simulate.world import Life, Promise, World

# How likely a message is lost, and the answer to one; and that the sender of what was lost comes to know it.
_LOST: Final = 0.04
_NOTICED: Final = 0.5

Deed = Generator["Nanos | Promise[object]", object, None]


class Client:
    """One program after the other, under one name: when it dies, another one starts and knows nothing."""

    def __init__(self, name: str, world: World, daemon: Daemon, history: History) -> None:
        self._name = name
        self._world = world
        self._daemon = daemon
        self._history = history
        self._asks = 0
        self._patience = world.between(200 * MILLISECOND, 5 * SECOND)
        self._pace = world.between(20 * MILLISECOND, 2 * SECOND)
        # After which share of its time a lease is renewed: in good time, or at the last moment.
        self._renews_after = world.chance.choice((0.33, 0.9))
        # What it holds, and its connection, by number, and which daemon was the last to answer there.
        self._held: LeaseId | None = None
        self._connection = self._boot = 0
        if world.chance.random() < 0.5:
            daemon.mourners.append(self._mourn)
        # Whether the ask of now is made once more behind everybody's back.
        self._echoed = False

    def life(self) -> Life:
        """Borrow, work, give back, and so on for ever."""
        chance = self._world.chance
        while True:
            yield self._world.between(self._pace // 10, self._pace)
            call, lease = yield from self._borrow()
            if lease is None or call is None or call.remaining is None:
                continue
            self._held = LeaseId(lease)
            lives = yield from self._work(LeaseId(lease), call)
            self._held = None
            if not lives:
                continue
            if chance.random() < 0.9:
                yield from self._give_back(LeaseId(lease), settled=not self._echoed and chance.random() < 0.5)
            elif chance.random() < 0.5:
                # It has died, and the daemon sees that. Otherwise it may be long until anybody does.
                self._cut_off(LeaseId(lease))

    # --- deeds ------------------------------------------------------------------------------------------------

    def _borrow(self) -> Generator["Nanos | Promise[object]", object, tuple[Call | None, int | None]]:
        """Ask, and ask again while nobody answers; the call that was granted and its lease."""
        chance = self._world.chance
        names = [spec.name for spec in self._daemon.declared.specs]
        wanted = chance.sample(names, min(len(names), 1 + (chance.random() < 0.25)))
        claims = tuple([Claim(name, 1 + (chance.random() < 0.2)) for name in wanted])
        self._asks += 1
        request_id = f"{self._asks}" if chance.random() < 0.85 else ""
        ask = Acquire(
            TicketId(0),
            claims,
            self._name,
            wait=chance.choice((None, None, 0, self._world.between(MILLISECOND, 10 * SECOND))),
            lease=chance.choice((None, self._world.between(5 * MILLISECOND, 20 * SECOND))),
            request_id=request_id,
        )
        self._echoed = bool(request_id) and chance.random() < 0.1
        if self._echoed:
            self._world.live(self._echo(ask))
        for _ in range(chance.randint(1, 5)):
            call = yield from self._acquire(ask)
            if call.answered is not None and call.result != Reason.DRAINING:
                return call, call.lease
            if not request_id:
                break
            yield self._world.between(MILLISECOND, SECOND)
        return None, None

    def _echo(self, ask: Acquire) -> Life:
        """The same ask comes once more, much later than it was of any use."""
        yield self._world.between(MILLISECOND, 10 * SECOND)
        yield from self._acquire(ask)

    def _work(self, lease: LeaseId, granted: Call) -> Generator["Nanos | Promise[object]", object, bool]:
        """Hold it, for less or more than its time, and renew it meanwhile, or not; whether it lives, as far as known.

        Whoever is cut off meanwhile comes back, in time or too late, and renews it, as a client does that reconnects.
        """
        chance, length = self._world.chance, granted.remaining or 0
        renews = chance.random() < 0.5
        least = length // 4 if renews else MILLISECOND
        left = self._world.between(least, (4 if renews else 1) * length + granted.spare + MILLISECOND)
        pause = int(self._renews_after * length)
        while renews and left > pause:
            yield pause
            left -= pause
            if chance.random() < 0.2:
                yield from self._be_away(lease, granted)
            call = yield from self._name_it("renew", Renew((lease,), chance.choice((None, None, length))), lease)
            if call.result in DEAD:
                return False
        if chance.random() < 0.8:
            yield left
            return True
        yield left // 2
        yield from self._be_away(lease, granted)
        for _ in range(3):
            call = yield from self._name_it("renew", Renew((lease,)), lease)
            if call.result in DEAD:
                return False
            if call.answered is not None:
                break
        yield left // 2
        return True

    def _be_away(self, lease: LeaseId, granted: Call) -> Deed:
        """Cut off, for less or more than the lease outlives that."""
        self._cut_off(lease)
        longest = min(granted.outlives, granted.remaining or 0) + SECOND // 10
        yield int(longest * self._world.chance.choice((0.3, 0.9, 1.2)) * self._world.chance.random() ** 0.5)
        self._connection += 1

    def _cut_off(self, lease: LeaseId) -> None:
        """The daemon sees that now, or a while later."""
        self._log("gone", lease)
        boot, connection = self._boot, self._connection
        late = self._world.between(10_000, 300 * MILLISECOND)
        self._world.after(late, lambda: self._daemon.disconnect(lease, boot, connection))

    def _mourn(self, boot: int) -> None:
        """The daemon was a process of this machine, and is dead."""
        held = self._held
        if held is not None:
            self._world.after(
                self._world.between(10_000, 30 * MILLISECOND),
                lambda: self._log("died", held, boot=boot),
            )

    def _give_back(self, lease: LeaseId, *, settled: bool) -> Deed:
        """Until somebody says that he has heard of it."""
        chance = self._world.chance
        release = Release((lease,), chance.choice(list(Outcome)), settled)
        for _ in range(chance.randint(1, 6)):
            call = yield from self._name_it("release", release, lease)
            if call.answered is not None:
                return
            yield self._world.between(MILLISECOND, SECOND)

    # --- calls ------------------------------------------------------------------------------------------------

    def _log(self, verb: Verb, lease: int | None = None, *, boot: int = 0) -> Call:
        call = Call(self._name, verb, self._world.now, lease=lease, boot=boot)
        self._history.calls.append(call)
        return call

    def _acquire(self, ask: Acquire) -> Generator["Nanos | Promise[object]", object, Call]:
        call = self._log("acquire")
        call.request_id, call.claims = ask.request_id, {claim.resource: claim.permits for claim in ask.claims}
        call.wait = ask.wait
        answer: Promise[object] = Promise(self._world, self._patience)
        give_up = None

        def arrive() -> None:
            nonlocal give_up
            give_up = self._daemon.acquire(ask, tell)

        def tell(told: Told) -> None:
            if isinstance(told.answer, Queued):
                self._answer(lambda: self._queue(call), None)
            else:
                self._answer(lambda: answer.keep(told), give_up)

        self._send(arrive)
        said = yield answer
        match said:
            case Told(Granted() as granted):
                call.answered, call.result, call.lease = self._world.now, GRANTED, granted.lease
                call.remaining = None if granted.deadline is None else granted.deadline - said.at
                call.members = {g.resource: [m.id for m in g.members] for g in granted.grants if g.members}
                call.outlives = NEVER if said.outlives is None else said.outlives
                call.again = granted.repeated
                self._hear(call, said)
            case Told(Denied() as denied):
                call.answered, call.result = self._world.now, denied.denial.reason.value
            case _:
                if give_up is not None and self._world.chance.random() < _NOTICED:
                    self._send(give_up)
        return call

    def _name_it(
        self, verb: Verb, event: Release | Renew, lease: LeaseId
    ) -> Generator["Nanos | Promise[object]", object, Call]:
        """Ask something about a lease."""
        call = self._log(verb, lease)
        call.length = event.lease if isinstance(event, Renew) else None
        answer: Promise[object] = Promise(self._world, self._patience)
        connection = self._connection
        self._send(
            lambda: self._daemon.name(
                event, lambda told: self._answer(lambda: answer.keep(told), give_up=None), connection
            )
        )
        said = yield answer
        if isinstance(said, Told) and isinstance(said.answer, Released | Renewed):
            result = said.answer.results[0]
            call.answered, call.result = self._world.now, result.state.value
            self._hear(call, said)
            if result.state is LeaseState.RENEWED:
                call.result, call.remaining = RENEWED, result.remaining
        return call

    def _hear(self, call: Call, told: Told) -> None:
        call.boot, call.spare = told.boot, told.spare
        self._boot = told.boot

    def _queue(self, call: Call) -> None:
        if call.queued is None:
            call.queued = self._world.now

    # --- the network ------------------------------------------------------------------------------------------

    def _send(self, arrive: Callable[[], object]) -> None:
        """It arrives after a while, or does not."""
        if self._world.chance.random() >= _LOST:
            self._world.after(self._world.between(10_000, 30 * MILLISECOND), arrive)

    def _answer(self, arrive: Callable[[], None], give_up: Callable[[], None] | None) -> None:
        """Likewise; what is lost may be noticed, and then it was not delivered for certain."""
        if self._world.chance.random() >= _LOST:
            self._world.after(self._world.between(10_000, 30 * MILLISECOND), arrive)
        elif give_up is not None and self._world.chance.random() < _NOTICED:
            self._world.after(self._world.between(10_000, 30 * MILLISECOND), give_up)
