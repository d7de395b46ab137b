"""The daemon of `governor.testing`: real decisions, in a time that the test makes."""

import asyncio
import doctest
import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

import governor.testing.daemon
from governor import AsyncClient, Client, Lease, LeaseLost, NotGranted, Unavailable
from governor.config import ConfigError
from governor.core.snapshot import Snapshot
from governor.testing import Daemon
from governor.v1 import admin_pb2 as admin
from governor.v1 import governor_pb2 as pb
from governor.v1.admin_pb2_grpc import AdminStub
from governor.v1.governor_pb2_grpc import GovernorStub

CONFIG = {
    "defaults": {"lease": "5s", "max_wait": "1m"},
    "semaphores": {"thumbnails": {"permits": 1}},
    "rate_limits": {"payments-api": {"rate": "1/s", "burst": 2}},
}

Spawn = Callable[[Callable[[], Lease]], Future[Lease]]


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A semaphore of 1 and a rate limit."""
    with Daemon(CONFIG) as running:
        yield running


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    """A client of it."""
    with Client(daemon.address) as made:
        yield made


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Runs in a thread what blocks."""
    with ThreadPoolExecutor() as pool:
        yield pool.submit


def test_time_stands_still_until_it_is_moved(daemon: Daemon) -> None:
    """The shortest lease there is lives on though nobody renews it, and ends at its deadline exactly."""
    ask = pb.AcquireRequest(claims=[pb.Claim(resource="thumbnails", permits=1)])
    ask.lease.FromMilliseconds(1)
    with grpc.insecure_channel(daemon.address) as channel:
        GovernorStub(channel).Acquire(ask)
    with pytest.raises(TimeoutError, match=r"after 0\.05 s it still is not so: Snapshot"):
        daemon.wait_until(lambda seen: not seen.leases, timeout=0.05)

    daemon.advance(0.000_999)
    assert daemon.resource("thumbnails").in_use == 1
    daemon.advance(0.000_001)
    assert daemon.resource("thumbnails").in_use == 0


def test_what_is_due_happens_in_order_each_at_its_own_instant(daemon: Daemon, client: Client, spawn: Spawn) -> None:
    """A wait of 3 s is over before a lease of 5 s is, whose permit then goes to who waited longer."""
    client.acquire("thumbnails").detach()
    short = spawn(lambda: client.acquire("thumbnails", wait=3))
    daemon.wait_until(lambda seen: seen.waiters == 1)
    long = spawn(lambda: client.acquire("thumbnails", wait=10))
    daemon.wait_until(lambda seen: seen.waiters == 2)

    daemon.advance(8)

    assert daemon.snapshot().waiters == 0
    with pytest.raises(NotGranted) as refused:
        short.result()
    assert refused.value.reason == "wait_over"
    with long.result() as lease:
        assert lease.waited == 5


def test_time_does_not_go_back(daemon: Daemon) -> None:
    """Nor nowhere."""
    for seconds in (-1, -math.inf, math.nan):
        with pytest.raises(ValueError, match="time does not go back"):
            daemon.advance(seconds)


def test_a_rate_limit_comes_back_with_the_time_that_is_made(daemon: Daemon, client: Client) -> None:
    """And with no other."""
    for _ in range(2):
        client.acquire("payments-api", wait=0)
    assert client.try_acquire("payments-api") is None

    daemon.advance(1)

    client.acquire("payments-api", wait=0)
    assert client.try_acquire("payments-api") is None


def test_a_lease_that_time_takes_is_lost_to_its_holder(daemon: Daemon, client: Client) -> None:
    """Whatever keeps it alive: that is how a test makes a loss."""
    lost = threading.Event()
    lease = client.acquire("thumbnails", on_loss=lambda _: lost.set())

    daemon.advance(5)

    assert lost.wait(30)
    with pytest.raises(LeaseLost, match="expired"), lease:
        pass


def test_no_state_is_missed_however_short(daemon: Daemon, client: Client, spawn: Spawn) -> None:
    """Whoever waits for it sees it, though it is over at once."""
    ready = threading.Event()

    def seen(snapshot: Snapshot) -> bool:
        ready.set()
        return snapshot.resources[0].in_use == 1

    def acquire_and_release() -> Lease:
        assert ready.wait(30)
        lease = client.acquire("thumbnails")
        lease.release()
        return lease

    going = spawn(acquire_and_release)

    assert daemon.wait_until(seen).resources[0].in_use == 1
    going.result()


