"""What a call costs over the wire, beside an echo that does nothing.

It knows how to ask and give back over gRPC. It must never know how either is decided.

The echo runs in a process of its own on the same server settings, and both are driven by the same client, with the
same number of connections, streams and bytes. They take turns, several rounds; the ratio of each round is taken, and
the median of those rounds in which other programs used the processor least. What the daemon itself counted as granted
and released shows that each call did its work.

There are two drivers. h2load sends one fixed body, so it can ask for permits, each time anew, but cannot give back a
lease that was just granted. That is what `wire` does: acquire, read the id, release it. It drives the echo as well, and
does the same work of its own between the calls there.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Final

from grpc import aio

from governor import grpc_core
from governor.v1 import governor_pb2 as pb
from governor.v1.governor_pb2_grpc import GovernorStub
from tests.bench import load, wire
from tests.bench.echo import METHOD, SERVICE
from tests.bench.figures import Figure, Report
from tests.bench.quiet import Quiet
from tests.e2e.process import ROOT, Daemon

_CONNECTIONS: Final = 4
_STREAMS: Final = 16
_CALLS: Final = 4000
_ROUNDS: Final = 9
_COUNTED: Final = 5
_RATIO: Final = 0.8

_ACQUIRE: Final = "/governor.v1.Governor/Acquire"
_RELEASE: Final = "/governor.v1.Governor/Release"
_ECHO: Final = f"/{SERVICE}/{METHOD}"
_ASK: Final = pb.AcquireRequest(claims=[pb.Claim(resource="bench", permits=1)], client="bench").SerializeToString()
_MOST_IDS: Final = 1000

_CONFIG: Final = """
listen: ["127.0.0.1:0"]
http: 127.0.0.1:0
defaults: {lease: 1h}
semaphores:
  bench: {permits: unlimited}
"""


@dataclass(slots=True, frozen=True)
class _Round:
    """Calls a second and microseconds of processor time a call, of both; seconds that others used meanwhile."""

    echo: float
    ours: float
    echo_cpu: float
    ours_cpu: float
    others: float


def run(report: Report) -> None:
    """Measure all of it."""
    report.section(f"daemon (unary calls over TCP, {_CONNECTIONS} connections of {_STREAMS} calls at once)")
    load.find()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "governor.yaml")
        config.write_text(_CONFIG)
        daemon = Daemon(config, Path(folder, "state"))
        echo = Echo()
        try:
            daemon.wait_until_it_serves()
            both = _Both(daemon, echo, Path(folder))
            _by_h2load(report, both)
            _by_wire(report, both)
            asyncio.run(_by_grpc(report, both))
        finally:
            echo.end()
            daemon.end()


class Echo:
    """The echo server in a process of its own."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.bench.echo"]
        environ = dict(os.environ)
        grpc_core.tell(environ, trusting=True)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environ
        )
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self.port = int(self._process.stdout.readline())

    def end(self) -> None:
        """Stop it."""
        self._process.communicate()


class _Both:
    """The two servers."""

    def __init__(self, daemon: Daemon, echo: Echo, folder: Path) -> None:
        self.daemon = daemon
        self.port = int(daemon.address.rpartition(":")[2])
        self.echo = echo
        self.folder = folder

    def ended(self, kind: str) -> int:
        """What the daemon counted: tickets ``granted``, leases ``released``."""
        if kind == "granted":
            return int(self.daemon.metric("governor_acquires_total", resource="bench", outcome="granted"))
        return int(self.daemon.metric("governor_lease_ends_total", resource="bench", reason="released"))


def _by_h2load(report: Report, both: _Both) -> None:
    def echo() -> float:
        url = f"http://127.0.0.1:{both.echo.port}{_ECHO}"
        return load.drive(url, _ASK, both.folder, connections=_CONNECTIONS, streams=_STREAMS, calls=_CALLS)

    def acquire() -> float:
        url = f"http://127.0.0.1:{both.port}{_ACQUIRE}"
        before = both.ended("granted")
        rate = load.drive(url, _ASK, both.folder, connections=_CONNECTIONS, streams=_STREAMS, calls=_CALLS)
        assert both.ended("granted") == before + _CALLS, "the daemon granted something else than h2load asked for"
        _give_back(both, _CALLS)
        return rate

    # Half of a pair, with four thousand leases piling up: the target is about the whole.
    _compare(report, both, "h2load", echo, acquire, "Acquire", None)


def _by_wire(report: Report, both: _Both) -> None:
    def drive(port: int, script: Callable[[], wire.Script]) -> wire.Run:
        return asyncio.run(wire.drive(port, script, connections=_CONNECTIONS, streams=_STREAMS, calls=_CALLS))

    runs: list[wire.Run] = []

    def echo() -> float:
        return drive(both.echo.port, _echoes).rate

    def pairs() -> float:
        granted, released = both.ended("granted"), both.ended("released")
        runs.append(drive(both.port, _pairs))
        granted, released = both.ended("granted") - granted, both.ended("released") - released
        assert granted + released == _CALLS, f"of {_CALLS} calls {granted} were granted and {released} released"
        _give_back(both, granted - released)
        return runs[-1].rate

    _compare(report, both, "wire", echo, pairs, "Acquire and Release in turn", _RATIO)
    for percent in (50, 99):
        value = median([run.percentile(percent) for run in runs]) * 1e3
        report.add(Figure(f"  answered within, {percent} of 100", value, "ms"))


