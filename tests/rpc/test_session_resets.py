"""A stream that its client resets is heard of by its session, at whatever point of its life that arrives.

The client writes frames, so that it is known what was sent before the reset. Where it matters, gRPC's own threads have
the reset while the daemon's loop stands still.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.types import SECOND
from governor.rpc import reading
from governor.rpc.outbox import Outbox
from governor.rpc.stream import Stream
from governor.v1 import governor_pb2 as pb
from tests.rpc.conftest import RESOURCES, World, declared, until, world
from tests.rpc.peer import hello, nobodys, want
from tests.rpc.wire import Wire, framed

AT_ONCE = replace(declared("at-once", SemaphoreSpec(1000)), on_disconnect=0)


@pytest.fixture
async def governor(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """What there always is, and what comes back at once from whoever is gone; nobody is given up for being silent."""
    monkeypatch.setattr(reading, "LOOK_SECONDS", 3600.0)
    async with world(folder, *RESOURCES, AT_ONCE) as made:
        yield made


def said(**fields: object) -> bytes:
    """A message as it is in frames."""
    return framed(pb.SessionRequest(**fields).SerializeToString())  # type: ignore[arg-type]


def greeting() -> bytes:
    """A hello that is granted two things and stands in line for a third."""
    return said(hello=hello(), acquires=[want(1, "at-once"), want(2), want(3, permits=2)])


async def _nothing_is_left(governor: World, tasks: int) -> None:
    await until(lambda: len(asyncio.all_tasks()) <= tasks)
    assert (governor.streams, governor.waiters, governor.in_use("at-once")) == (0, 0, 0)
    governor.clock.advance(2 * SECOND)
    assert governor.in_use() == 0
    assert len(governor.sessions) == 0
    assert not governor.sessions.owners
    assert governor.clock.pending <= 1


@pytest.mark.parametrize("what", ["nothing", "half a hello", "a hello", "a goodbye", "much more"])
async def test_a_reset_right_behind_what_was_said(governor: World, what: str) -> None:
    """The call, its messages and its reset are there at once: whatever of them is handed on, nothing stays of it."""
    wire = await governor.wire()
    tasks = len(asyncio.all_tasks())
    for _ in range(50):
        body = greeting()
        if what == "nothing":
            wire.cancel(wire.unfinished_call("Session"))
        elif what == "half a hello":
            wire.cancel(wire.unfinished_call("Session", body[:-1]))
        elif what == "a hello":
            wire.cancel(wire.unfinished_call("Session", body))
        elif what == "a goodbye":
            wire.cancel(wire.raw_call("Session", body))
        else:
            wire.cancel(wire.unfinished_call("Session", body + said(acquires=[want(4, "at-once")]) * 50))
    assert await wire.answer(wire.call("ListResources", b"")) is not None, "all of it has been read by then"

    await _nothing_is_left(governor, tasks)


@pytest.mark.parametrize(("owner", "step"), [(Stream, "begin"), (Stream, "run"), (Outbox, "_take"), (Stream, "_do")])
@pytest.mark.parametrize("goodbye", [False, True])
async def test_a_reset_in_the_midst_of_a_step(
    governor: World, monkeypatch: pytest.MonkeyPatch, owner: type, step: str, *, goodbye: bool
) -> None:
    """Before the first answer, while it is made, or while more is being done."""
    wire = await governor.wire()
    tasks = len(asyncio.all_tasks())
    resets = list[int]()
    original: Callable[..., object] = getattr(owner, step)

    def resetting(*args: object) -> object:
        if not resets:
            resets.append(stream)
            wire.cancel(stream)
            wire.flush()
        return original(*args)

    monkeypatch.setattr(owner, step, resetting)
    start = wire.raw_call if goodbye else wire.unfinished_call

    stream = start("Session", greeting() + said(acquires=[want(4, "at-once")], keep_alive=True))

    await until(lambda: bool(resets))
    await _nothing_is_left(governor, tasks)


@pytest.mark.parametrize("goodbye", [False, True])
async def test_a_reset_while_answers_lie_unread(governor: World, *, goodbye: bool) -> None:
    """No more of them are taken until the client makes room, which it never does."""
    wire = await governor.wire()
    tasks = len(asyncio.all_tasks())
    start = wire.raw_call if goodbye else wire.unfinished_call
    stream = start("Session", greeting() + said(acquires=[want(5, permits=2)]) + said(releases=nobodys(5000)) * 3)
    await _stuck(wire, stream)
    assert len(asyncio.all_tasks()) > tasks, "it has not all been written"

    wire.cancel(stream)

    await _nothing_is_left(governor, tasks)


async def _stuck(wire: Wire, stream: int) -> None:
    """Returns when the client's window is full: a window of HTTP/2 is 65,535 bytes unless somebody says otherwise."""
    await until(lambda: len(wire.calls[stream].body) == 65_535)


async def test_a_reset_long_afterwards(governor: World) -> None:
    """All has been said and heard."""
    wire = await governor.wire()
    tasks = len(asyncio.all_tasks())
    stream = wire.unfinished_call("Session", greeting())
    await until(lambda: governor.waiters == 1 and bool(wire.calls[stream].body))

    wire.cancel(stream)

    await _nothing_is_left(governor, tasks)
