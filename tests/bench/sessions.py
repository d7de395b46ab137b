"""What programs in Python get: `AsyncClient` and `Client`, beside other semaphores and beside a round trip.

It knows the clients' public names. It must never know how a lease is decided or kept.

Rates are measured in rounds in which governor and its peers take turns, each with one event loop of 64 tasks, on TCP.
The rounds that other programs of the machine disturbed least are counted. Each pair asks with a wait and a lease that
ends by itself, as a program would. The peers have a connection for each task, governor has one in all.
"""

import asyncio
import threading
import time
from contextlib import ExitStack
from statistics import median
from typing import Final

from governor import AsyncClient, AsyncLease, Client
from tests.bench import crowd
from tests.bench.calls import Echo
from tests.bench.figures import Figure, Report
from tests.bench.peers import PEERS, Missing, Peer
from tests.bench.peers.governor import GovernorPeer
from tests.bench.peers.peer import NAME, PERMITS
from tests.bench.quiet import Quiet
from tests.bench.running import running
from tests.bench.streams import connected, trips
from tests.e2e.process import Daemon

_TASKS: Final = 64
_SECONDS: Final = 1.0
_ROUNDS: Final = 6
_COUNTED: Final = 3
_BATCHES: Final = 6
_TIMES: Final = 300

_PAIRS: Final = 25_000
_THREAD_PAIRS: Final = 10_000
_TIMES_PEER: Final = {"throttle": 1.5, "a Redis semaphore": 4.0}
_ACQUIRE: Final = 1.2  # of a no-op round trip
_RELEASE: Final = 0.5  # of one: less than any way there and back

_CONFIG: Final = f"""
listen: ["127.0.0.1:0"]
http: 127.0.0.1:0
defaults: {{lease: 30s, max_wait: 1h, max_waiters: {2 * crowd.CROWD}}}
bounds: {{sessions: {3 * crowd.CROWD}, sessions_per_client: {3 * crowd.CROWD}}}
durability: none  # as the peers, which write nothing down; what a journal costs is in a section of its own
semaphores:
  {NAME}: {{permits: {PERMITS}}}
  {crowd.ONE}: {{permits: 1, lease: 1h}}
"""


def run(report: Report) -> None:
    """Measure all of it."""
    report.section(f"sessions (AsyncClient and Client over TCP; {_TASKS} tasks or threads of one process)")
    with running(_CONFIG) as daemon:
        _beside_peers(report, daemon)
        _threads(report, daemon)
        asyncio.run(_one_task(report, daemon))
        asyncio.run(crowd.run(report, daemon))


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
        rounds = _rounds({"governor": GovernorPeer(daemon), **peers})
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
        bare = await _bare_trip(daemon.address)
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


async def _bare_trip(address: str) -> float:
    """Seconds from saying nothing on a session to being told that it was handled, in the middle."""
    async with connected(address) as streams:
        return median(await trips(streams))
