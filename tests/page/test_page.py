"""What people see, and do, on the status page."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from governor.core.kinds.pool import MemberSpec
from governor.core.types import SECOND, Nanos, Outcome, Standing
from governor.history import BUCKET
from governor.http.live import MAX_VIEWERS
from tests.core.declared import pool, rate_limit, semaphore
from tests.http.test_server import until
from tests.page.browser import Page
from tests.page.conftest import Shown

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOUR: Final[Nanos] = 3600 * SECOND
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


async def show(page: Page, scene: Shown, *, many: int) -> None:
    """Open it, and wait until it shows so many resources."""
    await page.open(scene.url)
    await page.until(f"document.querySelectorAll('tr.resource').length === {many}")


async def texts(page: Page, selector: str) -> list[str]:
    """What each such element says that is to be seen."""
    said: list[str] = await page.run(
        f"[...document.querySelectorAll({json.dumps(selector)})].filter(n => n.offsetParent).map(n => n.innerText)"
    )
    return said


async def cells(page: Page, name: str) -> list[str]:
    """The row of one resource, as text."""
    said: list[str] = await page.run(
        f"[...[...document.querySelectorAll('tr.resource')].find(tr => tr.row.name === {json.dumps(name)}).cells]"
        ".map(cell => cell.innerText)"
    )
    return said


def button(name: str) -> str:
    """The expression of the button that a resource's name is."""
    return f"[...document.querySelectorAll('.name')].find(node => node.textContent === {json.dumps(name)})"


async def focused(page: Page) -> str:
    """What has the focus says."""
    said: str = await page.run("document.activeElement.textContent || document.activeElement.id")
    return said


