"""Ten thousand leases, many of them given up at any moment: nothing is left of them, here or there."""

import asyncio
import gc
import resource
import threading
from pathlib import Path
from random import Random

from governor import AsyncClient, Client, GovernorError
from tests.e2e.client import Client as Raw
from tests.e2e.process import BOUND, Daemon, until

YAML = """
semaphores:
  few: {permits: 4, max_waiters: 1000}
pools:
  db: {size: 3, max_waiters: 1000}
rate_limits:
  api: {rate: 1000000/s, burst: 1000000}
"""

PAIRS = 10_000
TASKS = 32


async def test_ten_thousand_leases_leave_nothing(daemon: Daemon, me: Raw) -> None:
    """Some are cancelled before they are granted, some just then, some in their block; memory stays what it was."""
    random = Random(3)
    entered = cancelled = 0

    async def pair(gov: AsyncClient) -> None:
        nonlocal entered
        claims: dict[str, int] = random.choice(({"few": 1}, {"few": 1}, {"db": 1, "few": 1}, {"api": 2}))
        async with gov.acquire(claims, wait=BOUND):
            entered += 1
            await asyncio.sleep(0)

    async def some(gov: AsyncClient, pairs: int) -> None:
        nonlocal cancelled
        for _ in range(pairs):
            if random.random() < 0.2:
                task = asyncio.create_task(pair(gov))
                for _ in range(random.randrange(12)):
                    await asyncio.sleep(0)
                cancelled += not task.done()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            else:
                await pair(gov)

    async with AsyncClient(daemon.address) as gov:

        async def crowd(pairs: int) -> None:
            await asyncio.gather(*[some(gov, pairs // TASKS) for _ in range(TASKS)])
            await asyncio.to_thread(until, me.idle, "nothing is in use and nobody waits")

        await crowd(PAIRS // 5)
        before = _objects(), _resident()
        await crowd(PAIRS)
        grown = _objects() - before[0], _resident() - before[1]
        talk = gov._settings.link._talk

        assert entered > PAIRS * 3 // 4
        assert cancelled > PAIRS // 20
        assert not talk.busy
        assert grown[0] < PAIRS // 20, f"{grown[0]} objects more than before"
        assert grown[1] < 8 * 2**20, f"{grown[1]} bytes more than before"


def _objects() -> int:
    gc.collect()
    return len(gc.get_objects())


def _resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


def test_threads_that_come_and_go_leave_nothing(daemon: Daemon, me: Raw) -> None:
    """Also while the client is closed again and again."""
    gov = Client(daemon.address)
    entered: list[bool] = []

    def work() -> None:
        for _ in range(50):
            try:
                with gov.acquire("few", wait=BOUND):
                    entered.append(True)
            except GovernorError:
                entered.append(False)

    for number in range(4):
        threads = [threading.Thread(target=work) for _ in range(5)]
        for thread in threads:
            thread.start()
        if number % 2:
            gov.close()
        for thread in threads:
            thread.join(BOUND)
            assert not thread.is_alive()
    gov.close()

    assert len(entered) == 1000
    until(me.idle, "nothing is in use and nobody waits")
