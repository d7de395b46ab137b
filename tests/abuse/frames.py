"""Frames of HTTP/2 as a hostile client writes them, and a connection that says whatever it is given.

It knows bytes. It must never know what is done with them, nor keep any rule of the protocol by itself.
"""

import select
import socket
import struct
import time
from types import TracebackType
from typing import Final, Self

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM = ACK = 0x1
END_HEADERS: Final = 0x4
INITIAL_WINDOW: Final = 4

# What a frame may carry unless the other side says more.
LARGEST: Final = 16_384
_CONNECT_SECONDS: Final = 10.0
_HEAD: Final = 9


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame."""
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def settings(**values: int) -> bytes:
    """A frame of settings; ``window`` is the initial one of each stream."""
    numbers = {"window": INITIAL_WINDOW, "frame": 5, "streams": 3, "table": 1}
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", numbers[name], value) for name, value in values.items()))


def literal(name: str, value: str, encoding: str = "utf-8") -> bytes:
    """A header field as HPACK writes it without its tables and without Huffman coding."""
    return b"\x00" + _text(name.encode(encoding)) + _text(value.encode(encoding))


def request(path: str, **more: str) -> bytes:
    """The header block of a call."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "localhost",
        "te": "trailers",
        "content-type": "application/grpc",
    } | {name.replace("_", "-"): value for name, value in more.items()}
    return b"".join(literal(name, value) for name, value in fields.items())


def message(body: bytes, flag: int = 0) -> bytes:
    """A message as gRPC puts it into frames of DATA."""
    return struct.pack(">BI", flag, len(body)) + body


def _text(raw: bytes) -> bytes:
    size = len(raw)
    if size < 127:
        return bytes((size,)) + raw
    size -= 127
    prefix = bytearray((127,))
    while size >= 128:
        prefix.append(size % 128 + 128)
        size //= 128
    prefix.append(size)
    return bytes(prefix) + raw


def connect(address: str) -> socket.socket:
    """A connection to ``unix:/path`` or ``host:port``, over which nothing has been said."""
    if address.startswith("unix:"):
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(_CONNECT_SECONDS)
        made.connect(address.removeprefix("unix:"))
        return made
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS)


def _ready(connection: socket.socket, seconds: float, *, reads: bool = True, writes: bool = False) -> tuple[int, int]:
    """Whether something can be read and written; not by select, which knows a thousand files at most."""
    poll = select.poll()
    poll.register(connection, (select.POLLIN if reads else 0) | (select.POLLOUT if writes else 0))
    found = dict(poll.poll(seconds * 1000)).get(connection.fileno(), 0)
    gone = select.POLLHUP | select.POLLERR
    return found & (select.POLLIN | gone if reads else 0), found & (select.POLLOUT | gone)


class Hostile:
    """A connection. ``open``: whether the daemon has not ended it, as far as is known. ``heard``: frames by kind."""

    def __init__(self, address: str, *, hello: bytes = PREFACE + settings(), reads: bool = True) -> None:
        """``hello``: what is said first. Without ``reads`` nothing is ever read."""
        self.socket = connect(address)
        self.socket.setblocking(False)  # noqa: FBT003  - the standard library's own signature
        self.open = True
        self.heard: dict[int, int] = {}
        self.bodies: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self._reads = reads
        self._unread = b""
        # Frames that answer: they go between frames, not into the midst of one.
        self._owed = b""
        self._next = 1
        self.say(hello)

    def stream(self) -> int:
        """The number of the next call."""
        number, self._next = self._next, self._next + 2
        return number

    def say(self, data: bytes, seconds: float = 10.0) -> bool:
        """Write it, and read what comes meanwhile; whether all of it was taken in that time."""
        data, self._owed = self._owed + data, b""
        view, end = memoryview(data), time.monotonic() + seconds
        while view and self.open and time.monotonic() < end:
            readable, writable = _ready(self.socket, 0.1, reads=self._reads, writes=True)
            if readable:
                self._take()
            if writable:
                try:
                    view = view[self.socket.send(view) :]
                except BlockingIOError:
                    pass
                except OSError:
                    self.open = False
        return not view

    def listen(self, seconds: float) -> None:
        """Read for so long, or until the daemon ends it."""
        end = time.monotonic() + seconds
        while self.open and (left := end - time.monotonic()) > 0:
            if _ready(self.socket, left)[0]:
                self._take()
                self._answer()

    def ends_within(self, seconds: float) -> bool:
        """Whether the daemon ends the connection in that time."""
        self.listen(seconds)
        return not self.open

    def answered(self, stream: int, seconds: float) -> bool:
        """Whether a call has its whole answer within that time."""
        end = time.monotonic() + seconds
        while self.open and stream not in self.ended and (left := end - time.monotonic()) > 0:
            if _ready(self.socket, left)[0]:
                self._take()
                self._answer()
        return stream in self.ended

    def _answer(self) -> None:
        if self._owed:
            self.say(b"")

    def _take(self) -> None:
        try:
            data = self.socket.recv(262_144)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.open = False
            return
        self._unread += data
        at = 0
        while len(self._unread) - at >= _HEAD:
            size = int.from_bytes(self._unread[at : at + 3])
            if len(self._unread) - at < _HEAD + size:
                break
            kind, flags = self._unread[at + 3], self._unread[at + 4]
            stream = int.from_bytes(self._unread[at + 5 : at + 9])
            self._hear(kind, flags, stream, self._unread[at + _HEAD : at + _HEAD + size])
            at += _HEAD + size
        self._unread = self._unread[at:]

    def _hear(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        self.heard[kind] = self.heard.get(kind, 0) + 1
        if kind == PING and not flags & ACK:
            self._owed += frame(PING, ACK, 0, payload)
        if kind == DATA:
            self.bodies[stream] = self.bodies.get(stream, b"") + payload
        if kind == RST_STREAM or (kind in {DATA, HEADERS} and flags & END_STREAM):
            self.ended.add(stream)

    def close(self) -> None:
        """Done with it."""
        self.socket.close()
        self.open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
