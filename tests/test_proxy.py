"""The proxy itself, between a client and an echo that speaks in sessions: grpc.aio at both ends."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc
import pytest
from grpc import aio
from h2.connection import H2Connection

from governor.rpc.servicer import SERVICE
from governor.v1 import governor_pb2 as pb
from governor.v1.governor_pb2_grpc import GovernorStub
from tests.proxy import Proxy
from tests.proxy.link import SESSION

if TYPE_CHECKING:
    from governor.v1.governor_pb2_grpc import GovernorAsyncStub

_Session = aio.StreamStreamCall[pb.SessionRequest, pb.SessionResponse]

pytestmark = pytest.mark.timeout(60)


class Echo:
    """Answers each request with its number and its text; and any other call with nothing."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def handlers(self) -> grpc.GenericRpcHandler:
        """What a server is given."""
        session = grpc.stream_stream_rpc_method_handler(
            self._session, pb.SessionRequest.FromString, pb.SessionResponse.SerializeToString
        )
        unary: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(self._nothing)
        return grpc.method_handlers_generic_handler(SERVICE, {"Session": session, "ListResources": unary})

    async def _session(
        self, requests: AsyncIterator[pb.SessionRequest], context: object
    ) -> AsyncIterator[pb.SessionResponse]:
        try:
            async for request in requests:
                welcome = pb.Welcome(session=request.hello.client)
                yield pb.SessionResponse(handled=request.places[0], welcome=welcome)
        finally:
            self.ended.set()

    async def _nothing(self, request: bytes, context: object) -> bytes:
        return b""


@dataclass
class Ends:
    """A client, an echo, and what is between them."""

    proxy: Proxy
    stub: "GovernorAsyncStub"
    echo: Echo
    address: str
    unix_address: str
    sessions: list[_Session] = field(default_factory=list)

    def session(self) -> _Session:
        """One more."""
        self.sessions.append(self.stub.Session(wait_for_ready=False))
        return self.sessions[-1]


def said(number: int, text: str = "") -> pb.SessionRequest:
    """A request with this number."""
    return pb.SessionRequest(places=[number], hello=pb.Hello(client=text))


async def heard(session: _Session) -> int:
    """The number of the next answer."""
    answer = await session.read()
    assert isinstance(answer, pb.SessionResponse), answer
    return answer.handled


