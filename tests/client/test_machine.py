"""The client's half of a session, against everything Hypothesis can think of doing to it and to its connection.

The laws, of which the first is what all of it is for:

- What the client says is held, the daemon has lent to nobody else; but for what an operator takes away. The same goes
  for what it would say by the clock alone, to one who asks before its thread has run.
- While everything works, nothing is lost; nor when the daemon dies, and is back within what it promised.
- Every ask is answered once.
- What the daemon lends to this client, the client holds, once all is heard: nothing is kept alive that nobody knows of.
- What is let go is let live. When all is given back, nothing is left, here and there, and nothing is due.
- A thread that has done what was due has something to wait for.
"""

from collections import Counter
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from governor.client.asks import SECOND, Ask, Shape
from governor.client.conversation import Conversation
from governor.client.errors import GovernorError
from governor.client.held import Held, State
from tests.client.dumb import FOR_EVER, LIMITS, NOTICED, OUTLIVES, SPENT, Daemon, Stream
from tests.client.scene import nobody

waits = st.sampled_from((None, None, 0, SECOND // 2, 3 * SECOND, 30 * SECOND))
lengths = st.sampled_from((None, None, SECOND, 4 * SECOND, 20 * SECOND))
# Short, about as long as what the client reckons with, and long.
pauses = st.one_of(
    st.integers(1, SECOND // 10),
    st.sampled_from((SECOND // 3, SECOND, 2 * SECOND, 5 * SECOND)),
    st.integers(1, 9 * SECOND),
)
# So that a lease of one of these lengths is nearly over.
nearly = st.sampled_from([length * SECOND * 95 // 100 for length in (1, 4, 10)])
GOOD: Final = 60 * SECOND


class Machine(RuleBasedStateMachine):
    """A client, a daemon, and a connection between them that does its worst."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000 * SECOND
        self.talk = Conversation(
            client="tests", pid=1, host="here", instance="0123456789abcdef", labels={}, address="db1:7411"
        )
        self.daemon = Daemon(self.now)
        # The connection as the client sees it.
        self.stream: Stream | None = None
        self.asks: list[Ask] = []
        self.answered: Counter[int] = Counter()
        self.held: list[Held] = []
        self.asked_by: dict[Held, Ask] = {}
        self.lost: Counter[Held] = Counter()
        self.detached: list[int] = []
        # When the client's machine says that a process is dead, if it does: each once.
        self.seen_at: dict[int, int] = {}

    # --- the program ---------------------------------------------------------------------------------------------

    @rule(resource=st.sampled_from((*LIMITS, *LIMITS, SPENT)), wait=waits, lease=lengths, patient=st.booleans())
    def ask(self, resource: str, wait: int | None, lease: int | None, patient: bool) -> None:  # noqa: FBT001
        """Somebody wants a permit."""
        self._ask(Ask(Shape(((resource, 1),), wait, lease), nobody, self.now, patient=patient))

    @initialize(resource=st.sampled_from(tuple(LIMITS)), lease=lengths)
    def begin(self, resource: str, lease: int | None) -> None:
        """As most programs do."""
        self.enter(resource, lease)

    @rule(resource=st.sampled_from(tuple(LIMITS)), lease=lengths)
    def enter(self, resource: str, lease: int | None) -> None:
        """Somebody wants a permit, and everything works."""
        self._ask(Ask(Shape(((resource, 1),), None, lease), nobody, self.now))
        self.converse()

    @precondition(lambda self: self.detached)
    @rule(data=st.data())
    def adopt(self, data: st.DataObject) -> None:
        """Somebody wants what was let go."""
        lease = data.draw(st.sampled_from(self.detached), "lease")
        self.detached.remove(lease)
        self._ask(Ask(Shape(()), nobody, self.now, adopt=lease))

    def _ask(self, ask: Ask) -> None:
        self.talk.ask(ask, self.now)
        self.asks.append(ask)
        self._drive()

    @precondition(lambda self: self.asks)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """Nobody waits for it any more, whatever has become of it but one thing: that its holder has it."""
        asks = [ask for ask in self.asks if ask.held is None]
        if asks:
            ask = data.draw(st.sampled_from(asks), "ask")
            self.asks.remove(ask)
            self.talk.cancel(ask)
            self._drive()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """A block is left."""
        held = data.draw(st.sampled_from(self.held), "lease")
        self.held.remove(held)
        self.talk.keeping.release(held)
        self._drive()

    @precondition(lambda self: self.held)
    @rule()
    def cancel_late(self) -> None:
        """Whoever asked was gone when the answer came."""
        held = self.held.pop()
        self.talk.cancel(self.asked_by[held])
        if self.asked_by[held].adopt and held.state is State.DETACHED:
            self.detached.append(held.id)
        self._drive()

    @precondition(lambda self: any(held.state is State.HELD for held in self.held))
    @rule(data=st.data())
    def detach(self, data: st.DataObject) -> None:
        """A lease is to outlive its block."""
        held = data.draw(st.sampled_from([held for held in self.held if held.state is State.HELD]), "lease")
        self.held.remove(held)
        self.detached.append(held.id)
        self.talk.keeping.detach(held)
        self._drive()

    # --- the connection ------------------------------------------------------------------------------------------

    @precondition(lambda self: self.stream is None)
    @rule()
    def connect(self) -> None:
        """The daemon takes us in, or a proxy does for one that is dead."""
        self.stream = Stream()
        self.talk.connected(self.now)
        if self.daemon.lives:
            self.talk.heard(self.now)
        else:
            self.stream.cut(FOR_EVER)
        self._drive()

    @precondition(lambda self: self.stream is None)
    @rule()
    def refuse(self) -> None:
        """Nobody listens there just now."""
        self.talk.refused("db1:7411: Connection refused", for_good=False)
        self._drive()

    @precondition(lambda self: self.stream is not None and self.stream.up)
    @rule(messages=st.integers(1, 3))
    def deliver_up(self, messages: int) -> None:
        """The daemon reads what was said."""
        for _ in range(messages):
            if self.stream is not None and self.stream.up:
                self.daemon.hear(self.stream)
                self._drive()

    @precondition(lambda self: self.stream is not None and self.stream.down)
    @rule(messages=st.integers(1, 5))
    def deliver_down(self, messages: int) -> None:
        """The client reads what was answered."""
        for _ in range(messages):
            self._listen()

    def _listen(self) -> None:
        if self.stream is not None and self.stream.down:
            self._read(self.stream)
            self._drive()

    def _read(self, stream: Stream) -> None:
        self.talk.heard(self.now)
        said = stream.down.popleft()
        if isinstance(said, int):
            self.talk.knew_us(said)
        else:
            self.talk.hear(said, self.now)

    @rule()
    def converse(self) -> None:
        """Everything that is under way arrives, if there is a connection."""
        if self.stream is None:
            self.connect()
        if self.stream is not None and self.stream.alive:
            self._converse()

    @rule(pause=pauses)
    def live(self, pause: int) -> None:
        """Time passes, and everything works: nothing is lost."""
        self.converse()
        if self.stream is None or not self.stream.alive:
            self._pass(pause)
            return
        held = [held for held in self.held if held.state is State.HELD]
        self._pass(pause, connected=True)
        assert all(held.state is State.HELD for held in held)

    @rule(tries=st.integers(1, 5), pause=st.sampled_from((SECOND // 3, SECOND, 3 * SECOND)))
    def flap(self, tries: int, pause: int) -> None:
        """Connections break before anything gets through."""
        for _ in range(tries):
            if self.stream is None:
                self.connect()
            if self.stream is not None:
                self.stream.cut(self.now)
                self._pass(pause)
            if self.stream is not None:
                self._hang_up()
                self._drive()

    @precondition(lambda self: self.stream is not None)
    @rule(later=st.sampled_from((0, SECOND, NOTICED)))
    def cut(self, later: int) -> None:
        """It breaks. The client sees it at once, the daemon perhaps later."""
        assert self.stream is not None
        self.stream.cut(self.now + later)
        self.daemon.pass_until(self.now)
        self._hang_up()
        self._drive()

    @precondition(lambda self: self.stream is not None)
    @rule()
    def swallow(self) -> None:
        """Nothing gets through any more, and nobody is told: the daemon notices it by our silence."""
        assert self.stream is not None
        self.stream.cut(self.now + NOTICED)

    @precondition(lambda self: self.stream is not None and self.stream.alive)
    @rule(heard=st.booleans(), before=pauses, after=pauses)
    def strand(self, heard: bool, before: int, after: int) -> None:  # noqa: FBT001
        """The client's process is stopped, and its connection breaks meanwhile; what came before lies unread."""
        stream = self.stream
        assert stream is not None
        while heard and stream.up:
            self.daemon.hear(stream)
        if heard:
            stream.down.append(self.now)  # it had just asked for a sign of life
        self._stop(before)
        if stream.alive:
            stream.break_off(self.now)
        # No clock tells of that: whoever asks now must have the thread look first.
        self.now += after
        self.daemon.pass_until(self.now)
        while stream.down:
            self._read(stream)
        self._hang_up()
        for _ in range(6):
            self._pass(SECOND // 3)
            self.what_is_held_is_lent_to_nobody_else()

    def _hang_up(self) -> None:
        assert self.stream is not None
        self.stream.cut(self.now)
        self.daemon.pass_until(self.now)
        self.stream = None
        self.talk.disconnected(self.now)

    # --- the daemon ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.daemon.lives)
    @rule(broken=st.booleans(), seen=st.sampled_from((0, 0, SECOND // 2, 3 * SECOND, FOR_EVER)))
    def die(self, broken: bool, seen: int) -> None:  # noqa: FBT001
        """Its process is killed. The client sees it when its machine says so, if that can; its stream may hang."""
        self._die(seen)
        if broken and self.stream is not None:
            self._hang_up()
        self._drive()

    def _die(self, seen: int) -> None:
        if seen != FOR_EVER:
            self.seen_at[self.daemon.process] = self.now + seen
        self.daemon.die()
        if self.stream is not None:
            self.stream.cut(FOR_EVER)

    @precondition(lambda self: not self.daemon.lives)
    @rule()
    def rise(self) -> None:
        """The next one has begun."""
        self.daemon.rise()

    @precondition(lambda self: self.daemon.lives)
    @rule(read=st.booleans(), pause=pauses)
    def stop(self, read: bool, pause: int) -> None:  # noqa: FBT001
        """It ends in good order, which the client reads if nothing comes in between; and it may take its time."""
        self.daemon.stop()
        if self.stream is not None:
            for _ in range(len(self.stream.down) if read else 0):
                self._listen()
            if self.stream is not None:
                self._hang_up()
        self._drive()
        self._pass(pause)
        self._die(0)
        self._drive()

    @rule(away=st.sampled_from((0, SECOND, 3 * SECOND, 6 * SECOND)))
    def come_back(self, away: int) -> None:
        """It dies, is seen to, and is back within what it promised; nothing is lost that nobody could end meanwhile."""
        if not self.daemon.lives:
            self.daemon.rise()
        if self.stream is not None:
            self._hang_up()
        self.enter("ash", None)
        held = [
            held
            for held in self.held
            if held.state is State.HELD
            and held.until - self.now >= 2 * SECOND
            and held.id in self.daemon.leases
            and OUTLIVES[self.daemon.leases[held.id].resource] != 0
        ]
        self._die(0)
        if self.stream is not None:
            self._hang_up()
        self._drive()
        self._pass(away)
        self.daemon.rise()
        if self.stream is not None:
            self._hang_up()
        self._pass(1, connected=True)
        assert all(each.state is State.HELD for each in held)

    @precondition(lambda self: self.daemon.leases and self.daemon.lives)
    @rule(data=st.data())
    def revoke(self, data: st.DataObject) -> None:
        """An operator takes a lease away."""
        self.daemon.revoke(data.draw(st.sampled_from(sorted(self.daemon.leases)), "lease"))

    @precondition(lambda self: self.daemon.lives)
    @rule()
    def restart(self) -> None:
        """The daemon comes back and knows nothing."""
        self.daemon.restart()
        if self.stream is not None:
            self._hang_up()
            self._drive()

    @rule(length=st.sampled_from((0, 3 * SECOND)))
    def reload(self, length: int) -> None:
        """Renewals count for less, or for as much as before."""
        self.daemon.renewals = length

    # --- time ----------------------------------------------------------------------------------------------------

    @rule(pause=pauses)
    def wait(self, pause: int) -> None:
        """The client's thread does what is due when it is."""
        self._pass(pause)

    @rule(pause=st.one_of(pauses, nearly))
    def oversleep(self, pause: int) -> None:
        """The client's process is stopped meanwhile, or its machine is busy."""
        self._stop(pause)
        self._drive()

    def _stop(self, pause: int) -> None:
        """Nobody runs but the daemon, and then whoever asks first what is still held."""
        self.now += pause
        self.daemon.pass_until(self.now)
        for held in self.held:
            if held.id not in self.daemon.excused and self.now < self.talk.ours_until(held):
                assert held.state is not State.HELD or held.id not in self.daemon.ended, f"lease {held.id} has ended"

    def _pass(self, pause: int, *, connected: bool = False) -> None:
        """So much time. ``connected``: and nothing goes wrong in it."""
        end = self.now + pause
        if connected:
            self._converse()
        while self.now < end:
            due = self.talk.next_deadline()
            wakes = min(due or FOR_EVER, self.daemon.next_due(), self._seen_at())
            self.now = min(end, max(self.now + 1, wakes))
            self.daemon.pass_until(self.now)
            self._drive()
            if connected:
                self._converse()

    def _converse(self) -> None:
        """Everything that is under way arrives."""
        if self.stream is None and self.talk.busy:
            self.connect()
        for _ in range(10_000):
            stream = self.stream
            if stream is None or not (stream.up or stream.down):
                return
            while stream.up:
                self.daemon.hear(stream)
            self._listen()
        raise AssertionError("they would never stop talking")

    # --- the client's thread -------------------------------------------------------------------------------------

    def _drive(self) -> None:
        """What the client's thread does in one turn."""
        for _ in range(10):
            self._see()
            probe, give_up = self.talk.tick(self.now)
            if give_up:
                assert self.stream is not None
                self._hang_up()
            if probe and self.stream is not None and self.stream.alive:
                # Answered at once, but behind what lies unread.
                self.stream.down.append(self.now)
                if len(self.stream.down) == 1:
                    self._read(self.stream)
            while (message := self.talk.next_message(self.now)) is not None:
                assert self.stream is not None
                if self.stream.alive:
                    self.stream.up.append(message)
            self._collect()
            due = self.talk.next_deadline()
            if due is None or due > self.now:
                return
        raise AssertionError("a thread that has done what was due still has nothing to wait for")

    def _see(self) -> None:
        """What the machine says of the process that welcomed the client last."""
        if self._seen_at() > self.now:
            return
        assert self.talk.process is not None
        process = self.talk.process.pid
        del self.seen_at[process]
        if self.stream is not None and self.stream.process == process:
            self._hang_up()
        self.talk.died(self.now)

    def _seen_at(self) -> int:
        return FOR_EVER if self.talk.process is None else self.seen_at.get(self.talk.process.pid, FOR_EVER)

    def _collect(self) -> None:
        answers, self.talk.answers = self.talk.answers, []
        for ask, answer in answers:
            self.answered[ask.op] += 1
            assert ask in self.asks, "somebody is answered who does not wait any more"
            self.asks.remove(ask)
            if isinstance(answer, Held):
                if answer.length is not None:
                    self.held.append(answer)
                    self.asked_by[answer] = ask
            else:
                assert isinstance(answer, GovernorError)
        losses, self.talk.keeping.losses = self.talk.keeping.losses, []
        for held in losses:
            self.lost[held] += 1
            assert held.state is State.LOST

    # --- the laws ------------------------------------------------------------------------------------------------

    @invariant()
    def what_is_held_is_lent_to_nobody_else(self) -> None:
        """Nor may it be, from the daemon's point of view."""
        for held in self.held:
            if held.state is State.HELD and held.id not in self.daemon.excused:
                assert held.id not in self.daemon.ended, f"lease {held.id} has ended, and is held"

    @invariant()
    def every_ask_is_answered_once(self) -> None:
        """And every loss is told once."""
        assert all(times == 1 for times in self.answered.values())
        assert all(times == 1 for times in self.lost.values())
        assert all(self.lost[held] == (held.state is State.LOST) for held in self.held)

    @invariant()
    def nothing_is_held_and_forgotten(self) -> None:
        """What the program has is what is kept alive."""
        kept = {held.id for held in self.held if held.state is State.HELD}
        assert kept == set(self.talk.keeping._held)

    @invariant()
    def what_is_let_go_is_let_live(self) -> None:
        """It is somebody else's, or will be."""
        assert not self.daemon.taken_back & set(self.detached)

    def teardown(self) -> None:
        """In the end everything comes right: with a connection, and some time."""
        if not self.daemon.lives:
            self.daemon.rise()
        if self.stream is not None and not self.stream.alive:
            self._hang_up()
        self._pass(GOOD, connected=True)
        assert not self.asks, "somebody still waits"
        ours = {lent.id for lent in self.daemon.leases.values() if lent.session is not None}
        assert ours == set(self.talk.keeping._held)
        self.what_is_held_is_lent_to_nobody_else()

        for held in self.held:
            self.talk.keeping.release(held)
        self._pass(GOOD, connected=True)
        assert not self.daemon.leases
        assert not self.daemon.line
        assert not self.talk.busy
        assert self.talk.next_deadline() is None
        keeping = self.talk.keeping
        left = [keeping._held, keeping._unsaid, keeping._said, keeping._detached, self.talk._asks, self.talk._cancels]
        assert not any(left)
        assert all(ask.given_up for ask in self.talk._unsaid)


LONG: Final = settings.get_current_profile_name() == "long"
PROFILE: Final = settings.get_profile("long")

TestConversation = Machine.TestCase
TestConversation.settings = settings(
    max_examples=PROFILE.max_examples if LONG else 150, stateful_step_count=80 if LONG else 50, print_blob=True
)
