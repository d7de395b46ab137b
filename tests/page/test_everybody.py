"""The page is for everybody, whatever they see it with; and whatever others have named does nothing there."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from governor.core.kinds.pool import MemberSpec
from governor.core.types import SECOND, Standing
from tests.core.declared import pool, rate_limit, semaphore
from tests.page.browser import Page
from tests.page.conftest import Shown
from tests.page.seeing import HOUR, button, focused, show, texts

pytestmark = pytest.mark.asyncio(loop_scope="module")

AXE: Final = Path(__file__).resolve().parents[2] / "build" / "page" / "node_modules" / "axe-core" / "axe.min.js"

HOSTILE: Final = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    '"><svg onload=alert(1)>',
    "javascript:alert(1)",
    "{{constructor.constructor('alert(1)')()}}",
    "&lt;b&gt; &amp; &quot;",
    "__proto__",
    "constructor",
    "a\u202eb\u0000c\u2028d",
)


class TestHostileText:
    """Names are text, whatever is in them."""

    @pytest.mark.parametrize("name", HOSTILE)
    async def test_nothing_of_it_is_done(self, page: Page, scene: Shown, name: str) -> None:
        """Neither in the name of a resource, a client, a host or a member, nor in what is wrong with a config."""
        scene.declare(pool(name, [MemberSpec(name, (), 2)], max_wait=HOUR), semaphore("other", 1))
        scene.own(scene.take(name, client=name), pid=1, host=name)
        scene.take(name, client=name)
        scene.wait(name, "other", client=name)
        scene.refuse(name)
        await show(page, scene, many=2)
        await page.run("window.elements = document.querySelectorAll('*').length")
        await page.run(f"{button(name)}.click()")
        await page.until("document.querySelector('.list tbody tr')")
        html = await page.run("[...document.querySelectorAll('img, svg[onload], b, script')].length")

        assert html == 1, "there is one script, and it is ours"
        assert await page.run("document.querySelector('.name').textContent") == name
        assert await page.run("document.querySelector('.alert li').textContent") == name
        assert await page.run("document.querySelector('.list tbody th span').textContent") == name


class TestKeyboard:
    """All of it can be done without a mouse."""

    async def test_it_opens_and_closes(self, page: Page, scene: Shown) -> None:
        """The focus stays where it was."""
        scene.declare(semaphore("a", 4), semaphore("b", 4))
        await show(page, scene, many=2)
        await page.press("/")
        assert await focused(page) == "filter"
        await page.press("b", "ArrowDown")
        assert await focused(page) == "b"
        await page.press("Enter")
        await page.until("document.querySelector('.detail h3')")
        assert await page.run("document.activeElement.getAttribute('aria-expanded')") == "true"
        await page.press("Escape")
        assert await page.run("document.querySelector('.detail')") is None
        assert await focused(page) == "b"
        await page.press("/", "Escape", "Tab", "Tab", "Tab", "Tab", "Tab", "Tab")
        assert await focused(page) == "a"
        await page.press("ArrowDown")
        assert await focused(page) == "b"
        await page.press(" ")
        await page.until("document.querySelector('.detail h3')")

    async def test_the_focus_stays_while_rows_move(self, page: Page, scene: Shown) -> None:
        """Others are moved around it: what is under one's finger is what was there before."""
        scene.declare(*(semaphore(name, 4, max_wait=HOUR) for name in "abcde"))
        await show(page, scene, many=5)
        await page.run(f"{button('c')}.focus()")
        await page.run("window.blurs = 0; document.activeElement.addEventListener('blur', () => window.blurs++)")
        for name in "edca":
            scene.take(name, permits=4)
            scene.wait(name)
            scene.shift.later += SECOND
        await page.until("document.querySelector('.name').textContent === 'e'")
        assert await texts(page, ".name") == ["e", "d", "c", "a", "b"]
        assert await focused(page) == "c"
        assert await page.run("window.blurs") == 0


