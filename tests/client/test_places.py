"""What a program is told while it stands in line, and where."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from governor.client import AsyncClient, Client
from governor.testing import Daemon


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """One permit."""
    with Daemon("semaphores: {x: {permits: 1}}") as running:
        yield running


def test_a_thread_is_told_its_place_itself(daemon: Daemon) -> None:
    """So it may take its time: nothing that keeps leases alive waits for it."""
    with Client(daemon.address) as gov:
        first = gov.acquire("x")
        told: list[tuple[threading.Thread, int]] = []

        def on_queued(ahead: int, expected: float | None) -> None:
            del expected
            told.append((threading.current_thread(), ahead))
            first.release()

        with gov.acquire("x", wait=20, on_queued=on_queued) as lease:
            assert lease.id > first.id
        assert told[0] == (threading.current_thread(), 0)


def test_what_the_program_raises_then_ends_its_wait(daemon: Daemon) -> None:
    """It leaves the line."""

    def enough(ahead: int, expected: float | None) -> None:
        raise InterruptedError(ahead, expected)

    with Client(daemon.address) as gov, gov.acquire("x"):
        with pytest.raises(InterruptedError):
            gov.acquire("x", wait=20, on_queued=enough)
        daemon.wait_until(lambda seen: seen.waiters == 0)


def test_a_task_is_told_its_place_in_its_event_loop(daemon: Daemon) -> None:
    """Where it may touch what belongs to the loop."""
    told: list[tuple[asyncio.AbstractEventLoop, int]] = []

    async def main() -> None:
        async with AsyncClient(daemon.address) as gov:
            first = await gov.acquire("x")

            def on_queued(ahead: int, expected: float | None) -> None:
                del expected
                told.append((asyncio.get_running_loop(), ahead))
                first.release()

            async with gov.acquire("x", wait=20, on_queued=on_queued):
                assert told[0] == (asyncio.get_running_loop(), 0)

    asyncio.run(main())
