"""The daemon as a process of its own, for tests that speak with a real one."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import grpc

from governor.v1 import governor_pb2 as pb
from governor.v1.governor_pb2_grpc import GovernorStub
from tests.cli.process import BOUND, COMMAND, forked
from tests.e2e.nursery import NURSERY, Process

YAML = """\
listen: [unix:{folder}/g.sock, 127.0.0.1:0]
http: off
state: {folder}/state
drain_timeout: 30s
semaphores:
  thumbnails: {{permits: 2}}
  "a/b & c, größe": {{permits: 1}}
  hurried: {{permits: 1, max_wait: 100ms}}
  crowded: {{permits: 1, max_waiters: 1}}
  shard=3: {{permits: 1}}
  severe: {{permits: 1, on_disconnect: release}}
pools:
  orders-db:
    members:
      primary: {{endpoint: "db1:5432"}}
      replica: {{endpoint: "db2:5432"}}
rate_limits:
  payments-api: {{rate: 1/h, burst: 5}}
"""


@dataclass(slots=True)
class Daemon:
    """A daemon in the background, what it will say, and what it has said."""

    process: Process
    config: Path
    address: str
    log: TextIO
    said: list[str]

    def stop(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)


@contextmanager
def serving(folder: Path) -> Iterator[Daemon]:
    """`governor serve`, from the moment it listens."""
    config = folder / "governor.yaml"
    config.write_text(YAML.format(folder=folder))
    told, tells = os.pipe()
    process = NURSERY.begin([*COMMAND, "serve", "--config", str(config), "--log-format", "text"], tells)
    os.close(tells)
    with os.fdopen(told, encoding="utf-8") as log:
        daemon = Daemon(process, config, f"unix:{folder}/g.sock", log, [])
        try:
            for line in log:
                daemon.said.append(line)
                if "listening on 127.0.0.1:" in line:
                    break
            yield daemon
        finally:
            process.kill()
            process.wait(BOUND)


def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A daemon that will not start."""
    return forked("serve", *arguments)


def resources(address: str) -> dict[str, pb.Resource]:
    """What the daemon lists, by name, over plain gRPC."""
    with grpc.insecure_channel(address) as channel:
        listed = GovernorStub(channel).ListResources(pb.ListResourcesRequest(), timeout=BOUND)
    return {entry.name: entry for entry in listed.resources}


def stands_in_line(address: str, name: str) -> None:
    """Returns once somebody waits."""
    late = time.monotonic() + BOUND
    while resources(address)[name].waiters == 0:
        assert time.monotonic() < late, f"nobody came to wait for {name}"
        time.sleep(0.01)


def until_free(address: str, *names: str) -> None:
    """Returns once nothing of them is lent."""
    late = time.monotonic() + BOUND
    while any(resources(address)[name].in_use for name in names):
        assert time.monotonic() < late, f"some of {names} stays lent"
        time.sleep(0.01)


@contextmanager
def once_in_line(daemon: Daemon, name: str, number: signal.Signals) -> Iterator[None]:
    """Sends the daemon a signal as soon as somebody waits, while the body goes on."""

    def send() -> None:
        stands_in_line(daemon.address, name)
        daemon.stop(number)

    thread = threading.Thread(target=send)
    thread.start()
    yield
    thread.join()