class TestForEverybody:
    """Light and dark, small and large, seen and heard."""

    @staticmethod
    def furnish(scene: Shown) -> None:
        """A bit of everything."""
        scene.declare(
            semaphore("thumbnails", 2, max_wait=HOUR),
            pool("a-pool-with-a-name-that-is-as-long-as-names-of-resources-may-be", ["primary", "replica"]),
            rate_limit("api", (1, HOUR, 10)),
            semaphore("paused", 4),
        )
        scene.own(scene.take("thumbnails", permits=2, client="resizer", lease=HOUR), pid=123, host="worker-1")
        scene.wait("thumbnails", client="batch")
        scene.driver.quarantine("a-pool-with-a-name-that-is-as-long-as-names-of-resources-may-be", "primary", None)
        scene.driver.set_standing("paused", Standing.PAUSED)
        scene.refuse("governor.yaml:2: semaphores.thumbnails.permits: expected a whole number; found lots")

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("phone", [False, True], ids=["desk", "phone"])
    async def test_axe_finds_nothing_wrong(self, page: Page, scene: Shown, scheme: str, *, phone: bool) -> None:
        """By the rules of WCAG 2.2 A and AA, contrast among them; with details, alerts and marks to be seen."""
        if not AXE.is_file():
            pytest.fail("this test needs axe-core: apt-get install npm, then make page", pytrace=False)
        self.furnish(scene)
        await page.prefer(scheme)
        if phone:
            await page.resize(375, 812, phone=True)
        await show(page, scene, many=4)
        await page.run(f"{button('thumbnails')}.click()")
        await page.until("document.querySelectorAll('.list tbody tr').length === 2")
        await page.run(await asyncio.to_thread(AXE.read_text))
        found: dict[str, list[dict[str, Any]]] = await page.run(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"
            ".then(found => ({violations: found.violations, passes: found.passes}))"
        )

        wrong = [
            f"{rule['id']}: {node['html'][:200]} {node['failureSummary']}"
            for rule in found["violations"]
            for node in rule["nodes"]
        ]
        assert wrong == []
        passed = {rule["id"] for rule in found["passes"]}
        assert {"color-contrast", "aria-required-children", "button-name", "label"} <= passed

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    async def test_it_follows_the_scheme_of_the_system(self, page: Page, scene: Shown, scheme: str) -> None:
        """Also while it is open."""
        scene.declare(semaphore("db", 4))
        await show(page, scene, many=1)
        await page.prefer(scheme)
        red, green, blue = json.loads(
            (await page.run("getComputedStyle(document.documentElement).backgroundColor"))
            .replace("rgb(", "[").replace(")", "]")
        )  # fmt: skip
        assert (red + green + blue > 600) == (scheme == "light")

    @pytest.mark.parametrize("width", [320, 375, 640, 641, 860, 1280])
    async def test_no_width_needs_scrolling_sideways(self, page: Page, scene: Shown, width: int) -> None:
        """With details, alerts and long names; nothing is cut off either."""
        self.furnish(scene)
        await page.resize(width, 800, phone=width < 600)
        await show(page, scene, many=4)
        await page.run(f"{button('thumbnails')}.click()")
        await page.until("document.querySelectorAll('.list tbody tr').length === 2")

        assert await page.run("document.documentElement.scrollWidth") <= width
        cut = await page.run(
            "[...document.querySelectorAll('.frame *, header *, #alerts *')]"
            ".filter(node => node.offsetParent && !node.closest('thead, svg'))"
            ".filter(node => node.getBoundingClientRect().right > innerWidth + 0.5)"
            ".map(node => node.outerHTML.slice(0, 99))"
        )
        assert cut == []

    @pytest.mark.parametrize("phone", [False, True], ids=["desk", "phone"])
    async def test_a_screen_reader_is_told_a_table(self, page: Page, scene: Shown, *, phone: bool) -> None:
        """Also where it does not look like one."""
        self.furnish(scene)
        if phone:
            await page.resize(375, 812, phone=True)
        await show(page, scene, many=4)
        tree = await page.tree()

        assert ("table", "Resources") in tree
        assert [name for role, name in tree if role == "columnheader"][:1] == ["Resource"]
        assert len([role for role, _ in tree if role == "rowheader"]) == 4
        assert ("button", "thumbnails") in tree
        assert ("searchbox", "Filter") in tree
        assert ("combobox", "Sort by") in tree
        assert sum(role == "status" for role, _ in tree) == 2

    async def test_rows_that_change_are_not_read_aloud(self, page: Page, scene: Shown) -> None:
        """Only what must be known at once is."""
        self.furnish(scene)
        await show(page, scene, many=4)
        live = await page.run(
            "[...document.querySelectorAll('[aria-live], [role=status], [role=alert]')].map(n => n.id)"
        )
        assert live == ["said", "shown"]
