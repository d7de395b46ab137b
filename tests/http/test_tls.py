"""The pages over TLS: handshakes that succeed, that do not, and that never end."""

import asyncio
import gc
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
import pytest_asyncio
from aiohttp import ClientConnectorError, ClientSession

from governor.address import TcpAddress
from governor.bounds import DEFAULT_HTTP
from governor.http import handshake
from governor.http.handshake import LONGEST_REST, RESTS, Steps
from governor.http.server import HttpServer, serve
from governor.tls import Tls
from tests.certificates import Authority, Pair, certificates_of
from tests.http.conftest import Daemon
from tests.http.test_server import connection, until


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Whom clients trust."""
    return Authority(tmp_path)


@pytest.fixture
def pair(authority: Authority) -> Pair:
    """The daemon's."""
    return authority.certify("daemon", "127.0.0.1")


@pytest_asyncio.fixture
async def server(daemon: Daemon, pair: Pair) -> AsyncIterator[HttpServer]:
    """Speaks TLS, and leaves nothing behind."""
    server = await serve(
        TcpAddress("127.0.0.1", 0, tls=True), daemon.pages, certificates=certificates_of(Tls(pair.cert, pair.key))
    )
    yield server
    await server.stop()

    assert server.connections == 0
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


def trusting(authority: Authority) -> ssl.SSLContext:
    """Of a client."""
    return ssl.create_default_context(cafile=authority.cert)


async def body(server: HttpServer, authority: Authority, path: str = "/-/healthy") -> str:
    """Of one page, over a connection of its own."""
    async with (
        ClientSession(f"https://127.0.0.1:{server.port}") as session,
        session.get(path, ssl=trusting(authority)) as answer,
    ):
        assert answer.status == 200
        return await answer.text()


async def test_each_page_goes_over_it(server: HttpServer, authority: Authority) -> None:
    """One after the other over one connection, and large ones too."""
    context = trusting(authority)
    async with ClientSession(f"https://127.0.0.1:{server.port}") as session:
        for path in ("/-/healthy", "/metrics", "/"):
            async with session.get(path, ssl=context) as answer:
                assert answer.status == 200
                assert await answer.read()
        assert server.connections == 1
    await until(lambda: server.connections == 0)


async def test_what_is_sent_with_the_end_of_the_handshake_is_heard(server: HttpServer, authority: Authority) -> None:
    """A client does not wait for an answer to that."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trusting(authority).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    writer.write(outgoing.read())
    while True:
        incoming.write(await asyncio.wait_for(reader.read(65536), 60))
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            continue
        break
    tls.write(b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    writer.write(outgoing.read())
    heard = b""
    with suppress(ssl.SSLZeroReturnError):
        while b"healthy" not in heard:
            incoming.write(await asyncio.wait_for(reader.read(65536), 60))
            with suppress(ssl.SSLWantReadError):
                heard += tls.read(65536)
    writer.close()

    assert heard.startswith(b"HTTP/1.1 200 OK\r\n")


def _reads_though_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As asyncio of Python 3.11.2 does: a connection that was paused as soon as it was there is read all the same."""

    def added(self: asyncio.Transport, fd: int, callback: Callable[..., object], *args: object) -> None:
        if not self.is_closing():
            self._loop._add_reader(fd, callback, *args)  # type: ignore[attr-defined]

    monkeypatch.setattr("asyncio.selector_events._SelectorTransport._add_reader", added)


@pytest.mark.parametrize("reads_though_paused", [False, True])
@pytest.mark.parametrize("split", [1, 5, 100, None])
async def test_what_is_said_before_the_handshake_begins_is_heard(
    daemon: Daemon, pair: Pair, monkeypatch: pytest.MonkeyPatch, split: int | None, *, reads_though_paused: bool
) -> None:
    """With the connect or in pieces: while nobody knows yet what is shown, nothing of it is lost."""
    if reads_though_paused:
        _reads_though_paused(monkeypatch)
    certificates = certificates_of(Tls(pair.cert, pair.key))
    looking: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(certificates, "soon", lambda: looking)
    server = await serve(TcpAddress("127.0.0.1", 0, tls=True), daemon.pages, certificates=certificates)
    said = hello()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        # In the kernel before the loop has heard of the connection.
        client.sendall(said[:split])
        await until(lambda: server.connections == 1)
        client.sendall(said[len(said[:split]) :])
        for _ in range(20):  # turns in which whoever reads could take it
            await asyncio.sleep(0)
        looking.set_result(certificates.now())
        client.setblocking(False)  # noqa: FBT003
        answer = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), 60)
    await until(lambda: server.connections == 0)
    await server.stop()

    assert answer == b"\x16", "no ServerHello"


