"""The pages over TLS: handshakes that succeed, that do not, and that never end."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import ClientConnectorError, ClientSession

from governor.address import TcpAddress
from governor.bounds import DEFAULT_HTTP
from governor.http import handshake
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
