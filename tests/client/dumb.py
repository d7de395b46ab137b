"""A small dumb daemon: what the contract of a session promises, in the plainest words, with hand-moved time.

It knows permits, lines, leases and streams. It must never know what a client makes of its answers. Every message is
done whole, in the order of its fields, and everything takes no time but what a test lets pass.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from governor.client.asks import SECOND
from governor.v1 import governor_pb2 as pb

FOR_EVER: Final = 1 << 61
MAX_WAIT: Final = 20 * SECOND
# A daemon takes so long to notice that nobody answers any more.
NOTICED: Final = 4 * SECOND
# After its death, leases live so much longer, once.
GRACE: Final = 5 * SECOND

# How many permits there are, and how long leases of each outlive their stream; None: to their end.
LIMITS: Final = {"ash": 2, "birch": 1, "cedar": 1}
OUTLIVES: Final[dict[str, int | None]] = {"ash": 2 * SECOND, "birch": 0, "cedar": None}
# Its permits are spent: nothing is lent.
SPENT: Final = "rate"


@dataclass(eq=False)
class Stream:
    """One connection: what is under way in it both ways."""

    up: deque[bytes] = field(default_factory=deque)
    # Messages, and answers to pings by when those were sent.
    down: deque[bytes | int] = field(default_factory=deque)
    alive: bool = True
    # When the daemon finds out that it is not.
    noticed_at: int = FOR_EVER
    handled: int = 0
    session: str = ""
    # Which life of the daemon it leads to, once that has read from it.
    process: int = 0

    def cut(self, noticed_at: int) -> None:
        """Nothing gets through any more, and what was under way is lost."""
        if self.alive:
            self.break_off(noticed_at)
            self.down.clear()

    def break_off(self, noticed_at: int) -> None:
        """The same, but what has arrived can still be read."""
        self.alive, self.noticed_at = False, noticed_at
        self.up.clear()


@dataclass(eq=False)
class Lent:
    """One lease. ``session``: whose it is, or nobody's."""

    id: int
    op: int
    resource: str
    length: int
    deadline: int
    session: str | None
    told: int
    graced: bool = False


@dataclass(eq=False)
class Waiter:
    """One ask in line, for all sessions that asked it."""

    op: int
    resource: str
    length: int
    since: int
    until: int
    sessions: set[str]


