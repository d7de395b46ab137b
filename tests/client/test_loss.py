"""Leases that are lost, and leases that nothing may lose: against a real daemon."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final

import pytest

from governor import AsyncClient, AsyncLease, Client, Lease, LeaseLost, UsageError
from governor.client.conversation import Conversation
from tests.client.conftest import deadline
from tests.e2e.client import Client as Raw
from tests.e2e.process import BOUND, Daemon, until

YAML = """
semaphores:
  one: {permits: 1}
  many: {permits: 100}
  kept: {permits: 3}
"""

# Only what is broken takes so long.
SOON: Final = BOUND


class Stall:
    """The client's thread stands still from when the time of its leases is over, as it sees it, until it is let go."""

    def __init__(self, gov: Client | AsyncClient) -> None:
        self._begun, self._gate = threading.Event(), threading.Event()
        gov._settings.link.submit(self._stand_still)
        assert self._begun.wait(SOON)

    def _stand_still(self, talk: Conversation) -> None:
        for held in talk.keeping._held.values():
            held.until = time.monotonic_ns()
        talk.keeping.look_at = 0
        self._begun.set()
        self._gate.wait(SOON)

    def end(self) -> None:
        """Go on."""
        self._gate.set()


def lose(me: Raw, lease: Lease) -> None:
    """Somebody else gives it back, which its holder learns from the daemon."""
    me.release(lease.id)
    until(lambda: lease.lost, "its holder has heard of it")


# --- threads ------------------------------------------------------------------------------------------------------


def test_a_lost_lease_is_told_in_every_way(gov: Client, me: Raw) -> None:
    """By a callback, by the lease, by a check, and by an error on leaving the block, which says why."""
    told: list[Lease] = []
    with pytest.raises(LeaseLost) as lost, gov.acquire("one", on_loss=told.append) as lease:
        assert not lease.lost
        lease.check()
        lose(me, lease)
        assert (lease.ended, lease.remaining) == (True, 0.0)
        with pytest.raises(LeaseLost):
            lease.check()

    assert (lost.value.lease, lost.value.reason) == (lease.id, "released")
    assert str(lost.value) == f"lease {lease.id} on one is lost: released"
    until(lambda: told == [lease], "the callback was called, once")


@pytest.mark.parametrize("how", ["leaving", "checking", "looking", "an error"])
def test_a_lease_that_is_over_is_lost_also_before_the_thread_has_noticed(gov: Client, me: Raw, how: str) -> None:
    """A process that was stopped goes on with any of its threads: whoever asks has the clock. It is told once."""
    told: list[Lease] = []
    lease = gov.acquire("one", on_loss=told.append)
    assert not lease.lost
    stall = Stall(gov)
    assert lease.remaining == 0
    with pytest.raises((LeaseLost, ZeroDivisionError)) as lost, ExitStack() as block:
        block.push(lease)  # it was entered when it was still ours
        if how == "checking":
            lease.check()
        elif how == "looking":
            assert (lease.lost, lease.ended) == (True, True)
        elif how == "an error":
            _ = 1 / 0
    assert not told
    if how == "an error":
        assert lost.value.__notes__ == [f"lease {lease.id} was lost meanwhile: unreachable"]
    else:
        assert str(lost.value) == f"lease {lease.id} on one is lost: unreachable"
    assert (lease.lost, lease.ended, lease.remaining) == (True, True, 0.0)

    stall.end()
    until(lambda: told == [lease], "the thread has noticed, and told it once")
    until(lambda: me.counts("one") == (0, 0), "it is back")


def test_a_callback_may_block_and_fail(gov: Client, me: Raw) -> None:
    """It has a thread of its own; the client's goes on."""
    gate = threading.Event()
    began = threading.Event()

    def stuck(lease: Lease) -> None:
        began.set()
        gate.wait(SOON)

    lease = gov.acquire("one", on_loss=stuck)
    lose(me, lease)
    assert began.wait(SOON)
    with gov.acquire("one", wait=SOON):
        pass
    gate.set()


