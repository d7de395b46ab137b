"""The campaign: random calls to a real daemon, beside a client that does what clients do, and what is wrong in the end.

It knows what must never be. It must never know what any one call should be answered.
"""

import hashlib
import json
import re
import shutil
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import grpc

from governor.v1 import governor_pb2 as pb
from tests.e2e.client import Client
from tests.e2e.process import BOUND, COMMAND, ROOT, Daemon, until
from tests.fuzz.messages import Stock
from tests.fuzz.sender import Sender
from tests.fuzz.surface import Sent, call
from tests.fuzz.words import Words

KEPT: Final = ROOT / "build" / "fuzz"

BATCH: Final = 40
# In MiB, between a fifth of the messages and all of them, if they are so many: caches that fill, and no more.
_GROWTH: Final = 32.0
_MANY: Final = 20_000
# So many batches go over one connection.
_PER_CONNECTION: Final = 25
_GRACE: Final = 0.02
# No number that is thought of as an id is smaller and was granted to the bystander.
_SMALL: Final = 1_200

# UNKNOWN and INTERNAL are bugs, but for these, which the transport says by itself of what is no gRPC.
_BAD: Final = {2: "UNKNOWN", 13: "INTERNAL"}

_TOKENS: Final = ("token-of-the-bystander-of-the-fuzz", "token-of-fuzz-1-of-the-fuzz", "token-of-the-boss-of-the-fuzz")

_HEAD: Final = """\
listen: [unix:{folder}/governor.sock]
http: 127.0.0.1:0
drain_timeout: 100ms
"""
_YAML: Final = """\
defaults: {lease: 1s, max_lease: 2s, max_wait: 500ms, max_waiters: 50, on_disconnect: 100ms}
semaphores:
  mine: {permits: 4, lease: 20s, max_lease: 1m}
  prey-sem: {permits: 4}
  prey-open: {permits: unlimited}
  prey-narrow: {permits: 1}
pools:
  prey-pool: {members: {primary: {endpoint: "db1:5432", max_leases: 3}, spare: {}}, quarantine: 10ms}
rate_limits:
  prey-rate: {rate: 1000/s, burst: 100}
"""
_CLIENTS: Final = """\
clients:
  bystander: {{tokens: ["sha256:{0}"], resources: [mine], verbs: [acquire, read]}}
  fuzz-1: {{tokens: ["sha256:{1}"], resources: ["prey-*"], verbs: [acquire, read]}}
  boss: {{tokens: ["sha256:{2}"], resources: ["prey-*"], verbs: [acquire, admin]}}
"""


@dataclass
class Outcome:
    """What became of it. ``messages``: how many were sent; ``resident``: MiB after the warm-up and at the end."""

    problems: list[str] = field(default_factory=list)
    messages: int = 0
    calls: int = 0
    connections: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    by_method: Counter[str] = field(default_factory=Counter)
    pairs: int = 0
    warm: float = 0.0
    resident: float = 0.0
    kept: Path | None = None


class Bystander:
    """A client that holds a lease throughout, and borrows another again and again."""

    def __init__(self, address: str, token: str) -> None:
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._client = Client(address)
        self.problems: list[str] = []
        self.pairs = 0
        self._held = self._acquire()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._thread.start()

    def _acquire(self) -> int:
        request = pb.AcquireRequest(claims=[pb.Claim(resource="mine", permits=1)], client="bystander")
        return self._client.stub.Acquire(request, timeout=BOUND, metadata=self._metadata).lease.id

    def _go_on(self) -> None:
        while not self._stop.wait(0.02):
            try:
                self._client.stub.Renew(pb.RenewRequest(lease_ids=[self._held]), timeout=BOUND, metadata=self._metadata)
                lease = self._acquire()
                self._client.stub.Release(pb.ReleaseRequest(lease_ids=[lease]), timeout=BOUND, metadata=self._metadata)
            except grpc.RpcError as error:
                self.problems.append(f"the bystander was told {error.code().name}: {error.details()}")
                return
            self.pairs += 1

    def end(self) -> None:
        """Give back what it holds, and go."""
        self._stop.set()
        self._thread.join(BOUND)
        try:
            self._client.stub.Release(pb.ReleaseRequest(lease_ids=[self._held]), timeout=BOUND, metadata=self._metadata)
        except grpc.RpcError as error:
            self.problems.append(f"the bystander lost its lease: {error.details()}")
        self._client.close()


def run(
    seed: int, messages: int, *, guarded: bool, first: int = 0, keep: bool = True, command: tuple[str, ...] = COMMAND
) -> Outcome:
    """So many messages to one daemon; ``guarded``: its config knows its clients.

    ``first``: the number of the first batch, since each follows from the seed and its own number alone.
    """
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="governor-") as name:
        folder = Path(name)
        digests = [hashlib.sha256(token.encode()).hexdigest() for token in _TOKENS]
        config = folder / "governor.yaml"
        clients = _CLIENTS.format(*digests) if guarded else ""
        config.write_text(_HEAD.format(folder=folder) + clients + _YAML)
        daemon = Daemon(config, folder / "state", command=command)
        try:
            daemon.wait_until_it_serves()
            try:
                _attack(daemon, seed, messages, first, outcome, guarded=guarded)
            except OSError as error:
                outcome.problems.append(f"{error}: the daemon has ended with {daemon.process.poll()}")
            _judge_log(daemon, outcome)
        finally:
            daemon.kill()
            if outcome.problems and keep:
                outcome.kept = _keep(outcome, folder, daemon, f"{seed}-{'guarded' if guarded else 'open'}")
    return outcome


