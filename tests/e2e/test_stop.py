"""The end: nobody new, nobody waits, whoever holds something may give it back."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from grpc import StatusCode
from grpc_health.v1 import health_pb2

from governor.v1 import governor_pb2 as pb
from governor.wording import span
from tests.e2e.client import Client, Refusal, ask
from tests.e2e.conftest import HEAD, Connect, Start
from tests.e2e.process import BOUND, Daemon, until

YAML = "semaphores: {one: {permits: 1, lease: 1h}}\n"
CODECS = (health_pb2.HealthCheckRequest.SerializeToString, health_pb2.HealthCheckResponse.FromString)
BOTH = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])


@BOTH
def test_an_idle_daemon_ends_at_once(start: Start, connect: Connect, number: signal.Signals) -> None:
    """It waits for nothing, though clients are connected; its socket is gone."""
    daemon = start(YAML, drain="1h")
    me = connect(daemon)
    me.release(me.acquire("one").id)

    daemon.signal(number)

    assert daemon.exit_code() == 0
    assert f"{number.name}: stopping" in daemon.log
    assert daemon.log.rstrip().endswith("stopped")
    assert not (daemon.config.parent / "governor.sock").exists()


def test_a_holder_is_waited_for(start: Start, connect: Connect) -> None:
    """Not ready, new asks refused, waiters answered, renewals and releases served; the last release ends it."""
    daemon = start(YAML, drain="1h")
    me, other = connect(daemon), connect(daemon)
    held = me.acquire("one").id
    waiting = [client.wait_in_line(ask("one", wait=25)) for client in (me, other, me)]
    watch = _watch(other)
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
    assert (daemon.page("/-/ready")[0], _status(me)) == (200, health_pb2.HealthCheckResponse.SERVING)

    daemon.signal(signal.SIGTERM)
    daemon.said("draining: 1 lease is held")

    for refusal in [Refusal(waiter.refusal()) for waiter in waiting] + [_refused(lambda: other.acquire("one"))]:
        assert (refusal.code, refusal.reason) == (StatusCode.UNAVAILABLE, "DRAINING")
        assert refusal.retry is not None
    assert daemon.page("/-/ready") == (503, "not ready: draining\n")
    assert daemon.page("/-/healthy")[0] == 200
    assert daemon.metric("governor_daemon_draining") == 1
    assert _status(me) == next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert me.counts("one") == (1, 0)
    assert me.renew(held)[0].state == pb.LeaseResult.RENEWED
    assert me.release(held)[0].state == pb.LeaseResult.RELEASED
    assert daemon.exit_code() == 0


def test_nobody_is_waited_for_longer_than_drain_timeout(start: Start, connect: Connect) -> None:
    """What is still held is said, and the exit code is 0 all the same: it did what it was told."""
    daemon = start(YAML, drain="300ms")
    daemon.expect("1 lease is still held")
    connect(daemon).acquire("one")

    daemon.signal(signal.SIGTERM)

    assert daemon.exit_code() == 0
    daemon.said(f"waiting up to {span(300_000_000)} for")
    daemon.said("1 lease is still held")


@pytest.mark.parametrize(("first", "second"), [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGINT)])
def test_a_second_signal_ends_it_at_once(
    start: Start, connect: Connect, first: signal.Signals, second: signal.Signals
) -> None:
    """Though somebody holds something for an hour more."""
    daemon = start(YAML, drain="1h")
    daemon.expect("1 lease is still held")
    connect(daemon).acquire("one")

    daemon.signal(first)
    daemon.said("draining")
    daemon.signal(second)

    assert daemon.exit_code() == 0
    daemon.said(f"{second.name} again: stopping at once")


def test_a_lease_that_ends_while_it_is_waited_for(start: Start, connect: Connect) -> None:
    """Nobody gives it back: its end is as good as a release."""
    daemon = start(YAML, drain="1h")
    connect(daemon).acquire("one", lease=0.5)

    daemon.signal(signal.SIGTERM)

    assert daemon.exit_code() == 0


def test_open_streams_do_not_hold_it_up(start: Start, connect: Connect) -> None:
    """Whoever watches its health is told that it stops, and not just cut off."""
    daemon = start(YAML, drain="1h")
    watch = _watch(connect(daemon))
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVING

    daemon.signal(signal.SIGTERM)
    with pytest.raises(grpc.RpcError, match="governor is stopping"):
        list(watch)

    assert daemon.exit_code() == 0


def test_a_long_line_is_answered_to_the_last(start: Start, connect: Connect) -> None:
    """Hundreds of waiters each hear why, before the connection goes."""
    daemon = start(YAML, drain="1h")
    me = connect(daemon)
    held = me.acquire("one").id
    calls = [me.stub.Acquire.future(ask("one"), timeout=BOUND) for _ in range(300)]
    until(lambda: me.counts("one") == (1, 300), "all of them wait")

    daemon.signal(signal.SIGTERM)
    reasons = {Refusal(call.exception(BOUND) or AssertionError("granted")).reason for call in calls}
    me.release(held)

    assert reasons == {"DRAINING"}
    assert daemon.exit_code() == 0


def test_a_signal_in_the_middle_of_the_start_is_obeyed(folder: Path) -> None:
    """One that comes as soon as it says a word ends it as at any other time."""
    config = folder / "governor.yaml"
    config.write_text(HEAD.format(folder=folder, drain="1h") + YAML, encoding="utf-8")
    early = Daemon(config, folder / "state")

    early.said("governor")
    early.signal(signal.SIGTERM)

    assert early.exit_code() == 0
    assert early.blemishes == ""


# A daemon that reads its config anew for ever, by code of Rust that calls code of Python.
_READS = """
import sys
from pathlib import Path
from typing import Annotated
from pydantic import AfterValidator, TypeAdapter
import governor.reload
from governor.cli.main import main

