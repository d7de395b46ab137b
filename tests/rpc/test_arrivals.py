"""Whatever the headers of a call are, its server answers it, and all others."""

import asyncio
import logging
from collections.abc import Callable

import grpc
import pytest

from governor.v1 import governor_pb2 as pb
from tests.rpc.conftest import World, ask

# As half surrogates: bytes that are no UTF-8.
NAMES = {
    "no UTF-8": "/\udcc3(",
    "no UTF-8 in the service": "/governor.v1.\udcff/Acquire",
    "no UTF-8 in the method": "/governor.v1.Governor/Acquire\udcfe",
    "half a character": "/governor.v1.Governor/\udce2\udc82",
    "a null": "/governor.v1.Governor/\0",
    "nothing": "/",
    "another service": "/nobody.v1.Nothing/Acquire",
    "no such method": "/governor.v1.Governor/Borrow",
    "another case": "/governor.v1.Governor/acquire",
    "one more slash": "/governor.v1.Governor/Acquire/",
    "long": "/" + "x" * 4000,
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_a_call_by_any_name_is_refused_and_harms_nobody(
    governor: World, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also by one that is no text: grpc.aio on its own stops serving for good at the first of those."""
    caplog.set_level(logging.WARNING)
    wire = await governor.wire()
    for _ in range(3):
        stream = wire.call(name, b"")
        assert await wire.answer(stream) is None

    lease = (await governor.stub.Acquire(ask())).lease

    assert await wire.answer(wire.call("Release", pb.ReleaseRequest(lease_ids=[lease.id]).SerializeToString()))
    assert not caplog.records


async def test_no_such_method_is_told_so(governor: World) -> None:
    """With the status that gRPC has for it: an older daemon is asked what a newer one knows."""
    for path in ("/governor.v1.Governor/Borrow", "/nobody.v1.Nothing/Acquire"):
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = governor.channel.unary_unary(path, None, None)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(b"")
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_calls_to_nothing_leave_nothing(governor: World) -> None:
    """A thousand of them, reset or refused."""
    wire = await governor.wire()
    await wire.answer(wire.call("ListResources", b""))
    tasks = len(asyncio.all_tasks())
    for _ in range(500):
        wire.cancel(wire.unfinished_call("/nobody/Nothing"))
        wire.call("/nobody/Nothing", b"")

    assert await wire.answer(wire.call("/nobody/Nothing", b"")) is None
    async with asyncio.timeout(60):
        while len(asyncio.all_tasks()) > tasks:  # noqa: ASYNC110  - grpc's own threads have no event to wait for
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("header", ["authorization", "x", "governor-actor", "user-agent", "grpc-timeout"])
async def test_a_header_that_is_no_text_is_in_no_log(
    governor: World, header: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be a token with a slip of the pen in it, and anybody could fill the log with it."""
    caplog.set_level(logging.DEBUG)
    wire = await governor.wire()
    headers = {header: "Bearer secret\udcff\udcfe"}
    stream = wire.call("ListResources", b"", flags=0, **headers)

    await wire.answer(stream)

    assert (await governor.stub.Acquire(ask())).lease.id
    assert "secret" not in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_calls_of_one_method_hold_up_none_of_another(governor: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty asks are there before the release, and it does not stand behind them all."""
    lease = (await governor.stub.Acquire(ask())).lease
    done: list[str] = []

    def noted(name: str) -> Callable[..., object]:
        does: Callable[..., object] = getattr(governor.driver, name)

        def note(*arguments: object, **named: object) -> object:
            done.append(name)
            return does(*arguments, **named)

        return note

    for name in ("ask", "release"):
        monkeypatch.setattr(governor.driver, name, noted(name))
    wire = await governor.wire()
    asks = [wire.call("Acquire", ask("open").SerializeToString()) for _ in range(60)]
    back = wire.call("Release", pb.ReleaseRequest(lease_ids=[lease.id]).SerializeToString())
    wire.flush()

    assert await wire.answer(back) is not None
    for stream in asks:
        assert await wire.answer(stream) is not None

    assert done.count("ask") == 60
    assert done.index("release") < 30
