"""How the tests of this folder look at the page."""

import json
import re
from typing import Final

from governor.core.types import SECOND, Nanos
from tests.page.browser import Page
from tests.page.conftest import Shown

HOUR: Final[Nanos] = 3600 * SECOND


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


def seconds(said: str) -> int:
    """A length as the page says it, from a minute on."""
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([hms])", said))


async def focused(page: Page) -> str:
    """What has the focus says."""
    said: str = await page.run("document.activeElement.textContent || document.activeElement.id")
    return said