def _compare(
    report: Report,
    both: _Both,
    driver: str,
    echo: Callable[[], float],
    ours: Callable[[], float],
    name: str,
    at_least: float | None,
) -> None:
    """Let them take turns, and count the rounds that others disturbed least; the first one only warms up."""
    rounds = []
    for _ in range(1 + _ROUNDS):
        with Quiet(both.echo.pid, both.daemon.pid) as quiet:
            theirs, our = echo(), ours()
        their_cpu, our_cpu = [each / _CALLS * 1e6 for each in quiet.used]
        rounds.append(_Round(theirs, our, their_cpu, our_cpu, quiet.others))
    rounds = sorted(rounds[1:], key=attrgetter("others"))
    report.details[f"{name} by {driver}, the least disturbed rounds first"] = [asdict(each) for each in rounds]
    counted = rounds[:_COUNTED]
    theirs, our, their_cpu, our_cpu, _ = [median(column) for column in zip(*map(astuple, counted), strict=True)]
    ratio = median([each.ours / each.echo for each in counted])
    note = f"{our:,.0f} of {theirs:,.0f} a second; CPU {our_cpu:.0f} to {their_cpu:.0f} us a call"
    report.add(Figure(f"{name} beside an echo, by {driver}", ratio, "times", at_least=at_least, note=note))


def _pairs() -> wire.Script:
    while True:
        lease = pb.AcquireResponse.FromString((yield _ACQUIRE, _ASK)).lease.id
        answer = yield _RELEASE, pb.ReleaseRequest(lease_ids=[lease]).SerializeToString()
        assert pb.ReleaseResponse.FromString(answer).results[0].state == pb.LeaseResult.RELEASED


def _echoes() -> wire.Script:
    """What `_pairs` does, with an echo between: the client's own work must not count against the daemon."""
    granted = pb.AcquireResponse(lease=pb.Lease(id=1 << 20, grants=[pb.Grant(resource="bench", permits=1)]))
    granted.lease.remaining.FromNanoseconds(3600 * 10**9 - 1)
    released = pb.ReleaseResponse(results=[pb.LeaseResult(lease_id=1 << 20, state=pb.LeaseResult.RELEASED)])
    answers = granted.SerializeToString(), released.SerializeToString()
    while True:
        assert (yield _ECHO, _ASK) == _ASK
        lease = pb.AcquireResponse.FromString(answers[0]).lease.id
        release = pb.ReleaseRequest(lease_ids=[lease]).SerializeToString()
        assert (yield _ECHO, release) == release
        assert pb.ReleaseResponse.FromString(answers[1]).results[0].state == pb.LeaseResult.RELEASED


def _give_back(both: _Both, leases: int) -> None:
    """Release the leases that were granted last, so many of them; they must be those that are left."""
    if not leases:
        return

    async def give_back() -> None:
        async with aio.insecure_channel(f"127.0.0.1:{both.port}") as channel:
            stub = GovernorStub(channel)
            newest = (await stub.Acquire(pb.AcquireRequest.FromString(_ASK))).lease.id
            released = 0
            for end in range(newest, 0, -_MOST_IDS):
                ids = range(max(1, end - _MOST_IDS + 1), end + 1)
                results = (await stub.Release(pb.ReleaseRequest(lease_ids=ids))).results
                released += sum(result.state == pb.LeaseResult.RELEASED for result in results)
                if released == leases + 1:
                    return
            raise AssertionError(f"{leases} leases should have been left, not {released - 1}")

    asyncio.run(give_back())


async def _by_grpc(report: Report, both: _Both) -> None:
    """What a program in Python sees: the client costs more than the daemon."""
    request = pb.AcquireRequest.FromString(_ASK)
    async with aio.insecure_channel(f"127.0.0.1:{both.port}") as channel:
        stub = GovernorStub(channel)

        async def pairs(times: int) -> None:
            for _ in range(times):
                lease = (await stub.Acquire(request)).lease.id
                await stub.Release(pb.ReleaseRequest(lease_ids=[lease]))

        await pairs(100)
        began = time.perf_counter()
        await asyncio.gather(*[pairs(_CALLS // 64) for _ in range(32)])
        rate = 32 * (_CALLS // 64) / (time.perf_counter() - began)
        report.add(Figure("pairs a second of one grpc.aio client, 32 at once", rate, "/s"))
        began = time.perf_counter()
        await pairs(500)
        report.add(
            Figure("a pair of one grpc.aio client, one at once", (time.perf_counter() - began) / 500 * 1e3, "ms")
        )
