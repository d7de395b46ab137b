"""The HTTP server: one listener for scrapers, probes and people with curl.

It knows sockets, time limits and how much anybody may take. It must never know what a page says.

It shares the event loop with the leases, so nobody may hold that up or use it up. Connections are bounded in
number, and one that asks nothing gives way to a new one; what a client sends is bounded in size, how slowly it sends
or reads is bounded in time, and all clients together have one chunk of a page made for them in each turn of the loop.
An answer that goes on and on ends as soon as its client is gone, or does not read.
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from aiohttp import web

from governor.access import Client
from governor.address import TcpAddress
from governor.bounds import DEFAULT_HTTP
from governor.certificates import Certificates
from governor.http.door import Door, sans
from governor.http.handshake import Handshakes
from governor.http.headers import FULL, HEADERS
from governor.http.names import all_local
from governor.http.pages import Pages
from governor.http.reply import TEXT, Reply, Stream
from governor.lock import BindError

_log: Final = logging.getLogger(__name__)

# How long a connection may stay without a whole request having arrived. Scrapes come every 15 to 60 seconds.
IDLE_SECONDS: Final = 75.0
# How long a client may take to read one answer. Prometheus itself gives up after 10 seconds.
SEND_SECONDS: Final = 20.0
# How long a body that nobody asked for is read and dropped, so that its sender still hears the answer.
LINGER_SECONDS: Final = 1.0
# How long each stage of the end may take: to finish making answers, and to send what was made.
STOP_SECONDS: Final = 1.0
_MAX_LINE: Final = 8190
_MAXHEADERS: Final = 64

_STRANGER: Final = (
    b"governor listens on loopback here, and answers to localhost, 127.0.0.1 and [::1] only: ask by one of these "
    b"names, have your proxy send it as the Host, or let `http` listen on another address\n"
)


class HttpServer:
    """A server that listens."""

    def __init__(self, listener: asyncio.Server, connections: "_Connections") -> None:
        self._listener = listener
        self._connections = connections
        self.port: int = listener.sockets[0].getsockname()[1]

    @property
    def connections(self) -> int:
        """How many clients are connected now."""
        return len(self._connections.transports)

    def ask_again(self) -> None:
        """Who may read has changed: whoever goes on reading must ask anew."""
        self._connections.end_streams()

    async def stop(self) -> None:
        """Listen no more, give answers that are on their way a moment to arrive, and close everything."""
        self._listener.close()
        await asyncio.sleep(0)  # requests that have arrived get to be answered
        self._connections.end_streams()
        await self._connections.end_handshakes()
        self._connections.pre_shutdown()
        await self._connections.shutdown(STOP_SECONDS)
        with suppress(TimeoutError):
            # A closed connection still sends what it holds, as long as its client reads.
            async with asyncio.timeout(STOP_SECONDS):
                await self._connections.empty.wait()
        for transport in self._connections.transports.values():
            transport.abort()
        await self._listener.wait_closed()


async def serve(
    address: TcpAddress,
    pages: Pages,
    door: Door | None = None,
    certificates: Certificates | None = None,
    most: int = DEFAULT_HTTP,
    full: Callable[[], None] = lambda: None,
) -> HttpServer:
    """Returns when ``address`` is bound and requests are answered; raises `BindError`.

    ``door``: where whoever reads is asked who he is. ``certificates``: where TLS is spoken.

    ``most``: how many connections there may be; ``full`` is called whenever one is refused for that.
    """
    assert address.tls <= (certificates is not None), "there is no certificate for it"
    loop = asyncio.get_running_loop()
    handshakes = Handshakes(certificates) if address.tls and certificates is not None else None
    connections = _Connections(pages, door, handshakes, most, full, only_local=address.is_loopback)
    try:
        listener = await loop.create_server(
            connections.begin, address.host, address.port, reuse_address=True, reuse_port=False
        )
    except OSError as error:
        raise BindError(f"http: cannot listen on {address}: {_reason(error)}") from error
    return HttpServer(listener, connections)


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    # From Python 3.13 on, asyncio skips addresses that are not here, and gives no number when none is left.
    number = error.errno or errno.EADDRNOTAVAIL
    advice = {
        errno.EADDRINUSE: "; something else listens there, give `http` another port",
        errno.EADDRNOTAVAIL: "; this machine has no such address",
        errno.EACCES: "; ports below 1024 are for privileged users",
    }
    return os.strerror(number).lower() + advice.get(number, "")


class _Connection(web.RequestHandler):
    """One connection. What cannot be read is refused with the same headers as all else is answered."""

    __slots__ = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins, or is told that there are too many, and closed."""
        assert isinstance(transport, asyncio.Transport)
        if self._connections.has(self) or self._connections.admit():
            super().connection_made(transport)
        else:
            transport.set_protocol(asyncio.Protocol())
            transport.write(FULL)
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Whoever says something has not been idle for long, though half a request is none."""
        self._connections.spoke(self)
        super().data_received(data)

    @property
    def _connections(self) -> "_Connections":
        assert isinstance(self._manager, _Connections)
        return self._manager

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what is no HTTP (400), or to a request whose page could not be made (500)."""
        if isinstance(exc, ConnectionError):
            raise exc  # the client has left, and with it whoever might want to know
        if status == HTTPStatus.BAD_REQUEST:
            # Anybody can send garbage to a port; it must not fill the log.
            _log.debug("http: a request that cannot be read: %s", exc)
            text = "this is no HTTP request that can be read\n"
        else:
            _log.error("http: %s %s could not be answered", request.method, request.path, exc_info=exc)
            text = "governor could not make this page\n"
        if request.writer.output_size > 0:
            raise ConnectionResetError("the answer has begun and cannot be finished") from exc
        response = web.Response(status=status, body=text.encode(), headers={**HEADERS, "Content-Type": TEXT})
        response.force_close()
        return response


