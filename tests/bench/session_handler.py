"""What a pair of acquire and release costs the daemon on a session, all but gRPC itself, in CPU time.

It knows how to stand in for a stream: messages that were made before are read, and what is written is kept. It must
never know what is inside of the handler.

A message gives back what the one before it was granted, and asks for as much again, as those of a busy client do.
"""

import asyncio
import time
from typing import Final, cast

from grpc import aio

from governor.clock import LoopClock
from governor.core.engine import Engine
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.resource import ResourceSpec
from governor.core.types import SECOND, LeaseId
from governor.driver import Driver
from governor.metrics import Metrics
from governor.rpc.guard import Guard
from governor.rpc.session import SessionService
from governor.v1 import governor_pb2 as pb
from tests.bench.figures import Figure, Report

_AT_ONCE: Final = 32
_MESSAGES: Final = 300
_REPETITIONS: Final = 15
# us. gRPC takes 150 or so for a message each way, so five for each pair of such a message.
_PAIR: Final = 15.0
_TOGETHER: Final = 11.0


class _Stream:
    """A context whose client says what it has to say, one message for each turn of the loop."""

    def __init__(self, messages: list[bytes]) -> None:
        self._messages = iter(messages)
        self.written: list[bytes] = []

    async def send_initial_metadata(self, _metadata: object) -> None:
        """Nobody sees them."""

    async def read(self) -> object:
        """The next message, or the end."""
        await asyncio.sleep(0)
        return next(self._messages, aio.EOF)

    async def write(self, message: bytes) -> None:
        """Taken at once."""
        self.written.append(message)
        await asyncio.sleep(0)


def run(report: Report) -> None:
    """Measure it."""
    report.section("session handler (CPU time without gRPC)")
    for told, at_most, alike in (("", _PAIR, False), (", told together", _TOGETHER, True)):
        best = min(asyncio.run(_repetition(alike=alike)) for _ in range(_REPETITIONS))
        report.add(Figure(f"pair of acquire and release, {_AT_ONCE} in a message{told}", best, "us", at_most=at_most))


async def _repetition(*, alike: bool) -> float:
    """Microseconds of a pair; ``alike``: asks and grants are told together, as the Python client does."""
    driver = Driver(Engine(), LoopClock())
    driver.reserve_ids(LeaseId(2**60))
    day = 24 * 3600 * SECOND
    driver.reconfigure((ResourceSpec("bench", SemaphoreSpec(None), 30 * SECOND, day, 2 * SECOND, day, 1000),))
    driver.observers.append(Metrics(driver.snapshot, version="bench").observe)
    service = SessionService(driver, Guard(driver))
    stream = _Stream(_messages(alike=alike))
    before = time.process_time()
    await service.serve(None, cast("aio.ServicerContext[bytes, bytes]", stream))
    spent = time.process_time() - before
    driver.close()
    said = pb.SessionResponse.FromString(b"".join(stream.written))
    granted = len(said.grants) + sum(len(each.ops) for each in said.alike)
    assert granted == len(said.released) == _MESSAGES * _AT_ONCE, "not all of the work was done"
    return spent * 1e6 / (_MESSAGES * _AT_ONCE)


def _messages(*, alike: bool) -> list[bytes]:
    """Lease ids count from 1, since nobody else asks."""
    made = [pb.SessionRequest(hello=pb.Hello(client="bench", instance="0123456789abcdef", alike=alike))]
    claims = [pb.Claim(resource="bench", permits=1)]
    for number in range(_MESSAGES + 1):
        first = 1 + number * _AT_ONCE
        ops = range(first, first + _AT_ONCE) if number < _MESSAGES else ()
        message = pb.SessionRequest(releases=range(max(1, first - _AT_ONCE), first))
        if alike:
            message.alike.add(ops=ops, ask=pb.SessionAcquire(claims=claims))
        else:
            message.acquires.extend([pb.SessionAcquire(op=op, claims=claims) for op in ops])
        made.append(message)
    return [message.SerializeToString() for message in made]