@pytest.fixture
async def ends(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ends]:
    """All of them."""
    path = tmp_path_factory.mktemp("echo") / "socket"
    server = aio.server()
    echo = Echo()
    server.add_generic_rpc_handlers((echo.handlers(),))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    options = (("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 100))
    try:
        with Proxy(address) as proxy:
            async with aio.insecure_channel(proxy.address, options) as channel:
                made = Ends(proxy, GovernorStub(channel), echo, address, f"unix:{path}")
                yield made
                for session in made.sessions:
                    session.cancel()
    finally:
        await server.stop(None)


async def test_what_no_rule_catches_passes_in_order_whatever_its_size(ends: Ends) -> None:
    """Messages of many frames, and several in one frame, come as they were sent; so do other calls."""
    session = ends.session()
    sizes = [0, 1, 100_000, 0, 16_384, 250_000, *range(500)]

    async def send() -> None:
        for number, size in enumerate(sizes):
            await session.write(said(number, "x" * size))
        await session.done_writing()

    sending = asyncio.create_task(send())
    answers = [answer async for answer in session]
    await sending

    assert [(answer.handled, len(answer.welcome.session)) for answer in answers] == list(enumerate(sizes))
    assert [message.places[0] for message in ends.proxy.up.passed] == list(range(len(sizes)))
    assert list(ends.proxy.down.passed) == answers
    assert await session.code() is grpc.StatusCode.OK
    assert await ends.stub.ListResources(pb.ListResourcesRequest()) == pb.ListResourcesResponse()


async def test_a_swallowed_request_alone_is_missing(ends: Ends) -> None:
    """Those before and behind it come."""
    lost = ends.proxy.up.swallow(lambda request: request.places[0] == 2)
    session = ends.session()
    for number in (1, 2, 3, 2):
        await session.write(said(number))

    assert [await heard(session) for _ in range(3)] == [1, 3, 2]
    assert [request.places[0] for request in lost.caught] == [2]


async def test_a_swallowed_answer_alone_is_missing(ends: Ends) -> None:
    """The request was handled all the same."""
    lost = ends.proxy.down.swallow(lambda answer: answer.handled < 3, times=None)
    session = ends.session()
    for number in (1, 2, 3):
        await session.write(said(number))

    assert await heard(session) == 3
    await asyncio.to_thread(lost.wait, 2)
    lost.let_go()
    await session.write(said(1))
    assert await heard(session) == 1


@pytest.mark.parametrize("way", ["up", "down"])
async def test_windows_stay_right_however_much_is_swallowed(ends: Ends, way: str) -> None:
    """Many times what a window holds is swallowed, and the stream and its connection go on."""
    if way == "up":
        ends.proxy.up.swallow(lambda request: bool(request.hello.client), times=None)
    else:
        ends.proxy.down.swallow(lambda answer: bool(answer.welcome.session), times=None)
    session = ends.session()
    for number in range(200):
        await session.write(said(number, "x" * 100_000))
    await session.write(said(1000))

    assert await heard(session) == 1000
    other = ends.session()
    await other.write(said(7))
    assert await heard(other) == 7


async def test_what_is_delayed_comes_later_and_in_order(ends: Ends) -> None:
    """Whatever is behind it waits with it."""
    loop = asyncio.get_running_loop()
    session = ends.session()
    await session.write(said(0))
    assert await heard(session) == 0
    ends.proxy.down.delay(0.2, lambda answer: answer.handled == 1)
    began = loop.time()
    for number in (1, 2):
        await session.write(said(number))

    assert [await heard(session) for _ in range(2)] == [1, 2]
    assert 0.2 <= loop.time() - began < 5


async def test_what_is_held_comes_when_it_is_let_go(ends: Ends) -> None:
    """With all that is behind it: here another answer and the end of the stream."""
    held = ends.proxy.down.hold(lambda answer: answer.handled == 1)
    session = ends.session()
    for number in (1, 2):
        await session.write(said(number))
    await session.done_writing()
    await asyncio.to_thread(held.wait)
    await ends.echo.ended.wait()
    reading = asyncio.create_task(session.read())
    other = ends.session()
    await other.write(said(3))
    assert not reading.done()

    held.let_go()

    answer = await reading
    assert isinstance(answer, pb.SessionResponse)
    assert answer.handled == 1
    assert await heard(session) == 2
    assert await session.read() is aio.EOF
    assert await session.code() is grpc.StatusCode.OK


async def test_a_cut_breaks_what_is_under_way(ends: Ends) -> None:
    """Both ends see the connection break, and a new one is made."""
    session = ends.session()
    await session.write(said(1))
    assert await heard(session) == 1

    ends.proxy.cut()

    with pytest.raises(aio.AioRpcError) as broken:
        await session.read()
    assert broken.value.code() is grpc.StatusCode.UNAVAILABLE
    await ends.echo.ended.wait()
    async with asyncio.timeout(60):
        while True:  # a call may yet be sent on the connection that is about to be found broken
            with contextlib.suppress(aio.AioRpcError):
                await ends.stub.ListResources(pb.ListResourcesRequest(), wait_for_ready=True)
                break
    assert ends.proxy.connections == 1
    assert ends.proxy.accepted == 2


async def test_a_message_can_cut_its_connection(ends: Ends) -> None:
    """It does not come; nor does anything behind it."""
    cut = ends.proxy.down.cut(lambda answer: answer.handled == 2)
    session = ends.session()
    await session.write(said(1))
    assert await heard(session) == 1
    for number in (2, 3):
        await session.write(said(number))

    with pytest.raises(aio.AioRpcError):
        await session.read()
    assert [answer.handled for answer in cut.caught] == [2]


async def test_a_black_hole_breaks_nothing(ends: Ends) -> None:
    """Nothing gets through while it is there, not even a new connection; afterwards everything does, in order."""
    session = ends.session()
    await session.write(said(1))
    assert await heard(session) == 1

    ends.proxy.hold()
    for number in (2, 3):
        await session.write(said(number))
    options = (("grpc.use_local_subchannel_pool", 1),)
    async with aio.insecure_channel(ends.proxy.address, options) as channel:
        with pytest.raises(aio.AioRpcError) as late:
            await GovernorStub(channel).ListResources(pb.ListResourcesRequest(), timeout=0.2)
    assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert len(ends.proxy.up.passed) == 1

    ends.proxy.let_go()
    assert [await heard(session) for _ in range(2)] == [2, 3]


async def test_new_connections_are_refused_on_a_port_that_stays(ends: Ends) -> None:
    """The old ones go on."""
    session = ends.session()
    await session.write(said(1))
    assert await heard(session) == 1

    ends.proxy.refuse_new()
    host, _, port = ends.proxy.address.rpartition(":")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, int(port))
    await session.write(said(2))
    assert await heard(session) == 2

    ends.proxy.accept_new()
    _, writer = await asyncio.open_connection(host, int(port))
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("back", ["address", "unix_address"])
async def test_a_target_that_is_away_breaks_the_connection(ends: Ends, back: str) -> None:
    """And one that came back elsewhere, on TCP or a unix socket, is found there."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        ends.proxy.forward_to(f"127.0.0.1:{nobody.getsockname()[1]}")
        with pytest.raises(aio.AioRpcError) as away:
            await ends.stub.ListResources(pb.ListResourcesRequest())
        assert away.value.code() is grpc.StatusCode.UNAVAILABLE

    ends.proxy.forward_to(getattr(ends, back))
    await ends.stub.ListResources(pb.ListResourcesRequest(), wait_for_ready=True)


async def test_messages_of_one_frame_are_seen_one_by_one(ends: Ends) -> None:
    """And so is one that comes in two frames."""
    lost = ends.proxy.up.swallow(lambda request: request.places[0] == 2)
    whole = b"".join([_framed(said(number)) for number in (1, 2, 3)])
    client = H2Connection()
    client.initiate_connection()
    head = {":method": "POST", ":scheme": "http", ":path": SESSION, ":authority": "x", "te": "trailers"}
    client.send_headers(1, list({**head, "content-type": "application/grpc"}.items()))
    client.send_data(1, whole[:-3])
    client.send_data(1, whole[-3:], end_stream=True)
    host, _, port = ends.proxy.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(client.data_to_send())
    answers = b""
    while b"grpc-status" not in answers:
        answers += await reader.read(1000)
    writer.close()
    await writer.wait_closed()

    assert [request.places[0] for request in ends.proxy.up.passed] == [1, 3]
    assert len(lost.caught) == 1
    assert [answer.handled for answer in ends.proxy.down.passed] == [1, 3]


def _framed(message: pb.SessionRequest) -> bytes:
    data = message.SerializeToString()
    return struct.pack(">BI", 0, len(data)) + data


async def test_a_rule_that_fails_fails_the_test(ends: Ends) -> None:
    """Whoever leaves the proxy is told."""
    faulty = Proxy(ends.address)
    faulty.__enter__()
    faulty.up.swallow(lambda request: bool(1 // request.places[0]))
    async with aio.insecure_channel(faulty.address) as channel:
        stub: GovernorAsyncStub = GovernorStub(channel)
        session = stub.Session()
        await session.write(said(0))
        assert isinstance(await session.code(), grpc.StatusCode)

    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        faulty.__exit__()
