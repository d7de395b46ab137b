"""A crawler that keeps to two limits of a partner at once: so many requests a second, and so many at a time.

    python crawler.py http://127.0.0.1:8000/

It fetches every page that can be reached within the site. However many tasks it starts, on however many machines: each
fetch has a call of the rate limit and one of the places, both granted together or neither. Needs a daemon on
partner-apis.yaml; `python -m http.server --bind 127.0.0.1` serves a site to try it on.
"""

import asyncio
import re
import sys
import time
from typing import Final
from urllib.parse import urljoin, urlsplit

from governor import AsyncClient, GovernorError

# One call of the rate limit, which is spent, and one place, which is given back.
ONE_FETCH: Final = {"partner-api": 1, "partner-api-calls": 1}
LINK: Final = re.compile(r'href="([^"#]+)')


async def crawl(start: str, gov: AsyncClient) -> dict[str, int]:
    """Every page of the site and its size in bytes."""
    seen = {start}
    sizes: dict[str, int] = {}

    async def visit(url: str) -> None:
        async with gov.acquire(ONE_FETCH, wait=30, on_loss="cancel"):
            page = await fetch(url)
        sizes[url] = len(page)
        print(f"{len(page):>9}  {url}", flush=True)
        for link in LINK.findall(page.decode(errors="replace")):
            found = urljoin(url, link)
            if found.startswith(start) and found not in seen:
                seen.add(found)
                tasks.create_task(visit(found))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(visit(start))
    return sizes


async def fetch(url: str) -> bytes:
    """The body of a page, by the plainest HTTP there is. Raises ConnectionError, with the page in it."""
    parts = urlsplit(url)
    try:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
        try:
            writer.write(f"GET {parts.path or '/'} HTTP/1.0\r\nHost: {parts.netloc}\r\n\r\n".encode())
            await writer.drain()
            _, answered, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
    except OSError as error:
        raise ConnectionError(f"{url}: {error.strerror or error}") from error
    if not answered:
        raise ConnectionError(f"{url}: the site closed the connection without an answer")
    return body


async def main(start: str) -> None:
    """Say what there is: each page as it comes, and at the end how many."""
    began = time.monotonic()
    async with AsyncClient(name="crawler") as gov:
        sizes = await crawl(start, gov)
    print(f"{len(sizes)} pages, {sum(sizes.values())} bytes, in {time.monotonic() - began:.1f}s")


if __name__ == "__main__":
    if len(sys.argv[1:]) != 1 or not sys.argv[1].startswith("http://"):
        sys.exit("usage: python crawler.py http://HOST[:PORT]/")
    try:
        asyncio.run(main(*sys.argv[1:]))
    except* (GovernorError, ConnectionError) as group:
        # One refusal ends the group of tasks, and every lease that they had goes back; so does a site that is down.
        sys.exit(f"crawler: {group.exceptions[0]}")
    except* KeyboardInterrupt:
        sys.exit(130)
