"""A program that spends whatever it can of one rate limit, until it is told to end: what is refilled is spent.

It knows its place in the world: an address, a name, a diary. It must never know what is declared.
"""

import asyncio
import signal
import sys
import time
from pathlib import Path
from random import Random
from typing import Final

from governor.client import AsyncClient, GovernorError, NotGranted
from tests.faults.diary import Belief, Diary

_TASKS: Final = 3
# Seconds for which a task waits in line, and before it asks again when it need not ask.
_WAIT: Final = 0.2
_PAUSE: Final = 0.02


async def spend(client: AsyncClient, diary: Diary, chance: Random, stop: asyncio.Event) -> None:
    """Again and again."""
    while not stop.is_set():
        call = diary.begin("acquire")
        call.claims = {"api": chance.choice((1, 1, 1, 3))}
        try:
            lease = await client.acquire(call.claims, wait=_WAIT)
        except GovernorError as error:
            if isinstance(error, NotGranted):
                call.answered, call.result = time.monotonic_ns(), error.reason
            diary.write(call)
            await asyncio.sleep(_PAUSE)
        else:
            Belief(diary, call, lease)


async def main(address: str, name: str, path: str, seed: str) -> None:
    """``path`` is that of the diary."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    with Diary(Path(path), name) as diary:
        async with AsyncClient(address, name=name) as client, asyncio.TaskGroup() as group:
            for number in range(_TASKS):
                group.create_task(spend(client, diary, Random(f"{seed}-{number}"), stop))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