def test_an_error_in_the_body_is_not_masked(gov: Client, me: Raw) -> None:
    """The loss is a note on it."""
    with pytest.raises(ZeroDivisionError) as error, gov.acquire("one") as lease:
        lose(me, lease)
        _ = 1 / 0

    assert error.value.__notes__ == [f"lease {lease.id} was lost meanwhile: released"]


def test_there_is_no_loss_after_a_release(gov: Client, daemon: Daemon, me: Raw) -> None:
    """Nor after letting go: what becomes of it then is nobody's business here."""
    told: list[Lease] = []
    released = gov.acquire("many", on_loss=told.append)
    detached = gov.acquire("many", on_loss=told.append)
    released.release()
    detached.detach()
    until(lambda: me.counts("many") == (1, 0), "one is back")
    me.release(detached.id)
    with gov.acquire("many"):  # whatever the daemon had to say has come before this
        pass

    assert (told, released.lost, detached.lost) == ([], False, False)
    for over in (released, detached):
        with pytest.raises(UsageError, match="acquire again"), over:
            pytest.fail("it ran without a permit")


def test_a_lost_lease_cannot_be_given_back(gov: Client, me: Raw) -> None:
    """It may be lent to somebody else by now, who keeps it."""
    lease = gov.acquire("one")
    lose(me, lease)
    other = gov.acquire("one")
    lease.release()
    with gov.acquire("many"):
        pass

    assert me.counts("one") == (1, 0)
    assert lease.lost
    other.release()


# --- asyncio ------------------------------------------------------------------------------------------------------


async def test_an_asyncio_body_is_told_too(daemon: Daemon, me: Raw) -> None:
    """The callback runs in its event loop."""
    told: list[tuple[AsyncLease, int]] = []
    async with AsyncClient(daemon.address) as gov:
        with pytest.raises(LeaseLost):
            async with gov.acquire("one", on_loss=lambda lease: told.append((lease, threading.get_ident()))) as lease:
                await asyncio.to_thread(lose, me, lease)
                await asyncio.to_thread(until, lambda: bool(told), "it was told")

    assert told == [(lease, threading.get_ident())]


async def test_a_loss_may_cancel_the_body(daemon: Daemon, me: Raw) -> None:
    """What comes out of the block is the loss, and not a cancellation; the task goes on."""
    async with AsyncClient(daemon.address) as gov:
        with pytest.raises(LeaseLost):
            async with gov.acquire("one", on_loss="cancel") as lease:
                me.release(lease.id)
                await asyncio.sleep(SOON)
                raise AssertionError("nobody cancelled it")
        await asyncio.sleep(0)
        task = asyncio.current_task()

        assert task is not None
        assert task.cancelling() == 0


async def test_a_body_may_clean_up_when_a_loss_cancels_it(daemon: Daemon, me: Raw) -> None:
    """As with any cancellation; what it raises instead is not masked."""
    async with AsyncClient(daemon.address) as gov:
        with pytest.raises(ZeroDivisionError) as error:
            async with gov.acquire("one", on_loss="cancel") as lease:
                me.release(lease.id)
                try:
                    await asyncio.sleep(SOON)
                finally:
                    _ = 1 / 0
        await asyncio.sleep(0)

    assert error.value.__notes__ == [f"lease {lease.id} was lost meanwhile: released"]


