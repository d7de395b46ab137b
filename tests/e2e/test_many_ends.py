"""Very many leases end at one instant, and whoever asks meanwhile is answered in between."""

import asyncio
import time
from typing import TYPE_CHECKING

from governor.v1 import governor_pb2 as pb
from tests.e2e.client import AsyncClient, ask
from tests.e2e.conftest import Start
from tests.e2e.process import BOUND

if TYPE_CHECKING:
    from grpc import aio

MANY = 20_000
SHARE = 1_000
_TRIES = 5
YAML = """\
defaults: {lease: 1h, on_disconnect: 300ms}
semaphores: {crowd: {permits: unlimited}, other: {permits: unlimited}}
"""


async def test_other_calls_are_answered_while_20000_leases_end_in_one_millisecond(start: Start) -> None:
    """Their session is gone, so all have the same grace, and as it ends many calls have just arrived.

    Their answers show how many are left: not all and not none. Others are granted something else, which is on record.
    """
    daemon = start(YAML)
    async with asyncio.timeout(3 * BOUND), AsyncClient(daemon.address) as holder, AsyncClient(daemon.address) as me:
        await me.counts("crowd")  # it is connected
        seen: list[int] = []
        between: set[int] = set()
        for _ in range(_TRIES):
            session = await _borrow(holder)
            assert await me.counts("crowd") == (MANY, 0)
            session.cancel()
            seen = await _ask_as_they_end(me)
            between = {left for left in seen if 0 < left < MANY}
            await me.until_counts("crowd", 0, 0)
            if len(between) > 1:
                break

    assert len(between) > 1, f"nobody was answered in between: {seen}"


async def _borrow(holder: AsyncClient) -> "aio.StreamStreamCall[pb.SessionRequest, pb.SessionResponse]":
    """All of them, by one session."""
    session = holder.stub.Session()
    await session.write(pb.SessionRequest(hello=pb.Hello(client="crowd", instance=f"{time.monotonic_ns():032}")))
    claims = [pb.Claim(resource="crowd", permits=1)]
    for first in range(1, MANY, SHARE):
        acquires = [pb.SessionAcquire(op=op, claims=claims) for op in range(first, first + SHARE)]
        await session.write(pb.SessionRequest(acquires=acquires))
        granted = 0
        while granted < SHARE:
            said = await session.read()
            assert isinstance(said, pb.SessionResponse)
            granted += len(said.grants)
    return session


async def _ask_as_they_end(me: AsyncClient) -> list[int]:
    """Ask again and again until the last has ended, some for how many are left; what was left with each answer."""
    seen: list[int] = []
    await asyncio.gather(*[_count(me, seen) for _ in range(4)], _borrow_other(me, seen))
    return seen


async def _count(me: AsyncClient, seen: list[int]) -> None:
    left = MANY
    while left:
        left, _ = await me.counts("crowd")
        seen.append(left)


async def _borrow_other(me: AsyncClient, seen: list[int]) -> None:
    while 0 not in seen[-4:]:
        lease = (await me.stub.Acquire(ask("other"))).lease
        await me.stub.Release(pb.ReleaseRequest(lease_ids=[lease.id]))