class _Veiled(asyncio.Protocol):
    """A connection on which TLS is to be spoken."""

    def __init__(self, connections: "_Connections") -> None:
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._connections.shake(transport)


class _Connections(web.Server):
    """All connections, and the one handler of their requests."""

    def __init__(
        self,
        pages: Pages,
        door: Door | None,
        handshakes: Handshakes | None,
        most: int,
        full: Callable[[], None],
        *,
        only_local: bool,
    ) -> None:
        super().__init__(
            self._handle,
            logger=_log,
            access_log=None,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=LINGER_SECONDS,
            max_line_size=_MAX_LINE,
            max_field_size=_MAX_LINE,
            max_headers=_MAXHEADERS,
            auto_decompress=False,
        )
        self._pages = pages
        self._most = most
        self._full = full
        self._door = door
        self._handshakes = handshakes
        self._only_local = only_local
        self.transports: dict[web.RequestHandler, asyncio.Transport] = {}
        # Those of them without a request, from the one that has been so for the longest time.
        self._idle: dict[web.RequestHandler, None] = {}
        # What goes on until somebody ends it.
        self._streams: dict[web.RequestHandler, Stream] = {}
        self.empty = asyncio.Event()
        self.empty.set()
        # Whoever holds it may make a chunk: one in each turn of the loop, however many clients there are.
        self._turn = asyncio.Lock()

    def begin(self) -> asyncio.Protocol:
        """What is there for a new connection."""
        return _Connection(self, loop=self._loop, **self._kwargs) if self._handshakes is None else _Veiled(self)

    def shake(self, transport: asyncio.Transport) -> None:
        """A connection on which TLS is to be spoken: it counts from now on, and is answered when that is so."""
        assert self._handshakes is not None, "there is no TLS here"
        if not self.admit():
            transport.abort()
            return
        handler = _Connection(self, loop=self._loop, **self._kwargs)
        self._add(handler, transport)

        def done(veiled: asyncio.Transport, early: bytes) -> None:
            if not self.has(handler):  # it had to make room meanwhile
                veiled.abort()
                return
            veiled.set_protocol(handler)
            handler.connection_made(veiled)
            if early:
                handler.data_received(early)

        self._handshakes.begin(transport, done, lambda: self._drop(handler))

    async def end_handshakes(self) -> None:
        """Whoever has not shaken hands by now comes too late."""
        if self._handshakes is not None:
            await self._handshakes.end()

    def has(self, handler: web.RequestHandler) -> bool:
        """Whether this one counts already."""
        return handler in self.transports

    def admit(self) -> bool:
        """Whether there is room for one more, made if need be: a probe must get through a crowd that only sits there.

        Asked when a connection begins, not when it is accepted: many may be accepted before the first begins.
        """
        if len(self.transports) < self._most:
            return True
        handler = next(iter(self._idle), None)
        if handler is None:
            self._full()
            return False
        del self._idle[handler]
        # Not `close`: that would wait for a client which has not read its last answer by now.
        self.transports.pop(handler).abort()
        return True

    def spoke(self, handler: web.RequestHandler) -> None:
        """The client of ``handler`` sent something."""
        if handler in self._idle:
            self._idle[handler] = self._idle.pop(handler)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """One more."""
        super().connection_made(handler, transport)
        self._add(handler, transport)

    def _add(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        self.transports[handler] = transport
        self._idle[handler] = None
        self.empty.clear()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """One less, and nothing more to send on it."""
        super().connection_lost(handler, exc)
        self._drop(handler)

    def _drop(self, handler: web.RequestHandler) -> None:
        self.transports.pop(handler, None)
        self._idle.pop(handler, None)
        if stream := self._streams.pop(handler, None):
            stream.close()
        if not self.transports:
            self.empty.set()

    def end_streams(self) -> None:
        """What would go on for as long as its client is there ends now."""
        for stream in list(self._streams.values()):
            stream.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        handler = request.protocol
        self._idle.pop(handler, None)
        try:
            return await self._answer(request)
        finally:
            if handler in self.transports:
                self._idle[handler] = None

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._only_local and not all_local(request.headers.getall("Host", ())):
            reply = Reply(HTTPStatus.FORBIDDEN, _STRANGER)
        else:
            known = self._reader(request)
            answer = self._pages.answer
            reply = known if isinstance(known, Reply) else answer(request.method, request.path, request.headers, known)
        response = web.StreamResponse(
            status=reply.status, headers={**HEADERS, "Content-Type": reply.content_type, **reply.headers}
        )
        try:
            if isinstance(reply.body, (bytes, Iterator)):
                async with asyncio.timeout(SEND_SECONDS):
                    await self._send(request, response, reply.body)
            else:
                await self._stream(request, response, reply.body)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("the client did not read its answer in time") from None
        return response

    def _reader(self, request: web.BaseRequest) -> Client | Reply | None:
        if self._door is None:
            return None
        shown = None if request.transport is None else request.transport.get_extra_info("peercert")
        said = request.headers.getall("Authorization", ())
        return self._door.reader(request.path, said, sans(shown), request.remote or "")

    async def _send(
        self, request: web.BaseRequest, response: web.StreamResponse, body: bytes | Iterator[bytes]
    ) -> None:
        if isinstance(body, bytes):
            response.content_length = len(body)
            body = iter((body,))
        await response.prepare(request)
        if request.method != "HEAD":
            while chunk := await self._next(body):
                await response.write(chunk)
        await response.write_eof()

    async def _stream(self, request: web.BaseRequest, response: web.StreamResponse, stream: Stream) -> None:
        """Send it until it ends, the client is gone, or does not read for too long."""
        handler = request.protocol
        self._streams[handler] = stream
        if handler not in self.transports or request.method == "HEAD":
            stream.close()
        try:
            await response.prepare(request)
            while (chunks := await stream.more()) is not None:
                async with asyncio.timeout(SEND_SECONDS):
                    while chunk := await self._next(chunks):
                        await response.write(chunk)
            await response.write_eof()
        finally:
            stream.close()
            self._streams.pop(handler, None)

    async def _next(self, chunks: Iterator[bytes]) -> bytes | None:
        async with self._turn:
            await asyncio.sleep(0)
            return next(chunks, None)
