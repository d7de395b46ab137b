"""What each path answers, over real HTTP."""

import asyncio
from collections.abc import Iterator

import pytest
from aiohttp import ClientSession

from governor.core.snapshot import Snapshot
from governor.http.reply import Reply
from tests.http.conftest import Daemon
from tests.metrics.reading import OPENMETRICS, resource, snapshot, text

TEXT = "text/plain; charset=utf-8"
PATHS = ("/", "/metrics", "/-/healthy", "/-/ready")


async def test_the_index_lists_what_there_is(client: ClientSession) -> None:
    """As plain text; every path that it lists answers."""
    async with client.get("/") as answer:
        body = await answer.text()

        assert (answer.status, answer.headers["Content-Type"]) == (200, TEXT)
    listed = [line.split()[0] for line in body.splitlines() if line.startswith("/")]
    assert listed == [*PATHS, "/-/events", "/-/resources/NAME"]
    for path in PATHS:
        async with client.get(path) as answer:
            assert answer.status == 200


async def test_metrics_are_the_page_of_the_moment(client: ClientSession, daemon: Daemon) -> None:
    """Everything of governor's own on it, and the next scrape sees what has changed."""
    async with client.get("/metrics") as answer:
        body = await answer.text()

        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    ours = [line for line in body.split("\n") if "governor_" in line]
    assert ours == [line for line in text(daemon.metrics).split("\n") if "governor_" in line]

    daemon.shown = snapshot(resource("jobs", in_use=5))
    async with client.get("/metrics") as answer:
        assert 'governor_permits_in_use{resource="jobs",kind="semaphore"} 5\n' in await answer.text()


async def test_scrapes_of_one_moment_share_its_numbers(daemon: Daemon) -> None:
    """They are taken once for all who ask in one turn of the loop, and anew in the next, whatever the format."""
    taken: list[int] = []

    def numbers() -> Snapshot:
        taken.append(1)
        return daemon.shown

    daemon.metrics._snapshot = numbers
    first, second = (
        b"".join(_chunks(daemon.pages.answer("GET", "/metrics", {"Accept": form}))) for form in ("", OPENMETRICS)
    )
    assert (len(taken), first.count(b"governor_waiters{"), second.count(b"governor_waiters{")) == (1, 3, 3)

    await asyncio.sleep(0)
    daemon.pages.answer("GET", "/metrics", {})
    assert len(taken) == 2


async def test_a_scraper_that_prefers_openmetrics_gets_it(client: ClientSession) -> None:
    """As Prometheus asks."""
    async with client.get("/metrics", headers={"Accept": OPENMETRICS}) as answer:
        assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        assert answer.headers["Vary"] == "Accept"
        assert (await answer.text()).endswith("\n# EOF\n")


async def test_a_page_of_many_resources_arrives_whole(client: ClientSession, daemon: Daemon) -> None:
    """Far more than one write and one socket buffer."""
    daemon.shown = snapshot(*(resource(f"resource-{n}") for n in range(500)))
    async with client.get("/metrics", headers={"Accept": OPENMETRICS}) as answer:
        body = await answer.text()

    assert len(body) > 1_000_000
    assert body.count("governor_permits_limit{") == 500
    assert body.endswith("# EOF\n")


async def test_healthy_says_so_whether_ready_or_not(client: ClientSession, daemon: Daemon) -> None:
    """A draining daemon must not be killed for it."""
    daemon.not_ready = "draining"
    async with client.get("/-/healthy") as answer:
        assert (answer.status, await answer.text()) == (200, "healthy\n")


async def test_ready_says_why_not(client: ClientSession, daemon: Daemon) -> None:
    """503 with the reason, and 200 as soon as there is none."""
    for why_not in ("starting", "draining"):
        daemon.not_ready = why_not
        async with client.get("/-/ready") as answer:
            assert (answer.status, await answer.text()) == (503, f"not ready: {why_not}\n")
    daemon.not_ready = None
    async with client.get("/-/ready") as answer:
        assert (answer.status, await answer.text()) == (200, "ready\n")


@pytest.mark.parametrize("path", [*PATHS, "/nope"])
async def test_head_is_get_without_the_body(client: ClientSession, path: str) -> None:
    """The same status and type, and the length where it is known beforehand."""
    async with client.get(path) as got, client.head(path) as answer:
        body = await got.read()

        assert answer.status == got.status
        assert answer.headers["Content-Type"] == got.headers["Content-Type"]
        assert await answer.read() == b""
        if path != "/metrics":
            assert answer.headers["Content-Length"] == got.headers["Content-Length"] == str(len(body))


@pytest.mark.parametrize("path", ["/nope", "/metrics/", "/-/", "/metrics//x", "/%2e%2e/etc/passwd", "/METRICS"])
async def test_an_unknown_path_points_to_the_index(client: ClientSession, path: str) -> None:
    """404, whatever the method."""
    for method in ("GET", "POST"):
        async with client.request(method, path) as answer:
            assert (answer.status, answer.headers["Content-Type"]) == (404, TEXT)
            assert await answer.text() == "nothing is here; / lists what there is\n"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
async def test_nothing_can_be_done_but_read(client: ClientSession, method: str) -> None:
    """405, and which methods there are."""
    async with client.request(method, "/metrics") as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


async def test_a_query_changes_nothing(client: ClientSession) -> None:
    """Some probes add one against caches."""
    async with client.get("/-/healthy?x=1&name[]=up") as answer:
        assert answer.status == 200


@pytest.mark.parametrize("path", [*PATHS, "/nope"])
async def test_answers_are_not_kept_and_name_no_versions(client: ClientSession, path: str) -> None:
    """Neither governor's nor that of what is underneath."""
    async with client.get(path) as answer:
        assert answer.headers["Server"] == "governor"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "aiohttp" not in str(answer.headers)
        assert "Python" not in str(answer.headers)


async def test_a_page_that_cannot_be_made_is_a_500_and_logged(
    client: ClientSession, daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    """One broken page takes nothing else down and tells the client nothing of the inside."""
    del daemon.shown
    async with client.get("/metrics") as answer:
        assert (answer.status, await answer.text()) == (500, "governor could not make this page\n")
        assert answer.headers["Server"] == "governor"

    (record,) = caplog.records
    assert record.message == "http: GET /metrics could not be answered"
    assert record.exc_info is not None
    async with client.get("/-/healthy") as answer:
        assert answer.status == 200


def _chunks(reply: Reply) -> Iterator[bytes]:
    assert isinstance(reply.body, Iterator)
    return reply.body
