"""How much memory a daemon takes for each that holds, waits or is merely there, and how much disk for what is held.

It knows sessions as they are on the wire, and what Linux tells of a process. It must never know how anything is kept.
Each figure is of a daemon of its own, since memory that was taken is not given back.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final

from governor.v1 import governor_pb2 as pb
from tests.bench.figures import Figure, Report
from tests.bench.process import resident
from tests.bench.running import running
from tests.bench.streams import Streams, connected
from tests.e2e.process import Daemon, until

_MANY: Final = 10_000
_OF_EACH: Final = 500  # asks of one session
_CONNECTIONS: Final = 400

_CONFIG: Final = """
listen: ["127.0.0.1:0"]
http: 127.0.0.1:0
defaults: {lease: 1h, on_disconnect: keep, max_wait: 1h, max_waiters: 100000}
bounds: {streams: 20000, sessions: 20000, sessions_per_client: 20000}
semaphores:
  lent: {permits: unlimited}
  one: {permits: 1}
"""

_Gather = Callable[[AsyncExitStack, Daemon], Awaitable[None]]


def run(report: Report) -> None:
    """Measure all of it."""
    report.section(f"sizes (what a daemon has more than at rest, for each of {_MANY:,})")
    asyncio.run(_memory(report, "a lease", _leases, _MANY))
    asyncio.run(_memory(report, "a waiter", _waiters, _MANY))
    asyncio.run(_memory(report, "an idle session", _sessions, _MANY))
    asyncio.run(_memory(report, "a connection with one idle session", _connections, _CONNECTIONS))


async def _memory(report: Report, name: str, gather: _Gather, number: int) -> None:
    with running(_CONFIG) as daemon:
        async with AsyncExitStack() as stack:
            # One of them first, so that what is loaded or made once is not theirs.
            await _ask(stack, daemon, "lent", 1)
            await asyncio.to_thread(_until, daemon, "governor_leases", "lent", 1)
            before = resident(daemon.pid)
            await gather(stack, daemon)
            report.add(Figure(f"memory of {name}", (resident(daemon.pid) - before) / number / 1e3, "kB"))
        state = daemon.state
        daemon.end()
        if gather is _leases:
            size = sum(path.stat().st_size for path in state.glob("state.db*"))
            report.add(Figure("disk of a lease", size / number / 1e3, "kB"))


async def _ask(stack: AsyncExitStack, daemon: Daemon, resource: str, number: int) -> None:
    streams = await stack.enter_async_context(connected(daemon.address))
    asks = [pb.SessionAcquire(op=op, claims=[pb.Claim(resource=resource, permits=1)]) for op in range(1, _OF_EACH + 1)]
    for ask in asks:
        ask.wait.seconds = 3600
    while number:
        now = min(number, _OF_EACH)
        streams.begin(_nothing, acquires=asks[:now])
        number -= now


async def _leases(stack: AsyncExitStack, daemon: Daemon) -> None:
    await _ask(stack, daemon, "lent", _MANY)
    await asyncio.to_thread(_until, daemon, "governor_leases", "lent", _MANY + 1)


async def _waiters(stack: AsyncExitStack, daemon: Daemon) -> None:
    await _ask(stack, daemon, "one", _MANY + 1)
    await asyncio.to_thread(_until, daemon, "governor_waiters", "one", _MANY)


async def _sessions(stack: AsyncExitStack, daemon: Daemon) -> None:
    streams = await stack.enter_async_context(connected(daemon.address))
    await _welcomed([streams] * _MANY)


async def _connections(stack: AsyncExitStack, daemon: Daemon) -> None:
    await _welcomed([await stack.enter_async_context(connected(daemon.address)) for _ in range(_CONNECTIONS)])


async def _welcomed(each: list[Streams]) -> None:
    """Until a session on each of them has been."""
    left = len(each)
    over = asyncio.Event()

    def hear(said: pb.SessionResponse) -> None:
        nonlocal left
        left -= said.HasField("welcome")
        if not left:
            over.set()

    for streams in each:
        streams.begin(hear)
    await asyncio.wait_for(over.wait(), 60)


def _nothing(_said: pb.SessionResponse) -> None:
    """Whatever it was."""


def _until(daemon: Daemon, metric: str, resource: str, number: int) -> None:
    until(lambda: daemon.metric(metric, resource=resource) == number, f"{metric} of {resource} is {number}")
