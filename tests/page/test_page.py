"""What people see, and do, on the status page: resources, and who has and wants them."""

import re

import pytest

from governor.core.kinds.pool import MemberSpec
from governor.core.types import SECOND, Outcome, Said, Standing
from governor.history import BUCKET
from governor.http.document import PAGE
from governor.wording import DAY, MILLISECOND, MINUTE, span
from governor.wording import HOUR as AN_HOUR
from tests.core.declared import pool, rate_limit, semaphore
from tests.page.browser import BOUND, Page
from tests.page.conftest import Shown
from tests.page.seeing import HOUR, button, cells, seconds, show, texts

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_length_from_a_minute_on_reads_as_it_does_in_the_terminal(page: Page) -> None:
    """At whole minutes, hours and days, and a second beside each: what is not there is not said."""
    (function,) = re.findall(r"^  function span\(.*?^  }$", PAGE.decode(), re.DOTALL | re.MULTILINE)
    whole = [number * unit for unit in (MINUTE, AN_HOUR, DAY) for number in (1, 2, 9, 10, 23, 24, 59, 60, 100)]
    lengths = [length + more * SECOND for length in whole for more in (-1, 0, 1) if length + more * SECOND >= MINUTE]
    said = await page.run(f"(() => {{ {function}\n return {[each // MILLISECOND for each in lengths]}.map(span); }})()")

    assert said == [span(each, passed=True) for each in lengths]


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
        assert 65 <= seconds(row[4]) < 65 + BOUND
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

    async def test_a_long_name_is_as_high_as_its_lines(self, page: Page, scene: Shown) -> None:
        """What is the matter has a line below it, if anything is; else there is none."""
        long = "a-name-" * 12
        scene.declare(semaphore(f"{long}1", 1), semaphore(f"{long}2", 1))
        scene.driver.set_standing(f"{long}2", Standing.PAUSED)
        await show(page, scene, many=2)
        await page.until("document.querySelector('.mark') !== null")
        paused, plain = await page.run(
            "[true, false].map(marked => [...document.querySelectorAll('tr.resource > th')]"
            ".find(th => (th.querySelector('.mark') !== null) === marked))"
            ".map(th => th.clientHeight - th.querySelector('.name').offsetHeight)"
        )

        assert plain < 16 < paused

    async def test_what_is_the_matter_is_marked(self, page: Page, scene: Shown) -> None:
        """In words, not by color alone."""
        scene.declare(
            semaphore("over", 4),
            semaphore("paused", 4),
            semaphore("draining", 4),
            semaphore("gone", 4),
            semaphore("full", 1, max_waiters=1),
            semaphore("closed", 0),
            pool("members", ["a", "b"], quarantine=HOUR, max_quarantine=HOUR),
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
        assert over[1].startswith("override, ")
        assert 600 - BOUND < seconds(over[1].removeprefix("override, ")) <= 600
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
        assert 90 <= seconds(one[2]) < 90 + BOUND
        # Time that jumps by more than a heartbeat may look like a freeze, after which leases end as much later.
        assert 3600 - 90 - BOUND < seconds(one[3]) <= 3600
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

    async def test_details_say_who_has_ordered_what_and_why(self, page: Page, scene: Shown) -> None:
        """As far as he said; whatever it is, it is text."""
        scene.declare(semaphore("db", 4), pool("members", ["a"]))
        scene.driver.set_standing("db", Standing.PAUSED, Said("joe@web-1", "<b>the provider</b> is down"))
        scene.driver.set_override("db", semaphore("db", 9).limit, 600 * SECOND, Said(reason="a sale"))
        scene.driver.quarantine("members", "a", None, Said("ann", "it lags"))
        await show(page, scene, many=2)
        titles = f"[...{button('db')}.closest('tr').querySelectorAll('.mark')].map(n => n.title)"
        assert await page.run(titles) == ["by joe@web-1: <b>the provider</b> is down", "a sale"]
        await page.run(f"{button('db')}.click()")
        facts = "document.querySelector('.detail .facts')?.innerText ?? ''"
        await page.until(f"({facts}).includes('paused')")
        assert "paused by joe@web-1: <b>the provider</b> is down · override a sale" in str(await page.run(facts))

        await page.run(f"{button('members')}.click()")
        member = "document.querySelector('table[aria-label=Members] tbody tr')?.innerText ?? ''"
        await page.until(f"({member}).includes('by ann: it lags')")

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