class TestTheTable:
    """One row for each resource."""

    async def test_rows_show_what_there_is(self, page: Page, scene: Shown) -> None:
        """Kind, use, waiters and the oldest wait; of a rate limit what is spent."""
        scene.declare(semaphore("db", 2, max_wait=HOUR), rate_limit("api", (1, HOUR, 10)), semaphore("free", None))
        scene.take("db", permits=2)
        scene.take("api", permits=3)
        scene.take("free", permits=1234)
        scene.wait("db")
        scene.shift.later += 65 * SECOND
        await show(page, scene, many=3)

        row = await cells(page, "db")
        assert row[:4] == ["db", "semaphore", "2 / 2", "1"]
        assert row[4].startswith("1m0")
        assert await cells(page, "api") == ["api", "rate limit", "3 / 10", "0", "–", ""]
        assert (await cells(page, "free"))[2] == "1,234 / ∞"

    async def test_rows_change_as_the_daemon_does(self, page: Page, scene: Shown) -> None:
        """Without anybody's doing; rows come and go with a reload."""
        scene.declare(semaphore("db", 4))
        await show(page, scene, many=1)
        lease = scene.take("db", permits=3)
        await page.until("document.querySelector('.of-use').innerText === '3 / 4'")
        scene.driver.release((lease,))
        await page.until("document.querySelector('.of-use').innerText === '0 / 4'")

        scene.declare(semaphore("other", 1), semaphore("third", 1))
        await page.until("document.querySelectorAll('tr.resource').length === 2")
        assert await texts(page, ".name") == ["other", "third"]

    async def test_what_is_the_matter_is_marked(self, page: Page, scene: Shown) -> None:
        """In words, not by color alone."""
        scene.declare(
            semaphore("over", 4),
            semaphore("paused", 4),
            semaphore("draining", 4),
            semaphore("gone", 4),
            semaphore("full", 1, max_waiters=1),
            semaphore("closed", 0),
            pool("members", ["a", "b"]),
        )
        for name in ("over", "gone"):
            scene.take(name, permits=3)
        scene.take("full")
        scene.wait("full")
        scene.driver.release((scene.take("members"),), Outcome.BROKEN)
        scene.driver.set_standing("paused", Standing.PAUSED)
        scene.driver.set_standing("draining", Standing.DRAINING)
        scene.driver.set_override("over", semaphore("over", 1).limit, 600 * SECOND)
        declared = [scene.driver.declared(name) for name in ("over", "paused", "draining", "full", "closed", "members")]
        scene.declare(*(spec for spec in declared if spec is not None))
        await show(page, scene, many=7)

        marks = {
            name: await page.run(f"[...{button(name)}.closest('tr').querySelectorAll('.mark')].map(n => n.innerText)")
            for name in ("over", "paused", "draining", "gone", "full", "closed", "members")
        }
        over = marks.pop("over")
        assert over[0] == "2 over limit"
        assert over[1].startswith(("override, 9m5", "override, 10m0"))
        assert marks == {
            "paused": ["paused"],
            "draining": ["draining"],
            "gone": ["3 over limit", "removed"],
            "full": ["line full"],
            "closed": ["closed"],
            "members": ["1 quarantined"],
        }

    async def test_what_hurts_comes_first(self, page: Page, scene: Shown) -> None:
        """Who has waited for the longest, then what is the matter, then what is nearest to full."""
        scene.declare(*(semaphore(name, 10, max_wait=HOUR) for name in ("idle", "half", "marked", "short", "long")))
        scene.take("long", permits=10)
        scene.wait("long")
        scene.shift.later += SECOND
        scene.take("short", permits=10)
        scene.wait("short")
        scene.take("half", permits=5)
        scene.driver.set_standing("marked", Standing.PAUSED)
        await show(page, scene, many=5)

        assert await texts(page, ".name") == ["long", "short", "marked", "half", "idle"]

    async def test_it_is_sorted_as_one_likes(self, page: Page, scene: Shown) -> None:
        """By the heads of the columns or from the list, and a second time by what hurts again."""
        scene.declare(semaphore("b10", 10), semaphore("b9", 10), semaphore("a", 10))
        scene.take("b10", permits=5)
        await show(page, scene, many=3)
        await page.click("th[data-sort=name] button")
        assert await texts(page, ".name") == ["a", "b9", "b10"]
        assert await page.run("document.querySelector('[aria-sort]').innerText") == "Resource"
        assert await page.run("document.querySelector('#sort').value") == "name"

        await page.click("th[data-sort=name] button")
        assert await texts(page, ".name") == ["b10", "b9", "a"]
        assert await page.run("document.querySelector('[aria-sort]')") is None

    async def test_a_filter_leaves_what_is_like_it(self, page: Page, scene: Shown) -> None:
        """By name, kind or mark; all words must be there; it says how many are."""
        scene.declare(semaphore("orders-db", 4), semaphore("users-db", 4), rate_limit("orders-api", (1, HOUR, 10)))
        scene.driver.set_standing("users-db", Standing.PAUSED)
        await show(page, scene, many=3)
        for typed, found in {
            "orders": ["orders-api", "orders-db"],
            "orders rate": ["orders-api"],
            "PAUSED": ["users-db"],
            "nothing like it": [],
        }.items():
            await page.click("#filter")
            await page.press("Escape", typed)
            assert sorted(await texts(page, ".name")) == found
            assert await texts(page, "#shown") == [f"{len(found)} of 3 resources"]
        assert await texts(page, "#none") == ["Nothing here is like “nothing like it”."]

    async def test_with_nothing_declared_it_says_so(self, page: Page, scene: Shown) -> None:
        """An empty table would look broken."""
        await page.open(scene.url)
        await page.until("document.querySelector('#none').innerText === 'No resource is declared.'")

    async def test_the_past_ten_minutes_are_drawn(self, page: Page, scene: Shown) -> None:
        """For the eye as a line, for a screen reader as a sentence; and they go on."""
        scene.declare(semaphore("db", 4, max_wait=HOUR, lease=HOUR), rate_limit("api", (10, SECOND, 10)))
        scene.take("api", permits=7)
        leases = [scene.take("db", permits=2), scene.take("db", permits=2)]
        scene.wait("db")
        scene.shift.later += 2 * BUCKET
        scene.driver.release(tuple(leases))
        scene.shift.later += BUCKET
        await show(page, scene, many=2)
        await page.until(f"{button('db')}.closest('tr').querySelector('.area').getAttribute('d')")
        label = f"{button('db')}.closest('tr').querySelector('svg').getAttribute('aria-label')"
        assert await page.run(label) == "Last 10 minutes: at most 4 in use, at most 1 waiting"
        assert await page.run(f"{button('db')}.closest('tr').querySelector('.queue').getAttribute('d')")
        assert await page.run(label.replace('"db"', '"api"')) == (
            "Last 10 minutes: at most 7 granted in 10 seconds, at most 0 waiting"
        )

        scene.driver.release(tuple(scene.driver.lease_ids()))
        scene.shift.later += 61 * BUCKET
        await page.until(f"{label} === 'Last 10 minutes: at most 0 in use, at most 0 waiting'")


