"""500 resources and 10,000 leases, and somebody who watches."""

import asyncio
import random
import time
from typing import Final

import pytest

from governor.core.types import SECOND, LeaseId, Nanos
from governor.history import BUCKET, BUCKETS
from tests.core.declared import semaphore
from tests.page.browser import Browser, Page
from tests.page.conftest import Shown
from tests.page.test_page import cells, show, texts

pytestmark = pytest.mark.asyncio(loop_scope="module")

RESOURCES: Final = 500
LEASES: Final = 10_000
HOUR: Final[Nanos] = 3600 * SECOND


def furnish(scene: Shown) -> dict[str, list[LeaseId]]:
    """All of it lent, with ten minutes in which much has happened; every tenth resource is full and waited for."""
    names = [f"resource-{number:03}" for number in range(RESOURCES)]
    each = LEASES // RESOURCES
    scene.declare(
        *(semaphore(name, each + number % 10, lease=HOUR, max_wait=HOUR) for number, name in enumerate(names))
    )
    held = {name: [scene.take(name, client=f"client-{number % 7}") for number in range(each)] for name in names}
    chance = random.Random(7)
    for _ in range(BUCKETS + 1):
        for name in chance.sample(names, 50):
            scene.driver.release((held[name].pop(),))
            held[name].append(scene.take(name))
        scene.shift.later += BUCKET
    for name in names[::10]:
        scene.wait(name)
    return held


async def held_up(seconds: float) -> float:
    """The most processor time that one turn of the event loop took meanwhile, but for the longest few.

    Those are of the garbage collector, which has all of this test's objects to look at.
    """
    took: list[float] = []
    end, last = time.monotonic() + seconds, time.thread_time()
    while time.monotonic() < end:
        await asyncio.sleep(0)
        took.append((now := time.thread_time()) - last)
        last = now
    return sorted(took)[-20]


async def test_the_page_works_and_nobody_is_held_up(browser: Browser, page: Page, scene: Shown) -> None:
    """Every row is there, what changes is seen, details open; the event loop is never taken for long."""
    held = furnish(scene)
    await show(page, scene, many=RESOURCES)
    assert (await texts(page, ".name"))[:2] == ["resource-000", "resource-010"]
    assert (await cells(page, "resource-000"))[2:4] == ["20 / 20", "1"]

    scene.driver.release(tuple(held["resource-499"][:15]))
    await page.until("[...document.querySelectorAll('tr.resource')].some(tr => tr.innerText.includes('5 / 29'))")
    await page.click("#filter")
    await page.press("resource-123")
    assert await texts(page, ".name") == ["resource-123"]
    await page.press("ArrowDown", "Enter")
    await page.until("document.querySelectorAll('.list tbody tr').length === 20")
    await page.press("/", "Escape")
    await page.until(f"[...document.querySelectorAll('.name')].filter(n => n.offsetParent).length === {RESOURCES}")

    async def borrow() -> None:
        chance = random.Random(8)
        for _ in range(200):
            name = f"resource-{chance.randrange(1, 400, 10) + 1:03}"
            scene.driver.release((held[name].pop(),))
            held[name].append(scene.take(name))
            await asyncio.sleep(0.005)

    most, _ = await asyncio.gather(held_up(2), borrow())
    assert most < 0.02
