"""A gRPC client that costs next to nothing: enough of HTTP/2 to send unary calls and read their answers.

It knows frames. It must never know what a call means.

It exists because h2load sends the same body with every request, and a release is of a lease that was just granted. Of
the protocol (RFC 9113) it does what a server may ask of it, and no more: headers are written once and sent as the same
bytes each time, and no table of headers is kept (SETTINGS_HEADER_TABLE_SIZE 0), so that a status can be found by its
bytes. Anything unexpected is an error, never a wrong number.
"""

import asyncio
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Final

# A script makes calls one after another: it yields a method's path and a message and is sent the answer's message.
Call = tuple[str, bytes]
Script = Generator[Call, bytes, None]

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS = 0x1, 0x1, 0x4
_HEADER_TABLE_SIZE, _INITIAL_WINDOW_SIZE = 1, 4
_WIDE: Final = 2**31 - 1
_FIRST_WINDOW: Final = 65_535
_OK: Final = b"\x0bgrpc-status\x010"


@dataclass(slots=True, frozen=True)
class Run:
    """How a run went: so many calls in so many seconds, and the time each one took, sorted."""

    calls: int
    seconds: float
    latencies: Sequence[float]

    @property
    def rate(self) -> float:
        """Calls a second."""
        return self.calls / self.seconds

    def percentile(self, percent: float) -> float:
        """Seconds within which so many of a hundred calls were answered."""
        return self.latencies[min(int(len(self.latencies) * percent / 100), len(self.latencies) - 1)]


async def drive(port: int, script: Callable[[], Script], *, connections: int, streams: int, calls: int) -> Run:
    """Make that many calls in all, on each connection up to ``streams`` at once, each following its own script."""
    loop = asyncio.get_running_loop()
    budget = _Budget(calls)
    made = []
    for _ in range(connections):
        _, connection = await loop.create_connection(lambda: _Connection(script, streams, budget), "127.0.0.1", port)
        made.append(connection)
    began = time.perf_counter()
    for connection in made:
        connection.begin()
    await asyncio.gather(*[connection.done for connection in made])
    took = time.perf_counter() - began
    for connection in made:
        connection.close()
    return Run(calls, took, sorted([each for connection in made for each in connection.latencies]))


class _Budget:
    """How many calls are left to make."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def take(self) -> bool:
        """Whether one more may be made."""
        self.left -= 1
        return self.left >= 0


class _Stream:
    """One call on its way, and the script that it is part of."""

    __slots__ = ("began", "received", "script")

    def __init__(self, script: Script) -> None:
        self.script = script
        self.received = b""
        self.began = time.perf_counter()


class _Connection(asyncio.Protocol):
    """One connection. ``done`` when no script of it has a call left to make."""

    def __init__(self, script: Callable[[], Script], streams: int, budget: _Budget) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.latencies: list[float] = []
        self._scripts = [script() for _ in range(streams)]
        self._budget = budget
        self._streams: dict[int, _Stream] = {}
        self._next_stream = 1
        self._window = _FIRST_WINDOW
        self._received = b""
        self._out: list[bytes] = []
        self._headers: dict[str, bytes] = {}
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say how we speak."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        settings = _setting(_HEADER_TABLE_SIZE, 0) + _setting(_INITIAL_WINDOW_SIZE, _WIDE)
        grow = (_WIDE - _FIRST_WINDOW).to_bytes(4, "big")
        self._out += [_PREFACE, _frame(_SETTINGS, 0, 0, settings), _frame(_WINDOW_UPDATE, 0, 0, grow)]
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """A server must not end it."""
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server closed the connection"))

    def begin(self) -> None:
        """Make the first calls."""
        for script in self._scripts:
            if self._budget.take():
                self._call(script, next(script))
        self._flush()
        if not self._streams:
            self.done.set_result(None)

    def close(self) -> None:
        """Hang up."""
        assert self._transport is not None
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Take whole frames off what has come."""
        received = self._received + data
        at = 0
        try:
            while len(received) - at >= 9:
                size = int.from_bytes(received[at : at + 3], "big")
                if len(received) - at - 9 < size:
                    break
                kind, flags = received[at + 3], received[at + 4]
                stream = int.from_bytes(received[at + 5 : at + 9], "big")
                self._frame(kind, flags, stream, received[at + 9 : at + 9 + size])
                at += 9 + size
        except RuntimeError as error:
            if not self.done.done():
                self.done.set_exception(error)
            self.close()
            return
        self._received = received[at:]
        self._flush()

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _DATA:
            self._streams[stream].received += payload
        elif kind == _HEADERS:
            if flags & _END_STREAM:
                self._answered(self._streams.pop(stream), payload)
        elif kind == _SETTINGS and not flags & _ACK:
            self._out.append(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            self._out.append(_frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW_UPDATE:
            if stream == 0:
                self._window += int.from_bytes(payload, "big")
        elif kind in (_RST_STREAM, _GOAWAY):
            raise RuntimeError(f"the server ended stream {stream} or all: {payload!r}")

    def _answered(self, stream: _Stream, trailers: bytes) -> None:
        if _OK not in trailers:
            raise RuntimeError(f"a call failed: {trailers!r}")
        self.latencies.append(time.perf_counter() - stream.began)
        call = stream.script.send(stream.received[5:])
        if self._budget.take():
            self._call(stream.script, call)
        elif not self._streams:
            self.done.set_result(None)

    def _call(self, script: Script, call: Call) -> None:
        path, message = call
        headers = self._headers.get(path)
        if headers is None:
            headers = self._headers[path] = _headers(path)
        body = b"\0" + len(message).to_bytes(4, "big") + message
        self._window -= len(body)
        if self._window < 0:
            raise RuntimeError("the server does not widen its window in time")
        number = self._next_stream
        self._next_stream += 2
        self._streams[number] = _Stream(script)
        self._out += [_frame(_HEADERS, _END_HEADERS, number, headers), _frame(_DATA, _END_STREAM, number, body)]

    def _flush(self) -> None:
        if self._out and self._transport is not None:
            self._transport.write(b"".join(self._out))
            self._out.clear()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _setting(name: int, value: int) -> bytes:
    return name.to_bytes(2, "big") + value.to_bytes(4, "big")


def _headers(path: str) -> bytes:
    """The head of a call to this method, each field as a literal that enters no table (RFC 7541, 6.2.2)."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "127.0.0.1",
        "te": "trailers",
        "content-type": "application/grpc",
        "user-agent": "governor-bench",
    }
    return b"".join([b"\0" + _text(name) + _text(value) for name, value in fields.items()])


def _text(text: str) -> bytes:
    encoded = text.encode()
    assert len(encoded) < 127, "a longer text would need a longer count"
    return bytes((len(encoded),)) + encoded
