"""What the head of the page says of the daemon, and how the page stays with it."""

import pytest

from governor.core.types import SECOND
from governor.http.live import MAX_VIEWERS
from tests.core.declared import semaphore
from tests.http.test_server import until
from tests.page.browser import Page
from tests.page.conftest import Shown
from tests.page.seeing import HOUR, show, texts

pytestmark = pytest.mark.asyncio(loop_scope="module")


class TestTheTop:
    """The daemon itself, and what is wrong with it."""

    async def test_it_says_which_daemon_and_which_config(self, page: Page, scene: Shown) -> None:
        """Version, host, process, totals; the title of the tab says who waits."""
        scene.declare(semaphore("db", 1, max_wait=HOUR))
        scene.take("db")
        scene.wait("db")
        await show(page, scene, many=1)
        assert (await texts(page, "#about"))[0].startswith("1.2.3 on db-host-1, pid 4711, up ")
        assert (await texts(page, "#config"))[0].startswith("Config /etc/governor.yaml (abababababab) in force since ")
        assert await page.run("[...document.querySelectorAll('#totals > div')].map(n => n.textContent)") == [
            "resource1", "lease1", "waiter1", "sessions0",
        ]  # fmt: skip
        assert await page.run("document.title") == "1 waiter · governor on db-host-1"

    async def test_a_refused_config_stays_to_be_seen(self, page: Page, scene: Shown) -> None:
        """With all that is wrong with it, until there is a good one; a screen reader is told once."""
        scene.declare(semaphore("db", 1))
        good = scene.head
        await show(page, scene, many=1)
        scene.refuse("governor.yaml:2: <b>no</b>", "governor.yaml:3: neither")
        await page.until("document.querySelectorAll('.alert li').length === 2")
        assert await texts(page, ".alert li") == ["governor.yaml:2: <b>no</b>", "governor.yaml:3: neither"]
        assert (await texts(page, ".alert h2"))[0].startswith("The config was refused at ")
        assert await page.run("document.querySelector('#said').textContent") == "The config was refused: 2 problems."

        scene.head = good
        await page.until("!document.querySelector('.alert')")
        assert await page.run("document.querySelector('#said').textContent") == "All problems are solved."

    async def test_it_says_that_the_daemon_drains(self, page: Page, scene: Shown) -> None:
        """While it does."""
        scene.declare(semaphore("db", 1))
        await show(page, scene, many=1)
        scene.driver.drain()
        await page.until("document.querySelector('.alert h2')?.innerText === 'The daemon is draining'")

    async def test_a_lost_connection_is_said_and_mended(self, page: Page, scene: Shown) -> None:
        """What was known is still there, marked as old; when the daemon is back, so is the page."""
        scene.declare(semaphore("db", 4), semaphore("other", 4))
        await show(page, scene, many=2)
        await scene.stop()
        await page.until("document.querySelector('#link').innerText === 'connection lost'")
        assert await texts(page, ".alert h2") == ["The connection to the daemon is lost"]
        assert sorted(await texts(page, ".name")) == ["db", "other"]
        assert await page.run("document.querySelector('#said').textContent") == (
            "The connection to the daemon is lost; trying again."
        )

        scene.declare(semaphore("db", 4))
        scene.take("db", permits=3)
        await scene.start()
        await page.until("document.querySelector('#link').innerText === 'live'")
        await page.until("document.querySelectorAll('tr.resource').length === 1")
        await page.until("document.querySelector('tr.resource').innerText.includes('3 / 4')")
        assert await texts(page, ".alert h2") == []
        # That it could not be reached is what the browser says of it, too.
        assert all("ERR_" in complaint for complaint in page.complaints)
        page.complaints.clear()

    async def test_a_viewer_that_has_stayed_for_long_comes_back_without_a_flicker(
        self, page: Page, scene: Shown, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nothing is said of it, and what happens is seen."""
        monkeypatch.setattr("governor.http.live.STAY", SECOND)
        monkeypatch.setattr("governor.http.live.HEARTBEAT_SECONDS", 0.1)
        scene.declare(semaphore("db", 4))
        await show(page, scene, many=1)
        await page.run(
            "window.flickered = false; new MutationObserver(() => {"
            " window.flickered ||= document.body.classList.contains('stale'); }"
            ").observe(document.body, { attributes: true })"
        )
        many = len(page.requests)
        await until(lambda: sum(url.endswith("/-/events") for url in page.requests[many:]) >= 2)
        scene.take("db")
        await page.until("document.querySelector('.of-use').innerText === '1 / 4'")

        assert await page.run("window.flickered") is False

    async def test_one_too_many_is_told_and_gets_its_turn(
        self, page: Page, scene: Shown, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As soon as somebody leaves."""
        monkeypatch.setattr("governor.http.pages._FULL_AGAIN_S", 1)
        scene.declare(semaphore("db", 4))
        views = [scene.pages._live.view() for _ in range(MAX_VIEWERS)]
        await page.open(scene.url)
        await page.until("document.querySelector('.alert h2')?.innerText === 'Too many look at this daemon'")
        for view in views:
            view.close()
        await page.until("document.querySelectorAll('tr.resource').length === 1")
        assert all("503" in complaint for complaint in page.complaints)
        page.complaints.clear()

    @staticmethod
    async def hasten(page: Page, milliseconds: int) -> None:
        """What would come after so long comes after a tenth of a second."""
        script = f"""{{
            const original = window.setTimeout;
            window.setTimeout = (call, delay) => original(call, delay === {milliseconds} ? 100 : delay);
        }}"""
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=script)

    async def test_a_connection_that_says_nothing_is_given_up(self, page: Page, scene: Shown) -> None:
        """A daemon that is frozen, or a network that is cut, says nothing of it: after 40 s it is asked anew."""
        await self.hasten(page, 40_000)
        scene.declare(semaphore("db", 4))
        await show(page, scene, many=1)
        await page.until("document.querySelector('#said').textContent.startsWith('The connection')")
        scene.take("db")
        await page.until("document.querySelector('.of-use').innerText === '1 / 4'")

        assert sum(url.endswith("/-/events") for url in page.requests) >= 2

    async def test_a_page_that_nobody_sees_leaves(self, page: Page, scene: Shown) -> None:
        """Its place is another's after a minute, and it is back as soon as somebody looks."""
        await self.hasten(page, 60_000)
        scene.declare(semaphore("db", 4))
        await show(page, scene, many=1)
        see = (
            "Object.defineProperty(document, 'hidden', {value: %s, configurable: true});"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )
        await page.run(see % "true")
        await until(lambda: not scene.pages._live.viewers)
        assert await page.run("document.querySelector('#link').innerText") == "live", "nobody is alarmed"
        scene.take("db")
        await page.run(see % "false")
        await page.until("document.querySelector('.of-use').innerText === '1 / 4'")

    async def test_an_old_page_makes_way_for_a_new_one(
        self, page: Page, scene: Shown, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A daemon of another version is shown by its own page."""
        scene.declare(semaphore("db", 4))
        await show(page, scene, many=1)
        await page.run("window.old = true")
        monkeypatch.setattr("governor.http.shown.PAGE_HASH", "another")
        await page.until("!window.old && document.querySelectorAll('tr.resource').length === 1")
