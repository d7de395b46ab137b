"""A program that borrows by the client library, until it is told to end: in threads, or as tasks of one event loop.

It knows its place in the world: an address, a name, a diary, a seed. It must never know that anything is broken.
"""

import asyncio
import signal
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Final

from governor.client import AsyncClient, AsyncLease, Client, GovernorError, Lease, NotGranted
from tests.faults.declared import CLAIMS
from tests.faults.diary import Belief, Diary
from tests.faults.waiting import join
from tests.history.log import Call

_WORKERS: Final = 4
# Seconds between two looks at a lease; and before whoever was refused asks again.
_LOOK: Final = 0.04
_PAUSE: Final = 0.05


class Worker:
    """One thread or task: what it wants next, for how long it works, and how that was."""

    def __init__(self, diary: Diary, seed: str) -> None:
        self._diary = diary
        self._chance = Random(seed)
        self.wait = 0.0
        self.lease = 0.0

    def wish(self) -> Call:
        """Something is asked for now."""
        chance = self._chance
        self.wait = chance.choice((0, 0.3, 2))
        self.lease = chance.choice((0.5, 2, 4))
        claims = chance.choices([claims for claims, _ in CLAIMS], [weight for _, weight in CLAIMS])[0]
        call = self._diary.begin("acquire")
        call.claims = claims
        return call

    def granted(self, call: Call, lease: Lease) -> tuple[Belief, int]:
        """It was; and how often it is looked at until it is given back."""
        return Belief(self._diary, call, lease), self._chance.choice((0, 0, 0, 0, 1, 3, 10, 60))

    def refused(self, call: Call, error: GovernorError) -> None:
        """It was not, or nobody knows."""
        if isinstance(error, NotGranted):
            call.answered, call.result = time.monotonic_ns(), error.reason
        self._diary.write(call)

    def give_back(self, belief: Belief) -> None:
        """The end of the work."""
        belief.give_back(self._chance.choice(("ok", "ok", "ok", "broken")))


def run_thread(client: Client, worker: Worker, stop: threading.Event) -> None:
    """Borrow, work, give back."""
    while not stop.is_set():
        call = worker.wish()
        try:
            lease = client.acquire(call.claims, wait=worker.wait, lease=worker.lease)
        except GovernorError as error:
            worker.refused(call, error)
            stop.wait(_PAUSE)
            continue
        belief, looks = worker.granted(call, lease)
        if lease.remaining is None:
            continue
        held = belief.holds()
        while held and looks and not stop.wait(_LOOK):
            held, looks = belief.holds(), looks - 1
        if held:
            worker.give_back(belief)


async def run_task(client: AsyncClient, worker: Worker, stop: asyncio.Event) -> None:
    """The same."""
    while not stop.is_set():
        call = worker.wish()
        try:
            lease: AsyncLease = await client.acquire(call.claims, wait=worker.wait, lease=worker.lease)
        except GovernorError as error:
            worker.refused(call, error)
            await asyncio.sleep(_PAUSE)
            continue
        belief, looks = worker.granted(call, lease)
        if lease.remaining is None:
            await asyncio.sleep(0)
            continue
        held = belief.holds()
        while held and looks and not stop.is_set():
            await asyncio.sleep(_LOOK)
            held, looks = belief.holds(), looks - 1
        if held:
            worker.give_back(belief)


def threads(address: str, diary: Diary, seed: str) -> None:
    """A program of threads, which share a client."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with Client(address, name=diary.client) as client:
        workers = [
            threading.Thread(target=run_thread, args=(client, Worker(diary, f"{seed}-{number}"), stop))
            for number in range(_WORKERS)
        ]
        for worker in workers:
            worker.start()
        join(workers)


async def tasks(address: str, diary: Diary, seed: str) -> None:
    """A program of tasks, which share a client."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with AsyncClient(address, name=diary.client) as client, asyncio.TaskGroup() as group:
        for number in range(_WORKERS):
            group.create_task(run_task(client, Worker(diary, f"{seed}-{number}"), stop))


def main(manner: str, address: str, name: str, path: str, seed: str) -> None:
    """``manner`` is ``threads`` or ``tasks``; ``path`` is that of the diary."""
    with Diary(Path(path), name) as diary:
        if manner == "threads":
            threads(address, diary, seed)
        else:
            asyncio.run(tasks(address, diary, seed))


if __name__ == "__main__":
    main(*sys.argv[1:])
