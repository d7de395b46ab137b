"""A gRPC client of unary calls that costs next to nothing: enough to send them and read their answers.

It knows calls. It must never know what one means.

It exists because h2load sends the same body with every request, and a release is of a lease that was just granted.
"""

import asyncio
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.bench.frames import DATA, END_HEADERS, END_STREAM, HEADERS, Connection, frame, framed, head

# A script makes calls one after another: it yields a method's path and a message and is sent the answer's message.
Call = tuple[str, bytes]
Script = Generator[Call, bytes, None]

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


class _Connection(Connection):
    """One connection. ``done`` when no script of it has a call left to make."""

    def __init__(self, script: Callable[[], Script], streams: int, budget: _Budget) -> None:
        super().__init__()
        self.latencies: list[float] = []
        self._scripts = [script() for _ in range(streams)]
        self._budget = budget
        self._streams: dict[int, _Stream] = {}
        self._next_stream = 1
        self._headers: dict[str, bytes] = {}

    def begin(self) -> None:
        """Make the first calls."""
        for script in self._scripts:
            if self._budget.take():
                self._call(script, next(script))
        self.flush()
        if not self._streams:
            self.done.set_result(None)

    def on_data(self, stream: int, payload: bytes) -> None:
        """Part of an answer."""
        self._streams[stream].received += payload

    def on_end(self, stream: int, trailers: bytes) -> None:
        """The whole answer is there."""
        if _OK not in trailers:
            raise RuntimeError(f"a call failed: {trailers!r}")
        ended = self._streams.pop(stream)
        self.latencies.append(time.perf_counter() - ended.began)
        call = ended.script.send(ended.received[5:])
        if self._budget.take():
            self._call(ended.script, call)
        elif not self._streams:
            self.done.set_result(None)

    def _call(self, script: Script, call: Call) -> None:
        path, message = call
        headers = self._headers.get(path)
        if headers is None:
            headers = self._headers[path] = head(path)
        body = framed(message)
        self.window -= len(body)
        if self.window < 0:
            raise RuntimeError("the server does not widen its window in time")
        number = self._next_stream
        self._next_stream += 2
        self._streams[number] = _Stream(script)
        self.put(frame(HEADERS, END_HEADERS, number, headers), frame(DATA, END_STREAM, number, body))