class TestDetails:
    """Who holds a resource, and who waits for it."""

    async def test_a_click_shows_them(self, page: Page, scene: Shown) -> None:
        """Client, process, age and what remains; another click hides them again."""
        scene.declare(semaphore("db", 2, max_wait=HOUR))
        first = scene.take("db", client="web", lease=HOUR)
        scene.own(first, pid=4711, host="worker-1")
        scene.take("db", lease=HOUR)
        scene.wait("db", permits=2, client="batch")
        scene.shift.later += 90 * SECOND
        await show(page, scene, many=1)
        await page.click(".name")
        await page.until("document.querySelectorAll('.list tbody tr').length === 3")

        lists = await page.run("[...document.querySelectorAll('.list table')].map(t => [t.getAttribute('aria-label'),"
                               " ...[...t.tBodies[0].rows].map(r => [...r.cells].map(c => c.innerText))])")  # fmt: skip
        (leases, one, two), (waiters, three) = lists
        assert (leases, waiters) == ("Leases", "Waiters")
        assert (one[0].split(), one[1], one[4]) == (["web", "pid", "4711", "on", "worker-1"], "1", str(first))
        assert one[2].startswith("1m3")
        # Time that jumps by more than a heartbeat may look like a pause, after which leases end as much later.
        assert one[3].startswith(("58m", "59m"))
        assert two[0] == "(no name)"
        assert (three[0], three[1]) == ("1. batch", "2")
        assert await page.run("location.hash") == "#db"

        await page.click(".name")
        assert await page.run("document.querySelector('.detail')") is None
        assert await page.run("location.hash") == ""

    async def test_they_change_as_the_daemon_does(self, page: Page, scene: Shown) -> None:
        """Every other second."""
        scene.declare(semaphore("db", 8))
        await show(page, scene, many=1)
        await page.click(".name")
        await page.until("document.querySelector('.detail h3')?.innerText === 'Leases 0'")
        scene.take("db", client="late")
        await page.until("document.querySelector('.list tbody th')?.innerText === 'late'")

    async def test_of_very_many_it_shows_the_first(self, page: Page, scene: Shown) -> None:
        """And says how many more there are."""
        scene.declare(semaphore("db", 5000, lease=HOUR))
        for _ in range(1234):
            scene.take("db")
        await show(page, scene, many=1)
        await page.click(".name")
        await page.until("document.querySelectorAll('.list tbody tr').length === 100")

        assert await texts(page, ".more") == ["and 1,134 more; the command line lists all of them"]

    async def test_members_and_windows_are_shown(self, page: Page, scene: Shown) -> None:
        """With their states, and without what may be a secret."""
        scene.declare(
            pool("db", [MemberSpec("primary", (("endpoint", "s3cret"),), 2), MemberSpec("replica")]),
            rate_limit("api", (10, SECOND, 10)),
        )
        scene.take("db", lease=HOUR)
        scene.driver.quarantine("db", "replica", 60 * SECOND)
        await show(page, scene, many=2)
        await page.run(f"{button('db')}.click()")
        await page.until("document.querySelector('table[aria-label=Members] tbody tr')")
        members = await page.run(
            "[...document.querySelectorAll('table[aria-label=Members] tbody tr')]"
            ".map(tr => [...tr.cells].map(cell => cell.innerText))"
        )
        assert [member[0] for member in members] == ["primary", "replica"]
        assert members[1][1].startswith("quarantined by an operator")
        assert "s3cret" not in await page.run("document.documentElement.outerHTML")

        await page.run(f"{button('api')}.click()")
        await page.until("document.querySelector('table[aria-label=Windows] tbody th')?.innerText === '10/s'")
        assert await page.run("document.querySelectorAll('.detail').length") == 1

    async def test_an_address_with_a_name_opens_it(self, page: Page, scene: Shown) -> None:
        """So that it can be sent to somebody; also one with a slash."""
        scene.declare(semaphore("a/b c", 1), semaphore("other", 1))
        await page.open(f"{scene.url}#a%2Fb%20c")
        await page.until("document.querySelector('[aria-expanded=true]')?.textContent === 'a/b c'")

    async def test_a_resource_that_goes_takes_its_details_along(self, page: Page, scene: Shown) -> None:
        """Nothing is left that looks as if it were live."""
        scene.declare(semaphore("db", 1), semaphore("other", 1))
        await show(page, scene, many=2)
        await page.run(f"{button('db')}.click()")
        await page.until("document.querySelector('.detail h3')")
        scene.declare(semaphore("other", 1))
        await page.until("document.querySelectorAll('#resources > tbody > tr').length === 1")


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
        assert (await cells(page, "db"))[2] == "3 / 4"
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