def _attack(daemon: Daemon, seed: int, messages: int, first: int, outcome: Outcome, *, guarded: bool) -> None:
    address = daemon.address
    words = Words()
    stock = Stock(f"{seed}", words)
    _use_up_ids(address, _TOKENS[1] if guarded else "")
    bystander = Bystander(address, _TOKENS[0] if guarded else "")
    number = first
    sender = _connected(address, outcome)
    while outcome.messages < messages and not outcome.problems:
        if (number - first) % _PER_CONNECTION == 0 or not sender.open:
            sender.close()
            sender = _connected(address, outcome)
        chance = Random(f"{seed}/{number}")
        batch = [call(chance, sender.stream(), words, stock, _TOKENS[1:] if guarded else ()) for _ in range(BATCH)]
        if not sender.send(batch, BOUND):
            outcome.problems.append(f"batch {number}: a call that makes sense was not answered")
        sender.forget(batch, _GRACE)
        _judge(sender, batch, number, outcome)
        words.leases = (words.leases + sender.granted(batch))[-200:]
        number += 1
        if not outcome.warm and outcome.messages >= messages // 5:
            outcome.warm = resident(daemon.pid)
        if daemon.process.poll() is not None:
            outcome.problems.append(f"batch {number - 1}: the daemon has ended with {daemon.process.returncode}")
            return
    outcome.resident = resident(daemon.pid)
    if messages >= _MANY and outcome.resident - outcome.warm > _GROWTH:
        outcome.problems.append(f"the daemon grew from {outcome.warm:.0f} to {outcome.resident:.0f} MiB")
    sender.close()
    bystander.end()
    outcome.pairs = bystander.pairs
    outcome.problems += bystander.problems
    _judge_end(daemon, outcome)


def _use_up_ids(address: str, token: str) -> None:
    """Those that are small, for numbers that anybody thinks of are among those that are sent."""
    asks = pb.SessionAcquire(claims=[pb.Claim(resource="prey-open", permits=1)])
    hello = pb.Hello(client="first", instance="f" * 16, pid=1)
    first = pb.SessionRequest(hello=hello, alike=[pb.SessionAcquires(ops=range(1, _SMALL), ask=asks)])
    with Client(address) as client:
        metadata = (("authorization", f"Bearer {token}"),) if token else ()
        granted = 0
        for said in client.stub.Session(iter([first]), timeout=BOUND, metadata=metadata):
            granted += len(said.grants)
        assert granted == _SMALL - 1, granted


def _connected(address: str, outcome: Outcome) -> Sender:
    outcome.connections += 1
    return Sender(address)


def _judge(sender: Sender, batch: list[Sent], number: int, outcome: Outcome) -> None:
    for sent in batch:
        outcome.messages += sent.messages
        outcome.calls += 1
        outcome.by_method[sent.path] += 1
        status, told = sender.statuses.pop(sent.stream, (-9, ""))
        outcome.statuses[status] += 1
        if status in _BAD and not _of_the_transport(sent, told):
            outcome.problems.append(
                f"batch {number}: {sent.path} ({', '.join(sent.odd)}) was answered {_BAD[status]}: {told}\n"
                f"  {json.dumps({'head': sent.head, 'body': sent.body.hex()})}"
            )
    sender.ended.clear()


def _of_the_transport(sent: Sent, told: str) -> bool:
    """Whether gRPC itself says so of how something was sent, before any of it is read."""
    return _OVERRUN in told or (bool(sent.odd) and any(words in told for words in _TRANSPORT))


# Of a whole connection: we send without a look at how much there is room for, and the daemon did not get to read.
_OVERRUN: Final = "overflows local window"
# A header that cannot be read, and what the specification of gRPC says itself of compression.
_TRANSPORT: Final = ("Error parsing '", "Illegal header ", "Compression bit set but no encoding configured")


def _judge_end(daemon: Daemon, outcome: Outcome) -> None:
    """When all are gone, so is all that they had."""
    try:
        until(lambda: _left(daemon) == 0, "nothing is lent and nobody waits")
    except AssertionError as error:
        outcome.problems.append(f"in the end: {error}, but {_left(daemon):g}")


def _left(daemon: Daemon) -> float:
    names = {"governor_permits_in_use", "governor_leases", "governor_waiters"}
    return sum(value for (name, _), value in daemon.metrics().items() if name in names)


def _judge_log(daemon: Daemon, outcome: Outcome) -> None:
    bad = [line for line in daemon.log.splitlines() if re.search(r" ERROR |Traceback|Error:", line)]
    if bad:
        outcome.problems.append("the log has:\n" + "\n".join(line[:300] for line in bad[:5]))


def resident(pid: int) -> float:
    """MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20


def _keep(outcome: Outcome, folder: Path, daemon: Daemon, name: str) -> Path:
    kept = KEPT / name
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    shutil.copy(folder / "governor.yaml", kept)
    (kept / "daemon.log").write_text(daemon.log)
    (kept / "problems.txt").write_text("\n".join(outcome.problems))
    return kept
