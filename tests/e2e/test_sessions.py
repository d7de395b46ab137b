"""Programs with a session that are killed or stopped, and a daemon that is: what becomes of what was held."""

import signal
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING

import grpc
import pytest

from governor.v1 import governor_pb2 as pb
from tests.e2e.client import Client, ask
from tests.e2e.conftest import Connect, Spawn, Start
from tests.e2e.process import Daemon, until

if TYPE_CHECKING:
    import subprocess

# One for each test and transport, so that none depends on another.
YAML = """
defaults: {lease: 1h, max_wait: 1h, on_disconnect: 2s}
semaphores:
  release-unix: {permits: 1, on_disconnect: release}
  release-tcp: {permits: 1, on_disconnect: release}
  grace-unix: {permits: 1}
  grace-tcp: {permits: 1}
  keep-unix: {permits: 1, on_disconnect: keep}
  keep-tcp: {permits: 1, on_disconnect: keep}
  line-unix: {permits: 2, on_disconnect: release}
  line-tcp: {permits: 2, on_disconnect: release}
  stopped-unix: {permits: 1, on_disconnect: release}
  stopped-tcp: {permits: 1, on_disconnect: release}
  idle: {permits: 2, on_disconnect: release}
"""

# Within which a client that just stops is noticed: a promise, and so the one length of time that a test insists on.
NOTICED = 10.0
# For the test's own looking, on a busy machine.
SLACK = 2.0


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_what_a_killed_client_held(daemon: Daemon, me: Client, spawn: Spawn, transport: str) -> None:
    """One lease ends as soon as its connection is gone, one after its grace, and one is kept."""
    names = [f"{policy}-{transport}" for policy in ("release", "grace", "keep")]
    holder = spawn(_address(daemon, transport), *names, module="tests.e2e.session_borrower")
    leases = _ids(holder)
    assert all(leases)

    killed = time.monotonic()
    holder.kill()

    until(lambda: me.counts(names[0]) == (0, 0), "the first has ended")
    until(lambda: me.counts(names[1]) == (0, 0), "the second has ended")
    assert time.monotonic() - killed >= 2, "not before its grace is over"
    for name in names[:2]:
        assert daemon.metric("governor_lease_ends_total", resource=name, reason="disconnected") == 1
    assert me.counts(names[2]) == (1, 0)
    me.release(leases[2])


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_killed_client_leaves_its_lines(daemon: Daemon, me: Client, spawn: Spawn, transport: str) -> None:
    """Whoever is behind it moves up."""
    name = f"line-{transport}"
    held = me.acquire(name, permits=2)
    doomed = spawn(_address(daemon, transport), name, name, module="tests.e2e.session_borrower")
    assert _ids(doomed) == [0, 0]
    behind = me.wait_in_line(ask(name))

    doomed.kill()
    until(lambda: me.counts(name) == (2, 1), "the borrower has left")
    me.release(held.id)

    me.release(behind.lease().id)
    assert daemon.metric("governor_acquires_total", resource=name, outcome="abandoned") == 2


def test_a_client_that_just_stops_is_noticed(daemon: Daemon, me: Client, spawn: Spawn) -> None:
    """Within ten seconds, on a socket of either kind; one that is only idle is left alone all the while."""
    names = {transport: f"stopped-{transport}" for transport in ("unix", "tcp")}
    borrowers = [
        spawn(_address(daemon, transport), name, "idle", module="tests.e2e.session_borrower")
        for transport, name in names.items()
    ]
    idle = spawn(_address(daemon, "tcp"), "idle", module="tests.e2e.session_borrower")
    assert [len(_ids(borrower)) for borrower in (*borrowers, idle)] == [2, 2, 1]
    assert me.counts("idle") == (2, 1)

    for borrower in borrowers:
        borrower.send_signal(signal.SIGSTOP)
    stopped = time.monotonic()

    until(lambda: all(me.counts(name) == (0, 0) for name in names.values()), "both are noticed")
    assert time.monotonic() - stopped <= NOTICED + SLACK
    assert me.counts("idle") == (1, 0)
    idle.kill()
    until(lambda: me.counts("idle") == (0, 0), "the last has ended")


def test_a_daemon_that_stops_tells_its_sessions_and_waits_for_their_leases(start: Start, connect: Connect) -> None:
    """Waiters are refused; when the last lease is back it ends the streams and itself, long before it would have to."""
    daemon = start("semaphores: {last: {permits: 1}}\n", drain="1h")
    said: SimpleQueue[pb.SessionRequest | None] = SimpleQueue()
    asks = [pb.SessionAcquire(op=op, claims=[pb.Claim(resource="last", permits=1)]) for op in (1, 2)]
    said.put(pb.SessionRequest(hello=pb.Hello(client="me", instance="0123456789abcdef"), acquires=asks))

    heard = connect(daemon).stub.Session(iter(said.get, None))
    (grant,) = next(heard).grants

    daemon.signal(signal.SIGTERM)

    told = next(heard)
    assert told.notice.draining
    assert [(refusal.op, refusal.reason) for refusal in told.refusals] == [(2, "DRAINING")]
    said.put(pb.SessionRequest(releases=[grant.lease.id]))
    rest: list[pb.SessionResponse] = []
    with pytest.raises(grpc.RpcError) as ended:
        rest.extend(heard)
    assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
    assert [lease for each in rest for lease in each.released] == [grant.lease.id]
    assert rest[-1].notice.stopping
    assert daemon.exit_code() == 0


def _address(daemon: Daemon, transport: str) -> str:
    return next(address for address in daemon.addresses if address.startswith("unix:") == (transport == "unix"))


def _ids(borrower: "subprocess.Popen[str]") -> list[int]:
    assert borrower.stdout is not None
    return [int(word) for word in borrower.stdout.readline().split()]
