"""`python -m tests.abuse`: each attack on a daemon of its own, and what a normal client had of it meanwhile.

Beside it stands what it would have been with nothing but another busy process on the machine: so much is the
processor's doing, and not the attack's.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import grpc

import governor
from tests.abuse.attacks import ATTACKS, Until
from tests.e2e.client import Client
from tests.e2e.conftest import HEAD
from tests.e2e.process import ROOT, Daemon

YAML = """
defaults: {lease: 1h, max_wait: 1m, max_waiters: 20000}
semaphores:
  mine: {permits: 4}
  prey: {permits: 1000, lease: 1s, max_lease: 1s}
  taken: {permits: 1}
"""
SPIN = "import sys,time\nend=time.monotonic()+float(sys.argv[1])\nwhile time.monotonic()<end: pass\nprint('{}')"


@dataclass
class Measured:
    """Latencies in milliseconds, of calls and on a session; memory in MiB."""

    calls: list[float] = field(default_factory=list)
    session: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    before: float = 0.0
    most: float = 0.0
    after: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)

    def row(self, name: str) -> str:
        """As it is printed."""
        told = " ".join(_told(times) for times in (self.calls, self.session))
        return (
            f"{name:24}{told} {len(self.failed):5} {self.before:7.0f} {self.most:6.0f} {self.after:6.0f}  {self.counts}"
        )


def _told(times: list[float]) -> str:
    some = sorted(times) or [float("nan")]
    return f"{len(times):6} {statistics.median(some):7.2f} {some[int(len(some) * 0.99)]:7.1f} {some[-1]:7.1f}"


def memory(pid: int) -> float:
    """Resident, in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def by_calls(address: str, until: Until, times: list[float], failed: list[str]) -> None:
    """Acquire and release, by the address that is attacked."""
    with Client(address) as client:
        while until:
            began = time.monotonic()
            try:
                client.release(client.acquire("mine", wait=20).id)
            except grpc.RpcError as error:
                failed.append(f"a call: {error}"[:300])
            else:
                times.append((time.monotonic() - began) * 1000)
            time.sleep(0.002)


def on_a_session(address: str, until: Until, times: list[float], failed: list[str]) -> None:
    """The same by the client library, over a connection that is there already."""
    with governor.Client(address, name="bystander") as client:
        while until:
            began = time.monotonic()
            try:
                with client.acquire("mine"):
                    pass
            except governor.GovernorError as error:
                failed.append(f"the session: {error}"[:300])
            else:
                times.append((time.monotonic() - began) * 1000)
            time.sleep(0.002)


def measured(name: str, seconds: float, *, more: str = "", tcp: bool = False) -> Measured:
    """One attack on a daemon of its own."""
    result = Measured()
    with tempfile.TemporaryDirectory(prefix="governor-") as folder:
        config = Path(folder, "governor.yaml")
        config.write_text(HEAD.format(folder=folder, drain="100ms") + YAML + more)
        daemon = Daemon(config, Path(folder, "state"))
        try:
            daemon.wait_until_it_serves()
            address = daemon.addresses[1 if tcp else 0]
            with Client(address) as holder:
                holder.acquire("taken", lease=3600)
                _attacked(name, daemon, address, seconds, result)
            if daemon.blemishes:
                print("  the log:", daemon.blemishes[:1000])
        finally:
            daemon.kill()
    return result


def _attacked(name: str, daemon: Daemon, address: str, seconds: float, result: Measured) -> None:
    pid = daemon.pid
    for warm in (by_calls, on_a_session):
        warm(address, Until(0.3), [], result.failed)
    result.before = result.most = memory(pid)
    command = [sys.executable, "-c", SPIN, str(seconds)]
    if name in ATTACKS:
        command = [sys.executable, "-m", "tests.abuse.attacks", name, address, daemon.http, str(seconds)]
    attack = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) if name != "quiet" else None
    until = Until(seconds)
    workers = [
        threading.Thread(target=by_calls, args=(address, until, result.calls, result.failed)),
        threading.Thread(target=on_a_session, args=(address, until, result.session, result.failed)),
    ]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        result.most = max(result.most, memory(pid))
        time.sleep(0.05)
    if attack is not None:
        out, _ = attack.communicate(timeout=120)
        result.counts = json.loads(out or "{}")
    time.sleep(2)
    result.after = memory(pid)


def main() -> int:
    """Each that is named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.abuse", description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--resources", type=int, default=0, help="so many more are declared")
    parser.add_argument("--tcp", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    # As a daemon reads that does not trust whoever can reach it; this one is on this machine only.
    os.environ.setdefault("GRPC_EXPERIMENTS", "event_engine_listener")
    more = "".join(f"  other-{number}: {{permits: 1}}\n" for number in range(arguments.resources))
    columns = f"{'pairs':>6} {'median':>7} {'p99':>7} {'most':>7}"
    print(f"{'':24}{columns} {columns} failed before   most  after")
    for name in arguments.names or ["quiet", "busy", *ATTACKS]:
        outcome = measured(name, arguments.seconds, more=more, tcp=arguments.tcp)
        print(outcome.row(name), flush=True)
        for failure in outcome.failed[:2]:
            print("  failed,", failure, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
