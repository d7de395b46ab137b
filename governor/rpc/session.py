"""The session streams of one server: whose each is, how it begins, and that all of them end with the server.

It knows the first message of a stream and its answer. It must never know how a permit is decided, or what a session is
owed.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from governor import __version__, process
from governor.access import Verb
from governor.bounds import Bound, Bounds
from governor.core.types import SECOND, Denial, Nanos
from governor.driver import Driver
from governor.rpc import outbox, requests, status, translate
from governor.rpc.answers import USUAL_GRACE, Answers
from governor.rpc.guard import Caller, Context, Guard
from governor.rpc.reading import Reading
from governor.rpc.room import Room
from governor.rpc.stream import STOPPING, UNDECODABLE, Stream
from governor.rpc.turns import Turns
from governor.session import MAX_WAITING, Session
from governor.sessions import Sessions
from governor.v1 import governor_pb2 as pb

# The largest message that a client may send, on a session or in a call.
MESSAGE_BYTES: Final = 256 * 1024
# How often a session without short leases should speak.
KEEP_ALIVE: Final[Nanos] = 10 * SECOND
NO_MORE: Final = Bounds()

_LOG = logging.getLogger(__name__)


class SessionService:
    """The session streams of one server. ``start``: another with each start of the daemon."""

    def __init__(
        self,
        driver: Driver,
        guard: Guard,
        restart_grace: Nanos = 0,
        bounds: Bounds = NO_MORE,
        reached: Callable[[Bound], None] = lambda _bound: None,
    ) -> None:
        """``restart_grace``: what clients are promised should the daemon die; 0 is nothing.

        ``reached`` is told of each client that is refused or cut off for more than it may take, and of what.
        """
        self._bounds = bounds
        self._reached = reached
        self._room = Room(partial(reached, Bound.UNREAD))
        self._driver = driver
        self._guard = guard
        guard.changed.append(self._clients_changed)
        self._restart_grace = restart_grace
        self._process = process.this() if restart_grace else None
        self._answers = Answers(driver.grace)
        self.sessions = Sessions(driver, reconfigured=self._answers.forget)
        self._asks = requests.Asks()
        self._reading = Reading()
        self._turns = Turns(driver.now)
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
        self._guard.close()

    def _clients_changed(self) -> None:
        """Whoever may do less than before is asked again who he is; whoever is nobody any more is told so."""
        for stream in list(self._streams):
            stream.ask_again()

    async def serve(self, _requests: object, context: Context) -> None:
        """One stream; not meant to be called by anybody but a server, or what stands in for one."""
        raw = None if self._stopping else await self._reading.message(context)
        size = 0 if raw is None else len(raw)
        try:
            # On their own: else they go with the first answer or with the end, and an end that comes while the first
            # answer is on its way would send them twice, and so nothing. Before there is anybody to end it.
            await context.send_initial_metadata(())
            if not self._turns.may(size):
                await self._turns.wait(size)
            # Not before his message is there: whoever is refused as he writes it may hear of a fault of gRPC's instead.
            stream: Stream | status.Refusal | None = None
            try:
                caller = None if self._guard.policy is None else self._guard.caller_who_may(context, Verb.ACQUIRE)
                stream = self._begun(raw, caller)
            finally:
                if not isinstance(stream, Stream):
                    self._turns.done(size)
            del raw  # for as long as the stream lasts
            refusal = await self._run(stream, context) if isinstance(stream, Stream) else stream
        except asyncio.CancelledError:
            raise  # the client is gone, or gRPC cuts the stream off: there is nobody to tell
        except aio.BaseError:
            raise  # the transport's own: the stream has ended, and must not be touched any more
        except Exception:  # noqa: BLE001 - the client is told and the log has all of it
            _LOG.exception("Session failed")
            refusal = status.FAULT
        if refusal is not None:
            await context.abort(refusal.code, refusal.message, refusal.metadata)

    async def _run(self, stream: Stream, context: Context) -> status.Refusal | None:
        """Until either side ends it; why, if it is we who do."""
        self._streams.add(stream)
        try:
            return await stream.run(context)
        finally:
            self._streams.discard(stream)

    def _begun(self, raw: bytes | None, caller: Caller | Denial | None) -> Stream | status.Refusal:
        """A stream of this caller, or of anybody where that is None, whose first message is yet to be done."""
        if isinstance(caller, Denial):
            return status.refusal(caller)
        if self._stopping:
            return STOPPING
        if raw is None:
            return status.refusal(translate.NO_MESSAGE)
        try:
            request = requests.Unopened.FromString(raw)
        except DecodeError:
            return UNDECODABLE
        hello = requests.hello(request)
        if isinstance(hello, Denial):
            return status.refusal(hello)
        if caller is not None:
            hello = replace(hello, client=caller.client.name)
        known = self.sessions.known(hello)
        if known is None and (full := self._full(hello.client)) is not None:
            return full
        session, resumed = known or self.sessions.begin(hello), known is not None
        stream = Stream(
            session,
            self._asks,
            self._answers,
            self._driver,
            self._guard,
            caller,
            alike=request.hello.alike,
            room=self._room,
            turns=self._turns,
        )
        stream.outbox.say(self._welcome(session, resumed=resumed))
        stream.begin(hello, request, len(raw))
        return stream

    def _full(self, client: str) -> status.Refusal | None:
        """Why there can be no new session of a client."""
        bounds = self._bounds
        if self.sessions.number_of(client) >= bounds.sessions_per_client:
            bound, most, whose = Bound.SESSIONS_PER_CLIENT, bounds.sessions_per_client, " of this client"
        elif len(self.sessions) >= bounds.sessions:
            bound, most, whose = Bound.SESSIONS, bounds.sessions, ""
        else:
            return None
        self._reached(bound)
        what = f"session{whose} is there" if most == 1 else f"sessions{whose} are there"
        return status.hindered(status.Hindrance.BUSY, most=most, what=what)

    def _welcome(self, session: Session, *, resumed: bool) -> pb.SessionResponse:
        welcome = pb.Welcome(
            session=session.id,
            resumed=resumed,
            start=self.start,
            version=__version__,
            limits=pb.SessionLimits(message_bytes=MESSAGE_BYTES, waiting=MAX_WAITING, unread=outbox.MAX_UNREAD),
            alike=True,
            traces=self._driver.follower is not None,
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
