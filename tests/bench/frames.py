"""One end of an HTTP/2 connection that costs next to nothing: enough to speak gRPC to a server.

It knows frames. It must never know what a call is.

Of the protocol (RFC 9113) it does what a server may ask of it, and no more: headers are written once and sent as the
same bytes each time, and no table of headers is kept (SETTINGS_HEADER_TABLE_SIZE 0), so that a status can be found by
its bytes. Anything unexpected is an error, never a wrong number.
"""

import asyncio
from typing import Final

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 0x1, 0x1, 0x4

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADER_TABLE_SIZE, _INITIAL_WINDOW_SIZE = 1, 4
_WIDE: Final = 2**31 - 1
_FIRST_WINDOW: Final = 65_535


class Connection(asyncio.Protocol):
    """One connection. ``done`` fails with whatever goes wrong on it.

    ``window``: how many bytes of DATA may yet be sent; whoever sends them takes them off.
    """

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.window = _FIRST_WINDOW
        self._received = b""
        self._out: list[bytes] = []
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say how we speak."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        settings = _setting(_HEADER_TABLE_SIZE, 0) + _setting(_INITIAL_WINDOW_SIZE, _WIDE)
        grow = (_WIDE - _FIRST_WINDOW).to_bytes(4, "big")
        self._out += [_PREFACE, frame(SETTINGS, 0, 0, settings), frame(WINDOW_UPDATE, 0, 0, grow)]
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """A server must not end it."""
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server closed the connection"))

    def close(self) -> None:
        """Hang up."""
        assert self._transport is not None
        if not self.done.done():
            self.done.cancel()
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
        self.flush()

    def on_data(self, stream: int, payload: bytes) -> None:
        """Part of a message has come, or more."""
        raise NotImplementedError

    def on_end(self, stream: int, trailers: bytes) -> None:
        """A stream has come to its end."""
        raise NotImplementedError

    def on_window(self) -> None:
        """There is room for more to be sent."""

    def put(self, *frames: bytes) -> None:
        """Have them sent by the next `flush`."""
        self._out += frames

    def flush(self) -> None:
        """Send."""
        if self._out and self._transport is not None:
            self._transport.write(b"".join(self._out))
            self._out.clear()

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == DATA:
            self.on_data(stream, payload)
        elif kind == HEADERS:
            if flags & END_STREAM:
                self.on_end(stream, payload)
        elif kind == SETTINGS and not flags & ACK:
            self.put(frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self.put(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            if stream == 0:
                self.window += int.from_bytes(payload, "big")
                self.on_window()
        elif kind in (RST_STREAM, GOAWAY):
            raise RuntimeError(f"the server ended stream {stream} or all: {payload!r}")


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def framed(message: bytes) -> bytes:
    """A message as gRPC puts it into DATA."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def head(path: str) -> bytes:
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


def _setting(name: int, value: int) -> bytes:
    return name.to_bytes(2, "big") + value.to_bytes(4, "big")


def _text(text: str) -> bytes:
    encoded = text.encode()
    assert len(encoded) < 127, "a longer text would need a longer count"
    return bytes((len(encoded),)) + encoded
