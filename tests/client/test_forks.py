"""Programs that fork, spawn and pickle, against a real daemon.

The forking is done by a program of its own: this process has gRPC in it, which does not live through a fork.
"""

import asyncio
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest

from governor import AsyncClient, Client, NotGranted
from tests.client.conftest import Run
from tests.e2e.client import Client as Raw
from tests.e2e.process import BOUND, Daemon, until

YAML = """
semaphores:
  parent: {permits: 1}
  child: {permits: 4, on_disconnect: release}
  crowd: {permits: 2, max_waiters: 1000}
"""


def test_children_of_a_fork_have_sessions_of_their_own(daemon: Daemon, me: Raw, run: Run) -> None:
    """Twenty children, forked while other threads acquire: each works, and their parent keeps what is its own.

    A child that leaves the block it was forked in gives nothing back; what it held itself ends with it.
    """
    before = daemon.metric("governor_lease_ends_total", resource="parent", reason="released")
    forker = run("forker", daemon.address)
    assert forker.stdout is not None
    assert forker.stdin is not None
    assert forker.stdout.readline().startswith("holds ")

    def ended() -> float:
        """A child of multiprocessing says goodbye as it ends; one of a bare fork is missed."""
        ways = ("released", "disconnected")
        return sum(daemon.metric("governor_lease_ends_total", resource="child", reason=way) for way in ways)

    until(lambda: ended() == 20, "20 ended")

    assert me.counts("parent") == (1, 0)
    forker.stdin.write("go on\n")
    forker.stdin.flush()
    assert forker.stdout.readline() == "20 children worked\n"
    assert forker.wait(BOUND) == 0
    assert daemon.metric("governor_lease_ends_total", resource="parent", reason="released") == before + 1


def test_a_client_is_pickled_into_other_processes(daemon: Daemon, me: Raw) -> None:
    """And so are the errors that come back."""
    gov = Client(daemon.address, name="pickled")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(_work, gov).result(BOUND) > 0
        assert pool.submit(_work_too, AsyncClient(daemon.address)).result(BOUND) > 0
        with gov.acquire("parent"), pytest.raises(NotGranted) as refusal:
            pool.submit(_work, gov).result(BOUND)
    gov.close()

    assert refusal.value.reason == "none_free"


def _work(gov: Client) -> int:
    with gov, gov.acquire("parent", wait=0) as lease:
        return lease.id


def _work_too(gov: AsyncClient) -> int:
    async def work() -> int:
        async with gov, gov.acquire("parent", wait=0) as lease:
            return lease.id

    return asyncio.run(work())
