"""The client's half of a session: what to say next, and what an answer means.

It knows every ask on its way, from one connection to the next; `keeping` knows the leases. It must never touch a socket
or read a clock: bytes of messages and instants (nanoseconds of the monotonic clock) come in, messages and answers go
out. In one sentence: every ask is answered once.

At most `contact.WINDOW` messages are under way that the daemon has not handled. What is to be said meanwhile gathers
into the next one, so that a busy program sends few large messages and a quiet one sends at once.
"""

from collections.abc import Mapping
from typing import Final, cast

from google.protobuf.message import DecodeError

from governor.client.asks import SECOND, Ask
from governor.client.cancels import Cancels
from governor.client.contact import Contact
from governor.client.errors import GovernorError, Unavailable
from governor.client.grants import Grants, Terms, Unopened
from governor.client.held import Held, State
from governor.client.keeping import NEVER, Keeping
from governor.client.patience import Patience
from governor.client.refusals import told
from governor.client.unsaid import Unsaid
from governor.process import Process
from governor.v1 import governor_pb2 as pb

_PLACES: Final = SECOND

Answer = Held | GovernorError


class Conversation:
    """All that one client process says and has said.

    ``answers`` are for those who asked, ``places`` for those who want to know where they stand in line, ``losses`` (of
    ``keeping``) for those who held: whoever drives this takes them out.
    """

    def __init__(
        self, *, client: str, pid: int, host: str, instance: str, labels: Mapping[str, str], address: str
    ) -> None:
        self._hello = pb.Hello(client=client, pid=pid, host=host, instance=instance, labels=dict(labels), alike=True)
        self._address = address
        self._patience = Patience(address)
        self._owner = pid
        self.keeping = Keeping()
        self.answers: list[tuple[Ask, Answer]] = []
        self.places: list[tuple[Ask, int, float | None]] = []
        self._last_op = 0
        # By op: every ask that has no answer yet.
        self._asks: dict[int, Ask] = {}
        self._unsaid = Unsaid()
        self._cancels = Cancels()
        self._grants = Grants()
        # Who welcomed us last, as far as it told.
        self.process: Process | None = None
        # Whether the daemon that has greeted us reads asks that are told together, and traces.
        self._reads_alike = self._traces = False
        self._contact = Contact()
        self._places_at = NEVER

    # --- what the program wants ---------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether anything depends on the daemon, or has yet to reach it."""
        return bool(self._asks or self._cancels) or self._contact.under_way or self.keeping.busy

    def ask(self, ask: Ask, now: int) -> None:
        """Ask, as soon as there is a connection."""
        if ask.given_up:
            return
        self._last_op += 1
        ask.op = self._last_op
        self._asks[ask.op] = ask
        ask.taken_at = now
        self._unsaid.append(ask)
        if ask.deadline is not None and ask.deadline < self._patience.look_at:
            self._patience.look_at = ask.deadline
        if ask.on_queued is not None:
            self._places_at = min(self._places_at, ask.asked_at)

    def cancel(self, ask: Ask) -> None:
        """Nobody waits for this ask any more; what it was granted meanwhile is given back, what it adopted let go."""
        if ask.held is not None and ask.adopt:
            self.keeping.detach(ask.held)
        elif ask.held is not None:
            ask.held.state = State.RELEASED
            self.keeping.release(ask.held)
        elif self._asks.pop(ask.op, None) is not None:
            self._leave(ask)
        ask.given_up = True

    def give_all_back(self) -> None:
        """The program ends: release what is held, and answer nobody."""
        self.keeping.release_all()
        for ask in list(self._asks.values()):
            self._answer(ask, GovernorError("the client was closed"))

    # --- the connection -----------------------------------------------------------------------------------------

    def connected(self, now: int) -> None:
        """A stream is open, and nothing was said on it yet."""
        self._contact.begin(now)
        self._reads_alike = self._traces = False

    def disconnected(self, now: int) -> None:
        """The stream is gone. What had no answer is said again on the next one."""
        greeted = self._contact.greeted
        self._contact.end()
        self._cancels.disconnected()
        again = [ask for ask in self._asks.values() if ask.message]
        for ask in again:
            ask.message = 0
            ask.queued = False
            ask.repeated = True
            if greeted:
                ask.broke_at = now
        self._unsaid.extendleft(reversed(again))
        self._patience.look_at = now
        self.keeping.disconnected(now)

    def died(self, now: int) -> None:
        """The process is dead that welcomed us last, and no stream leads to it any more."""
        self.keeping.died(now, self._contact.assured_at)

    def refused(self, why: str, *, for_good: bool = False, full: bool = False) -> None:
        """No connection can be had now: whoever is not patient is told so; ``for_good``: everybody; ``full``: whoever
        does not wait, for the daemon is there, and takes no more sessions for now.
        """  # noqa: D205
        self._patience.trouble, self._patience.full = why, full
        for ask in list(self._asks.values()):
            if full and ask.shape.wait == 0:
                self._answer(ask, self._patience.away())
            elif not full and (for_good or not (ask.patient or ask.broke_at)):
                self._answer(ask, Unavailable(why, address=self._address))

    def fail(self) -> None:
        """Nothing can be done any more: nobody who waits may be left hanging, nor rely on what nobody keeps."""
        for ask in list(self._asks.values()):
            self._answer(ask, GovernorError("the client's thread failed; see the log"))
        self.keeping.fail()

    # --- to the daemon ------------------------------------------------------------------------------------------

    def next_message(self, now: int) -> bytes | None:
        """The next message to send, if there is anything to say and the daemon keeps up."""
        contact = self._contact
        if not contact.may_speak(holding=bool(self.keeping)):
            return None
        first = contact.said == 0
        places = self._to_be_placed(now)
        asks = self._unsaid.skip()
        if not (first or places or asks or self._cancels.unsaid or self.keeping.wants_to_speak(now)):
            return None
        number = contact.say(now)
        parts: list[bytes] = []
        if first:
            self._hello.held[:] = self.keeping.greet(number, now)
            parts.append(pb.SessionRequest(hello=self._hello).SerializeToString())
        self._cancels.say(parts, number)
        self.keeping.say(parts, number, now)
        # What is in the first message comes before anybody says whether it is read.
        self._unsaid.say(parts, number, now, alike=self._reads_alike, traces=first or self._traces)
        if places:
            parts.append(pb.SessionRequest(places=places).SerializeToString())
        return b"".join(parts)

    def _to_be_placed(self, now: int) -> list[int]:
        """The asks in line whose place somebody wants to know again."""
        if now < self._places_at:
            return []
        asked = [ask for ask in self._asks.values() if ask.on_queued is not None]
        self._places_at = now + _PLACES if asked else NEVER
        return [ask.op for ask in asked if ask.queued]

    # --- from the daemon ----------------------------------------------------------------------------------------

    def heard(self, now: int) -> None:
        """Something came, which may be old."""
        # What is over by now is lost, whatever is read next: whoever looks at the clock has seen that it is.
        self._look(now)
        self._contact.hear(now)

    def knew_us(self, since: int) -> None:
        """The daemon has read what was sent at ``since``: so it knew us then, and has heard us since."""
        self._contact.knew_us(since)

    def hear(self, message: bytes, now: int) -> None:
        """Take in one message. Raises ValueError when it is none."""
        try:
            self._hear(Unopened.FromString(message), now)
        except DecodeError as error:
            raise ValueError("not a SessionResponse") from error

    def _hear(self, said: pb.SessionResponse, now: int) -> None:
        if said.handled:
            self._contact.done_with(said.handled)
            self._cancels.handled(said.handled)
            self._patience.kept_up_at = now
        if said.HasField("welcome"):
            self._hello.resume = said.welcome.session
            self._contact.greet()
            told = said.welcome.process if said.welcome.HasField("process") else None
            self.process = told and Process(told.boot, told.pid_namespace, told.pid, told.started)
            self._patience.trouble, self._patience.full = "", False
            self._reads_alike, self._traces = said.welcome.alike, said.welcome.traces
            self.keeping.welcomed(said.welcome)
        for granted in said.grants:
            self._granted(granted, now)
        for alike in said.alike:
            self._granted_alike(alike, now)
        for refusal in said.refusals:
            self._refused(refusal, now)
        for place in said.queued:
            self._queued(place)
        self.keeping.hear(said)
        if said.HasField("notice") and said.notice.stopping:
            self.keeping.stopping()

    def _granted(self, granted: pb.SessionGrant, now: int) -> None:
        # What is unopened of it is bytes, whatever its type says.
        lease_id, terms = self._grants.read(cast("bytes", granted.lease))
        self._hold(granted.op, lease_id, terms, self.keeping.outlives(granted), now)

    def _granted_alike(self, granted: pb.SessionGrants, now: int) -> None:
        ops, leases, grant = list(granted.ops), list(granted.lease_ids), granted.grant
        if len(ops) != len(leases):
            raise ValueError("not a SessionResponse: grants that do not have a lease each")
        terms, outlives = self._grants.read_alike(cast("bytes", grant.lease)), self.keeping.outlives(grant)
        for op, lease_id in zip(ops, leases, strict=True):
            self._hold(op, lease_id, terms, outlives, now)

    def _hold(self, op: int, lease_id: int, terms: Terms, outlives: int | None, now: int) -> None:
        ask = self._asks.pop(op, None)
        if ask is None:
            return  # given up meanwhile; the daemon takes it back when it reads so
        if ask.sent_at > self._contact.known_at:  # as a rule it is not, and a call costs
            self._contact.knew_us(ask.sent_at)
        length, waited = terms.length, terms.waited
        claims = terms.claims if ask.adopt else ask.shape.claims
        # It came into line after it was sent, so this is no later than the grant, however late we hear of it. Of one
        # that was sent twice we do not know since when it waited: a keep-alive makes its deadline firm.
        firm = not (waited and ask.repeated)
        since = ask.sent_at + waited if firm else now
        held = Held(lease_id, claims, terms.members, length, waited, since + terms.lasts, outlives, self._owner)
        ask.held = held
        if length is not None:
            self.keeping.hold(held, length, since=since, firm=firm, heard_at=self._contact.assured_at, now=now)
        self.answers.append((ask, held))

    def _refused(self, refusal: pb.SessionRefusal, now: int) -> None:
        ask = self._asks.get(refusal.op)
        if ask is None:
            return
        ending = refusal.reason == "DRAINING" and not refusal.resource  # else an operator drains the one resource
        if ending and ask.patient:
            return  # it is asked again on the next stream: a daemon that is about to end is as good as away
        del self._asks[ask.op]
        if ending and ask.fail_open:
            self.answers.append((ask, Unavailable(refusal.message, address=self._address)))
            return
        if ask.broke_at and not ask.adopt and refusal.reason == "LEASE_ENDED":
            # It was granted as the connection broke, and was over before we came back: nobody ever had it.
            ask.broke_at, ask.message = 0, 0
            self.ask(ask, now)
            return
        self.answers.append((ask, told(refusal, ask.adopt)))

    def _queued(self, place: pb.SessionPlace) -> None:
        ask = self._asks.get(place.op)
        if ask is None:
            return
        ask.queued = True
        if ask.on_queued is not None:
            expected = place.expected.ToNanoseconds() / SECOND if place.HasField("expected") else None
            self.places.append((ask, place.ahead, expected))

    def _answer(self, ask: Ask, answer: Answer) -> None:
        """Answer for the daemon, which has not."""
        del self._asks[ask.op]
        self._leave(ask)
        self.answers.append((ask, answer))

    def _leave(self, ask: Ask) -> None:
        """Nobody waits for it any more: have it leave the line, or never get there."""
        ask.given_up = True
        if ask.message and ask.adopt:
            # Not given back: it is as if nobody had tried, and whoever tries again finds it.
            self.keeping.let_go(ask.adopt)
        elif ask.message or ask.repeated:
            self._cancels.add(ask.op)
        else:
            self._unsaid.tidy(len(self._asks))

    # --- time ---------------------------------------------------------------------------------------------------

    def ours_until(self, held: Held) -> int:
        """Until when a lease that is held is ours if nothing more is heard; for any thread."""
        return self.keeping.ours_until(held, self._contact.assured_at, connected=self._contact.greeted)

    def next_deadline(self) -> int | None:
        """When `tick` must be called next, or a message may be due."""
        may_speak = self._contact.may_speak(holding=bool(self.keeping))
        at = min(self._patience.look_at, self.keeping.next_deadline(may_speak=may_speak))
        if may_speak:
            at = min(at, self._places_at)
        if self._contact.open and self.busy:
            at = min(at, self._contact.next_look())
        return None if at >= NEVER else at

    def tick(self, now: int) -> tuple[bool, bool]:
        """Do what is due: whether to ask for a sign of life, and whether to give this connection up."""
        self._look(now)
        greeted = self._contact.greeted
        self._cancels.look(now, greeted=greeted)
        if now >= self._patience.look_at:
            for ask, why in self._patience.look(self._asks.values(), now, greeted=greeted):
                self._answer(ask, why)
        return self._contact.look(now) if self._contact.open and self.busy else (False, False)

    def _look(self, now: int) -> None:
        self.keeping.look(now, self._contact.assured_at, connected=self._contact.greeted)
