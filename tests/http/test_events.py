"""Server-sent events over real connections: many viewers, slow ones, and those that leave."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import pytest_asyncio
from aiohttp import ClientSession, TCPConnector

from governor.address import TcpAddress
from governor.bounds import DEFAULT_HTTP
from governor.clock import LoopClock
from governor.http import live as live_module
from governor.http import server as server_module
from governor.http.live import MAX_VIEWERS
from governor.http.pages import Pages
from governor.http.server import HttpServer, serve
from governor.metrics import Metrics
from tests.core.declared import semaphore
from tests.http.scene import Scene
from tests.http.test_server import connection, exchange, read_all, until

GET = b"GET /-/events HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Served(Scene):
    """A scene, and where it is served."""

    server: HttpServer
    pages: Pages

    @property
    def viewers(self) -> int:
        """How many watch now."""
        return len(self.pages._live.viewers)


@pytest_asyncio.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """Looked at every ten milliseconds, so that tests need not wait; leaves nothing behind."""
    monkeypatch.setattr(live_module, "LOOK_EVERY", 10_000_000)
    scene = Served(LoopClock())
    scene.declare(semaphore("db", 1000))
    scene.pages = Pages(Metrics(scene.driver.snapshot, version="1.2.3"), lambda: None, scene.sight)
    scene.server = await serve(TcpAddress("127.0.0.1", 0), scene.pages)
    yield scene
    await scene.server.stop()
    scene.driver.close()
    assert scene.viewers == 0
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


@asynccontextmanager
async def watching(scene: Served, sent: bytes = GET) -> AsyncIterator[asyncio.StreamReader]:
    """One who watches, and has been told everything."""
    async with connection(scene.server) as (reader, writer):
        writer.write(sent)
        async with asyncio.timeout(60):
            while await reader.readline() != b"event: done\n":
                pass
        yield reader


async def in_use(reader: asyncio.StreamReader) -> int:
    """Of the next row that it is told."""
    async with asyncio.timeout(60):
        await reader.readuntil(b"event: rows\ndata: ")
        (row,) = json.loads(await reader.readline())
    number: int = row["in_use"]
    return number


async def test_what_changes_is_told(scene: Served) -> None:
    """To everybody who watches."""
    async with watching(scene) as first, watching(scene) as second:
        scene.take("db", permits=7)
        assert await in_use(first) == await in_use(second) == 7


async def test_it_is_an_event_stream_that_nobody_keeps(scene: Served) -> None:
    """Neither a cache nor a proxy that gathers, nor a page of another origin."""
    async with connection(scene.server) as (reader, writer):
        writer.write(GET)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()

    assert head.startswith("HTTP/1.1 200 OK\r\n")
    for line in (
        "Content-Type: text/event-stream; charset=utf-8",
        "Cache-Control: no-store",
        "X-Accel-Buffering: no",
        "Cross-Origin-Resource-Policy: same-origin",
        "Server: governor",
    ):
        assert f"{line}\r\n" in head
    assert "Access-Control" not in head


async def test_old_clients_can_watch_too(scene: Served) -> None:
    """HTTP/1.0 knows no chunks: the stream is what comes until the end."""
    async with watching(scene, b"GET /-/events HTTP/1.0\r\n\r\n") as reader:
        scene.take("db", permits=3)
        assert await in_use(reader) == 3
        await scene.server.stop()
        rest = await reader.read()

    assert b"\r\n" not in rest


async def test_head_says_what_get_would_and_watches_nothing(scene: Served) -> None:
    """It takes nobody's place."""
    answer = await exchange(scene.server, b"HEAD /-/events HTTP/1.0\r\n\r\n")

    assert answer.startswith(b"HTTP/1.0 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\n")
    assert scene.viewers == 0


async def test_whoever_leaves_makes_room_at_once(scene: Served) -> None:
    """Not only when something is sent to it the next time."""
    async with AsyncExitStack() as stack:
        for _ in range(MAX_VIEWERS):
            await stack.enter_async_context(watching(scene))
        answer = await exchange(scene.server, GET.replace(b"1.1", b"1.0"))
        assert answer.startswith(b"HTTP/1.0 503 Service Unavailable\r\n")
        assert b"Retry-After: 5\r\n" in answer
        assert answer.endswith(b"too many watch; try again soon\n")
    await until(lambda: scene.viewers == 0)

    async with watching(scene):
        assert scene.viewers == 1


async def test_a_full_house_of_viewers_leaves_room_for_scrapes(scene: Served) -> None:
    """And for probes: watching takes a quarter of the connections at most."""
    async with AsyncExitStack() as stack:
        for _ in range(MAX_VIEWERS):
            await stack.enter_async_context(watching(scene))
        for path in (b"/metrics", b"/-/healthy"):
            answer = await exchange(scene.server, b"GET " + path + b" HTTP/1.0\r\n\r\n")
            assert answer.startswith(b"HTTP/1.0 200 OK\r\n")
    assert MAX_VIEWERS * 4 <= DEFAULT_HTTP