class Daemon:
    """All of it. ``ended`` are the leases that are no more, ``excused`` those whose end nobody could foresee.

    ``taken_back`` are those that its client did not speak of when it came back.
    """

    def __init__(self, now: int) -> None:
        self.now = now
        self.leases: dict[int, Lent] = {}
        self.line: list[Waiter] = []
        self.ended: set[int] = set()
        self.excused: set[int] = set()
        self.renewals = 0  # what renewals count for from now on, if that is less than the length of a lease
        self.taken_back: set[int] = set()
        # Each life of it is another process; those that have died, of which a client may get to know.
        self.process = 1
        self.dead: set[int] = set()
        self._died_at: int | None = None
        # Of a session that comes back: what it had, and has not spoken of in its first message.
        self._unclaimed: set[int] = set()
        self._voices: dict[str, Stream | None] = {}
        # What each op was granted that has not been given back.
        self._ops: dict[int, int] = {}
        self._next_lease = 0
        self._next_session = 0

    # --- time ----------------------------------------------------------------------------------------------------

    def next_due(self) -> int:
        """When something happens by itself."""
        if self._died_at is not None:
            return FOR_EVER
        dues = [lent.deadline for lent in self.leases.values()] + [waiter.until for waiter in self.line]
        dues += [stream.noticed_at for stream in self._voices.values() if stream is not None]
        return min(dues, default=FOR_EVER)

    def pass_until(self, now: int) -> None:
        """Time passes, and what is due happens in its order."""
        while (due := self.next_due()) <= now:
            self.now = max(self.now, due)
            for session, stream in list(self._voices.items()):
                if stream is not None and stream.noticed_at <= self.now:
                    self._disconnect(session)
            for lent in list(self.leases.values()):
                if lent.deadline <= self.now:
                    self._end(lent, "expired")
            self._grant_who_can_be()
            for waiter in [each for each in self.line if each.until <= self.now]:
                self.line.remove(waiter)
                for session in waiter.sessions:
                    self._refuse(session, waiter.op, "WAIT_OVER", 8)
            self._grant_who_can_be()
        self.now = now

    # --- what others do ------------------------------------------------------------------------------------------

    def revoke(self, lease: int) -> None:
        """An operator takes it away."""
        self.excused.add(lease)
        self._end(self.leases[lease], "revoked")
        self._grant_who_can_be()

    @property
    def lives(self) -> bool:
        """Whether there is one."""
        return self._died_at is None

    def stop(self) -> None:
        """It ends its streams itself, and takes nobody for gone any more."""
        for session in self._voices:
            self._tell(session, pb.SessionResponse(notice=pb.Notice(stopping=True)))
        self._voices, self.line = {}, []

    def die(self) -> None:
        """It does nothing any more; what it remembers is what it had."""
        self.dead.add(self.process)
        self._died_at = self.now
        self._voices, self.line = {}, []
        for lent in self.leases.values():
            lent.session = None

    def rise(self) -> None:
        """The next one goes on: time stood still for leases, and they live longer if they have not yet, for this."""
        assert self._died_at is not None, "it lives"
        for lent in self.leases.values():
            lent.deadline += self.now - self._died_at + (0 if lent.graced else GRACE)
            lent.graced = True
        self._died_at = None
        self.process += 1

    def restart(self) -> None:
        """It forgets everything."""
        self.process += 1
        self.excused |= set(self.leases)
        self.ended |= set(self.leases)
        self.leases, self.line, self._voices, self._ops = {}, [], {}, {}

    # --- a message -----------------------------------------------------------------------------------------------

    def hear(self, stream: Stream) -> None:
        """Do the next message of a stream; all that it is the answer to leaves as one."""
        before = len(stream.down)
        self._hear(stream)
        answers = [answer for answer in list(stream.down)[before:] if isinstance(answer, bytes)]
        while len(stream.down) > before:
            stream.down.pop()
        stream.down.append(b"".join(answers))

    def _hear(self, stream: Stream) -> None:
        said = pb.SessionRequest.FromString(stream.up.popleft())
        assert said.HasField("hello") == (not stream.session), "the first message says hello, and no other"
        former: list[Waiter] = []
        if said.HasField("hello"):
            former = self._hello(stream, said.hello)
        session = stream.session
        self._do(session, said)
        for waiter in former:
            if not waiter.sessions and waiter in self.line:  # or it was cancelled, and has left already
                self.line.remove(waiter)
        for lease in sorted(self._unclaimed):
            if lease in self.leases and self.leases[lease].session == session:
                self._end(self.leases[lease], "")
                self.taken_back.add(lease)
        self._unclaimed.clear()
        self._grant_who_can_be()
        if said.keep_alive:
            for lent in [each for each in self.leases.values() if each.session == session]:
                self._renew(lent)
            self._tell(session, pb.SessionResponse(kept_alive=True))
        for op in said.places:
            if any(waiter.op == op and session in waiter.sessions for waiter in self.line):
                self._tell(session, pb.SessionResponse(queued=[pb.SessionPlace(op=op)]))
        stream.handled += 1
        self._tell(session, pb.SessionResponse(handled=stream.handled))

    def _do(self, session: str, said: pb.SessionRequest) -> None:
        """The operations, in their order."""
        for op in said.cancels:
            self._cancel(session, op)
        for lease in [*said.releases, *[each.lease_id for each in said.outcomes]]:
            self._release(session, lease)
        for lease in said.detaches:
            if lease in self.leases:
                self.leases[lease].session = None
        for adopt in said.adopts:
            self._adopt(session, adopt)
        for acquire in said.acquires:
            assert acquire.op > 0
            self._acquire(session, acquire)
        assert self._tells_alike(session) or not said.alike
        for alike in said.alike:
            assert not alike.ask.op
            for op in alike.ops:
                assert op > 0
                one = pb.SessionAcquire(op=op)
                one.MergeFrom(alike.ask)
                self._acquire(session, one)

    def _hello(self, stream: Stream, hello: pb.Hello) -> list[Waiter]:
        """It is there again, perhaps; the places that it may ask for again."""
        resumed = hello.resume in self._voices
        if resumed:
            session = hello.resume
        else:
            self._next_session += 1
            session = f"session-{self._next_session}"
        former = [waiter for waiter in self.line if session in waiter.sessions]
        for waiter in former:
            waiter.sessions.discard(session)
        self._unclaimed = {lent.id for lent in self.leases.values() if lent.session == session} - set(hello.held)
        self._voices[session] = stream
        stream.session, stream.process = session, self.process
        welcome = pb.Welcome(session=session, resumed=resumed, start="d")
        welcome.keep_alive.FromSeconds(10)
        welcome.on_disconnect.FromSeconds(2)
        welcome.restart_grace.FromNanoseconds(GRACE)
        welcome.process.pid = self.process
        # Some of them are of those that can tell and be told many together.
        welcome.alike = self._tells_alike(session)
        self._tell(session, pb.SessionResponse(welcome=welcome))
        for lease in hello.held:
            claimed = self.leases.get(lease)
            if claimed is None:
                self._gone(session, lease)
            else:
                claimed.session = session
                self._renew(claimed)
        return former

    def _cancel(self, session: str, op: int) -> None:
        for waiter in [each for each in self.line if each.op == op]:
            waiter.sessions.discard(session)
            if not waiter.sessions:
                self.line.remove(waiter)
        for lent in [each for each in self.leases.values() if (each.op, each.session) == (op, session)]:
            self._end(lent, "")

    def _release(self, session: str, lease: int) -> None:
        lent = self.leases.get(lease)
        if lent is None:
            self._gone(session, lease)
        else:
            self._end(lent, "")
            self._tell(session, pb.SessionResponse(released=[lease]))

    def _adopt(self, session: str, adopt: pb.SessionAdopt) -> None:
        lent = self.leases.get(adopt.lease_id)
        if lent is None:
            self._refuse(session, adopt.op, "UNKNOWN_LEASE", 5)
            return
        lent.session = session
        self._renew(lent, quiet=True)
        self._say_granted(session, adopt.op, lent, 0)

    def _acquire(self, session: str, acquire: pb.SessionAcquire) -> None:
        resource = acquire.claims[0].resource
        if resource == SPENT:
            self._tell(session, pb.SessionResponse(grants=[pb.SessionGrant(op=acquire.op, lease=pb.Lease(id=1))]))
            return
        for lent in self.leases.values():
            if lent.op == acquire.op:
                lent.session = session
                self._renew(lent, quiet=True)
                self._say_granted(session, acquire.op, lent, 0)
                return
        if acquire.op in self._ops:
            self._refuse(session, acquire.op, "LEASE_ENDED", 9)
            return
        for waiter in self.line:
            if waiter.op == acquire.op:
                waiter.sessions.add(session)
                self._tell(session, pb.SessionResponse(queued=[pb.SessionPlace(op=acquire.op)]))
                return
        length = acquire.lease.ToNanoseconds() if acquire.HasField("lease") else 10 * SECOND
        wait = min(MAX_WAIT, acquire.wait.ToNanoseconds()) if acquire.HasField("wait") else MAX_WAIT
        new = Waiter(acquire.op, resource, length, self.now, self.now + wait, {session})
        self.line.append(new)
        self._grant_who_can_be()
        if new in self.line:
            if wait == 0:
                self.line.remove(new)
                self._refuse(session, acquire.op, "NONE_FREE", 8)
            else:
                self._tell(session, pb.SessionResponse(queued=[pb.SessionPlace(op=acquire.op)]))

    # --- what comes of it ----------------------------------------------------------------------------------------

    def _grant_who_can_be(self) -> None:
        for waiter in list(self.line):
            lent = sum(each.resource == waiter.resource for each in self.leases.values())
            if not waiter.sessions or lent >= LIMITS[waiter.resource]:
                continue
            self.line.remove(waiter)
            self._next_lease += 1
            session = max(waiter.sessions)
            made = Lent(
                self._next_lease,
                waiter.op,
                waiter.resource,
                waiter.length,
                self.now + waiter.length,
                session,
                waiter.length,
            )
            self.leases[made.id] = made
            self._ops[made.op] = made.id
            self._say_granted(session, waiter.op, made, self.now - waiter.since)

    def _say_granted(self, session: str, op: int, lent: Lent, waited: int) -> None:
        self._unclaimed.discard(lent.id)
        grant = pb.SessionGrant(op=op, lease=pb.Lease(id=lent.id, grants=[pb.Grant(resource=lent.resource, permits=1)]))
        grant.lease.remaining.FromNanoseconds(lent.deadline - self.now)
        if waited:
            grant.lease.waited.FromNanoseconds(waited)
        outlives = OUTLIVES[lent.resource]
        if outlives is None:
            grant.keeps = True
        elif outlives != 2 * SECOND:
            grant.on_disconnect.FromNanoseconds(outlives)
        if waited or not self._tells_alike(session):
            self._tell(session, pb.SessionResponse(grants=[grant]))
            return
        grant.ClearField("op")
        grant.lease.ClearField("id")
        alike = pb.SessionGrants(ops=[op], lease_ids=[lent.id], grant=grant)
        self._tell(session, pb.SessionResponse(alike=[alike]))

    @staticmethod
    def _tells_alike(session: str) -> bool:
        return session[-1] in "13579"

    def _renew(self, lent: Lent, *, quiet: bool = False) -> None:
        length = min(lent.length, self.renewals or lent.length)
        # One that was shortened is excused: nobody could know before the answer came, which may be lost.
        if self.now + length < lent.deadline:
            self.excused.add(lent.id)
        lent.deadline = self.now + length
        lent.graced = False
        if length != lent.told:
            lent.told = length
            if not quiet and lent.session is not None:
                result = pb.LeaseResult(lease_id=lent.id, state=pb.LeaseResult.RENEWED)
                result.remaining.FromNanoseconds(length)
                self._tell(lent.session, pb.SessionResponse(results=[result]))

    def _end(self, lent: Lent, reason: str) -> None:
        """It is no more; its session is told, if it did not end it itself."""
        del self.leases[lent.id]
        self.ended.add(lent.id)
        if not reason:
            del self._ops[lent.op]
        elif lent.session is not None:
            result = pb.LeaseResult(lease_id=lent.id, state=pb.LeaseResult.ENDED, ended=pb.Ended(reason=reason))
            self._tell(lent.session, pb.SessionResponse(ended=[result]))

    def _gone(self, session: str, lease: int) -> None:
        result = pb.LeaseResult(lease_id=lease, state=pb.LeaseResult.UNKNOWN)
        self._tell(session, pb.SessionResponse(ended=[result]))

    def _refuse(self, session: str, op: int, reason: str, code: int) -> None:
        self._tell(session, pb.SessionResponse(refusals=[pb.SessionRefusal(op=op, reason=reason, code=code)]))

    def _disconnect(self, session: str) -> None:
        """Its stream is gone: what waits leaves the line, and leases do as their resources say."""
        self._voices[session] = None
        for waiter in [each for each in self.line if session in each.sessions]:
            waiter.sessions.discard(session)
            if not waiter.sessions:
                self.line.remove(waiter)
        for lent in [each for each in self.leases.values() if each.session == session]:
            outlives = OUTLIVES[lent.resource]
            if outlives is not None:
                lent.deadline = min(lent.deadline, self.now + outlives)

    def _tell(self, session: str, response: pb.SessionResponse) -> None:
        stream = self._voices.get(session)
        if stream is not None and stream.alive:
            stream.down.append(response.SerializeToString())
