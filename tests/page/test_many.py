"""500 resources and 10,000 leases, and somebody who watches."""

import asyncio
import random
from collections import Counter
from typing import Final

import pytest

from governor.core.snapshot import ResourceSnapshot
from governor.core.types import SECOND, LeaseId, Nanos
from governor.history import BUCKET, BUCKETS
from governor.http import live, shown
from tests.core.declared import semaphore
from tests.page.browser import Page
from tests.page.conftest import Shown
from tests.page.seeing import cells, show, texts

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


class Turns:
    """What the watching did in each turn of the event loop: resources that were compared, and that were told of."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.compared, self.told, self._turn = Counter[int](), Counter[int](), 0
        compare, tell = shown.resource, live._event

        def compared(of: ResourceSnapshot, now: Nanos) -> shown.Shown:
            self.compared[self._turn] += 1
            return compare(of, now)

        def told(name: str, value: shown.Json) -> bytes:
            if name in {"rows", "past"}:
                self.told[self._turn] += len(value["of"] if isinstance(value, dict) else value)  # type: ignore[arg-type]
            return tell(name, value)

        monkeypatch.setattr(shown, "resource", compared)
        monkeypatch.setattr(live, "_event", told)

    async def count(self) -> None:
        """For as long as it is not cancelled."""
        while True:
            await asyncio.sleep(0)
            self._turn += 1


async def test_the_page_works_and_nobody_is_held_up(page: Page, scene: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row is there, what changes is seen, details open; of all that, little is done in one turn of the loop."""
    held = furnish(scene)
    turns = Turns(monkeypatch)
    counting = asyncio.create_task(turns.count())
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

    # While all of them change, too.
    for name in held:
        scene.driver.release(tuple(held[name][:2]))
    await page.until("[...document.querySelectorAll('tr.resource')].some(tr => tr.innerText.includes('18 / 21'))")
    counting.cancel()

    assert sum(turns.compared.values()) >= 3 * RESOURCES
    assert max(turns.compared.values()) <= 200
    assert sum(turns.told.values()) >= 3 * RESOURCES
    assert max(turns.told.values()) <= 100
