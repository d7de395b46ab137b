"""What the daemon costs before anybody calls: its start, its memory, its sleep.

It knows processes and what Linux tells of them. It must never know what the daemon is for.
"""

import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest as _Request
from grpc_health.v1.health_pb2 import HealthCheckResponse as _Response

from governor.rpc.reading import LOOK_SECONDS
from tests.bench.calls import Echo
from tests.bench.figures import Figure, Report
from tests.e2e.process import BOUND, ROOT, Daemon

_STARTS: Final = 7
_START: Final = 0.8  # seconds
_MEMORY: Final = 80  # MB
_SETTLING: Final = LOOK_SECONDS + 1  # a look for late messages comes once after the last call, and no more
_IDLE: Final = 5.0  # seconds
_REFERENCE: Final = ROOT / "config" / "governor.yaml"
_OFFENDERS: Final = 8

_IMPORT: Final = re.compile(r"import time:\s+(\d+) \|\s+\d+ \| +(\S+)")


def run(report: Report) -> None:
    """Measure all of it."""
    report.section("process (`governor serve` on config/governor.yaml, with free ports)")
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "governor.yaml")
        config.write_text(_with_free_ports(_REFERENCE.read_text()))
        _start(report, config)
        _imports(report)
        with _running(config) as daemon:
            _rest(report, daemon)


def _start(report: Report, config: Path) -> None:
    took = []
    for _ in range(_STARTS):
        began = time.monotonic()
        with _running(config) as daemon:
            took.append(time.monotonic() - began)
            assert daemon.page("/-/ready")[0] == 200
    note = f"median of {_STARTS}; best {min(took):.2f}, worst {max(took):.2f}"
    name = "start, until the gRPC health check says SERVING"
    report.add(Figure(name, statistics.median(took), "s", at_most=_START, note=note))
    report.details["seconds from start to serving"] = took


def _imports(report: Report) -> None:
    """Where the start goes, by package; importing by itself, so the times are a little more than of a start."""
    command = [sys.executable, "-X", "importtime", "-c", "import governor.daemon, governor.cli.main"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stderr
    imports = _IMPORT.findall(said)
    by_package: Counter[str] = Counter()
    for took, module in imports:
        by_package[module.partition(".")[0]] += int(took)
    report.add(Figure(f"  of which importing {len(imports)} modules", by_package.total() / 1e6, "s"))
    most = ", ".join(f"{name} {took / 1000:.0f}" for name, took in by_package.most_common(_OFFENDERS))
    print(f"    in ms: {most}")
    report.details["import time by package, us"] = dict(by_package.most_common(40))


def _rest(report: Report, daemon: Daemon) -> None:
    echo = Echo()
    try:
        time.sleep(_SETTLING)
        report.add(Figure("memory at rest (VmRSS)", resident(daemon.pid) / 1e6, "MB", at_most=_MEMORY))
        report.add(Figure("  of a bare grpc.aio server", resident(echo.pid) / 1e6, "MB"))
        before = {pid: _wake_ups(pid) for pid in (daemon.pid, echo.pid)}
        time.sleep(_IDLE)
        after = {pid: _wake_ups(pid) for pid in (daemon.pid, echo.pid)}
    finally:
        echo.end()
    ours, bare = ({t: n - before[pid].get(t, 0) for t, n in after[pid].items()} for pid in (daemon.pid, echo.pid))
    main = ours[daemon.pid]
    report.add(Figure(f"wake-ups of the main thread in {_IDLE:g} s of rest", main, "", at_most=0))
    note = f"a bare grpc.aio server: {sum(bare.values())}"
    report.add(Figure("  of all its threads, most of them grpc's", sum(ours.values()), "", note=note))
    report.details["wake-ups by thread at rest"] = {"governor": ours, "bare": bare}


@contextmanager
def _running(config: Path) -> Iterator[Daemon]:
    """A daemon that serves; it ends afterwards."""
    with tempfile.TemporaryDirectory() as state:
        daemon = Daemon(config, Path(state))
        try:
            daemon.said(r"listening on \S+ \(gRPC\)")
            _serves(daemon.address)
            yield daemon
        finally:
            daemon.end()


def _serves(address: str) -> None:
    """Ask the health service until it says SERVING."""
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        check: grpc.UnaryUnaryMultiCallable[_Request, _Response] = channel.unary_unary(
            "/grpc.health.v1.Health/Check", _Request.SerializeToString, _Response.FromString
        )
        end = time.monotonic() + BOUND
        while time.monotonic() < end:
            if check(_Request(), timeout=BOUND, wait_for_ready=True).status == _Response.SERVING:
                return
            time.sleep(0.002)
    raise AssertionError("the daemon does not come to serve")


def _with_free_ports(text: str) -> str:
    """The reference config, listening where nobody else does."""
    text, listens = re.subn(r"(?m)^listen:.*$", "listen: ['127.0.0.1:0']", text)
    text, https = re.subn(r"(?m)^http:.*$", "http: '127.0.0.1:0'", text)
    assert (listens, https) == (1, 1), "the reference config says elsewhere where it listens"
    return text


def resident(pid: int) -> int:
    """Bytes of memory in use."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def _wake_ups(pid: int) -> dict[int, int]:
    """How often each thread went to sleep of its own accord so far, which is how often something woke it."""
    counts = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        found = re.search(r"(?m)^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text())
        assert found is not None
        counts[int(task.name)] = int(found[1])
    return counts
