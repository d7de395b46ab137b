"""What programs of asyncio do with an `AsyncClient`, against a real daemon."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Final

import pytest

from governor import AsyncClient, AsyncLease, LeaseLost, NotGranted, UsageError
from tests.e2e.client import Client as Raw
from tests.e2e.process import BOUND, Daemon, until

YAML = """
semaphores:
  one: {permits: 1}
  two: {permits: 2}
  five: {permits: 5}
  crowd: {permits: 3, max_waiters: 1000}
pools:
  db: {members: {primary: {endpoint: "db1:5432", max_leases: 1}}}
rate_limits:
  api: {rate: 1/h, burst: 5}
"""

SOON: Final = BOUND


@pytest.fixture
async def gov(daemon: Daemon, me: Raw) -> AsyncIterator[AsyncClient]:
    """A client of the module's daemon, closed in the end."""
    async with AsyncClient(daemon.address) as client:
        yield client


async def come_to(me: Raw, resource: str, in_use: int, waiters: int) -> None:
    """So many are in use, and so many wait; the event loop goes on meanwhile."""
    await asyncio.to_thread(until, lambda: me.counts(resource) == (in_use, waiters), f"{resource} is {in_use, waiters}")


# --- blocks -------------------------------------------------------------------------------------------------------


async def test_a_block_has_a_permit_and_gives_it_back(gov: AsyncClient, me: Raw) -> None:
    """Also when its body fails, with the body's own error."""
    async with gov.acquire("one") as lease:
        assert isinstance(lease, AsyncLease)
        assert (lease.claims, lease.lost) == ({"one": 1}, False)
        assert me.counts("one") == (1, 0)
    assert lease.ended
    await come_to(me, "one", 0, 0)

    with pytest.raises(ZeroDivisionError):
        async with gov.acquire("one"):
            _ = 1 / 0
    await come_to(me, "one", 0, 0)


async def test_an_acquire_may_be_awaited(gov: AsyncClient, me: Raw) -> None:
    """The lease is then given back by hand, or is a block itself."""
    lease = await gov.acquire({"two": 2, "five": 1})
    assert me.counts("five") == (1, 0)
    lease.release()
    await come_to(me, "five", 0, 0)

    async with await gov.acquire("db") as lease:
        assert lease.member.attributes == {"endpoint": "db1:5432"}


async def test_an_acquire_is_one_ask(gov: AsyncClient) -> None:
    """To await it twice would be two."""
    acquiring = gov.acquire("one")
    (await acquiring).release()

    with pytest.raises(UsageError, match="awaited or entered once"):
        await acquiring


async def test_nothing_is_asked_before_it_is_awaited(gov: AsyncClient, me: Raw) -> None:
    """But a mistake is told where it is made."""
    acquiring = gov.acquire("one")
    with pytest.raises(UsageError):
        await gov.acquire("one", permits=0)

    assert acquiring is not None
    assert me.counts("one") == (0, 0)


async def test_what_is_not_free_is_not_waited_for_with_no_wait(gov: AsyncClient) -> None:
    """`acquire` says why; `try_acquire` says None, but for what can never be."""
    async with gov.acquire("one"):
        with pytest.raises(NotGranted) as refusal:
            await gov.acquire("one", wait=0)
        assert refusal.value.reason == "none_free"
        assert await gov.try_acquire("one") is None
    lease = await gov.try_acquire("two")
    assert lease is not None
    lease.release()
    with pytest.raises(NotGranted) as refusal:
        await gov.try_acquire("two", 3)
    assert refusal.value.never


async def test_a_wait_ends_with_a_permit(gov: AsyncClient, me: Raw) -> None:
    """As soon as there is one, with a word about the place in line before."""
    places: list[int] = []
    async with gov.acquire("one"):
        waiting = asyncio.create_task(_take(gov, "one", places))
        await come_to(me, "one", 1, 1)
        await asyncio.to_thread(until, lambda: places != [], "it was told its place")
    async with asyncio.timeout(SOON):
        lease = await waiting
    lease.release()

    assert lease.waited > 0
    assert set(places) == {0}


async def _take(gov: AsyncClient, resource: str, places: list[int]) -> AsyncLease:
    return await gov.acquire(resource, wait=BOUND, on_queued=lambda ahead, expected: places.append(ahead))  # noqa: ARG005


async def test_a_timeout_around_an_acquire_leaves_the_line(gov: AsyncClient, me: Raw) -> None:
    """As any other cancellation."""
    async with gov.acquire("one"):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await gov.acquire("one", wait=BOUND)
        await come_to(me, "one", 1, 0)


# --- cancellation -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
async def test_cancelling_at_any_point_leaks_nothing(gov: AsyncClient, me: Raw, seed: int) -> None:
    """Before a task asks, while it waits, just as it is granted, in its block, on its way out."""
    random = Random(seed)
    inside = most = 0

    async def work() -> None:
        nonlocal inside, most
        async with gov.acquire("two", wait=random.choice((None, 0, BOUND))):
            inside += 1
            most = max(most, inside)
            try:
                for _ in range(random.randrange(3)):
                    await asyncio.sleep(0)
            finally:
                inside -= 1

    async def doom(task: asyncio.Task[None]) -> None:
        for _ in range(random.choice((0, 1, 1, 2, 3, 5, 8))):
            await asyncio.sleep(random.choice((0, 0, 0.0005, 0.002)))
        task.cancel()

    for _ in range(60):
        tasks = [asyncio.create_task(work()) for _ in range(8)]
        dooms = [asyncio.create_task(doom(task)) for task in tasks if random.random() < 0.8]
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert result is None or isinstance(result, asyncio.CancelledError | NotGranted)
        await asyncio.gather(*dooms)

    assert inside == 0
    assert most <= 2
    await asyncio.to_thread(until, me.idle, "nothing is in use and nobody waits")


