"""Single messages that are lost or late, and connections that break at the worst moment, by a proxy."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import pytest

from governor import AsyncClient, Client, Lease, LeaseLost, NotGranted
from governor.v1 import governor_pb2 as pb
from tests.client.conftest import is_kept_alive
from tests.client.scene import leases_in
from tests.e2e.client import Client as Raw
from tests.e2e.process import BOUND, Daemon, until
from tests.proxy import Proxy

YAML = """
defaults: {on_disconnect: 2s}
semaphores:
  one: {permits: 1}
  two: {permits: 2}
  kept: {permits: 1, on_disconnect: keep, lease: 1h, max_lease: 1h}
  gone: {permits: 1, on_disconnect: release}
  brief: {permits: 1, on_disconnect: 1s}
rate_limits:
  api: {rate: 1/h, burst: 10}
"""

SOON: Final = 5.0


def has_grant(message: pb.SessionResponse) -> bool:
    """It brings a lease."""
    return bool(leases_in(message))


def has_ask(message: pb.SessionRequest) -> bool:
    """It asks for one."""
    return bool(message.acquires or message.alike)


def in_time(work: "Callable[[], Lease]") -> Lease:
    """Its answer, which must come long before anybody loses patience."""
    began = time.monotonic()
    lease = work()
    assert time.monotonic() - began < SOON / 2
    return lease


# --- a lost reply costs nothing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("wait", [None, 0, BOUND])
def test_a_grant_that_is_lost_is_found_again(proxy: Proxy, me: Raw, warm: bool, wait: float | None) -> None:  # noqa: FBT001
    """The connection breaks just then, be it the first answer of all: the same ask has the same lease."""
    with Client(proxy.address) as gov:
        if warm:
            gov.acquire("two").release()
        lost = proxy.down.cut(has_grant)
        with in_time(lambda: gov.acquire("one", wait=wait)) as lease:
            assert [granted for message in lost.caught for granted in leases_in(message)] == [lease.id]
            assert me.counts("one") == (1, 0)
            assert proxy.accepted == 2


def test_an_ask_that_is_lost_is_made_again(proxy: Proxy, me: Raw) -> None:
    """It never reached the daemon."""
    with Client(proxy.address) as gov:
        gov.acquire("two").release()
        lost = proxy.up.cut(has_ask)
        with in_time(lambda: gov.acquire("one")):
            assert len(lost.caught) == 1
            assert me.counts("one") == (1, 0)


def test_permits_that_are_spent_are_spent_once(proxy: Proxy, me: Raw) -> None:
    """The reply is lost, and the ask is repeated."""
    with Client(proxy.address) as gov:
        gov.acquire("two").release()
        available = me.resource("api").available
        proxy.down.cut(has_grant)
        in_time(lambda: gov.acquire("api", 3))

        assert me.resource("api").available == available - 3


def test_a_grant_to_a_waiter_that_is_lost_is_found_again(proxy: Proxy, me: Raw) -> None:
    """Its time came just as the connection broke."""
    holder = me.acquire("one")
    with Client(proxy.address) as gov, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(gov.acquire, "one", wait=BOUND)
        until(lambda: me.counts("one") == (1, 1), "somebody waits")
        lost = proxy.down.cut(has_grant)
        me.release(holder.id)
        with waiting.result(BOUND) as lease:
            assert leases_in(lost.caught[0]) == [lease.id]
            assert me.counts("one") == (1, 0)


async def test_a_grant_that_is_lost_to_one_who_gave_up_is_nobodys(proxy: Proxy, me: Raw) -> None:
    """It is granted, the reply is held up, the task is cancelled, and then the connection breaks."""
    async with AsyncClient(proxy.address) as gov:
        (await gov.acquire("two")).release()
        held = proxy.down.hold(has_grant)
        task = asyncio.ensure_future(_acquire(gov))
        await asyncio.to_thread(held.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        proxy.cut()
        await asyncio.to_thread(until, lambda: me.counts("one") == (0, 0), "it is back")
        held.let_go()


async def _acquire(gov: AsyncClient) -> Lease:
    return await gov.acquire("one")


def test_a_release_that_is_lost_is_said_again(proxy: Proxy, me: Raw) -> None:
    """Its resource would keep the lease for an hour."""
    with Client(proxy.address) as gov:
        lease = gov.acquire("kept")
        lost = proxy.up.cut(lambda message: bool(message.releases))
        lease.release()
        lost.wait()
        until(lambda: me.counts("kept") == (0, 0), "it is back")
        with gov.acquire("kept", wait=BOUND):
            pass


def test_letting_go_is_said_again(proxy: Proxy, me: Raw) -> None:
    """The session comes back without the lease, and must not take it along into its end."""
    with Client(proxy.address) as gov, gov.acquire("two"):
        lease_id = gov.acquire("one", lease=30).detach()
        with gov.acquire("two"):  # so the daemon has read that
            pass
        lost = proxy.up.cut(lambda message: bool(message.detaches))
        other = gov.acquire("kept", lease=30)
        assert other.detach() == other.id
        lost.wait()
        with gov.acquire("two"):
            assert (me.counts("one"), me.counts("kept")) == ((1, 0), (1, 0))
        with gov.adopt(lease_id), gov.adopt(other.id):
            pass


def test_everything_at_once_over_a_bad_connection(proxy: Proxy, me: Raw) -> None:
    """It breaks every few messages, either way: everybody gets in, and never more than may."""
    numbers = {"up": 0, "down": 0}

    def every(way: str, so_many: int) -> Callable[[object], bool]:
        def is_next(_: object) -> bool:
            numbers[way] += 1
            return numbers[way] % so_many == 0

        return is_next

    lock, inside, most = threading.Lock(), 0, 0

    def work(gov: Client) -> None:
        nonlocal inside, most
        for _ in range(12):
            lease = gov.acquire("two", wait=BOUND)
            with lock:
                inside += 1
                most = max(most, inside)
            with lock:
                inside -= 1
            lease.release()

    with Client(proxy.address) as gov:
        gov.acquire("two").release()
        proxy.up.cut(every("up", 17), times=2)
        proxy.down.cut(every("down", 13), times=2)
        with ThreadPoolExecutor(4) as pool:
            for worked in [pool.submit(work, gov) for _ in range(4)]:
                worked.result(BOUND)
        until(me.idle, "nothing is in use and nobody waits")

    assert most <= 2
    assert proxy.accepted == 5


# --- late ---------------------------------------------------------------------------------------------------------


def test_a_late_grant_is_no_longer_than_it_was(proxy: Proxy, me: Raw) -> None:
    """Its time began when it was granted: what it took to come is gone."""
    holder = me.acquire("kept")
    with Client(proxy.address) as gov, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(gov.acquire, "kept", wait=BOUND, lease=10)
        until(lambda: me.counts("kept") == (1, 1), "somebody waits")
        proxy.down.delay(0.5, has_grant)
        released = time.monotonic()
        me.release(holder.id)
        with waiting.result(BOUND) as lease:
            remaining = lease.remaining
            assert remaining is not None
            assert 8.9 - (time.monotonic() - released) < remaining <= 8.5 + lease.waited * 0.001


def test_keep_alives_may_be_lost_or_late(proxy: Proxy, me: Raw) -> None:
    """There is time for another, and for a late answer."""
    with Client(proxy.address) as gov:
        swallowed = proxy.up.swallow(lambda message: message.keep_alive)
        proxy.down.delay(0.1, lambda message: message.kept_alive, times=None)
        with gov.acquire("one", lease=5) as lease:
            is_kept_alive(lease)
            assert len(swallowed.caught) == 1


def test_a_lease_ends_for_us_before_it_ends_for_the_daemon(proxy: Proxy, me: Raw) -> None:
    """Nothing gets through any more, so nothing keeps it alive: there is a margin."""
    with Client(proxy.address) as gov, ThreadPoolExecutor(1) as pool:
        lost: Future[None] = Future()
        lease = gov.acquire("one", lease=1.5, on_loss=lambda _: lost.set_result(None))
        next_holder = pool.submit(lambda: (me.acquire("one", wait=BOUND), lease.lost))
        proxy.hold()
        other, lost_by_then = next_holder.result(BOUND)

        assert lost_by_then
        lost.result(BOUND)
        with pytest.raises(LeaseLost) as error, lease:
            pass
        assert error.value.reason == "unreachable"
        me.release(other.id)
        proxy.let_go()


def test_a_break_costs_a_lease_that_ends_with_its_stream(proxy: Proxy, me: Raw) -> None:
    """And no other, when the client is back within the grace."""
    with Client(proxy.address) as gov:
        quick, slow = gov.acquire("gone"), gov.acquire("one")
        proxy.cut()
        until(lambda: quick.lost, "the one is lost")
        with gov.acquire("two", wait=BOUND):
            assert not slow.lost
        until(lambda: me.counts("gone") == (0, 0), "it has ended")
        assert me.counts("one") == (1, 0)
        slow.release()


def test_a_break_that_lasts_costs_what_its_grace_says(proxy: Proxy, me: Raw) -> None:
    """A lease is lost for us before it is for the daemon, and one that is kept lives on."""
    with Client(proxy.address) as gov, ThreadPoolExecutor(1) as pool:
        lost: Future[None] = Future()
        brief = gov.acquire("brief", on_loss=lambda _: lost.set_result(None))
        kept = gov.acquire("kept")
        next_holder = pool.submit(lambda: (me.acquire("brief", wait=BOUND), brief.lost))
        proxy.refuse_new()
        proxy.cut()
        other, lost_by_then = next_holder.result(BOUND)

        assert lost_by_then
        lost.result(BOUND)
        proxy.accept_new()
        with gov.acquire("two", wait=BOUND):
            assert not kept.lost
        kept.release()
        me.release(other.id)


# --- asks that are given up ---------------------------------------------------------------------------------------


def test_a_refusal_that_comes_late_is_still_one(proxy: Proxy, me: Raw) -> None:
    """The wait was over in time; its answer was held up a little."""
    holder = me.acquire("one")
    with Client(proxy.address) as gov:
        proxy.down.delay(0.4, lambda message: bool(message.refusals))
        with pytest.raises(NotGranted) as refusal:
            gov.acquire("one", wait=0.3)
    me.release(holder.id)

    assert refusal.value.reason == "wait_over"


def test_a_daemon_that_comes_back_elsewhere_is_found(proxy: Proxy, daemon: Daemon, me: Raw) -> None:
    """Behind the same address, as when a service moves."""
    with Client(proxy.address) as gov, gov.acquire("one") as lease:
        proxy.forward_to(daemon.addresses[1])
        proxy.cut()
        with gov.acquire("two", wait=BOUND):
            assert not lease.lost