def read(path, environ):
    many = TypeAdapter(list[Annotated[int, AfterValidator(lambda number: number)]])
    path.with_name("reading").touch()
    while True:
        many.validate_python([1] * 1000)

governor.reload._read = read
sys.exit(main())
"""


def test_what_a_thread_is_at_does_not_spoil_the_end(start: Start, folder: Path) -> None:
    """It need not be waited for, and is not ended in the midst of code that cannot be: that would be an abort."""
    daemon = start(YAML, command=(sys.executable, "-c", _READS, "serve"))
    daemon.signal(signal.SIGHUP)
    until((folder / "reading").exists, "the config is read")

    assert daemon.end() == 0
    assert daemon.log.rstrip().endswith("stopped")


def test_a_flood_of_signals_to_the_very_end_does_not_spoil_it(folder: Path) -> None:
    """They come one upon another until the process is gone: it has ended well, and says nothing odd."""
    config = folder / "governor.yaml"
    config.write_text(HEAD.format(folder=folder, drain="1h") + YAML, encoding="utf-8")
    daemon = Daemon(config, folder / "state")
    daemon.wait_until_it_serves()

    bound = time.monotonic() + BOUND
    while daemon.process.poll() is None and time.monotonic() < bound:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            daemon.signal(number)

    assert daemon.exit_code() == 0
    assert daemon.blemishes == ""


def _watch(client: Client) -> Iterator[health_pb2.HealthCheckResponse]:
    watch = client.channel.unary_stream("/grpc.health.v1.Health/Watch", *CODECS)
    return watch(health_pb2.HealthCheckRequest(), timeout=BOUND)


def _status(client: Client) -> int:
    check = client.channel.unary_unary("/grpc.health.v1.Health/Check", *CODECS)
    return check(health_pb2.HealthCheckRequest(), timeout=BOUND).status


def _refused(call: Callable[[], object]) -> Refusal:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return Refusal(caught.value)
