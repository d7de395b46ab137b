"""A conversation without a socket or a clock: a test moves the time, and says what the daemon says.

It knows seconds and messages. It must never decide what is right: that is for the tests.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from governor.client.asks import SECOND, Ask, OnQueued, Shape
from governor.client.conversation import Answer, Conversation
from governor.client.errors import GovernorError
from governor.client.held import Held
from governor.v1 import governor_pb2 as pb

ADDRESS: Final = "db1:7411"
INSTANCE: Final = "0123456789abcdef"


class Scene:
    """One client process, as its thread would drive it. Times in seconds."""

    def __init__(self, *, labels: Mapping[str, str] | None = None) -> None:
        self.now = 1000 * SECOND
        self.talk = Conversation(
            client="tests", pid=42, host="here", instance=INSTANCE, labels=labels or {}, address=ADDRESS
        )
        self.lost: list[Held] = []

    # --- time ----------------------------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """So much time passes, and nothing is done in it."""
        self.now += round(seconds * SECOND)

    def tick(self) -> tuple[bool, bool]:
        """What is due now is done; whether to ask for a sign of life, and whether to give the connection up."""
        due = self.talk.tick(self.now)
        self._collect()
        return due

    def next(self) -> float | None:
        """Seconds until something is due, when all that is due now has been done."""
        self.tick()
        at = self.talk.next_deadline()
        return None if at is None else (at - self.now) / SECOND

    def run(self, seconds: float, *, alive: bool = True) -> list[pb.SessionRequest]:
        """Time passes as it does for a thread: what is due is done when it is; all that is said.

        ``alive``: the daemon answers pings.
        """
        end = self.now + round(seconds * SECOND)
        said = []
        for _ in range(10_000):
            probe, _ = self.tick()
            if probe and alive:
                self.pong(self.now)
            said += self.said()
            at = self.talk.next_deadline()
            assert at is None or at > self.now, "there is nothing to do, and it would be done again and again"
            if at is None or at > end:
                self.now = end
                return said
            self.now = at
        raise AssertionError("a thread that does nothing else")

    # --- the program ---------------------------------------------------------------------------------------------

    def ask(
        self,
        resource: str = "x",
        permits: int = 1,
        *,
        wait: float | None = None,
        lease: float | None = None,
        patient: bool = False,
        on_queued: OnQueued | None = None,
    ) -> Ask:
        """An acquire."""
        ask = self.unasked(resource, permits, wait=wait, lease=lease, patient=patient, on_queued=on_queued)
        self.talk.ask(ask, self.now)
        return ask

    def unasked(
        self,
        resource: str = "x",
        permits: int = 1,
        *,
        wait: float | None = None,
        lease: float | None = None,
        patient: bool = False,
        on_queued: OnQueued | None = None,
    ) -> Ask:
        """One that the conversation has not heard of yet."""
        shape = Shape(
            ((resource, permits),),
            None if wait is None else round(wait * SECOND),
            None if lease is None else round(lease * SECOND),
        )
        return Ask(shape, nobody, self.now, patient=patient, on_queued=on_queued)

    def adopt(self, lease: int) -> Ask:
        """An adoption."""
        ask = Ask(Shape(()), nobody, self.now, adopt=lease)
        self.talk.ask(ask, self.now)
        return ask

    def release(self, held: Held) -> None:
        """As leaving a block does it."""
        self.talk.keeping.release(held)

    def pong(self, since: int) -> None:
        """The answer to a ping that was sent then comes, now."""
        self.talk.heard(self.now)
        self.talk.knew_us(since)

    # --- the connection ------------------------------------------------------------------------------------------

    def connect(self, *, mute: bool = False) -> None:
        """A stream is open, and HTTP/2 has come over it, unless it is ``mute``."""
        self.talk.connected(self.now)
        if not mute:
            self.talk.heard(self.now)

    def break_off(self) -> None:
        """It is gone."""
        self.talk.disconnected(self.now)
        self._collect()

    def said_once(self) -> pb.SessionRequest | None:
        """The next message, if there is one."""
        message = self.talk.next_message(self.now)
        return None if message is None else pb.SessionRequest.FromString(message)

    def said(self) -> list[pb.SessionRequest]:
        """All that may be said now."""
        messages = []
        while (message := self.said_once()) is not None:
            messages.append(message)
            assert len(messages) < 100, "it would never end"
        return messages

    def hear(self, *responses: pb.SessionResponse) -> None:
        """The daemon says these, as one message."""
        self.talk.heard(self.now)
        self.talk.hear(b"".join([response.SerializeToString() for response in responses]), self.now)
        self._collect()

    def greeted(
        self, *, on_disconnect: float | None = 2, keep_alive: float = 10, alike: bool = False
    ) -> list[pb.SessionRequest]:
        """Connected and welcomed; what was said first."""
        self.connect()
        first = self.said()
        self.hear(welcome(on_disconnect=on_disconnect, keep_alive=keep_alive, alike=alike), handled(len(first)))
        return first

    def held(
        self,
        lease: int = 1,
        *,
        length: float | None = 30,
        wait: float | None = None,
        on_disconnect: float | None = None,
        keeps: bool = False,
    ) -> Held:
        """A lease, asked for and granted at once over the connection that there is."""
        ask = self.ask(wait=wait)
        self.said()
        self.hear(
            granted(ask, lease, length, on_disconnect=on_disconnect, keeps=keeps), handled(self.talk._contact.said)
        )
        answer = self.answer(ask)
        assert isinstance(answer, Held)
        return answer

    def busy(self) -> bool:
        """Whether anything depends on the daemon."""
        return self.talk.busy

    # --- what came of it -----------------------------------------------------------------------------------------

    def answers(self) -> dict[Ask, Answer]:
        """What has been answered since this was last called; nothing is answered twice."""
        answers, self.talk.answers = self.talk.answers, []
        assert len({id(ask) for ask, _ in answers}) == len(answers)
        return dict(answers)

    def answer(self, ask: Ask) -> Answer:
        """The only answer there is, to this ask."""
        answers = self.answers()
        assert list(answers) == [ask]
        return answers[ask]

    def _collect(self) -> None:
        self.lost += self.talk.keeping.losses
        self.talk.keeping.losses = []


def nobody(answer: Held | GovernorError) -> None:
    """Answers are looked at where they lie."""
    raise AssertionError(f"a conversation told {answer!r} by itself")


# --- what a daemon says -------------------------------------------------------------------------------------------


def welcome(
    session: str = "s1",
    *,
    resumed: bool = False,
    on_disconnect: float | None = 2,
    keep_alive: float = 10,
    grace: float = 0,
    alike: bool = False,
) -> pb.SessionResponse:
    """The answer to a hello; ``alike``: of a daemon that reads asks that are told together."""
    said = pb.Welcome(session=session, resumed=resumed, start="d1", alike=alike)
    said.keep_alive.FromNanoseconds(round(keep_alive * SECOND))
    if on_disconnect is not None:
        said.on_disconnect.FromNanoseconds(round(on_disconnect * SECOND))
    if grace:
        said.restart_grace.FromNanoseconds(round(grace * SECOND))
    return pb.SessionResponse(welcome=said)


def stopping() -> pb.SessionResponse:
    """It ends, and this stream with it."""
    return pb.SessionResponse(notice=pb.Notice(draining=True, stopping=True))


def handled(messages: int) -> pb.SessionResponse:
    """So many have been done."""
    return pb.SessionResponse(handled=messages)


def granted(
    ask: Ask,
    lease: int,
    length: float | None = 30,
    *,
    waited: float = 0,
    on_disconnect: float | None = None,
    keeps: bool = False,
) -> pb.SessionResponse:
    """It has what it asked for."""
    grant = pb.SessionGrant(op=ask.op, lease=pb.Lease(id=lease), keeps=keeps)
    for resource, permits in ask.shape.claims:
        grant.lease.grants.add(resource=resource, permits=permits)
    if length is not None:
        grant.lease.remaining.FromNanoseconds(round(length * SECOND))
    if waited:
        grant.lease.waited.FromNanoseconds(round(waited * SECOND))
    if on_disconnect is not None:
        grant.on_disconnect.FromNanoseconds(round(on_disconnect * SECOND))
    return pb.SessionResponse(grants=[grant])


def granted_alike(asks: Sequence[Ask], leases: Sequence[int], *, waited: float = 0) -> pb.SessionResponse:
    """All of these, which asked for the same, have it for 30 s."""
    (grant,) = granted(asks[0], 0, waited=waited).grants
    grant.ClearField("op")
    told = pb.SessionGrants(ops=[ask.op for ask in asks], lease_ids=leases, grant=grant)
    return pb.SessionResponse(alike=[told])


def leases_in(message: pb.SessionResponse) -> list[int]:
    """Those that it brings."""
    alike = [lease for told in message.alike for lease in told.lease_ids]
    return [grant.lease.id for grant in message.grants] + alike


def refused(
    ask: Ask, reason: str = "NONE_FREE", code: int = 8, *, retry_after: float | None = None, resource: str = "x"
) -> pb.SessionResponse:
    """It has not."""
    refusal = pb.SessionRefusal(op=ask.op, code=code, reason=reason, message=f"{resource}: no", resource=resource)
    if retry_after is not None:
        refusal.retry_after.FromNanoseconds(round(retry_after * SECOND))
    return pb.SessionResponse(refusals=[refusal])


def queued(ask: Ask, ahead: int = 0, expected: float | None = None) -> pb.SessionResponse:
    """It stands in line."""
    place = pb.SessionPlace(op=ask.op, ahead=ahead)
    if expected is not None:
        place.expected.FromNanoseconds(round(expected * SECOND))
    return pb.SessionResponse(queued=[place])


def released(*leases: int) -> pb.SessionResponse:
    """It has them back."""
    return pb.SessionResponse(released=leases)


def ended(lease: int, reason: str = "") -> pb.SessionResponse:
    """One is no more; without a reason it is not known either."""
    result = pb.LeaseResult(lease_id=lease, state=pb.LeaseResult.UNKNOWN)
    if reason:
        result.state = pb.LeaseResult.ENDED
        result.ended.reason = reason
    return pb.SessionResponse(ended=[result])


def renewed(lease: int, length: float) -> pb.SessionResponse:
    """It lasts another length from now on."""
    result = pb.LeaseResult(lease_id=lease, state=pb.LeaseResult.RENEWED)
    result.remaining.FromNanoseconds(round(length * SECOND))
    return pb.SessionResponse(results=[result])


def kept_alive() -> pb.SessionResponse:
    """A keep-alive has been done."""
    return pb.SessionResponse(kept_alive=True)