async def test_a_client_that_says_hello_with_the_connect_gets_its_page(
    server: HttpServer, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the loop does first, time after time."""
    _reads_though_paused(monkeypatch)

    def get() -> bytes:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = trusting(authority).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        with suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        first = outgoing.read()
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
            client.sendall(first)
            while True:
                answer = client.recv(65536)
                assert answer, "cut off in the handshake"
                incoming.write(answer)
                with suppress(ssl.SSLWantReadError):
                    tls.do_handshake()
                    break
            tls.write(b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n")
            client.sendall(outgoing.read())
            heard = b""
            while b"healthy" not in heard and (more := client.recv(65536)):
                incoming.write(more)
                with suppress(ssl.SSLWantReadError):
                    while said := tls.read(65536):
                        heard += said
        return heard

    for _ in range(10):
        assert (await asyncio.to_thread(get)).startswith(b"HTTP/1.1 200 OK\r\n")
    await until(lambda: server.connections == 0)


@pytest.mark.parametrize(
    "nonsense", [b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\xff\xff" * 9, bytes(range(256))]
)
async def test_what_is_no_tls_is_told_nothing_and_forgotten(
    server: HttpServer, authority: Authority, nonsense: bytes
) -> None:
    """Least of all a page, in the clear."""
    async with connection(server) as (reader, writer):
        writer.write(nonsense)
        writer.write_eof()
        with suppress(ConnectionError):
            assert b"HTTP/" not in await asyncio.wait_for(reader.read(), 60)
        await until(lambda: server.connections == 0)
    assert await body(server, authority) == "healthy\n"


async def test_half_a_handshake_takes_a_place_and_gives_it_up(server: HttpServer, authority: Authority) -> None:
    """Whoever only connects is counted, and gives way to the next one."""
    crowd = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(DEFAULT_HTTP)]
    await until(lambda: server.connections == DEFAULT_HTTP)
    assert await body(server, authority) == "healthy\n"
    assert server.connections <= DEFAULT_HTTP
    for _, writer in crowd:
        writer.close()
    await until(lambda: server.connections == 0)


async def test_a_handshake_that_does_not_end_is_ended(
    daemon: Daemon, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a time, also if nothing at all is said."""
    monkeypatch.setattr(handshake, "HANDSHAKE_SECONDS", 0.05)
    server = await serve(
        TcpAddress("127.0.0.1", 0, tls=True), daemon.pages, certificates=certificates_of(Tls(pair.cert, pair.key))
    )
    async with connection(server) as (reader, _):
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 60) == b""
    await until(lambda: server.connections == 0)
    await server.stop()


async def test_the_end_does_not_wait_for_handshakes(server: HttpServer) -> None:
    """They are over with it."""
    async with connection(server) as (reader, _):
        await until(lambda: server.connections == 1)
        await server.stop()
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 60) == b""


