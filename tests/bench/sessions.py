"""What programs in Python get: `AsyncClient` and `Client`, beside other semaphores and beside a round trip.

It knows the clients' public names, and sessions as they are on the wire. It must never know how a lease is decided or
kept.

Rates are measured in rounds in which governor and its peers take turns, each with one event loop of 64 tasks, on TCP.
The rounds that other programs of the machine disturbed least are counted. Each pair asks with a wait and a lease that
ends by itself, as a program would. The peers have a connection for each task, governor has one in all.
"""

import asyncio
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from governor import AsyncClient, AsyncLease, Client
from governor.v1 import governor_pb2 as pb
from tests.bench.calls import Echo
from tests.bench.figures import Figure, Report
from tests.bench.peers import PEERS, Missing, Peer
from tests.bench.peers.peer import NAME, PERMITS, repeat
from tests.bench.quiet import Quiet
from tests.bench.streams import Streams
from tests.e2e.process import BOUND, Daemon, until

_TASKS: Final = 64
_SECONDS: Final = 1.0
_ROUNDS: Final = 6
_COUNTED: Final = 3
_TIMES: Final = 300
_BATCHES: Final = 6

_PAIRS: Final = 25_000
_THREAD_PAIRS: Final = 10_000
_TIMES_PEER: Final = {"throttle": 1.5, "a Redis semaphore": 4.0}
_ACQUIRE: Final = 1.2  # of a no-op round trip
_RELEASE: Final = 0.5  # of one: less than any way there and back
_HOPS: Final = 2.0
_SLOWER: Final = 1.3
_SESSIONS: Final = 1000
_IDLE: Final = 10_000
_CONNECTIONS: Final = 4  # for the idle ones
_ASKS: Final = 500  # of one session that waits

_CONFIG: Final = f"""
listen: ["127.0.0.1:0"]
http: 127.0.0.1:0
defaults: {{lease: 30s, max_wait: 1h, max_waiters: {2 * _IDLE}}}
semaphores:
  {NAME}: {{permits: {PERMITS}}}
  one: {{permits: 1, lease: 1h}}
"""


def run(report: Report) -> None:
    """Measure all of it."""
    report.section(f"sessions (AsyncClient and Client over TCP; {_TASKS} tasks or threads of one process)")
    with _daemon() as daemon:
        _beside_peers(report, daemon)
        _threads(report, daemon)
        asyncio.run(_one_task(report, daemon))
        asyncio.run(_next_holder(report, daemon))
        asyncio.run(_crowd(report, daemon))


@contextmanager
def _daemon() -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "governor.yaml")
        config.write_text(_CONFIG)
        daemon = Daemon(config, Path(folder, "state"))
        try:
            daemon.wait_until_it_serves()
            yield daemon
        finally:
            daemon.end()


def _port(daemon: Daemon) -> int:
    return int(daemon.address.rpartition(":")[2])


class _Governor:
    """Our own daemon, as a `Peer`."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self.pid = daemon.pid

    async def pairs(self, tasks: int, seconds: float) -> float:
        """All tasks share one client; the daemon's own count shows that each pair did its work."""
        before = self._granted()
        async with AsyncClient(self._daemon.address) as gov:
            made = 0

            async def pair() -> None:
                nonlocal made
                async with gov.acquire(NAME, wait=5):
                    made += 1

            rate = await repeat([pair] * tasks, seconds)
        assert self._granted() - before == made, f"the daemon granted {self._granted() - before} of {made}"
        return rate

    def end(self) -> None:
        """Whoever started it does that."""

    def _granted(self) -> int:
        return int(self._daemon.metric("governor_acquires_total", resource=NAME, outcome="granted"))


# --- pairs a second ---------------------------------------------------------------------------------------------


def _beside_peers(report: Report, daemon: Daemon) -> None:
    """The same work for everybody in each round; the ratio of each round is taken."""
    peers: dict[str, Peer] = {}
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        for name, start in PEERS.items():
            try:
                peers[name] = start()
            except Missing as error:
                missing[name] = str(error)
            else:
                stack.callback(peers[name].end)
        rounds = _rounds({"governor": _Governor(daemon), **peers})
    report.details["pairs a second, the least disturbed rounds first"] = rounds
    counted = rounds[:_COUNTED]
    ours = median([each["governor"] for each in counted])
    report.add(Figure(f"pairs of {_TASKS} tasks through AsyncClient", ours, "/s", at_least=_PAIRS))
    for name, at_least in _TIMES_PEER.items():
        told = f"  beside {name}"
        if name in missing:
            report.add(Figure(told, None, "times", at_least=at_least, note=missing[name]))
            continue
        ratio = median([each["governor"] / each[name] for each in counted])
        theirs = median([each[name] for each in counted])
        report.add(Figure(told, ratio, "times", at_least=at_least, note=f"it makes {theirs:,.0f} a second"))


def _rounds(peers: dict[str, Peer]) -> list[dict[str, float]]:
    """Pairs a second of each in each round, the least disturbed rounds first; the first one only warms up."""
    rounds = []
    for _ in range(1 + _ROUNDS):
        with Quiet(*[peer.pid for peer in peers.values()]) as quiet:
            rates = {name: asyncio.run(peer.pairs(_TASKS, _SECONDS)) for name, peer in peers.items()}
        rounds.append((quiet.others, rates))
    return [rates for _, rates in sorted(rounds[1:], key=lambda each: each[0])]


def _threads(report: Report, daemon: Daemon) -> None:
    with Client(daemon.address) as gov:
        rates = [_of_threads(gov) for _ in range(1 + _COUNTED)]
    report.add(Figure(f"pairs of {_TASKS} threads through Client", median(rates[1:]), "/s", at_least=_THREAD_PAIRS))


