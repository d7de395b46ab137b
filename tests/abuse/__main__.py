"""`python -m tests.abuse`: each attack on a daemon of its own, and what a normal client had of it meanwhile.

Beside it stands what it would have been with nothing but another busy process on the machine: so much is the
processor's doing, and not the attack's.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import grpc

from tests.abuse.attacks import ATTACKS
from tests.e2e.client import Client
from tests.e2e.conftest import HEAD
from tests.e2e.process import ROOT, Daemon

YAML = """
defaults: {lease: 1h, max_wait: 1m, max_waiters: 20000}
semaphores:
  mine: {permits: 4}
  prey: {permits: 1000}
  taken: {permits: 1}
"""
SPIN = "import sys,time\nend=time.monotonic()+float(sys.argv[1])\nwhile time.monotonic()<end: pass\nprint('{}')"


@dataclass
class Measured:
    """Latencies in milliseconds, memory in MiB."""

    pairs: list[float]
    failed: list[str]
    before: float
    most: float
    after: float
    counts: dict[str, int]

    def row(self, name: str) -> str:
        """As it is printed."""
        some = sorted(self.pairs) or [float("nan")]
        return (
            f"{name:26} {len(self.pairs):6} {statistics.median(some):8.2f} {some[int(len(some) * 0.99)]:8.1f} "
            f"{some[-1]:8.1f} {len(self.failed):4} {self.before:7.0f} {self.most:7.0f} {self.after:7.0f}  {self.counts}"
        )


def memory(pid: int) -> float:
    """Resident, in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20


class Bystander:
    """A client that does what clients do, with the address that is attacked."""

    def __init__(self, address: str) -> None:
        self._client = Client(address)
        self.pairs: list[float] = []
        self.failed: list[str] = []

    def go_on(self, seconds: float) -> None:
        """Acquire and release, for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.monotonic()
            try:
                lease = self._client.acquire("mine", wait=20)
                self._client.release(lease.id)
            except grpc.RpcError as error:
                self.failed.append(f"{error.code().name}: {error.details()}")
                time.sleep(0.05)
            else:
                self.pairs.append((time.monotonic() - began) * 1000)
            time.sleep(0.001)

    def close(self) -> None:
        """Done."""
        self._client.close()


def measured(name: str, seconds: float, *, more: str = "", tcp: bool = False) -> Measured:
    """One attack on a daemon of its own."""
    with tempfile.TemporaryDirectory(prefix="governor-") as folder:
        config = Path(folder, "governor.yaml")
        config.write_text(HEAD.format(folder=folder, drain="100ms") + YAML + more)
        daemon = Daemon(config, Path(folder, "state"))
        try:
            daemon.wait_until_it_serves()
            address = daemon.addresses[1 if tcp else 0]
            bystander = Bystander(address)
            holder = Client(address)
            holder.acquire("taken", lease=3600)
            bystander.go_on(0.5)
            bystander.pairs.clear()
            before = memory(daemon.pid)
            command = [sys.executable, "-c", SPIN, str(seconds)]
            if name in ATTACKS:
                command = [sys.executable, "-m", "tests.abuse.attacks", name, address, daemon.http, str(seconds)]
            attack = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) if name != "quiet" else None
            most = before
            worker = threading.Thread(target=bystander.go_on, args=(seconds,))
            worker.start()
            while worker.is_alive():
                most = max(most, memory(daemon.pid))
                worker.join(0.05)
            counts = {}
            if attack is not None:
                out, _ = attack.communicate(timeout=120)
                counts = json.loads(out or "{}")
            time.sleep(2)
            result = Measured(bystander.pairs, bystander.failed, before, most, memory(daemon.pid), counts)
            bystander.close()
            holder.close()
            if daemon.blemishes:
                print("  LOG:", daemon.blemishes[:1000])
            return result
        finally:
            daemon.kill()


def main() -> int:
    """Each that is named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.abuse", description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--resources", type=int, default=0, help="so many more are declared")
    parser.add_argument("--tcp", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    more = "".join(f"  other-{number}: {{permits: 1}}\n" for number in range(arguments.resources))
    print(f"{'':26} {'pairs':>6} {'median':>8} {'p99':>8} {'most ms':>8} fail  before    most   after MiB")
    for name in arguments.names or ["quiet", "busy", *ATTACKS]:
        outcome = measured(name, arguments.seconds, more=more, tcp=arguments.tcp)
        print(outcome.row(name), flush=True)
        for failure in outcome.failed[:2]:
            print("  failed:", failure, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