async def test_another_certificate_is_shown_to_who_comes_next(
    server: HttpServer, authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    """Who is connected stays; what is not in order is not shown."""
    async with ClientSession(f"https://127.0.0.1:{server.port}") as session:
        async with session.get("/-/healthy", ssl=(context := trusting(authority))) as answer:
            assert answer.status == 200
        second = Authority(tmp_path, "second")
        fresh = second.certify("fresh", "127.0.0.1")
        pair.cert.write_bytes(fresh.cert.read_bytes())
        assert await body(server, authority) == "healthy\n"
        pair.key.write_bytes(fresh.key.read_bytes())
        assert await body(server, second) == "healthy\n"
        with pytest.raises(ClientConnectorError):
            await body(server, authority)
        async with session.get("/-/healthy", ssl=context) as answer:
            assert answer.status == 200


async def test_a_stream_that_is_not_read_harms_nobody(server: HttpServer, authority: Authority) -> None:
    """As without TLS: it is dropped with the connection."""
    async with (
        ClientSession(f"https://127.0.0.1:{server.port}") as session,
        session.get("/-/events", ssl=trusting(authority)) as answer,
    ):
        assert answer.status == 200
    await until(lambda: server.connections == 0)


# --- what strangers can make of it ------------------------------------------------------------------------------


def hello() -> bytes:
    """What whoever shakes hands says first. To say it again costs nothing."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def _reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()


ENDS: dict[str, tuple[bytes, Callable[[asyncio.StreamWriter], object]]] = {
    "goes at once": (b"", lambda writer: writer.close()),
    "says hello and goes": (hello(), lambda writer: writer.close()),
    "says hello and is cut off": (hello(), _reset),
    "says half of it": (hello()[:99], lambda writer: writer.close()),
    "says something else": (b"GET / HTTP/1.1\r\n\r\n", lambda _writer: None),
    "is not believed": (hello() + b"\x15\x03\x03\x00\x02\x02\x30", lambda writer: writer.close()),
}


@pytest.mark.parametrize("end", ENDS)
async def test_of_a_handshake_that_failed_nothing_is_left(server: HttpServer, end: str) -> None:
    """Without the collector of cycles, which looks seldom: of each it would be 256 KiB."""
    said, leave = ENDS[end]
    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(each, SSLProtocol) for each in gc.get_objects())
        for _ in range(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(said)
            if said:
                with suppress(ConnectionError, TimeoutError):
                    async with asyncio.timeout(0.01):
                        await reader.read(1)
            leave(writer)
            await until(lambda: server.connections == 0)
            writer.close()
        await until(lambda: before == sum(isinstance(each, SSLProtocol) for each in gc.get_objects()))
    finally:
        gc.enable()


async def test_whoever_made_room_before_it_began_is_over(
    daemon: Daemon, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And does not go on in secret: of thousands of those a second, that is gigabytes."""
    monkeypatch.setattr(handshake, "HANDSHAKE_SECONDS", 1000.0)
    certificates = certificates_of(Tls(pair.cert, pair.key))
    looking: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(certificates, "soon", lambda: looking)
    server = await serve(TcpAddress("127.0.0.1", 0, tls=True), daemon.pages, certificates=certificates, most=2)
    tasks = len(asyncio.all_tasks())
    crowd = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(20)]
    await until(lambda: len(asyncio.all_tasks()) == tasks + 20)
    looking.set_result(certificates.now())
    await until(lambda: len(asyncio.all_tasks()) == tasks + 2)
    for _, writer in crowd:
        writer.close()
    await until(lambda: server.connections == 0)
    await server.stop()


class Slow:
    """A step that takes so long, by the clock of a loop that tests move."""

    def __init__(self, loop: "Loop", seconds: float, *, is_over: bool = False) -> None:
        self.is_over = is_over
        self._loop, self._seconds = loop, seconds

    def step(self) -> None:
        """Is noted with when it is made."""
        self._loop.made.append((self._loop.time(), self))
        self._loop.now += self._seconds


class Loop:
    """As much of an event loop as steps need."""

    def __init__(self) -> None:
        self.now = 100.0
        self.made: list[tuple[float, Slow]] = []
        self._calls: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        """In seconds."""
        return self.now

    def call_soon(self, call: Callable[[], None]) -> None:
        """Next."""
        self.call_later(0, call)

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """When so long has gone by."""
        self._calls.append((self.now + seconds, call))

    def run(self) -> None:
        """All that is to be called."""
        while self._calls:
            at, call = self._calls.pop(0)
            self.now = max(self.now, at)
            call()


def test_after_each_step_all_others_have_their_turns() -> None:
    """For three times as long as it took; for who is gone nobody waits, and whoever comes to an empty room begins."""
    loop = Loop()
    steps = Steps(cast("asyncio.AbstractEventLoop", loop))
    slow = [Slow(loop, 0.005, is_over=number in {1, 2}) for number in range(5)]
    for each in slow:
        steps.wait(each)
    loop.run()
    late = Slow(loop, 10.0), Slow(loop, 0.0)
    for each in late:
        steps.wait(each)
    loop.run()

    assert [each for _, each in loop.made] == [slow[0], *slow[3:], *late]
    instants = [at for at, _ in loop.made]
    assert instants[:3] == pytest.approx([100.0, 100 + 0.005 * (1 + RESTS), 100 + 0.01 * (1 + RESTS)])
    assert instants[4] - instants[3] == pytest.approx(10.0 + LONGEST_REST)
