"""Thousands of sessions on one daemon: how soon the next in line is served, and what a crowd costs the others.

It knows sessions as they are on the wire. It must never know how a line is kept.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from functools import partial
from statistics import median
from typing import Final

from governor.v1 import governor_pb2 as pb
from tests.bench.figures import Figure, Report
from tests.bench.peers.governor import GovernorPeer
from tests.bench.streams import Streams, connected, trips
from tests.e2e.process import BOUND, Daemon, until

CROWD: Final = 10_000
# The resource that they wait for, of one permit.
ONE: Final = "one"

_TASKS: Final = 64
_SECONDS: Final = 0.5
_STRETCHES: Final = 4
_HOPS: Final = 2.0
_SLOWER: Final = 1.3
_SESSIONS: Final = 1000
_CONNECTIONS: Final = 4  # of the idle ones
_ASKS: Final = 500  # of one session that waits


async def run(report: Report, daemon: Daemon) -> None:
    """Measure all of it."""
    await _next_holder(report, daemon)
    await _crowd(report, daemon)


async def _next_holder(report: Report, daemon: Daemon) -> None:
    """A thousand sessions stand in one line; each gives its permit on as soon as it has it."""
    async with connected(daemon.address) as streams:
        baton = _Baton(streams)
        await asyncio.to_thread(_until_waiting, daemon, _SESSIONS - 1)
        noops = await trips(streams)
        baton.pass_on()
        async with asyncio.timeout(BOUND):
            await baton.over
        noops += await trips(streams)
    assert sorted(baton.order) == list(range(_SESSIONS)), "somebody was served twice, or never"
    hops, noop = sorted(baton.took), median(noops)
    note = f"{median(hops) * 1e6:.0f} of {noop * 1e6:.0f} us; 99 of 100 within {hops[len(hops) * 99 // 100] * 1e6:.0f}"
    name = f"a release until the next of {_SESSIONS:,} sessions has it, of a no-op"
    report.add(Figure(name, median(hops) / noop, "times", at_most=_HOPS, note=note))


class _Baton:
    """The sessions in line for one permit, in order. The first one holds it until it is told to pass it on."""

    def __init__(self, streams: Streams) -> None:
        self.order: list[int] = []
        self.took: list[float] = []
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._streams = streams
        self._began = 0.0
        self._lease = 0
        ask = pb.SessionAcquire(op=1, claims=[pb.Claim(resource=ONE, permits=1)])
        ask.wait.seconds = 3600
        self._sessions = [streams.begin(partial(self._hear, at), acquires=[ask]) for at in range(_SESSIONS)]

    def pass_on(self) -> None:
        """Whoever has it gives it back."""
        self._began = time.perf_counter()
        self._streams.say(self._sessions[self.order[-1]], pb.SessionRequest(releases=[self._lease]))

    def _hear(self, number: int, said: pb.SessionResponse) -> None:
        if not said.grants:
            return
        now = time.perf_counter()
        self.order.append(number)
        self._lease = said.grants[0].lease.id
        if number:
            self.took.append(now - self._began)
            self.pass_on()
        if len(self.order) == _SESSIONS:
            self.over.set_result(None)


async def _crowd(report: Report, daemon: Daemon) -> None:
    """What those who only sit there, or wait, cost the others."""
    for name, gather in {"idle sessions": _idle, "waiters": _waiters}.items():
        alone = await _best(daemon)
        async with AsyncExitStack() as stack:
            await gather(stack, daemon)
            beside = await _best(daemon)
        await asyncio.to_thread(_until_waiting, daemon, 0)
        alone = max(alone, await _best(daemon))
        note = f"{beside:,.0f} of {alone:,.0f} pairs a second"
        told = f"{_TASKS} tasks beside {CROWD:,} {name}, slower by"
        report.add(Figure(told, alone / beside, "times", at_most=_SLOWER, note=note))


async def _best(daemon: Daemon) -> float:
    """Of a few stretches the one that others disturbed least, which is the best."""
    governor = GovernorPeer(daemon)
    return max([await governor.pairs(_TASKS, _SECONDS) for _ in range(_STRETCHES)])


async def _idle(stack: AsyncExitStack, daemon: Daemon) -> None:
    """Sessions without a lease or an ask, on a few connections."""
    welcomed = _Countdown(CROWD)
    for _ in range(_CONNECTIONS):
        streams = await stack.enter_async_context(connected(daemon.address))
        for _ in range(CROWD // _CONNECTIONS):
            streams.begin(welcomed.hear)
    await welcomed.over()


async def _waiters(stack: AsyncExitStack, daemon: Daemon) -> None:
    """Asks that wait for one permit, of some sessions."""
    streams = await stack.enter_async_context(connected(daemon.address))
    asks = [pb.SessionAcquire(op=op, claims=[pb.Claim(resource=ONE, permits=1)]) for op in range(1, _ASKS + 1)]
    for ask in asks:
        ask.wait.seconds = 3600
    streams.begin(lambda _: None, acquires=asks[:1])
    for _ in range(CROWD // _ASKS):
        streams.begin(lambda _: None, acquires=asks)
    await asyncio.to_thread(_until_waiting, daemon, CROWD)


class _Countdown:
    """Hears that so many sessions were welcomed."""

    def __init__(self, sessions: int) -> None:
        self._left = sessions
        self._over = asyncio.Event()

    def hear(self, said: pb.SessionResponse) -> None:
        """One more, if it is its welcome."""
        self._left -= said.HasField("welcome")
        if not self._left:
            self._over.set()

    async def over(self) -> None:
        """All of them."""
        async with asyncio.timeout(BOUND):
            await self._over.wait()


def _until_waiting(daemon: Daemon, waiters: int) -> None:
    until(lambda: daemon.metric("governor_waiters", resource=ONE) == waiters, f"{waiters} wait")
