"""By which names it is asked: a page of the web whose name leads to loopback must learn nothing."""

import asyncio

import pytest
from aiohttp import ClientSession

from governor.address import TcpAddress
from governor.http.server import HttpServer, serve
from tests.http.conftest import Daemon

PATHS = ["/", "/metrics", "/-/healthy", "/-/ready", "/-/events", "/-/resources/sem", "/nothing"]
STRANGERS = [
    "evil.example",
    "evil.example:7412",
    "127.0.0.1.evil.example",
    "localhost.evil.example:80",
    "10.0.0.1",
    "0.0.0.0",  # noqa: S104
    "[::2]:7412",
    "[::1].evil.example",
    "[::1",
    "[evil.example]",
    "[localhost]",
    "localhost:80:90",
    "localhost:evil",
    "evil@localhost",
]
LOCALS = ["localhost", "LocalHost:1", "127.0.0.1", "127.0.0.1:7412", "127.9.9.9:80", "[::1]", "[::1]:7412"]


@pytest.mark.parametrize("path", PATHS)
async def test_a_page_of_the_web_is_told_nothing(path: str, client: ClientSession) -> None:
    """Whatever it asks for, the answer is the same, and says what to do."""
    async with client.get(path, headers={"Host": "evil.example"}) as answer:
        assert answer.status == 403
        text = await answer.text()
    assert "ask by one of these names" in text
    assert text.count("\n") == 1


@pytest.mark.parametrize("host", STRANGERS)
async def test_names_of_others(host: str, client: ClientSession) -> None:
    """Also those that look like loopback."""
    async with client.get("/metrics", headers={"Host": host}) as answer:
        assert answer.status == 403


@pytest.mark.parametrize("host", LOCALS)
async def test_names_of_loopback(host: str, client: ClientSession) -> None:
    """With any port: somebody may forward one."""
    async with client.get("/metrics", headers={"Host": host}) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("sent", [b"GET /metrics HTTP/1.0\r\n\r\n", b"GET /metrics HTTP/1.0\r\nHost:\r\n\r\n"])
async def test_who_says_no_name_is_no_browser(sent: bytes, server: HttpServer) -> None:
    """A probe by hand."""
    assert b" 200 " in await first_line(server, sent)


async def test_each_of_two_names_counts(server: HttpServer) -> None:
    """Whichever comes first."""
    for names in (b"Host: localhost\r\nHost: evil.example", b"Host: evil.example\r\nHost: localhost"):
        line = await first_line(server, b"GET /metrics HTTP/1.1\r\n" + names + b"\r\n\r\n")
        assert b" 403 " in line or b" 400 " in line


async def test_elsewhere_any_name_will_do(daemon: Daemon) -> None:
    """Nobody can tell by which names others reach an address that is not of this machine alone."""
    server = await serve(TcpAddress("0.0.0.0", 0), daemon.pages)  # noqa: S104
    try:
        line = await first_line(server, b"GET /metrics HTTP/1.1\r\nHost: any.example\r\n\r\n")
    finally:
        await server.stop()
    assert b" 200 " in line


async def first_line(server: HttpServer, sent: bytes) -> bytes:
    """Of the answer to this."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(sent)
        return await asyncio.wait_for(reader.readline(), 60)
    finally:
        writer.close()
        await writer.wait_closed()
