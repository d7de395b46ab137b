"""What it costs to remember: the same work with and without, a start with much to remember, and the size of it all.

It knows daemons, programs that borrow over the library, and the state file. It must never know how it is written.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from grpc import aio

from governor.client import AsyncClient
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.resource import Remembered, ResourceSpec
from governor.core.snapshot import Held
from governor.core.types import SECOND, Grant, LeaseId
from governor.store import NAME, Batch, Store
from governor.store.rows import lease_row, resource_row
from governor.v1 import governor_pb2 as pb
from governor.v1.governor_pb2_grpc import GovernorStub
from tests.bench.figures import Figure, Report
from tests.bench.quiet import cpu
from tests.e2e.process import Daemon

_TASKS: Final = 64
_SECONDS: Final = 2.0
_ROUNDS: Final = 5
_RATIO: Final = 0.8
_SLOWER: Final = 1.5
_LEASES: Final = 100_000
_RESTART: Final = 2.0  # seconds
# Of processor time: what it takes by itself, whoever else is busy on the machine.
_RESTART_CPU: Final = 1.4
_PAIRS: Final = 1_000_000
_FILE: Final = 10_000_000  # bytes
_PAIRS_AT_ONCE: Final = 5_000  # between two looks
# A state that grows shows it long before a million pairs; on a busy machine those would take minutes.
_ENOUGH: Final = 20.0

_CONFIG: Final = """
listen: ["unix:{folder}/g.sock"]
http: 127.0.0.1:0
drain_timeout: 0
durability: {durability}
defaults: {{lease: 1h}}
semaphores:
  bench: {{permits: unlimited}}
"""


@dataclass(slots=True, frozen=True)
class _Run:
    """Pairs of acquire and release a second, and within how many seconds 99 of 100 were done."""

    rate: float
    slow: float


def run(report: Report) -> None:
    """Measure all of it."""
    report.section(f"state ({_TASKS} tasks of one AsyncClient over a unix socket, each in and out in turn)")
    _beside_none(report)
    _restart(report)
    _size(report)


def _beside_none(report: Report) -> None:
    ratios, tails, process = [], [], []
    with _running("none") as without, _running("process") as journaled:
        for _ in range(_ROUNDS):
            bare, ours = (asyncio.run(_work(daemon.address, _SECONDS)) for daemon in (without, journaled))
            ratios.append(ours.rate / bare.rate)
            tails.append(ours.slow / bare.slow)
            process.append(ours.rate)
    note = f"median of {_ROUNDS}; {median(process):,.0f} pairs a second"
    report.add(Figure("durability process beside none", median(ratios), "times", at_least=_RATIO, note=note))
    report.add(Figure("  99 of 100 pairs within, beside none", median(tails), "times", at_most=_SLOWER))
    report.details["process beside none"] = {"rates": ratios, "99 of 100": tails}
    with _running("power") as daemon:
        report.add(Figure("  durability power", asyncio.run(_work(daemon.address, _SECONDS)).rate, "pairs/s"))


def _restart(report: Report) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "state").mkdir()
        store = Store(folder / "state")
        now = time.monotonic_ns()
        spec = ResourceSpec("bench", SemaphoreSpec(None), 3600 * SECOND, 3600 * SECOND, 2 * SECOND, SECOND, 10)
        grants = (Grant("bench", 1),)
        length = 3600 * SECOND
        leases = [
            Held(LeaseId(n), grants, now + length, "bench", length, f"a/{n}", (), length, now, 0, orphaned=False)
            for n in range(1, _LEASES + 1)
        ]
        store.write(
            Batch(
                leases=[lease_row(lease, graced=False) for lease in leases],
                resources=[resource_row(Remembered(spec, {}, now))],
                reserved=_LEASES,
                stamp=now,
            )
        )
        store.close()
        began = time.monotonic()
        with _running("process", folder) as daemon:
            took = time.monotonic() - began
            busy = cpu(daemon.pid)
            daemon.said(f"{_LEASES} leases are held")
    name = f"start with {_LEASES:,} leases, until it serves"
    report.add(Figure(name, took, "s", at_most=_RESTART))
    report.add(Figure("  of processor time", busy, "s", at_most=_RESTART_CPU))


def _size(report: Report) -> None:
    """As large as it ever gets, over sessions; and one by one under request ids, which stand for 10,000 that ended."""
    with tempfile.TemporaryDirectory() as name, _running("process", Path(name)) as daemon:
        for what, pairs in (("the state file", _pairs), ("  under request ids, one by one", _repeatable_pairs)):
            done = most = 0
            began = time.monotonic()
            while done < _PAIRS and time.monotonic() - began < _ENOUGH:
                done += asyncio.run(pairs(daemon.address, done, _PAIRS_AT_ONCE))
                most = max(most, _bytes(daemon.state))
            note = f"with its log, at most, while {done:,} pairs came and went"
            report.add(Figure(what, most / 1e6, "MB", at_most=_FILE / 1e6, note=note))


def _bytes(state: Path) -> int:
    return sum([path.stat().st_size for path in state.glob(f"{NAME}*")])


async def _work(address: str, seconds: float) -> _Run:
    end = time.perf_counter() + seconds
    taken: list[float] = []

    async def borrower(client: AsyncClient) -> None:
        while (began := time.perf_counter()) < end:
            async with client.acquire("bench"):
                pass
            taken.append(time.perf_counter() - began)

    async with AsyncClient(address, name="bench") as client:
        async with client.acquire("bench"):
            pass
        began = time.perf_counter()
        await asyncio.gather(*[borrower(client) for _ in range(_TASKS)])
        took = time.perf_counter() - began
    return _Run(len(taken) / took, sorted(taken)[len(taken) * 99 // 100])


async def _repeatable_pairs(address: str, first: int, pairs: int) -> int:
    """Unary calls: each is a transaction of its own."""
    numbers = iter(range(first, first + pairs))

    async with aio.insecure_channel(address) as channel:
        stub = GovernorStub(channel)

        async def borrower() -> None:
            for number in numbers:
                claims = [pb.Claim(resource="bench", permits=1)]
                ask = pb.AcquireRequest(claims=claims, client="bench", request_id=f"{number}")
                await stub.Release(pb.ReleaseRequest(lease_ids=[(await stub.Acquire(ask)).lease.id]))

        await asyncio.gather(*[borrower() for _ in range(_TASKS)])
    return pairs


async def _pairs(address: str, first: int, pairs: int) -> int:
    del first  # a session counts by itself
    left = pairs

    async def borrower(client: AsyncClient) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            async with client.acquire("bench"):
                pass

    async with AsyncClient(address, name="bench") as client:
        await asyncio.gather(*[borrower(client) for _ in range(_TASKS)])
    return pairs


@contextmanager
def _running(durability: str, folder: Path | None = None) -> Iterator[Daemon]:
    """A daemon that serves; it is killed afterwards."""
    with tempfile.TemporaryDirectory() as name:
        place = folder or Path(name)
        config = place / "governor.yaml"
        config.write_text(_CONFIG.format(folder=place, durability=durability))
        daemon = Daemon(config, place / "state")
        try:
            daemon.wait_until_it_serves()
            yield daemon
        finally:
            daemon.kill()
