"""A real HTTP server on a port of the kernel's choice, and a real client."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiohttp import ClientSession, TCPConnector

from governor.address import TcpAddress
from governor.http.pages import Pages
from governor.http.server import HttpServer, serve
from governor.metrics import Metrics
from governor.testing.clock import FakeClock
from tests.http.scene import Scene
from tests.metrics.reading import kinds, snapshot


class Daemon:
    """What the HTTP side is shown of a daemon; tests change it."""

    def __init__(self) -> None:
        self.shown = snapshot(*kinds())
        self.not_ready: str | None = None
        self.metrics = Metrics(lambda: self.shown, version="1.2.3")
        self.scene = Scene(FakeClock())
        self.pages = Pages(self.metrics, lambda: self.not_ready, self.scene.sight)


@pytest.fixture
def daemon() -> Daemon:
    """One resource of each kind, ready."""
    return Daemon()


@pytest_asyncio.fixture
async def server(daemon: Daemon) -> AsyncIterator[HttpServer]:
    """Listens on loopback, and leaves nothing behind."""
    server = await serve(TcpAddress("127.0.0.1", 0), daemon.pages)
    yield server
    await server.stop()

    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert left == []


@pytest_asyncio.fixture
async def client(server: HttpServer) -> AsyncIterator[ClientSession]:
    """Asks that server."""
    async with ClientSession(f"http://127.0.0.1:{server.port}", connector=TCPConnector(limit=0)) as session:
        yield session