def test_a_condition_that_fails_fails_the_test_alone(daemon: Daemon, client: Client) -> None:
    """The daemon goes on."""
    with pytest.raises(ZeroDivisionError):
        daemon.wait_until(lambda seen: bool(1 // seen.leases))

    with client.acquire("thumbnails"):
        assert daemon.snapshot().leases == 1


def test_a_config_is_text_or_a_path_or_what_it_says(tmp_path: Path) -> None:
    """All three declare the same."""
    text = "semaphores:\n  thumbnails: {permits: 3, lease: 7s}\n"
    file = tmp_path / "governor.yaml"
    file.write_text(text)
    seen = []
    for config in (text, file, {"semaphores": {"thumbnails": {"permits": 3, "lease": "7s"}}}):
        with Daemon(config) as daemon:
            seen.append(daemon.snapshot())

    assert seen[0] == seen[1] == seen[2]
    assert seen[0].resources[0].lease == 7_000_000_000


def test_a_config_that_cannot_be_used_is_told_before_anything_starts() -> None:
    """With all that is wrong with it."""
    with pytest.raises(ConfigError, match=r"semaphores\.thumbnails\.permits: expected a whole number"):
        Daemon({"semaphores": {"thumbnails": {"permits": "lots"}}})


def test_a_reload_wakes_whom_it_serves(daemon: Daemon, client: Client, spawn: Spawn) -> None:
    """As in a daemon that gets SIGHUP."""
    client.acquire("thumbnails").detach()
    waiting = spawn(lambda: client.acquire("thumbnails"))
    daemon.wait_until(lambda seen: seen.waiters == 1)

    daemon.reload({"semaphores": {"thumbnails": {"permits": 2}}})

    waiting.result().release()


def test_a_reload_that_is_refused_changes_nothing(daemon: Daemon, client: Client) -> None:
    """Whether the config is at fault or what is lent stands against it."""
    with client.acquire("thumbnails"):
        before = daemon.snapshot()
        for refused in ({"semaphores": {"thumbnails": {"permits": -1}}}, {"pools": {"thumbnails": {"size": 1}}}):
            with pytest.raises(ConfigError, match="thumbnails"):
                daemon.reload(refused)

        assert daemon.snapshot() == before


def test_a_drained_daemon_takes_no_new_asks_and_keeps_its_leases(daemon: Daemon, client: Client) -> None:
    """As after SIGTERM; it serves until the test ends it."""
    with client.acquire("thumbnails") as lease:
        daemon.drain()

        assert daemon.snapshot().draining
        with pytest.raises(NotGranted) as refused:
            client.acquire("payments-api")
        assert refused.value.reason == "draining"
        assert not lease.lost


def test_a_daemon_that_is_closed_is_away(daemon: Daemon, client: Client) -> None:
    """Its port is closed and its thread has ended; closing it again does nothing."""
    client.acquire("thumbnails").release()
    daemon.close()
    daemon.close()

    with Client(daemon.address) as stranger, pytest.raises(Unavailable):
        stranger.acquire("thumbnails", wait=1)
    assert not [thread for thread in threading.enumerate() if thread.name == "governor-testing"]


def test_two_daemons_have_nothing_in_common(daemon: Daemon, client: Client) -> None:
    """Neither ports nor time nor permits."""
    with Daemon(CONFIG) as second, Client(second.address) as other:
        client.acquire("thumbnails").detach()
        other.acquire("thumbnails").detach()
        second.advance(5)

        assert daemon.resource("thumbnails").in_use == 1
        assert second.resource("thumbnails").in_use == 0


def test_a_name_that_is_not_declared_is_told(daemon: Daemon) -> None:
    """With those that are."""
    with pytest.raises(KeyError, match="thumbnail: no such resource; there are thumbnails, payments-api"):
        daemon.resource("thumbnail")


async def test_coroutines_go_on_while_a_thread_waits(daemon: Daemon) -> None:
    """Whatever they wait for, the daemon's loop is another one."""
    async with AsyncClient(daemon.address) as gov, gov.acquire("thumbnails") as lease:
        waiting = asyncio.ensure_future(_acquired(gov))
        await asyncio.to_thread(daemon.wait_until, lambda seen: seen.waiters == 1)
        daemon.advance(2)
        lease.release()

        assert await waiting == 2


async def _acquired(gov: AsyncClient) -> float:
    async with gov.acquire("thumbnails") as lease:
        return lease.waited


def test_the_examples_are_true() -> None:
    """Those of its docstrings."""
    for module in (governor.testing, governor.testing.daemon):
        assert doctest.testmod(module).failed == 0
    assert doctest.testmod(governor.testing.daemon).attempted > 0


def test_importing_the_kit_costs_no_daemon() -> None:
    """Since pytest imports it in every run of whoever has governor installed."""
    program = "import governor.testing, governor.testing.plugin, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    assert {"grpc", "h2", "google.protobuf", "yaml", "pydantic"}.isdisjoint(loaded)


def test_the_daemon_needs_no_pytest() -> None:
    """Any test runner will do."""
    program = "import sys; sys.modules['pytest'] = None; from governor.testing import Daemon; Daemon('{}')"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_the_extra_it_says_how_to_get_it() -> None:
    """Whoever installs the client alone has the kit as well."""
    program = "import sys; sys.modules['grpc'] = None; from governor.testing import Daemon"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    told = "the package grpc is missing, which a daemon in a test needs: pip install 'governord[daemon]'"
    assert done.stderr.splitlines()[-1] == f"ImportError: {told}"


def test_operators_can_step_in(daemon: Daemon, client: Client) -> None:
    """A program's lease is revoked, a limit is set for a while of the daemon's own time, and a reload is shown."""
    lease = client.acquire("thumbnails")
    with grpc.insecure_channel(daemon.admin_address) as channel:
        desk = AdminStub(channel)
        assert desk.Revoke(admin.RevokeRequest(lease_ids=[lease.id])).revoked == 1
        override = admin.SetOverrideRequest(resource="thumbnails", settings={"permits": "3"})
        override.length.FromSeconds(60)
        desk.SetOverride(override)
        assert daemon.resource("thumbnails").capacity == 3
        daemon.advance(60)
        assert daemon.resource("thumbnails").capacity == 1
        first = desk.GetInfo(admin.GetInfoRequest()).config.hash
        daemon.reload({"semaphores": {"other": {"permits": 2}}})
        assert desk.GetInfo(admin.GetInfoRequest()).config.hash != first
        (found,) = desk.Diff(iter([admin.DiffRequest(yaml=b"semaphores: {other: {permits: 5}}")])).differences
        assert [(change.name, change.before, change.after) for change in found.changes] == [("permits", "2", "5")]
        assert "no config file" in desk.Reload(admin.ReloadRequest()).problems[0]
    with pytest.raises(LeaseLost):
        _wait_for_loss(lease)


def _wait_for_loss(lease: Lease) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        lease.check()
        time.sleep(0.001)
