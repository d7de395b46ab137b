"""The session streams: each is read, message by message, and told what there is to tell, until either side ends it.

It knows the life of a stream: its first message, its one reader and its one writer, its end. It must never know how
a permit is decided, or what a session is owed.

A message is done whole before the next is read, and what one turn of the event loop brought leaves as one message:
a gRPC message costs both sides more than all that is done in it. Nothing else ever writes to a stream: two writers
at once would leave both waiting for ever.
"""

import asyncio
import logging
import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar, cast

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from governor import __version__, process
from governor.belongings import Hello
from governor.core.types import SECOND, Denial, LeaseId, Nanos, Outcome
from governor.driver import Driver
from governor.rpc import outbox, requests, status, translate
from governor.rpc.answers import USUAL_GRACE, Answers
from governor.rpc.fields import OUTCOMES, Malformed
from governor.rpc.outbox import Outbox
from governor.rpc.reading import Reading
from governor.session import MAX_WAITING, Session
from governor.sessions import Sessions
from governor.v1 import governor_pb2 as pb

Context = aio.ServicerContext[bytes, bytes]
T = TypeVar("T")

# The largest message that a client may send, on a session or in a call.
MESSAGE_BYTES: Final = 256 * 1024
# How often a session without short leases should speak.
KEEP_ALIVE: Final[Nanos] = 10 * SECOND
# Of asks that are alike, how many are done before it is seen that the client has been cut off.
_ASKED_AT_ONCE: Final = 256

_LOG = logging.getLogger(__name__)

_SLOW: Final = status.Refusal(
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    f"session: its client reads too slowly, with {outbox.MAX_UNREAD} answers unread; read, or ask for less at once",
    (),
)
_SUPERSEDED: Final = status.Refusal(
    grpc.StatusCode.ABORTED, "session: resumed on another stream; use that one, or begin a session of your own", ()
)
_STOPPING: Final = status.Refusal(
    grpc.StatusCode.UNAVAILABLE, "governor: stopping; connect again when it is back, and resume the session", ()
)
_UNDECODABLE: Final = status.refusal(translate.undecodable(pb.SessionRequest))
_LAST: Final = pb.SessionResponse(notice=pb.Notice(stopping=True))
_AGAIN: Final = status.refusal(Malformed("hello", "nothing: it is only in the first message of a stream").denial)