def _of_threads(gov: Client) -> float:
    made = [0] * _TASKS
    ready = threading.Barrier(_TASKS + 1)
    over = threading.Event()

    def work(number: int) -> None:
        ready.wait()
        while not over.is_set():
            with gov.acquire(NAME, wait=5):
                made[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(_TASKS)]
    for thread in threads:
        thread.start()
    ready.wait()
    began = time.perf_counter()
    time.sleep(_SECONDS)
    over.set()
    for thread in threads:
        thread.join()
    return sum(made) / (time.perf_counter() - began)


# --- one task ---------------------------------------------------------------------------------------------------


async def _one_task(report: Report, daemon: Daemon) -> None:
    """Beside a no-op: the same client on a session of a server that says yes to everything and does nothing.

    A round trip of a bare stream, without the client's thread and its promises, is told as well.
    """
    echo = Echo()
    try:
        async with AsyncClient(daemon.address) as gov, AsyncClient(f"127.0.0.1:{echo.port}") as nothing:
            releases: list[float] = []
            ratios, ours, theirs = [], [], []
            for _ in range(1 + _BATCHES):
                noop = await _acquires(nothing, [])
                acquire = await _acquires(gov, releases)
                ratios.append(acquire / noop)
                ours.append(acquire)
                theirs.append(noop)
        bare = await _bare_trip(_port(daemon))
    finally:
        echo.end()
    acquire, noop, release = median(ours[1:]), median(theirs[1:]), median(releases)
    note = f"{acquire * 1e6:.0f} of {noop * 1e6:.0f} us; a bare stream's no-op {bare * 1e6:.0f} us"
    report.add(
        Figure(
            "an acquire of one task, of a no-op round trip", median(ratios[1:]), "times", at_most=_ACQUIRE, note=note
        )
    )
    note = f"{release * 1e6:.1f} us: it is sent, and not waited for"
    report.add(
        Figure("a release as its caller sees it, of the same", release / noop, "times", at_most=_RELEASE, note=note)
    )


async def _acquires(gov: AsyncClient, releases: list[float]) -> float:
    """Seconds that one acquire takes, in the middle; and those of each release."""
    took = []
    leases: list[AsyncLease] = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        leases.append(await gov.acquire(NAME, wait=5))
        took.append(time.perf_counter() - began)
    for lease in leases:
        began = time.perf_counter()
        lease.release()
        releases.append(time.perf_counter() - began)
    # Behind the releases: so it is answered when those are done.
    (await gov.acquire(NAME, wait=5)).release()
    return median(took)


async def _bare_trip(port: int) -> float:
    """Seconds from saying nothing on a session to being told that it was handled, in the middle."""
    async with _connected(port) as streams:
        return median(await _trips(streams))


async def _trips(streams: Streams) -> list[float]:
    handled = asyncio.Event()

    def hear(said: pb.SessionResponse) -> None:
        if said.handled:
            handled.set()

    session = streams.begin(hear)
    took = []
    for _ in range(_TIMES):
        await handled.wait()
        handled.clear()
        began = time.perf_counter()
        streams.say(session, pb.SessionRequest())
        await handled.wait()
        took.append(time.perf_counter() - began)
        handled.set()
    return took


@asynccontextmanager
async def _connected(port: int) -> AsyncIterator[Streams]:
    streams = await Streams.connect(port)
    try:
        yield streams
    finally:
        streams.close()


# --- many sessions ----------------------------------------------------------------------------------------------


async def _next_holder(report: Report, daemon: Daemon) -> None:
    """A thousand sessions stand in one line; each gives its permit on as soon as it has it."""
    async with _connected(_port(daemon)) as streams:
        baton = _Baton(streams)
        await asyncio.to_thread(_until_waiting, daemon, _SESSIONS - 1)
        noops = await _trips(streams)
        baton.pass_on()
        async with asyncio.timeout(BOUND):
            await baton.over
        noops += await _trips(streams)
    assert baton.order == list(range(_SESSIONS)), "the line was not kept"
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
        ask = pb.SessionAcquire(op=1, claims=[pb.Claim(resource="one", permits=1)])
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
        told = f"{_TASKS} tasks beside {_IDLE:,} {name}, slower by"
        report.add(Figure(told, alone / beside, "times", at_most=_SLOWER, note=note))


async def _best(daemon: Daemon) -> float:
    """Of a few stretches the one that others disturbed least, which is the best."""
    governor = _Governor(daemon)
    return max([await governor.pairs(_TASKS, _SECONDS / 2) for _ in range(1 + _COUNTED)])


async def _idle(stack: AsyncExitStack, daemon: Daemon) -> None:
    """Sessions without a lease or an ask, on a few connections."""
    welcomed = _Countdown(_IDLE)
    for _ in range(_CONNECTIONS):
        streams = await stack.enter_async_context(_connected(_port(daemon)))
        for _ in range(_IDLE // _CONNECTIONS):
            streams.begin(welcomed.hear)
    await welcomed.over()


async def _waiters(stack: AsyncExitStack, daemon: Daemon) -> None:
    """Asks that wait for one permit, of some sessions."""
    streams = await stack.enter_async_context(_connected(_port(daemon)))
    asks = [pb.SessionAcquire(op=op, claims=[pb.Claim(resource="one", permits=1)]) for op in range(1, _ASKS + 1)]
    for ask in asks:
        ask.wait.seconds = 3600
    streams.begin(lambda _: None, acquires=asks[:1])
    for _ in range(_IDLE // _ASKS):
        streams.begin(lambda _: None, acquires=asks)
    await asyncio.to_thread(_until_waiting, daemon, _IDLE)


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
    until(lambda: daemon.metric("governor_waiters", resource="one") == waiters, f"{waiters} wait")
