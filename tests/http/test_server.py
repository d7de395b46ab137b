"""The listener, and what it bears from those who connect to it."""

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from aiohttp import ClientSession
from blockbuster import BlockBuster

from governor.address import TcpAddress
from governor.bounds import DEFAULT_HTTP
from governor.http import pages as pages_module
from governor.http import server as server_module
from governor.http.server import HttpServer, serve
from governor.lock import BindError
from governor.metrics import Facts
from tests.http.conftest import Daemon
from tests.metrics.reading import resource, snapshot
from tests.ports import own_ports


@asynccontextmanager
async def connection(server: HttpServer) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A bare connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def until(condition: Callable[[], bool]) -> None:
    """Returns when it holds; fails when it does not within ten seconds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  (nothing tells when a connection is gone)
            await asyncio.sleep(0.001)


@asynccontextmanager
async def listening(daemon: Daemon) -> AsyncIterator[HttpServer]:
    """A server that was started under the limits of the moment."""
    server = await serve(TcpAddress("127.0.0.1", 0), daemon.pages)
    try:
        yield server
    finally:
        await server.stop()


async def read_all(sock: socket.socket) -> bytes:
    """Everything that is there to be read."""
    received = bytearray()
    async with asyncio.timeout(60):
        while data := await asyncio.get_running_loop().sock_recv(sock, 65536):
            received += data
    return bytes(received)


async def exchange(server: HttpServer, sent: bytes) -> bytes:
    """Everything that is answered until the server closes."""
    async with connection(server) as (reader, writer):
        writer.write(sent)
        async with asyncio.timeout(60):
            return await reader.read()


class TestBinding:
    """Where it listens."""

    async def test_it_answers_when_serve_returns(self, daemon: Daemon) -> None:
        """No waiting for it to come up; the port is the one that the kernel chose."""
        async with listening(daemon) as server:
            answer = await exchange(server, b"GET /-/healthy HTTP/1.0\r\n\r\n")

        assert server.port > 0
        assert answer.startswith(b"HTTP/1.0 200 OK\r\n")

    async def test_a_port_in_use_is_one_clear_line(self, daemon: Daemon, server: HttpServer) -> None:
        """It says where, what is wrong and what to do; the first server goes on."""
        with pytest.raises(BindError) as caught:
            await serve(TcpAddress("127.0.0.1", server.port), daemon.pages)

        assert str(caught.value) == (
            f"http: cannot listen on 127.0.0.1:{server.port}: address already in use; "
            "something else listens there, give `http` another port"
        )
        assert (await exchange(server, b"GET /-/healthy HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.0 200 OK\r\n")

    @pytest.mark.parametrize(
        ("host", "reason"),
        [
            ("192.0.2.1", "cannot assign requested address; this machine has no such address"),
            ("no.such.host.invalid", ""),
        ],
    )
    async def test_an_address_that_is_not_here_is_one_clear_line(self, daemon: Daemon, host: str, reason: str) -> None:
        """Whether it is a number or a name."""
        with pytest.raises(BindError) as caught:
            await serve(TcpAddress(host, 0), daemon.pages)

        assert str(caught.value).startswith(f"http: cannot listen on {host}:0: {reason}")
        assert "\n" not in str(caught.value)

    async def test_the_port_is_free_after_stop(self, daemon: Daemon) -> None:
        """And may be taken again at once; to stop twice is no more than once."""
        with own_ports(1) as (port,):
            for _ in range(2):
                server = await serve(TcpAddress("127.0.0.1", port), daemon.pages)
                await exchange(server, b"GET / HTTP/1.0\r\n\r\n")
                await server.stop()
                await server.stop()

                assert server.port == port

    async def test_stop_does_not_wait_for_idle_connections(
        self, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A scraper's kept connection, or one that never asked, is closed at once."""
        monkeypatch.setattr(server_module, "STOP_SECONDS", 60)
        async with (
            listening(daemon) as server,
            connection(server) as (kept, asks),
            connection(server) as (silent, _),
            asyncio.timeout(60),
        ):
            asks.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await kept.readuntil(b"/-/ready")
            await server.stop()

            assert await silent.read() == b""
            await kept.read()

    async def test_stop_lets_a_page_that_has_begun_arrive(
        self, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The last scrape of a daemon is worth having."""
        monkeypatch.setattr(server_module, "STOP_SECONDS", 60)
        daemon.shown = snapshot(*(resource(f"resource-{n}") for n in range(300)))
        async with listening(daemon) as server, connection(server) as (reader, writer), asyncio.timeout(60):
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readline()
            stopping = asyncio.create_task(server.stop())
            received = await reader.read()
            await stopping

        assert received.count(b"governor_permits_limit{") == 300
        assert received.endswith(b"\r\n0\r\n\r\n")

    async def test_stop_does_not_wait_for_a_client_that_does_not_read(
        self, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It has a second, and then the daemon ends without it."""
        monkeypatch.setattr(server_module, "STOP_SECONDS", 0.05)
        daemon.shown = snapshot(*(resource(f"resource-{n}-{'x' * 150}") for n in range(1000)))
        async with listening(daemon) as server, connection(server) as (reader, writer), asyncio.timeout(60):
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readline()
            await server.stop()

            assert not (await reader.read()).endswith(b"\r\n0\r\n\r\n")


class TestClients:
    """What clients may do to it."""

    async def test_a_connection_is_kept_for_the_next_scrape(self, server: HttpServer) -> None:
        """Two requests, one connection."""
        async with connection(server) as (reader, writer):
            for _ in range(2):
                writer.write(b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert (await reader.readuntil(b"healthy\n")).startswith(b"HTTP/1.1 200 OK\r\n")

    @pytest.mark.parametrize(
        "garbage",
        [
            b"hello\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
            b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 500 + b"\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ],
        ids=["words", "tls", "header", "long line", "long header", "many headers", "http2"],
    )
    async def test_garbage_is_refused_quietly(
        self, server: HttpServer, garbage: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        """400 without a trace of what is underneath, and nothing in the log: anybody can send it."""
        answer = await exchange(server, garbage + b"\r\n\r\n")
        head, _, body = answer.partition(b"\r\n\r\n")

        assert head.split(b" ")[1] == b"400"
        assert b"Server: governor\r\n" in head
        assert b"aiohttp" not in answer
        assert body == b"this is no HTTP request that can be read\n"
        assert caplog.records == []

    async def test_a_body_is_neither_wanted_nor_kept(self, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
        """The sender of 50 MB hears the answer, and its connection is closed long before it is through."""
        monkeypatch.setattr(server_module, "LINGER_SECONDS", 0.05)
        async with listening(daemon) as server, connection(server) as (reader, writer):
            writer.write(b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000000\r\n\r\n" + b"x" * 1000)
            async with asyncio.timeout(60):
                assert b" 405 " in await reader.readline()
                await reader.read()

    async def test_one_connection_too_many_is_told_so(self, server: HttpServer) -> None:
        """If all others are in the middle of a request; and there is room again when one of them is not."""
        async with AsyncExitStack() as stack, asyncio.timeout(60):
            async with server._connections._turn:  # as long as it is held, no answer is finished
                crowd = [await stack.enter_async_context(connection(server)) for _ in range(DEFAULT_HTTP)]
                for _, writer in crowd:
                    writer.write(b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await until(lambda: len(server._connections.transports) == DEFAULT_HTTP)
                await until(lambda: not server._connections._idle)
                refused = await exchange(server, b"")
            for reader, _ in crowd:
                assert (await reader.readuntil(b"healthy\n")).startswith(b"HTTP/1.1 200 OK\r\n")
            answer = await exchange(server, b"GET /-/healthy HTTP/1.0\r\n\r\n")

        head, _, body = refused.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert f"Content-Length: {len(body)}\r\n".encode() in head
        assert body == b"too many connections\n"
        assert answer.startswith(b"HTTP/1.0 200 OK\r\n")

    @pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n"])
    async def test_a_crowd_that_asks_nothing_keeps_no_probe_out(self, server: HttpServer, sent: bytes) -> None:
        """Silent, in the midst of a request, or with its answer: the one that is idle the longest gives way."""
        async with AsyncExitStack() as stack, asyncio.timeout(60):
            crowd = [await stack.enter_async_context(connection(server)) for _ in range(DEFAULT_HTTP)]
            for reader, writer in crowd[1:]:
                writer.write(sent)
                if sent.endswith(b"\r\n\r\n"):
                    await reader.readuntil(b"healthy\n")
            await until(lambda: server.connections == DEFAULT_HTTP)
            kept, asks = await stack.enter_async_context(connection(server))
            asks.write(b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n")

            assert (await kept.readuntil(b"healthy\n")).startswith(b"HTTP/1.1 200 OK\r\n")
            assert await crowd[0][0].read() == b""
            assert server.connections == DEFAULT_HTTP
            assert not crowd[1][0].at_eof()

    async def test_connections_that_come_at_once_are_counted(self, server: HttpServer) -> None:
        """Though all are accepted before the first of them begins."""
        most = 0
        async with AsyncExitStack() as stack, asyncio.timeout(60):
            # Fewer than the kernel has room for; the loop stands still meanwhile.
            crowd = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(DEFAULT_HTTP + 30)]
            for sock in crowd:
                stack.enter_context(sock)
            sock = crowd[-1]
            sock.setblocking(False)  # noqa: FBT003
            await asyncio.get_running_loop().sock_sendall(sock, b"GET /-/healthy HTTP/1.0\r\n\r\n")
            received = asyncio.create_task(read_all(sock))
            while not received.done():
                most = max(most, server.connections)
                await asyncio.sleep(0)

        assert received.result().startswith(b"HTTP/1.0 200 OK\r\n")
        assert most == DEFAULT_HTTP

    @pytest.mark.parametrize(
        "sent", [b"", b"GET / HT", b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nHo"]
    )
    async def test_a_client_that_does_not_finish_its_request_is_dropped(
        self, daemon: Daemon, monkeypatch: pytest.MonkeyPatch, sent: bytes
    ) -> None:
        """Whether it sent nothing, half a request, or half a second one."""
        monkeypatch.setattr(server_module, "IDLE_SECONDS", 0.05)
        async with listening(daemon) as server:
            await exchange(server, sent)

    async def test_a_client_that_does_not_read_its_answer_is_dropped(
        self, daemon: Daemon, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The rest of its page is not made, and nothing is kept for it."""
        monkeypatch.setattr(server_module, "SEND_SECONDS", 0.2)
        daemon.shown = snapshot(*(resource(f"resource-{n}-{'x' * 150}") for n in range(1000)))
        async with listening(daemon) as server:
            with socket.socket() as lazy:
                lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                lazy.settimeout(0)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(lazy, ("127.0.0.1", server.port))
                await loop.sock_sendall(lazy, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await until(lambda: server.connections == 1)
                await until(lambda: server.connections == 0)
                received = await read_all(lazy)

        assert received.startswith(b"HTTP/1.1 200 OK\r\n")
        assert not received.endswith(b"0\r\n\r\n")
        assert caplog.records == []

    async def test_a_client_that_leaves_in_the_middle_is_forgotten(
        self, daemon: Daemon, server: HttpServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Without a word in the log."""
        daemon.shown = snapshot(*(resource(f"resource-{n}") for n in range(500)))
        async with connection(server) as (reader, writer):
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readline()
            writer.transport.abort()
        await until(lambda: server.connections == 0)

        assert caplog.records == []


class TestLoop:
    """The event loop belongs to the leases."""

    async def test_however_many_scrape_one_chunk_is_made_in_a_turn(
        self, daemon: Daemon, client: ClientSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Twenty scrapes at once take longer, and hold up nobody for longer."""
        daemon.shown = snapshot(*(resource(f"resource-{n}") for n in range(30)))
        turn = 0
        made: list[int] = []
        page = daemon.metrics.page

        def counted(chunks: Iterator[bytes]) -> Iterator[bytes]:
            for chunk in chunks:
                made.append(turn)
                yield chunk

        def counting(accept: str, facts: Facts) -> object:
            original = page(accept, facts)
            return type(original)(original.content_type, counted(original.chunks))

        monkeypatch.setattr(daemon.metrics, "page", counting)

        async def scrape() -> int:
            async with client.get("/metrics") as answer:
                return len(await answer.read())

        async with asyncio.timeout(60):
            scrapes = asyncio.gather(*(scrape() for _ in range(20)))
            while not scrapes.done():
                turn += 1
                await asyncio.sleep(0)

        sizes = scrapes.result()
        assert min(sizes) > 100_000
        assert len(made) > 100
        assert max(made.count(turn) for turn in set(made)) == 1

    async def test_no_page_blocks_it(self, never_blocks: BlockBuster, client: ClientSession) -> None:
        """Nothing that any page does waits for anything."""
        for path in ("/", "/metrics", "/-/healthy", "/-/ready", "/nope"):
            async with client.get(path) as answer:
                assert answer.status in {200, 404}


class TestBounds:
    """What the config says of how much may be taken, and how it is told."""

    async def test_there_are_so_many_connections_and_whoever_is_refused_is_counted(self, daemon: Daemon) -> None:
        """One that asks nothing gives way; with all of them asking, the next is told 503."""
        refused: list[int] = []
        server = await serve(
            TcpAddress("127.0.0.1", 0), daemon.pages, most=2, full=lambda: refused.append(server.connections)
        )
        try:
            async with AsyncExitStack() as stack:
                for _ in range(2):
                    reader, writer = await stack.enter_async_context(connection(server))
                    writer.write(b"GET /-/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    async with asyncio.timeout(60):
                        assert b"200 OK" in await reader.readline()

                assert (await exchange(server, b"")).startswith(b"HTTP/1.1 503 ")

            assert refused == [2]
            await until(lambda: server.connections == 0)
            assert b" 200 OK" in await exchange(server, b"GET /-/healthy HTTP/1.0\r\n\r\n")
        finally:
            await server.stop()

    async def test_pages_that_nobody_reads_share_their_numbers(
        self, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """From the fifth on, for a while; one that asks when they are gone is told what is true then."""
        monkeypatch.setattr(pages_module, "_CROWDED_SECONDS", 3600.0)
        made: list[int] = []
        facts = daemon.metrics.facts

        def counted() -> Facts:
            made.append(len(made))
            return facts()

        monkeypatch.setattr(daemon.metrics, "facts", counted)
        unread = []
        for _ in range(20):
            unread.append(daemon.pages.answer("GET", "/metrics", {}))
            await asyncio.sleep(0)
        assert len(made) == 5

        daemon.pages._rested()
        unread.clear()
        gc.collect()
        for _ in range(3):
            daemon.pages.answer("GET", "/metrics", {})
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert len(made) == 8