class SessionService:
    """The session streams of one server. ``start``: another with each start of the daemon."""

    def __init__(self, driver: Driver, restart_grace: Nanos = 0) -> None:
        """``restart_grace``: what clients are promised should the daemon die; 0 is nothing."""
        self._driver = driver
        self._restart_grace = restart_grace
        self._process = process.this() if restart_grace else None
        self._answers = Answers(driver.grace)
        self.sessions = Sessions(driver, reconfigured=self._answers.forget)
        self._asks = requests.Asks()
        self._reading = Reading()
        self._streams: set[Stream] = set()
        self.start = secrets.token_hex(8)
        self._draining = False
        self._stopping = False

    def handler(self) -> "grpc.RpcMethodHandler[bytes, bytes]":
        """What a server is given for the method Session."""
        return grpc.stream_stream_rpc_method_handler(self.serve)

    def drain(self) -> None:
        """Every session is told, also those that begin later; all of them go on."""
        self._draining = True
        for stream in self._streams:
            stream.outbox.say(pb.SessionResponse(notice=pb.Notice(draining=True)))

    def stop(self) -> None:
        """End every stream, and any that comes yet: one that stays open would hold up a stop for its whole grace."""
        self._stopping = True
        for stream in self._streams:
            stream.stop()
        self._reading.stop()

    def close(self) -> None:
        """After the last stream: see nothing more of what happens; safe twice."""
        self.sessions.close()

    async def serve(self, _requests: object, context: Context) -> None:
        """One stream; not meant to be called by anybody but a server, or what stands in for one."""
        raw = None if self._stopping else await self._reading.message(context)
        try:
            refusal = _STOPPING if self._stopping else await self._run(raw, context)
        except asyncio.CancelledError:
            raise  # the client is gone, or gRPC cuts the stream off: there is nobody to tell
        except aio.BaseError:
            raise  # the transport's own: the stream has ended, and must not be touched any more
        except Exception:  # noqa: BLE001 - the client is told and the log has all of it
            _LOG.exception("Session failed")
            refusal = status.FAULT
        if refusal is not None:
            await context.abort(refusal.code, refusal.message, refusal.metadata)

    async def _run(self, raw: bytes | None, context: Context) -> status.Refusal | None:
        """Until either side ends it; why, if it is we who do."""
        stream = self._open(raw)
        if isinstance(stream, status.Refusal):
            return stream
        self._streams.add(stream)
        try:
            return await stream.run(context)
        finally:
            self._streams.discard(stream)

    def _open(self, raw: bytes | None) -> "Stream | status.Refusal":
        if raw is None:
            return status.refusal(translate.NO_MESSAGE)
        try:
            request = requests.Unopened.FromString(raw)
        except DecodeError:
            return _UNDECODABLE
        hello = requests.hello(request)
        if isinstance(hello, Denial):
            return status.refusal(hello)
        session, resumed = self.sessions.of(hello)
        stream = Stream(session, self._asks, self._answers, self._driver, alike=request.hello.alike)
        stream.outbox.say(self._welcome(session, resumed=resumed))
        try:
            stream.begin(hello, request)
        except DecodeError:
            return _UNDECODABLE
        return stream

    def _welcome(self, session: Session, *, resumed: bool) -> pb.SessionResponse:
        welcome = pb.Welcome(
            session=session.id,
            resumed=resumed,
            start=self.start,
            version=__version__,
            limits=pb.SessionLimits(message_bytes=MESSAGE_BYTES, waiting=MAX_WAITING, unread=outbox.MAX_UNREAD),
            alike=True,
        )
        translate.fill_duration(welcome.keep_alive, KEEP_ALIVE)
        translate.fill_duration(welcome.on_disconnect, USUAL_GRACE)
        if self._restart_grace:
            translate.fill_duration(welcome.restart_grace, self._restart_grace)
        if (it := self._process) is not None:
            told = pb.Process(boot=it.boot, pid_namespace=it.namespace, pid=it.pid, started=it.started)
            welcome.process.CopyFrom(told)
        first = pb.SessionResponse(welcome=welcome)
        if self._draining:
            first.notice.draining = True
        return first


