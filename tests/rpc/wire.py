"""A gRPC client of a few frames, for what no gRPC library lets a test do: see exactly what was written to it.

A library that cancels a call forgets it, so nobody can say whether the reply had left. This one keeps reading: a call
that got its whole reply was answered, whatever it had asked for meanwhile.
"""

import asyncio
import os
import select
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
INITIAL_WINDOW = 4
CANCEL = 8
MARK = b"governor"


@dataclass
class Call:
    """One stream: its reply so far, and whether the server has ended it."""

    body: bytes = b""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    reset: bool = False

    @property
    def message(self) -> bytes | None:
        """The one message of a call that was answered whole; None for a refusal or a call without an answer."""
        if not self.ended.is_set() or self.reset or not self.body:
            return None
        compressed, size = struct.unpack(">BI", self.body[:5])
        assert (compressed, size) == (0, len(self.body) - 5)
        return self.body[5:]


class Wire:
    """One HTTP/2 connection to a unix socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._next_stream = 1
        self.calls: dict[int, Call] = {}
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(SETTINGS, 0, 0, b""))
        writer.write(_frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**30)))
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def connect(cls, path: Path) -> "Wire":
        """Connected; nothing has been asked yet."""
        return cls(*await asyncio.open_unix_connection(path))

    def call(self, method: str, *messages: bytes, flags: int = 0, **headers: str) -> int:
        """Starts a unary call and returns its stream; no message is the mistake of a broken client.

        ``method``: one of Governor's, or the whole path of another service's.
        """
        body = b"".join(framed(message, flags) for message in messages)
        return self.raw_call(method, body, **headers)

    def raw_call(self, method: str, body: bytes, **headers: str) -> int:
        """Starts a call with whatever stands for a message; nothing at all if that is empty."""
        return self._start(method, body, END_STREAM, headers)

    def unfinished_call(self, method: str, body: bytes = b"") -> int:
        """Starts a call whose caller has still something to send, and does not."""
        return self._start(method, body, 0, {})

    def _start(self, method: str, body: bytes, end: int, headers: dict[str, str]) -> int:
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        self.calls[stream] = Call()
        fields = {
            ":method": "POST",
            ":scheme": "http",
            ":path": method if method.startswith("/") else f"/governor.v1.Governor/{method}",
            ":authority": "localhost",
            "te": "trailers",
            "content-type": "application/grpc",
        } | {name.replace("_", "-"): value for name, value in headers.items()}
        block = b"".join(_literal(name, value) for name, value in fields.items())
        self._writer.write(_frame(HEADERS, END_HEADERS | (0 if body else end), stream, block))
        # Frames of other than the largest size are nobody's business here: 16 KiB is what every peer must take.
        for start in range(0, len(body), 16_384):
            last = end if start + 16_384 >= len(body) else 0
            self._writer.write(_frame(DATA, last, stream, body[start : start + 16_384]))
        return stream

    def shut(self) -> None:
        """Lets no byte of an answer's message through, of any call that comes after this."""
        self._writer.write(_frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW, 0)))

    def cancel(self, stream: int) -> None:
        """Says that nobody waits for the reply; what still comes is read all the same."""
        self._writer.write(_frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL)))

    async def answer(self, stream: int) -> bytes | None:
        """The reply's message, None for a refusal; waits for it."""
        async with asyncio.timeout(60):
            await self.calls[stream].ended.wait()
        return self.calls[stream].message

    def flush(self) -> None:
        """Returns when the server's transport has taken all that was sent here; stops the event loop meanwhile.

        The server's own threads answer a ping, in the order in which frames came. What else they say is lost.
        """
        self._writer.write(_frame(PING, 0, 0, MARK))
        fd = self._writer.get_extra_info("socket").fileno()
        seen = b""
        while MARK not in seen:
            ready, _, _ = select.select([fd], [], [], 20)
            assert ready
            seen += os.read(fd, 65_536)

    def sever(self) -> None:
        """The end of a process that was killed: no goodbye, and nothing more is read."""
        self._reading.cancel()
        self._writer.transport.abort()

    async def close(self) -> None:
        """Done with it."""
        self.sever()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        while True:
            try:
                head = await self._reader.readexactly(9)
                size, kind, flags = int.from_bytes(head[:3]), head[3], head[4]
                payload = await self._reader.readexactly(size)
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            self._take(kind, flags, int.from_bytes(head[5:]) & 0x7FFFFFFF, payload)

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        call = self.calls.get(stream)
        if kind == SETTINGS and not flags & ACK:
            self._writer.write(_frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self._writer.write(_frame(PING, ACK, 0, payload))
        elif call is not None and kind in {DATA, HEADERS}:
            if kind == DATA:
                call.body += payload
            if flags & END_STREAM:
                call.ended.set()
        elif call is not None and kind == RST_STREAM:
            # After a whole reply it only says that our half is not wanted either.
            if not call.ended.is_set():
                call.reset = True
            call.ended.set()


def framed(message: bytes, flags: int = 0) -> bytes:
    """A message as gRPC puts it into frames of DATA."""
    return struct.pack(">BI", flags, len(message)) + message


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def _literal(name: str, value: str) -> bytes:
    """A header field as HPACK writes it without its tables and without Huffman coding."""
    return b"\x00" + _text(name) + _text(value)


def _text(text: str) -> bytes:
    # What is no UTF-8 is written as half surrogates, as Python has it.
    raw = text.encode("utf-8", "surrogateescape")
    return bytes(_prefixed(len(raw))) + raw


def _prefixed(number: int) -> Iterable[int]:
    if number < 127:
        yield number
        return
    yield 127
    number -= 127
    while number >= 128:
        yield number % 128 + 128
        number //= 128
    yield number