async def test_a_coroutine_that_is_closed_asks_for_nothing(gov: AsyncClient, me: Raw) -> None:
    """It had begun to ask, but the turn of the loop is not over."""

    async def work() -> None:
        async with gov.acquire("one"):
            raise AssertionError("nobody drives this coroutine")

    coroutine = work()
    coroutine.send(None)
    coroutine.close()
    await asyncio.sleep(0)

    async with gov.acquire("one", wait=SOON):
        pass
    await come_to(me, "one", 0, 0)


# --- more than one ------------------------------------------------------------------------------------------------


async def test_fifty_tasks_share_a_client(gov: AsyncClient, me: Raw) -> None:
    """Never more of them inside than there are permits, and everybody gets in."""
    inside = most = entered = 0
    together = asyncio.Barrier(3)

    async def work() -> None:
        nonlocal inside, most, entered
        for _ in range(4):
            async with gov.acquire("crowd", wait=BOUND):
                inside += 1
                entered += 1
                most = max(most, inside)
                # Else it would be chance that three are inside at once.
                await (together.wait() if entered <= 3 else asyncio.sleep(0))
                inside -= 1

    await asyncio.gather(*[work() for _ in range(50)])

    assert (entered, most) == (200, 3)
    await come_to(me, "crowd", 0, 0)


def test_event_loops_in_threads_share_a_client(daemon: Daemon, me: Raw) -> None:
    """One after the other, and at the same time; each is answered where it asked."""
    gov = AsyncClient(daemon.address)

    async def work() -> int:
        ids = set()
        for _ in range(20):
            async with gov.acquire("crowd", wait=BOUND) as lease:
                ids.add(lease.id)
        return len(ids)

    with ThreadPoolExecutor(5) as pool:
        assert list(pool.map(lambda _: asyncio.run(work()), range(10))) == [20] * 10
    assert asyncio.run(work()) == 20
    asyncio.run(gov.close())
    until(me.idle, "all is back")


def test_a_loop_that_is_gone_keeps_nothing(daemon: Daemon, me: Raw) -> None:
    """It was closed while somebody waited; the permit that comes for nobody goes back."""
    gov = AsyncClient(daemon.address)
    first = asyncio.run(_hold(gov))
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(_hold(gov))
    loop.run_until_complete(asyncio.sleep(0))
    until(lambda: me.counts("one") == (1, 1), "somebody waits")
    loop.close()
    first.release()

    until(lambda: me.counts("one") == (0, 0), "the permit has come back")
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]
    asyncio.run(gov.close())


async def _hold(gov: AsyncClient) -> AsyncLease:
    return await gov.acquire("one", wait=BOUND)


async def test_a_decorated_coroutine_runs_under_a_lease(gov: AsyncClient, me: Raw) -> None:
    """Each call under one of its own."""

    @gov.limit("two", wait=BOUND)
    async def add(one: int, *, other: int) -> int:
        await asyncio.sleep(0)
        assert 1 <= me.counts("two")[0] <= 2
        return one + other

    assert await asyncio.gather(*[add(number, other=1) for number in range(5)]) == [1, 2, 3, 4, 5]
    await come_to(me, "two", 0, 0)


async def test_a_lease_outlives_its_block(gov: AsyncClient, daemon: Daemon, me: Raw) -> None:
    """And is taken on by another client, which gives it back."""
    async with gov.acquire("one", lease=20) as lease:
        lease_id = lease.detach()
    await gov.close()
    assert me.counts("one") == (1, 0)

    async with AsyncClient(daemon.address) as other:
        async with other.adopt(lease_id) as adopted:
            assert adopted.claims == {"one": 1}
        await come_to(me, "one", 0, 0)
        with pytest.raises(LeaseLost):
            await other.adopt(lease_id)


async def test_leaving_a_block_does_not_let_others_run(gov: AsyncClient) -> None:
    """It waits for nobody, not even for a turn of the loop."""
    ran: list[bool] = []
    lease = await gov.acquire("one")
    asyncio.get_running_loop().call_soon(ran.append, True)  # noqa: FBT003
    async with lease:
        pass

    assert not ran


async def test_closing_tells_those_who_wait(gov: AsyncClient, me: Raw) -> None:
    """And gives back what is held."""
    lease = await gov.acquire("one")
    waiting = asyncio.create_task(_hold(gov))
    await come_to(me, "one", 1, 1)
    closed = time.monotonic()
    await gov.close()

    with pytest.raises(Exception, match="the client was closed"):
        await waiting
    assert lease.ended
    assert me.counts("one") == (0, 0)
    assert time.monotonic() - closed < SOON


async def test_what_is_given_back_just_before_the_end_begins_no_new_thread(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client is closed in another thread, which may be quicker than the event loop's next turn."""

    async def quicker(close: Callable[[float], None]) -> None:
        close(BOUND)

    monkeypatch.setattr(asyncio, "to_thread", quicker)
    gov = AsyncClient(daemon.address)
    lease = await gov.acquire("one")
    lease.release()
    await gov.close()
    await asyncio.sleep(0)

    assert gov._settings.link._thread is None