class Stream:
    """One stream, from its hello on."""

    def __init__(self, session: Session, asks: requests.Asks, answers: Answers, driver: Driver, *, alike: bool) -> None:
        """``alike``: its client reads grants that are told together."""
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._session = session
        self._asks = asks
        self._end: status.Refusal | None = None
        self.outbox = Outbox(
            answers,
            commit=driver.commit,
            overflowed=lambda: self.end(_SLOW),
            superseded=lambda: self.end(_SUPERSEDED),
            alike=alike,
        )

    def begin(self, hello: Hello, request: pb.SessionRequest) -> None:
        """Do the first message."""
        try:
            self._session.begin(hello, self.outbox)
            self._handle(request)
            self._session.settle()
        except BaseException:
            self._session.leave(self.outbox)
            raise

    def end(self, refusal: status.Refusal) -> None:
        """The client is told why, and nothing more."""
        if self._end is None:
            self._end = refusal
            self.outbox.drop()
            self._task.cancel()

    def stop(self) -> None:
        """The client is told what it has yet to be told, such as of its last release, and that the daemon ends.

        From here on the client is not taken for gone any more, however the stream ends, and may rely on that.
        """
        if self._end is None:
            self._end = _STOPPING
            self.outbox.say(_LAST)
            self.outbox.close()
            self._task.cancel()

    async def run(self, context: Context) -> status.Refusal | None:
        """Until either side ends it; why, if it is we who do."""
        session = self._session
        writer: asyncio.Task[None] | None = None
        try:
            # On their own: else they go with the first answer or with the end, and an end that comes while the first
            # answer is on its way would send them twice, and so nothing.
            await context.send_initial_metadata(())
            writer = asyncio.create_task(self._write(context))
            refusal = await self._listen(context)
            session.leave(self.outbox)
            if refusal is None:
                self.outbox.close()
                await writer
        except asyncio.CancelledError:
            if self._end is None or self._task.uncancel():
                raise  # the client is gone, or gRPC cuts the stream off: there is nobody to tell
            if writer is not None and self._end is _STOPPING:
                await writer  # for as long as the server gives it
            return self._end
        else:
            return refusal
        finally:
            session.leave(self.outbox, disconnected=self._end is not _STOPPING)
            if writer is not None:
                writer.cancel()

    async def _listen(self, context: Context) -> status.Refusal | None:
        while True:
            # The stubs say bytes, but at the end of a stream it is aio.EOF.
            raw: object = await context.read()
            if not isinstance(raw, bytes):
                return None
            try:
                request = requests.Unopened.FromString(raw)
                if request.HasField("hello"):
                    return _AGAIN
                self._handle(request)
            except DecodeError:
                return _UNDECODABLE

    async def _write(self, context: Context) -> None:
        try:
            while (message := await self.outbox.message()) is not None:
                await context.write(message)
        except aio.BaseError:
            pass  # the stream has ended, and its reader knows
        except Exception:  # noqa: BLE001 - as in `serve`
            _LOG.exception("Session failed to answer")
            self.end(status.FAULT)

    def _handle(self, request: pb.SessionRequest) -> None:
        """All of one message; what it gives back is free for what it asks. Raises DecodeError.

        Nothing more is done for a client that is cut off in the midst of it: else one message that names the same
        unknown lease a hundred thousand times would hold up everybody else to its end.
        """
        session = self._session
        if cancels := request.cancels:
            session.cancel(cancels)
        for leases in self._some(request.releases):
            session.release(leases)
        if outcomes := request.outcomes:
            _release(session, outcomes)
        for leases in self._some(request.detaches):
            session.detach(leases)
        for adopt in self._each(request.adopts):
            session.adopt(adopt.op, LeaseId(adopt.lease_id))
        for raw in self._each(cast("Sequence[bytes]", request.acquires)):
            op, terms = self._asks.read(raw)
            if isinstance(terms, Denial):
                self.outbox.refused(op, terms)
            else:
                session.acquire(op, *terms)
        for alike in self._each(request.alike):
            self._ask_alike(list(alike.ops), cast("bytes", alike.ask))
        if request.keep_alive:
            session.keep_alive()
        for op in self._each(request.places):
            session.place(op)
        self.outbox.handled()

    def _ask_alike(self, ops: list[int], raw: bytes) -> None:
        terms = self._asks.read_alike(ops, raw)
        if isinstance(terms, Denial):
            for op in self._each(ops):
                self.outbox.refused(op, terms)
            return
        for start in self._each(range(0, len(ops), _ASKED_AT_ONCE)):
            self._session.acquire_alike(ops[start : start + _ASKED_AT_ONCE], *terms)

    def _each(self, named: Iterable[T]) -> Iterator[T]:
        """One after the other, until the client is cut off."""
        for one in named:
            if self._end is not None:
                return
            yield one

    def _some(self, leases: Sequence[int]) -> Iterator[tuple[LeaseId, ...]]:
        """As many at once as in a call, until the client is cut off."""
        for start in range(0, len(leases), translate.MAX_LEASE_IDS):
            if self._end is not None:
                return
            yield cast("tuple[LeaseId, ...]", tuple(leases[start : start + translate.MAX_LEASE_IDS]))


def _release(session: Session, releases: Sequence[pb.SessionRelease]) -> None:
    """One step for each outcome; what cannot be read is unknown, since a lease given back must never be lost."""
    by_outcome: dict[Outcome, list[LeaseId]] = {}
    for release in releases:
        outcome = OUTCOMES.get(release.outcome, Outcome.UNKNOWN)
        by_outcome.setdefault(outcome, []).append(LeaseId(release.lease_id))
    for outcome, leases in by_outcome.items():
        session.release(tuple(leases), outcome)
