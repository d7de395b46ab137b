"""The page of a real daemon, which is killed and started anew."""

import asyncio
import tempfile
from pathlib import Path

import pytest

from governor import AsyncClient
from tests.e2e.process import BOUND, Daemon
from tests.page.browser import Browser
from tests.ports import own_ports

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_it_outlives_the_daemon(browser: Browser) -> None:
    """It says that the daemon is gone, and shows the next one as soon as it is there, with what was left."""
    with tempfile.TemporaryDirectory(prefix="governor-") as name, own_ports(1) as (port,):
        folder = Path(name)
        config = folder / "governor.yaml"
        text = f"listen: [unix:{folder}/s]\nhttp: 127.0.0.1:{port}\nsemaphores:\n  jobs: {{permits: 4, lease: 1h}}\n"
        await asyncio.to_thread(config.write_text, text)
        daemon = await asyncio.to_thread(Daemon, config, folder / "state")
        page = await browser.page()
        try:
            await asyncio.to_thread(daemon.wait_until_it_serves)
            await page.open(f"http://127.0.0.1:{port}/#jobs")
            async with AsyncClient(f"unix:{folder}/s", name="ann") as client:
                lease = await client.acquire("jobs", permits=3, wait=BOUND)
                await page.until("document.querySelector('.of-use')?.innerText === '3 / 4'")
                await page.until("document.querySelector('.list tbody th')?.innerText.startsWith('ann')")
                lease.detach()
            await asyncio.to_thread(daemon.kill)
            await page.until("document.querySelector('#link').innerText === 'connection lost'")

            await asyncio.to_thread(config.write_text, text + "  new: {permits: 1}\n")
            daemon = await asyncio.to_thread(Daemon, config, folder / "state")
            await asyncio.to_thread(daemon.wait_until_it_serves)
            await page.until("document.querySelector('#link').innerText === 'live'")
            await page.until("document.querySelectorAll('tr.resource').length === 2")
            assert await page.run("document.querySelector('.of-use').innerText") == "3 / 4"
            assert f"pid {daemon.pid}," in await page.run("document.querySelector('#about').innerText")
        finally:
            await page.call("Page.close")
            await asyncio.to_thread(daemon.kill)
