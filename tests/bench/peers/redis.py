"""A semaphore on Redis, as one would write it: a sorted set of holders by expiry, changed by Lua scripts.

It knows the scripts and redis-py. It must never know what it is compared with.

Redis is driven as favourably as such a semaphore allows. A script is one round trip, so a pair is two. Nothing is
persisted; redis-py parses in C (hiredis), and each task has a connection of its own, which is half as fast again as
a pool of as many, or of fewer. A holder that dies loses its place when its time is over, by the clock of Redis. Who
finds no place waits by BLPOP for the word of a release, and looks again when the first holder's time is over, or after
a second: a word is lost with whoever took it. It is not fair: who comes at the right moment overtakes those who wait.
"""

import itertools
import subprocess
import tempfile
import time
from contextlib import AsyncExitStack
from typing import Final
from uuid import uuid4

from redis.asyncio import Redis

from tests.bench.peers.peer import LEASE_SECONDS, NAME, PERMITS, Pair, free_port, program, repeat, stop, wait_for

_HOW: Final = "apt-get install redis-server"

# KEYS: the holders, the words of releases, whether somebody waits. ARGV: permits, milliseconds, who.
# 0 when it holds a place now, else how many milliseconds until the first place is free at the latest.
_ACQUIRE: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[1]) then
    redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[3])
    return 0
end
redis.call('SET', KEYS[3], 1, 'PX', 5000)
return math.max(1, redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] - now)
"""

# ARGV: who.
_RELEASE: Final = """
if redis.call('ZREM', KEYS[1], ARGV[1]) == 1 and redis.call('EXISTS', KEYS[3]) == 1 then
    redis.call('LPUSH', KEYS[2], 1)
    redis.call('LTRIM', KEYS[2], 0, 999)
    redis.call('PEXPIRE', KEYS[2], 5000)
end
"""


class Semaphore:
    """One semaphore, as one connection sees it."""

    def __init__(self, redis: Redis, name: str, permits: int) -> None:
        self._redis = redis
        self._keys = [f"{name}:holders", f"{name}:words", f"{name}:waited"]
        self._permits = permits
        self._acquire = redis.register_script(_ACQUIRE)
        self._release = redis.register_script(_RELEASE)
        self._us = uuid4().hex
        self._count = itertools.count()

    async def acquire(self, wait: float) -> str | None:
        """A place, for `LEASE_SECONDS`; None if there was none for ``wait`` seconds."""
        who = f"{self._us}:{next(self._count)}"
        arguments = (self._permits, LEASE_SECONDS * 1000, who)
        end = time.monotonic() + wait
        while first := await self._acquire(self._keys, arguments):
            left = end - time.monotonic()
            if left <= 0:
                return None
            await self._redis.blpop(self._keys[1:2], timeout=min(left, first / 1000, 1))
        return who

    async def release(self, who: str) -> None:
        """Give the place back, if it still is ours."""
        await self._release(self._keys, (who,))

    async def held(self) -> int:
        """How many places are taken."""
        return int(await self._redis.zcard(self._keys[0]))


class RedisPeer:
    """One server of a process of its own."""

    def __init__(self) -> None:
        """Raises Missing."""
        self._folder = tempfile.TemporaryDirectory()
        self._port = port = free_port()
        command = [program("redis-server", _HOW), "--bind", "127.0.0.1", "--port", str(port), "--save", ""]
        command += ["--appendonly", "no", "--dir", self._folder.name, "--loglevel", "warning"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.pid = self._process.pid
        wait_for(port, self._process)

    async def pairs(self, tasks: int, seconds: float) -> float:
        """As `Peer`; with as many connections as tasks."""
        async with AsyncExitStack() as stack:
            semaphores = []
            for _ in range(tasks):
                redis = Redis(host="127.0.0.1", port=self._port, single_connection_client=True)
                semaphores.append(Semaphore(await stack.enter_async_context(redis), NAME, PERMITS))
            rate = await repeat([_pair(semaphore) for semaphore in semaphores], seconds)
            assert await semaphores[0].held() == 0, "the Redis semaphore still has holders"
        return rate

    def end(self) -> None:
        """As `Peer`."""
        stop(self._process)
        self._folder.cleanup()


def _pair(semaphore: Semaphore) -> Pair:
    async def pair() -> None:
        who = await semaphore.acquire(wait=5)
        assert who is not None
        await semaphore.release(who)

    return pair