async def test_a_viewer_that_does_not_read_is_cut_off(scene: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while, and until then it costs no more than what the kernel and one write take."""
    monkeypatch.setattr(server_module, "SEND_SECONDS", 0.2)
    scene.declare(*(semaphore(f"resource-{number}", 1000) for number in range(2000)))
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)  # noqa: FBT003
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", scene.server.port))
        await asyncio.get_running_loop().sock_sendall(sock, GET)
        await until(lambda: scene.viewers == 1)

        async with asyncio.timeout(60):
            while scene.viewers:
                for number in range(2000):
                    scene.take(f"resource-{number}")
                await asyncio.sleep(0.01)
        left = await read_all(sock)
    assert not left.endswith(b"0\r\n\r\n")
    assert len(left) < 20_000_000


async def test_a_slow_viewer_does_not_hold_up_a_quick_one(scene: Served) -> None:
    """Each has its own pace."""
    scene.declare(*(semaphore(f"resource-{number}", 1000) for number in range(2000)))
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.setblocking(False)  # noqa: FBT003
        await asyncio.get_running_loop().sock_connect(slow, ("127.0.0.1", scene.server.port))
        await asyncio.get_running_loop().sock_sendall(slow, GET)
        await until(lambda: scene.viewers == 1)
        async with watching(scene) as quick:
            scene.take("resource-7", permits=5)
            assert await in_use(quick) == 5
    await until(lambda: scene.viewers == 0)


async def test_the_end_ends_it_at_once(scene: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """In good order: the viewer sees that nothing was cut off, and the end of the daemon does not wait for it."""
    monkeypatch.setattr(server_module, "STOP_SECONDS", 60)
    async with watching(scene) as reader, asyncio.timeout(60):
        await scene.server.stop()
        assert (await reader.read()).endswith(b"0\r\n\r\n")


async def test_a_viewer_that_comes_as_the_end_begins_is_answered(scene: Served) -> None:
    """And hears that it is over."""
    async with connection(scene.server) as (reader, writer), asyncio.timeout(60):
        writer.write(GET)
        await scene.server.stop()
        await reader.read()
    assert scene.viewers == 0


async def test_one_who_leaves_before_the_answer_is_forgotten(scene: Served) -> None:
    """However early."""
    for _ in range(30):
        async with connection(scene.server) as (_, writer):
            writer.write(GET)
    await until(lambda: scene.server.connections == 0)
    assert scene.viewers == 0


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("path", ["/-/events", "/-/resources/db"])
async def test_scripts_of_other_sites_are_sent_away(scene: Served, site: str, path: str) -> None:
    """They could not read the answer, but they could take all places."""
    async with ClientSession(f"http://127.0.0.1:{scene.server.port}", connector=TCPConnector(limit=0)) as client:
        async with client.get(path, headers={"Sec-Fetch-Site": site}) as answer:
            assert answer.status == 403
        assert scene.viewers == 0
        async with client.get(path, headers={"Sec-Fetch-Site": "same-origin"}) as answer:
            assert answer.status == 200


class TestDetails:
    """Of one resource, by its name in the path."""

    async def test_a_name_may_have_anything_in_it(self, scene: Served) -> None:
        """Slashes, percent signs, and letters of all kinds."""
        for name in ("a/b", "100%", "käse", "a b?c#d", "/", "..", "%2F"):
            scene.declare(semaphore(name, 4))
            lease = scene.take(name)
            quoted = "".join(f"%{byte:02X}" for byte in name.encode())
            answer = await exchange(scene.server, f"GET /-/resources/{quoted} HTTP/1.0\r\n\r\n".encode())
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.0 200 OK\r\n"), name
            assert b"Content-Type: application/json\r\n" in head
            assert json.loads(body)["leases"][0]["id"] == lease
            scene.driver.release((lease,))

    @pytest.mark.parametrize("name", ["nope", "", "%00", "%FF%FE", "db/", "%2e%2e/x"])
    async def test_one_that_is_not_there_is_not_found(self, scene: Served, name: str) -> None:
        """And said in plain words, without the name, which may be anything."""
        answer = await exchange(scene.server, f"GET /-/resources/{name} HTTP/1.0\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.0 404 Not Found\r\n")
        assert answer.endswith(b"\r\n\r\nthere is no such resource\n")


class TestThePage:
    """What a browser is sent."""

    async def test_a_browser_gets_the_page_and_curl_the_list(self, scene: Served) -> None:
        """By what they accept."""
        async with ClientSession(f"http://127.0.0.1:{scene.server.port}") as client:
            async with client.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}) as answer:
                assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
                assert answer.headers["Vary"] == "Accept"
                assert (await answer.text()).startswith("<!doctype html>")
            async with client.get("/", headers={"Accept": "*/*"}) as answer:
                assert (answer.headers["Content-Type"], answer.headers["Vary"]) == (
                    "text/plain; charset=utf-8",
                    "Accept",
                )

    async def test_it_may_do_nothing_but_what_it_does(self, scene: Served) -> None:
        """No script or style but its own, no other origin, no frame around it, and no text that becomes HTML."""
        async with (
            ClientSession(f"http://127.0.0.1:{scene.server.port}") as client,
            client.get("/", headers={"Accept": "text/html"}) as answer,
        ):
            policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
            headers = answer.headers

        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["connect-src"] == "'self'"
        assert policy["require-trusted-types-for"] == "'script'"
        for source in ("script-src", "style-src"):
            assert policy[source].startswith("'sha256-")
            assert policy[source].count("'") == 2
        assert "unsafe" not in str(policy)
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "no-referrer"
