"""The client's half of a session: what to say next, and what an answer means.

It knows every ask on its way and every lease held, from one connection to the next. It must never touch a socket or
read a clock: bytes of messages and instants (nanoseconds of the monotonic clock) come in, messages and answers go
out. In one sentence: every ask is answered once, and every lease is kept alive, given back or reported lost.

At most `WINDOW` messages are under way that the daemon has not handled. What is to be said meanwhile gathers into the
next one, so that a busy program sends few large messages and a quiet one sends at once.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final

from google.protobuf.message import DecodeError

from governor.client.asks import SECOND, Ask, Shape
from governor.client.errors import GovernorError, LeaseLost, NotGranted, Unavailable
from governor.client.held import Held, Member, State
from governor.v1 import governor_pb2 as pb

WINDOW: Final = 2
# Nothing was heard for so long while something depends on the daemon: it is asked for a sign of life.
PROBE: Final = 2 * SECOND
# Nothing at all for so long: this connection is given up.
SILENCE: Final = 8 * SECOND
# A daemon that has not heard of us ends our session after this long without an answer to its ping.
NOTICED: Final = 4 * SECOND
# How much later than its wait an ask in line may be answered, before we stop believing that it will be.
_LATE: Final = SECOND
_PLACES: Final = SECOND
_NEVER: Final = 1 << 62
_MOST_SHAPES: Final = 256
_MOST_GIVEN_UP: Final = 256
_MOST_BYTES: Final = 128 * 1024
_KEEP_ALIVE: Final = 10 * SECOND
# The statuses of a refusal that no repetition changes: INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE, PERMISSION_DENIED.
_FOR_GOOD: Final = frozenset({3, 5, 7, 11, 16})
_FAILED_PRECONDITION: Final = 9

Answer = Held | GovernorError


class Conversation:
    """All that one client process says and has said.

    ``answers`` are for those who asked, ``places`` for those who want to know where they stand in line, ``losses`` for
    those who held: whoever drives this takes them out.
    """

    def __init__(
        self, *, client: str, pid: int, host: str, instance: str, labels: Mapping[str, str], address: str
    ) -> None:
        self._hello = pb.Hello(client=client, pid=pid, host=host, instance=instance, labels=dict(labels))
        self._address = address
        self.answers: list[tuple[Ask, Answer]] = []
        self.losses: list[Held] = []
        self.places: list[tuple[Ask, int, float | None]] = []
        self._number = pid
        self._last_op = 0
        # By op: every ask that has no answer yet.
        self._asks: dict[int, Ask] = {}
        self._unsent: deque[Ask] = deque()
        self._held: dict[int, Held] = {}
        # What the daemon is still to be told; leases to be given back stay until it says that they were.
        self._releases: dict[int, Held] = {}
        self._returning: dict[int, Held] = {}
        self._cancels: list[int] = []
        self._detaches: list[int] = []
        self._templates: dict[Shape, tuple[pb.SessionRequest, pb.SessionAcquire]] = {}
        self._open = False
        self._sent = self._handled = 0
        self._heard_at = 0
        self._probed = False
        self._told_keep = _KEEP_ALIVE
        self._outlives: int | None = 2 * SECOND
        self._keep_at = _NEVER
        self._keeping: deque[int] = deque()
        self._shortest = _NEVER
        # Nothing is lost, and nobody gives up, before these; they may be too early, never too late.
        self._loss_at = _NEVER
        self._give_up_at = _NEVER
        self._places_at = _NEVER

    # --- what the program wants ---------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether anything depends on the daemon."""
        return bool(self._asks or self._held or self._releases or self._returning)

    @property
    def holds(self) -> int:
        """How many leases are held."""
        return len(self._held)

    def ask(self, ask: Ask) -> None:
        """Ask, as soon as there is a connection."""
        self._last_op += 1
        ask.op = self._last_op
        self._asks[ask.op] = ask
        self._unsent.append(ask)
        if ask.deadline is not None and ask.deadline < self._give_up_at:
            self._give_up_at = ask.deadline
        if ask.on_queued is not None:
            self._places_at = min(self._places_at, ask.asked_at)

    def cancel(self, ask: Ask) -> None:
        """Nobody waits for this ask any more; what it was granted meanwhile is given back."""
        if ask.held is not None:
            self.release(ask.held)
        elif self._asks.pop(ask.op, None) is not None:
            self._leave(ask)

    def release(self, held: Held) -> None:
        """Give a lease back; safe in any state."""
        if self._held.pop(held.id, None) is not None:
            held.state = State.RELEASED
            self._releases[held.id] = held

    def detach(self, held: Held) -> None:
        """Stop keeping a lease alive; it lives on until its deadline."""
        if self._held.pop(held.id, None) is not None:
            held.state = State.DETACHED
            self._detaches.append(held.id)

    def give_all_back(self) -> None:
        """The program ends: release what is held, and answer nobody."""
        for held in list(self._held.values()):
            self.release(held)
        for ask in list(self._asks.values()):
            self._answer(ask, GovernorError("the client was closed"))

    # --- the connection -----------------------------------------------------------------------------------------

    def connected(self, now: int) -> None:
        """A stream is open, and nothing was said on it yet."""
        self._open = True
        self._sent = self._handled = 0
        self._heard_at = now
        self._probed = False
        self._keeping.clear()

    def disconnected(self, now: int) -> None:
        """The stream is gone. What had no answer is said again on the next one."""
        self._open = False
        self._releases = {**self._returning, **self._releases}
        self._returning = {}
        # What they were for left the line with the stream.
        self._cancels.clear()
        self._detaches.clear()
        for ask in self._unsent:
            ask.message = 0
        again = [ask for ask in self._asks.values() if ask.message]
        for ask in again:
            ask.message = 0
            ask.queued = False
        self._unsent.extendleft(reversed(again))
        self._loss_at = self._give_up_at = now

    def refused(self, error: GovernorError, *, for_good: bool) -> None:
        """No connection can be had now: whoever is not patient is told so; if it is for good, everybody."""
        for ask in list(self._asks.values()):
            if for_good or not ask.patient:
                self._answer(ask, error)

    def forget(self, reason: str) -> None:
        """Another process holds all of this now: we are a fork of it."""
        for held in [*self._held.values(), *self._releases.values(), *self._returning.values()]:
            held.state = State.DETACHED
            held.reason = reason

    # --- to the daemon ------------------------------------------------------------------------------------------

    def next_message(self, now: int) -> bytes | None:
        """The next message to send, if there is anything to say and the daemon keeps up."""
        if not self._open or self._sent - self._handled >= WINDOW:
            return None
        keep = now >= self._keep_at and bool(self._held)
        places = now >= self._places_at
        first = self._sent == 0
        if not (self._unsent or self._releases or self._cancels or self._detaches or keep or places or first):
            return None
        self._sent += 1
        parts: list[bytes] = []
        if first:
            self._hello.held[:] = [*self._held, *self._releases]
            parts.append(pb.SessionRequest(hello=self._hello).SerializeToString())
            self._keeping.append(now)
        if self._releases:
            parts.append(self._give_back().SerializeToString())
        if self._cancels or self._detaches:
            parts.append(pb.SessionRequest(cancels=self._cancels, detaches=self._detaches).SerializeToString())
            self._cancels.clear()
            self._detaches.clear()
        self._say_asks(parts, now)
        if keep:
            parts.append(_KEEP_ALIVE_MESSAGE)
            self._keeping.append(now)
            self._keep_at = now + min(self._told_keep, self._shortest // 3)
        if places:
            asked = [ask.op for ask in self._asks.values() if ask.on_queued is not None]
            self._places_at = now + _PLACES if asked else _NEVER
            standing = [op for op in asked if self._asks[op].queued]
            if standing:
                parts.append(pb.SessionRequest(places=standing).SerializeToString())
        return b"".join(parts)

    def _give_back(self) -> pb.SessionRequest:
        given = pb.SessionRequest()
        for held in self._releases.values():
            if held.outcome:
                given.outcomes.add(lease_id=held.id, outcome=held.outcome)
            else:
                given.releases.append(held.id)
        self._returning.update(self._releases)
        self._releases = {}
        return given

    def _say_asks(self, parts: list[bytes], now: int) -> None:
        unsent, size = self._unsent, 0
        while unsent and size < _MOST_BYTES:
            ask = unsent.popleft()
            if ask.given_up:
                continue
            ask.message = self._sent
            ask.sent_at = now
            if ask.adopt:
                part = pb.SessionRequest(adopts=[pb.SessionAdopt(op=ask.op, lease_id=ask.adopt)]).SerializeToString()
            else:
                message, acquire = self._template(ask, now)
                acquire.op = ask.op
                part = message.SerializeToString()
            size += len(part)
            parts.append(part)

    def _template(self, ask: Ask, now: int) -> tuple[pb.SessionRequest, pb.SessionAcquire]:
        """A message of this ask alone, made once for all of its shape: making one costs much more than changing it."""
        shape = ask.shape
        if shape.wait and now - ask.asked_at > SECOND // 10:
            # It waited here, for a connection or for a daemon that keeps up: that counts.
            left = max(0, shape.wait - (now - ask.asked_at))
            message = Shape(shape.claims, left, shape.lease, shape.labels).message()
            return message, message.acquires[0]
        template = self._templates.get(shape)
        if template is None:
            if len(self._templates) >= _MOST_SHAPES:
                self._templates.clear()
            message = shape.message()
            template = self._templates[shape] = (message, message.acquires[0])
        return template

    # --- from the daemon ----------------------------------------------------------------------------------------

    def heard(self, now: int) -> None:
        """Some sign of life came."""
        self._heard_at = now
        self._probed = False

    def hear(self, message: bytes, now: int) -> None:
        """Take in one message. Raises ValueError when it is none."""
        try:
            said = pb.SessionResponse.FromString(message)
        except DecodeError as error:
            raise ValueError("not a SessionResponse") from error
        self._handled = said.handled
        for granted in said.grants:
            self._granted(granted, now)
        for lease_id in said.released:
            self._returning.pop(lease_id, None)
        if said.refusals:
            for refusal in said.refusals:
                self._refused(refusal)
        if said.queued:
            for place in said.queued:
                self._queued(place)
        for result in [*said.results, *said.ended]:
            self._told(result, now)
        if said.HasField("welcome"):
            self._welcomed(said.welcome)
            self._kept_alive(now)
        if said.kept_alive:
            self._kept_alive(now)

    def _kept_alive(self, now: int) -> None:
        since = self._keeping.popleft() if self._keeping else 0
        for held in self._held.values():
            held.extend(since)
        self._look_at_leases(now)

    def _welcomed(self, welcome: pb.Welcome) -> None:
        self._hello.resume = welcome.session
        if welcome.HasField("keep_alive"):
            self._told_keep = max(SECOND // 10, welcome.keep_alive.ToNanoseconds())
        self._outlives = welcome.on_disconnect.ToNanoseconds() if welcome.HasField("on_disconnect") else None

    def _granted(self, granted: pb.SessionGrant, now: int) -> None:
        ask = self._asks.pop(granted.op, None)
        if ask is None:
            return  # given up meanwhile; the daemon takes it back when it reads so
        lease = granted.lease
        length = waited = None
        if lease.HasField("remaining"):
            remaining = lease.remaining
            length = remaining.seconds * SECOND + remaining.nanos
        if lease.HasField("waited"):
            waited = lease.waited.ToNanoseconds()
        outlives = self._outlives
        if granted.HasField("on_disconnect"):
            outlives = granted.on_disconnect.ToNanoseconds()
        elif granted.keeps:
            outlives = None
        claims = ask.shape.claims
        members: tuple[Member, ...] = ()
        for grant in lease.grants:
            if grant.members:
                members += tuple([Member(m.id, dict(m.attributes), m.generation) for m in grant.members])
        if ask.adopt:
            claims = tuple([(grant.resource, grant.permits) for grant in lease.grants])
        held = Held(lease.id, claims, members, length, waited or 0, 0, outlives, self._number)
        ask.held = held
        if length is not None:
            held.extend(now if waited else ask.sent_at)
            self._held[held.id] = held
            self._loss_at = min(self._loss_at, held.until, self._heard_at + NOTICED + _relied_on(outlives))
            if length < self._shortest or self._keep_at == _NEVER:
                self._shortest = min(self._shortest, length)
                self._keep_at = min(self._keep_at, now + min(self._told_keep, self._shortest // 3))
            if waited:
                self._keep_at = now  # how long the answer was on its way is not known: this makes the deadline firm
        self.answers.append((ask, held))

    def _refused(self, refusal: pb.SessionRefusal) -> None:
        ask = self._asks.pop(refusal.op, None)
        if ask is None:
            return
        if ask.adopt and refusal.code in {5, _FAILED_PRECONDITION}:
            self.answers.append((ask, LeaseLost(refusal.message, lease=ask.adopt, reason=refusal.reason.lower())))
            return
        retry_after = refusal.retry_after.ToNanoseconds() / SECOND if refusal.HasField("retry_after") else None
        error = NotGranted(
            refusal.message,
            reason=refusal.reason.lower(),
            resource=refusal.resource,
            retry_after=retry_after,
            never=refusal.code in _FOR_GOOD,
        )
        self.answers.append((ask, error))

    def _queued(self, place: pb.SessionPlace) -> None:
        ask = self._asks.get(place.op)
        if ask is None:
            return
        ask.queued = True
        if ask.on_queued is not None:
            expected = place.expected.ToNanoseconds() / SECOND if place.HasField("expected") else None
            self.places.append((ask, place.ahead, expected))

    def _told(self, result: pb.LeaseResult, now: int) -> None:
        """What became of a lease, other than that it was given back as asked."""
        if result.state == pb.LeaseResult.RENEWED:
            held = self._held.get(result.lease_id)
            if held is not None and self._keeping:
                held.shorten(result.remaining.ToNanoseconds(), self._keeping[0])
            return
        self._returning.pop(result.lease_id, None)
        held = self._held.pop(result.lease_id, None)
        if held is not None:
            self._lose(held, result.ended.reason if result.HasField("ended") else "unknown")

    def _lose(self, held: Held, reason: str) -> None:
        if held.state is State.HELD:  # and not just given back, which is on its way to us
            held.state, held.reason = State.LOST, reason
            self.losses.append(held)

    def _answer(self, ask: Ask, answer: Answer) -> None:
        """Answer for the daemon, which has not."""
        del self._asks[ask.op]
        self._leave(ask)
        self.answers.append((ask, answer))

    def _leave(self, ask: Ask) -> None:
        """Nobody waits for it any more: have it leave the line, or never get there."""
        ask.given_up = True
        if ask.message:
            self._cancels.append(ask.op)
        elif len(self._unsent) > 2 * len(self._asks) + _MOST_GIVEN_UP:
            # It is skipped when its turn comes, but that may take as long as the daemon is away.
            self._unsent = deque([each for each in self._unsent if not each.given_up])

    # --- time ---------------------------------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        """When `tick` must be called next, or a message may be due."""
        at = min(self._loss_at, self._give_up_at)
        if self._open:
            at = min(at, self._keep_at if self._held else _NEVER, self._places_at)
            if self.busy:
                at = min(at, self._heard_at + (SILENCE if self._probed else PROBE))
        return None if at >= _NEVER else at

    def tick(self, now: int) -> tuple[bool, bool]:
        """Do what is due: whether to ask for a sign of life, and whether to give this connection up."""
        if now >= self._loss_at:
            self._look_at_leases(now)
        if now >= self._give_up_at:
            self._look_at_asks(now)
        if not self._open or not self.busy:
            return False, False
        silent = now - self._heard_at
        if silent >= SILENCE:
            return False, True
        if silent >= PROBE and not self._probed:
            self._probed = True
            return True, False
        return False, False

    def _look_at_leases(self, now: int) -> None:
        """Those past their deadline are lost, and so are those that the daemon may have taken for abandoned."""
        first, shortest = _NEVER, _NEVER
        alone = self._heard_at + (NOTICED if self._open else 0)
        for held in list(self._held.values()):
            until = held.until
            if held.outlives is not None:
                until = min(until, alone + _relied_on(held.outlives))
            if until <= now:
                del self._held[held.id]
                self._lose(held, "unreachable")
                continue
            first = min(first, until)
            if held.length is not None:
                shortest = min(shortest, held.length)
        self._loss_at, self._shortest = first, shortest
        if not self._held:
            self._keep_at = _NEVER
        for lease_id, held in [*self._releases.items(), *self._returning.items()]:
            if held.length is not None and held.until + held.length // 5 <= now:
                # It has ended by itself by now.
                self._releases.pop(lease_id, None)
                self._returning.pop(lease_id, None)

    def _look_at_asks(self, now: int) -> None:
        first = _NEVER
        for ask in list(self._asks.values()):
            if ask.deadline is None:
                continue
            due = ask.deadline + (_LATE if ask.queued else 0)
            if due > now:
                first = min(first, due)
                continue
            self._answer(ask, Unavailable(f"{self._address}: the daemon does not answer", address=self._address))
        self._give_up_at = first


def _relied_on(outlives: int | None) -> int:
    """For how long after the daemon may have seen us go a lease is still ours for sure."""
    return _NEVER if outlives is None else outlives - outlives // 10


_KEEP_ALIVE_MESSAGE: Final = pb.SessionRequest(keep_alive=True).SerializeToString()
