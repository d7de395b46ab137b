"""A page in a browser, beside the very engine that it shows."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from governor.address import TcpAddress
from governor.clock import LoopClock, Timer
from governor.core.types import Nanos
from governor.http import live as live_module
from governor.http.pages import Pages
from governor.http.server import HttpServer, serve
from governor.metrics import Metrics
from tests.http.scene import Scene
from tests.page.browser import Browser, Page, browsing
from tests.ports import own_ports


class ShiftedClock:
    """The machine's clock, and as much later as a test says."""

    def __init__(self) -> None:
        self._clock = LoopClock()
        self.later: Nanos = 0

    def now(self) -> Nanos:
        """Now, and ``later``."""
        return self._clock.now() + self.later

    def call_at(self, when: Nanos, callback: Callable[[], None]) -> Timer:
        """As the machine's clock would have it from here on."""
        return self._clock.call_at(when - self.later, callback)


class Shown(Scene):
    """A scene that is served."""

    def __init__(self, port: int) -> None:
        self.shift = ShiftedClock()
        super().__init__(self.shift)
        self.pages = Pages(Metrics(self.driver.snapshot, version="1.2.3"), lambda: None, self.sight)
        self.server: HttpServer | None = None
        self.port = port

    async def start(self) -> None:
        """Serve, at the same port each time."""
        self.server = await serve(TcpAddress("127.0.0.1", self.port), self.pages)

    async def stop(self) -> None:
        """Serve no more."""
        if self.server is not None:
            await self.server.stop()
            self.server = None

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.port}/"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One for all tests of a module."""
    async with browsing() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shown]:
    """Nothing is declared at first. It is looked at ten times a second, so that tests need not wait."""
    monkeypatch.setattr(live_module, "LOOK_EVERY", 100_000_000)
    with own_ports(1) as (port,):
        scene = Shown(port)
        await scene.start()
        yield scene
        await scene.stop()
        scene.driver.close()


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, scene: Shown) -> AsyncIterator[Page]:
    """An empty tab; in the end no request has left the origin and nothing was complained of."""
    page = await browser.page()
    yield page
    await page.call("Page.close")
    await asyncio.sleep(0)
    strangers = [url for url in page.requests if not url.startswith((scene.url, "data:", "about:"))]
    assert strangers == []
    assert page.complaints == []
