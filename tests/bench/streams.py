"""Many sessions on one connection, at next to no cost: thousands that speak, listen or only sit there.

It knows how messages travel. It must never know a client's rules: whoever drives it says what is said, and hears all.
"""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import Final, Self

from governor.v1 import governor_pb2 as pb
from tests.bench.frames import DATA, END_HEADERS, HEADERS, Connection, frame, framed, head

PATH: Final = "/governor.v1.Governor/Session"

# How many round trips tell how long one takes.
TIMES: Final = 300

Hear = Callable[[pb.SessionResponse], None]


class Streams(Connection):
    """One connection."""

    def __init__(self) -> None:
        super().__init__()
        self._head = head(PATH)
        self._last = -1
        self._hear: dict[int, Hear] = {}
        self._parts: defaultdict[int, bytes] = defaultdict(bytes)
        # What the server's window has no room for yet.
        self._waiting: deque[tuple[int, bytes]] = deque()

    @classmethod
    async def connect(cls, address: str) -> Self:
        """To a host:port."""
        host, _, port = address.rpartition(":")
        _, connection = await asyncio.get_running_loop().create_connection(cls, host, int(port))
        return connection

    def begin(self, hear: Hear, **fields: object) -> int:
        """Begin a session, with what its first message says beside the hello; the number to speak with."""
        self._last += 2
        self._hear[self._last] = hear
        self.put(frame(HEADERS, END_HEADERS, self._last, self._head))
        hello = pb.Hello(client="bench", instance=token_hex(16))
        self.say(self._last, pb.SessionRequest(hello=hello, **fields))  # type: ignore[arg-type] # as protobuf takes them
        return self._last

    def say(self, session: int, message: pb.SessionRequest) -> None:
        """Send it, at once if there is room."""
        self._waiting.append((session, framed(message.SerializeToString())))
        self.on_window()

    def on_window(self) -> None:
        """As much as there is room for."""
        while self._waiting and len(self._waiting[0][1]) <= self.window:
            session, body = self._waiting.popleft()
            self.window -= len(body)
            self.put(frame(DATA, 0, session, body))
        self.flush()

    def on_data(self, stream: int, payload: bytes) -> None:
        """Whole messages, mostly."""
        received = self._parts[stream] + payload
        while len(received) >= 5 and len(received) >= (end := 5 + int.from_bytes(received[1:5], "big")):
            self._hear[stream](pb.SessionResponse.FromString(received[5:end]))
            received = received[end:]
        self._parts[stream] = received

    def on_end(self, stream: int, trailers: bytes) -> None:
        """No session of ours ends."""
        raise RuntimeError(f"session {stream} was ended: {trailers!r}")


async def trips(streams: Streams) -> list[float]:
    """Seconds from saying nothing on a session to being told that it was handled, again and again."""
    handled = asyncio.Event()

    def hear(said: pb.SessionResponse) -> None:
        if said.handled:
            handled.set()

    session = streams.begin(hear)
    took = []
    for _ in range(TIMES):
        await handled.wait()
        handled.clear()
        began = time.perf_counter()
        streams.say(session, pb.SessionRequest())
        await handled.wait()
        took.append(time.perf_counter() - began)
        handled.set()
    return took


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Streams]:
    """A connection for as long as the block."""
    streams = await Streams.connect(address)
    try:
        yield streams
    finally:
        streams.close()