async def test_a_cancellation_from_outside_stays_one(daemon: Daemon, me: Raw) -> None:
    """Also when a loss cancels the same body at the same time."""
    async with AsyncClient(daemon.address) as gov:
        holding = asyncio.Event()
        leases: list[AsyncLease] = []

        async def work() -> None:
            async with gov.acquire("one", on_loss="cancel") as lease:
                leases.append(lease)
                holding.set()
                await asyncio.sleep(SOON)

        task = asyncio.create_task(work())
        await holding.wait()
        lose(me, leases[0])  # the loop stands still meanwhile, so the loss is told after this
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_loss_cancels_nobody_after_the_block(daemon: Daemon, me: Raw) -> None:
    """The word of it was on its way when the block was left, or the lease was given back by hand."""
    async with AsyncClient(daemon.address) as gov:
        with pytest.raises(LeaseLost):
            async with gov.acquire("one", on_loss="cancel") as lease:
                lose(me, lease)  # the loop stands still meanwhile
        await _has_been_told(gov)

        lease = await gov.acquire("one", on_loss="cancel")
        lose(me, lease)
        lease.release()
        await _has_been_told(gov)


async def test_a_task_that_has_found_out_by_the_clock_is_not_cancelled_for_it(daemon: Daemon) -> None:
    """Leaving its block has told it; the client's thread notices later, when the task is at something else."""
    async with AsyncClient(daemon.address) as gov:
        with pytest.raises(LeaseLost) as lost:
            async with gov.acquire("one", on_loss="cancel") as lease:
                stall = Stall(gov)
                assert lease.remaining == 0
        assert (lost.value.lease, lost.value.reason) == (lease.id, "unreachable")
        stall.end()
        await _has_been_told(gov)
        assert lease.lost


async def test_a_loss_before_anybody_watches_is_told(daemon: Daemon, me: Raw) -> None:
    """The lease was lost between its grant and the next turn of the event loop."""
    async with AsyncClient(daemon.address) as gov:
        told: asyncio.Queue[AsyncLease] = asyncio.Queue()
        acquiring = asyncio.ensure_future(_acquire(gov, told))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        held = gov._settings.link._talk.keeping._held
        until(lambda: bool(held), "it is granted, and the loop stands still")
        me.release(next(iter(held)))
        until(lambda: not held, "the client's thread has heard of it")
        lease = await acquiring

        assert lease.lost
        async with asyncio.timeout(SOON):
            assert await told.get() is lease
        assert told.empty()


async def _acquire(gov: AsyncClient, told: "asyncio.Queue[AsyncLease]") -> AsyncLease:
    return await gov.acquire("one", on_loss=told.put_nowait)


async def _has_been_told(gov: AsyncClient) -> None:
    """Returns when the loop has been told all that the client's thread knew: an ask is answered after that."""
    async with gov.acquire("many"):
        pass


# --- kept, whatever the program does -----------------------------------------------------------------------------


def test_a_busy_program_keeps_its_leases(daemon: Daemon, me: Raw) -> None:
    """Each is kept alive twice: of an event loop that is blocked, of one that is busy, and of a thread that spins."""
    length = 5.0

    def goes_on(lease: Lease | AsyncLease, first: float) -> bool:
        """Until it lasts for longer than one keep-alive makes it last: there is one in each third of its length."""
        assert not lease.lost
        return deadline(lease) < first + length / 2

    def block(lease: AsyncLease, first: float) -> None:
        while goes_on(lease, first):
            time.sleep(0.5)

    def spin(lease: Lease | AsyncLease, first: float) -> None:
        number = 0
        while goes_on(lease, first):
            for _ in range(100_000):
                number = (number * 31 + 7) % 1_000_003

    async def hold(client: AsyncClient, body: Callable[[AsyncLease, float], None]) -> None:
        async with client.acquire("kept", lease=length) as lease:
            body(lease, deadline(lease))

    gov, async_gov = Client(daemon.address), AsyncClient(daemon.address)
    with ThreadPoolExecutor(3) as pool:
        bodies = [pool.submit(asyncio.run, hold(async_gov, body)) for body in (block, spin)]
        with gov.acquire("kept", lease=length) as lease:
            spin(lease, deadline(lease))
        for body in bodies:
            body.result(SOON)
    gov.close()
    asyncio.run(async_gov.close())

    assert daemon.metric("governor_lease_ends_total", resource="kept", reason="released") == 3
    assert daemon.metric("governor_lease_ends_total", resource="kept", reason="expired") == 0
