"""Borrowers that are killed, stopped or cut off: their permits and their places come back."""

import signal
from typing import TYPE_CHECKING

import grpc
import pytest
from grpc import StatusCode

from governor.v1 import governor_pb2 as pb
from tests.e2e.client import Client, Refusal, ask
from tests.e2e.conftest import Spawn
from tests.e2e.process import Daemon, until

if TYPE_CHECKING:
    import subprocess

# One for each test, so that none depends on another.
YAML = """
defaults: {lease: 1h}
semaphores:
  killed-unix: {permits: 1}
  killed-tcp: {permits: 1}
  stopped: {permits: 1}
  left-unix: {permits: 1}
  left-tcp: {permits: 1}
  beside-unix: {permits: 2}
  beside-tcp: {permits: 2}
  closed: {permits: 1}
  closed-too: {permits: 1}
  placed: {permits: 1}
  repeated: {permits: 2}
"""


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_killed_holder_loses_its_lease_and_the_next_one_has_it(
    daemon: Daemon, me: Client, spawn: Spawn, transport: str
) -> None:
    """Nobody gives the permit back; when the lease ends, whoever waits is granted in that step."""
    name = f"killed-{transport}"
    holder = spawn(_address(daemon, transport), name)
    lost = _lease_of(holder)

    holder.kill()
    waiting = me.wait_in_line(ask(name, lease=3600))
    me.renew(lost, lease=0.05)
    lease = waiting.lease()

    assert lease.id > lost
    assert lease.waited.ToNanoseconds() > 0
    assert me.counts(name) == (1, 0)
    assert daemon.metric("governor_lease_ends_total", resource=name, reason="expired") == 1
    me.release(lease.id)
    assert me.counts(name) == (0, 0)
    with pytest.raises(grpc.RpcError) as late:
        me.release(lost)
    assert Refusal(late.value).code is StatusCode.FAILED_PRECONDITION
    assert Refusal(late.value).facts["ended"] == "expired"


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_killed_waiter_leaves_the_line(daemon: Daemon, me: Client, spawn: Spawn, transport: str) -> None:
    """As soon as its connection is gone, and those behind it move up: no lease has to end for that."""
    name, beside = f"left-{transport}", f"beside-{transport}"
    held = me.acquire(name)
    doomed = spawn(_address(daemon, transport), name, beside)
    until(lambda: me.counts(name) == (1, 1), "the borrower waits")
    behind = me.wait_in_line(ask(beside, permits=2))

    doomed.kill()
    moved_up = behind.lease()

    assert (me.counts(name), me.counts(beside)) == ((1, 0), (2, 0))
    assert daemon.metric("governor_acquires_total", resource=name, outcome="abandoned") == 1
    me.release(held.id, moved_up.id)


def test_a_closed_connection_leaves_every_line(daemon: Daemon, me: Client) -> None:
    """Whatever was asked on it, and only that."""
    held = me.acquire("closed", "closed-too")
    with Client(daemon.address) as other:
        for _ in range(5):
            other.wait_in_line(ask("closed"))
            other.wait_in_line(ask("closed-too"))
        mine = me.wait_in_line(ask("closed"))
        assert (me.counts("closed"), me.counts("closed-too")) == ((1, 6), (1, 5))

    until(lambda: me.counts("closed") == (1, 1), "the others have left")
    until(lambda: me.counts("closed-too") == (1, 0), "the others have left")
    me.release(held.id)
    me.release(mine.lease().id)


def test_an_ask_repeated_on_a_new_connection_keeps_its_place(daemon: Daemon, me: Client) -> None:
    """The connection is lost, the client asks again under the same request id: nobody comes before it."""
    held = me.acquire("placed")
    repeated = ask("placed", client="worker", request_id="r-1")
    lost = Client(daemon.address)
    lost.wait_in_line(repeated)
    behind = me.wait_in_line(ask("placed"))

    again = me.join(repeated)
    lost.close()
    me.release(held.id)
    first = again.lease()

    assert not behind.done()
    assert me.counts("placed") == (1, 1)
    me.release(first.id)
    second = behind.lease()
    assert second.id > first.id
    me.release(second.id)


def test_an_ask_repeated_after_its_answer_was_lost_gets_the_same_lease(daemon: Daemon, me: Client) -> None:
    """It never costs a second permit; after the lease has ended the answer is that it has."""
    request = ask("repeated", client="worker", request_id="r-2")
    with Client(daemon.address) as lost:
        lease = lost.stub.Acquire(request).lease

    again = me.stub.Acquire(request).lease

    assert again.id == lease.id
    assert me.counts("repeated") == (1, 0)
    me.release(again.id)
    with pytest.raises(grpc.RpcError) as ended:
        me.stub.Acquire(request)
    assert Refusal(ended.value).code is StatusCode.FAILED_PRECONDITION
    assert Refusal(ended.value).reason == "LEASE_ENDED"
    assert me.counts("repeated") == (0, 0)


def test_a_holder_that_was_stopped_for_too_long_is_told(daemon: Daemon, me: Client, spawn: Spawn) -> None:
    """Its late renewal revives nothing, and the next one keeps the permit."""
    holder = spawn(daemon.address, "stopped")
    lost = _lease_of(holder)

    holder.send_signal(signal.SIGSTOP)
    me.renew(lost, lease=0.05)
    lease = me.acquire("stopped", lease=3600)
    with pytest.raises(grpc.RpcError) as late:
        me.renew(lost)
    holder.send_signal(signal.SIGCONT)

    assert Refusal(late.value).code is StatusCode.FAILED_PRECONDITION
    assert me.renew(lease.id)[0].state == pb.LeaseResult.RENEWED
    me.release(lease.id)


def _address(daemon: Daemon, transport: str) -> str:
    return next(address for address in daemon.addresses if address.startswith("unix:") == (transport == "unix"))


def _lease_of(borrower: "subprocess.Popen[str]") -> int:
    assert borrower.stdout is not None
    return int(borrower.stdout.readline())
