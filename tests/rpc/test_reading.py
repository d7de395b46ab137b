"""Calls whose message does not come: they end, and cost nobody else anything."""

import asyncio
from typing import TYPE_CHECKING

import pytest
from grpc_reflection.v1alpha import reflection_pb2

from governor.rpc import reading
from governor.v1 import governor_pb2 as pb
from tests.rpc.conftest import World, ask, until

if TYPE_CHECKING:
    from grpc import aio

COMPANIONS = (
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of a second stands for the seconds that a message has."""
    monkeypatch.setattr(reading, "LOOK_SECONDS", 0.1)


async def test_a_call_whose_message_does_not_come_is_refused(governor: World) -> None:
    """Nothing of it, or not all of it: the caller is told, nothing was granted, and no task stays."""
    wire = await governor.wire()
    tasks = len(asyncio.all_tasks())
    message = ask().SerializeToString()
    part = b"\0" + len(message).to_bytes(4) + message[:-1]
    late = [wire.unfinished_call(method) for method in ("Acquire", "Release", "Renew", "ListResources")]
    late += [wire.unfinished_call("Acquire", part) for _ in range(100)]

    assert [await wire.answer(call) for call in late] == [None] * len(late)
    assert all(not wire.calls[call].reset for call in late)
    assert governor.in_use() == 0
    await until(lambda: len(asyncio.all_tasks()) <= tasks)


@pytest.mark.parametrize("method", COMPANIONS)
@pytest.mark.parametrize("part", [b"", b"\0\0\0\0\x05\x0a"])
async def test_nor_do_the_standard_services_wait_for_one(governor: World, method: str, part: bytes) -> None:
    """Nothing of it, or not all of it: the call is ended and no task of it stays."""
    wire = await governor.wire()
    tasks = len(asyncio.all_tasks())
    late = [wire.unfinished_call(method, part) for _ in range(10)]

    assert [await wire.answer(call) for call in late] == [None] * len(late)
    await until(lambda: len(asyncio.all_tasks()) <= tasks)


async def test_a_reflection_stream_may_be_silent_after_its_first_question(governor: World) -> None:
    """A person with a tool thinks longer than a connection takes; the second question is answered as well."""
    method: aio.StreamStreamMultiCallable[bytes, bytes] = governor.channel.stream_stream(COMPANIONS[-1])
    stream = method(timeout=20)
    question = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()
    wire = await governor.wire()
    await stream.write(question)
    first = await stream.read()
    await asyncio.gather(*(wire.answer(wire.unfinished_call(COMPANIONS[-1])) for _ in range(2)))
    await stream.write(question)

    assert await stream.read() == first
    stream.cancel()


async def test_a_call_that_waits_in_line_is_let_alone(governor: World) -> None:
    """Its message has come; how long it waits is its own matter."""
    held = await governor.stub.Acquire(ask(permits=2))
    wire = await governor.wire()
    waiting = wire.call("Acquire", ask(permits=2).SerializeToString())
    await governor.until_waiting(1)
    late = [wire.unfinished_call("Acquire") for _ in range(2)]
    await asyncio.gather(*map(wire.answer, late))

    assert not wire.calls[waiting].ended.is_set()
    await governor.stub.Release(pb.ReleaseRequest(lease_ids=[held.lease.id]))
    assert await wire.answer(waiting) is not None


async def test_a_caller_that_leaves_before_its_message_is_no_fault(
    governor: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is there to be answered, and the log has nothing to say."""
    wire = await governor.wire()
    tasks = len(asyncio.all_tasks())
    gone = wire.unfinished_call("Acquire")
    await until(lambda: len(asyncio.all_tasks()) > tasks)
    wire.cancel(gone)
    await until(lambda: len(asyncio.all_tasks()) <= tasks)
    late = wire.unfinished_call("Acquire")

    assert await wire.answer(late) is None
    assert caplog.records == []


async def test_an_idle_server_is_not_woken(governor: World) -> None:
    """The timer that looks after them is set by a call, and not set again when none is left."""
    read = reading.Reading()

    async def come(context: object) -> bytes | None:
        return await read.message(context)  # type: ignore[arg-type] # of a context it only reads

    class Context:
        async def read(self) -> bytes:
            return b"here"

    assert await come(Context()) == b"here"
    assert read._timer is not None
    await until(lambda: read._timer is None)
