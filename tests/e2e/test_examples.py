"""The examples in Python and sh: what each of them shows is true, with a daemon on the very file that it names."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.conftest import Connect, Start
from tests.e2e.process import BOUND, ROOT, Daemon, until
from tests.ports import own_addresses

EXAMPLES: Final = ROOT / "config" / "examples"


def config(name: str) -> str:
    """One of the files, as it is."""
    return (EXAMPLES / name).read_text(encoding="utf-8")


@contextmanager
def running(daemon: Daemon, *command: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """A program that finds the daemon in its environment, and leads a process group of its own."""
    settings = {**os.environ, "PYTHONPATH": str(ROOT), "GOVERNOR_ADDRESS": daemon.address, **environment}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env=settings, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """Its exit code, and what it said."""
    out, err = process.communicate(timeout=BOUND)
    return process.returncode, out, err


def most_at_once(spans: list[tuple[float, float]]) -> int:
    """How many of them have an instant in common, at most."""
    steps = sorted([(began, 1) for began, _ in spans] + [(over, -1) for _, over in spans])
    now = most = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


# --- worker processes ---------------------------------------------------------------------------------------------


class Shop:
    """workers.py, while it runs."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        self.process = process
        self._said = process.stdout
        found = re.fullmatch(r"http://(127\.0\.0\.1:\d+) is served by 8 workers\n", self._said.readline())
        assert found is not None, process.communicate(timeout=BOUND)
        self._where = found[1]

    def get(self) -> dict[str, object]:
        """One request; raises OSError or HTTPException if its worker dies."""
        connection = http.client.HTTPConnection(self._where, timeout=BOUND)
        try:
            connection.request("GET", "/orders")
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, body
            return dict(json.loads(body))
        finally:
            connection.close()

    def line(self) -> str:
        """The next line that it says."""
        return self._said.readline().rstrip("\n")


@pytest.fixture
def shop(start: Start) -> Iterator[tuple[Daemon, Shop]]:
    """workers.py and its daemon."""
    daemon = start(config("workers.yaml"))
    with running(daemon, sys.executable, str(EXAMPLES / "workers.py"), "0") as process:
        yield daemon, Shop(process)
        process.terminate()
        assert ended(process)[::2] == (0, "")


def test_worker_processes_share_one_pool(shop: tuple[Daemon, Shop], connect: Connect) -> None:
    """Eight of them, three connections: never more at once, nobody shares one, and each request is answered."""
    daemon, server = shop
    with ThreadPoolExecutor(24) as threads:
        answers = list(threads.map(lambda _: server.get(), range(96)))
    spans = [(float(str(answer["began"])), float(str(answer["ended"])), str(answer["rows"])) for answer in answers]
    primary, replica = ([span[:2] for span in spans if span[2] == f"from {db}.internal:5432"] for db in ("db1", "db2"))

    assert len({answer["worker"] for answer in answers}) > 3
    assert len(primary) + len(replica) == len(answers)
    assert most_at_once([*primary, *replica]) == 3
    assert (most_at_once(primary), most_at_once(replica)) == (2, 1)
    until(connect(daemon).idle, "all connections are back")


def test_a_worker_that_is_killed_gives_back_what_it_had(shop: tuple[Daemon, Shop], connect: Connect) -> None:
    """At once, as its resource says; the others go on, and another takes its place."""
    daemon, server = shop
    me = connect(daemon)
    victim = int(str(server.get()["worker"]))
    with ThreadPoolExecutor(24) as threads:
        asked = [threads.submit(server.get) for _ in range(96)]
        until(lambda: me.counts("orders-db")[0] == 3, "all connections are lent")
        os.kill(victim, signal.SIGKILL)
        lost = [each.exception(BOUND) for each in asked]

    assert server.line() == f"worker {victim} died and was replaced"
    # At most the request that it was at, and those that it had accepted, of which there is one at a time.
    assert sum(error is not None for error in lost) <= 1
    until(me.idle, "all connections are back")
    assert server.get()["worker"] != victim


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_worker_processes_that_are_all_told_to_end_do_so_quietly(
    start: Start, number: signal.Signals, code: int
) -> None:
    """As by a service manager, or a terminal: workers have ended before their parent looks, and none is left."""
    daemon = start(config("workers.yaml"))
    with running(daemon, sys.executable, str(EXAMPLES / "workers.py"), "0") as process:
        shop = Shop(process)
        os.kill(process.pid, signal.SIGSTOP)
        until(lambda: _state(process.pid) == "T", "it is stopped")
        workers = _children(process.pid)
        os.killpg(process.pid, number)
        until(lambda: all(_state(worker) == "Z" for worker in workers), "they have ended")
        os.kill(process.pid, signal.SIGCONT)

        assert ended(shop.process)[::2] == (code, "")
        assert len(workers) == 8


def _children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()))


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


# --- a crawler ----------------------------------------------------------------------------------------------------

PAGES: Final = 36


class Site(ThreadingHTTPServer):
    """A site of pages that link to pages; it notes when each request was there."""

    request_queue_size = 64

    def __init__(self) -> None:
        self.spans: list[tuple[float, float]] = []
        # From which request on it answers nothing.
        self.cut_off = PAGES + 1
        super().__init__(("127.0.0.1", 0), Page)


class Page(BaseHTTPRequestHandler):
    """Page 0 links to the first of the others, and each of those to two more, and back."""

    def do_GET(self) -> None:
        """As slow as a partner's API."""
        assert isinstance(self.server, Site)
        began = time.monotonic()
        number = int(self.path.strip("/") or 0)
        links = range(1, 12) if number == 0 else (0, 2 * number + 10, 2 * number + 11)
        body = "".join(f'<a href="/{link or ""}">' for link in links if link < PAGES).encode()
        time.sleep(0.3)
        if len(self.server.spans) >= self.server.cut_off:
            return
        self.send_response(200)
        self.end_headers()
        self.server.spans.append((began, time.monotonic()))
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not a line for each request."""


@pytest.fixture
def site() -> Iterator[Site]:
    """A site on loopback."""
    with Site() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_crawler_keeps_to_two_limits_at_once(start: Start, connect: Connect, site: Site) -> None:
    """Ten at a time, ten a second after the first ten, and every page."""
    daemon = start(config("partner-apis.yaml"))
    url = f"http://127.0.0.1:{site.server_port}/"
    with running(daemon, sys.executable, str(EXAMPLES / "crawler.py"), url) as process:
        code, out, err = ended(process)
    *told, last = out.splitlines()
    said = re.fullmatch(r"(\d+) pages, \d+ bytes, in (\d+\.\d)s", last)

    assert (code, err) == (0, "")
    assert len({line.split()[1] for line in told if line.split()[1].startswith(url)}) == len(told) == PAGES
    assert said is not None
    assert (int(said[1]), len(site.spans)) == (PAGES, PAGES)
    assert most_at_once(site.spans) <= 10
    # By the crawler's own clock, from before the first to after the last.
    assert float(said[2]) >= (PAGES - 10) / 10
    assert connect(daemon).idle()


def test_a_crawler_that_is_refused_says_why(start: Start, site: Site) -> None:
    """In one line, and gives everything back."""
    daemon = start("semaphores: {partner-api-calls: {permits: 1}}")
    url = f"http://127.0.0.1:{site.server_port}/"
    with running(daemon, sys.executable, str(EXAMPLES / "crawler.py"), url) as process:
        code, out, err = ended(process)

    assert (code, out) == (1, "")
    assert err.startswith("crawler: partner-api: no such resource")
    assert err.count("\n") == 1


def test_a_crawler_of_a_site_that_is_down_says_so(start: Start, connect: Connect, site: Site) -> None:
    """In one line: from the beginning, or in the midst of it; nothing is held, and what it has is told."""
    daemon = start(config("partner-apis.yaml"))
    site.cut_off = 12
    url = f"http://127.0.0.1:{site.server_port}/"
    with running(daemon, sys.executable, str(EXAMPLES / "crawler.py"), url) as process:
        code, out, err = ended(process)
    with (
        own_addresses(1) as (nowhere,),
        running(daemon, sys.executable, str(EXAMPLES / "crawler.py"), f"http://{nowhere}/") as process,
    ):
        down = ended(process)

    assert (code, err.count("\n")) == (1, 1), err
    assert re.fullmatch(rf"crawler: {url}\d+: the site closed the connection without an answer\n", err)
    assert out.splitlines()[0].split()[1] == url
    assert down[:2] == (1, "")
    assert re.fullmatch(rf"crawler: http://{nowhere}/: Connect call failed [^\n]+\n", down[2])
    assert connect(daemon).idle()


# --- a cron job ---------------------------------------------------------------------------------------------------


@pytest.fixture
def machine(folder: Path) -> Path:
    """A machine as the crontab expects it: the command and the job on its PATH, and a folder for the report."""
    programs = folder / "bin"
    programs.mkdir()
    governor = programs / "governor"
    governor.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m governor.cli "$@"\n')
    governor.chmod(0o755)
    (programs / "nightly-report").symlink_to(EXAMPLES / "cron" / "nightly-report")
    (folder / "reports").mkdir()
    return folder


def line_of_crontab(machine: Path) -> str:
    """The command of the first job, as cron would hand it to sh; its folders are those of the test."""
    lines = (EXAMPLES / "cron" / "crontab").read_text(encoding="utf-8").splitlines()
    first = next(line for line in lines if re.match(r"[\d*]", line))
    command = first.split(maxsplit=5)[5]
    assert "/srv/reports" in command
    return command.replace("/srv/reports", str(machine / "reports"))


def names(folder: Path) -> list[str]:
    """What is in it."""
    return [path.name for path in folder.iterdir()]


@contextmanager
def job(daemon: Daemon, machine: Path, before: str = "") -> Iterator["subprocess.Popen[str]"]:
    """The job, as cron begins it; ``before`` is what its machine does first."""
    path = f"{machine}/bin:/usr/bin:/bin"
    with running(daemon, "sh", "-c", f"{before}{line_of_crontab(machine)}", PATH=path) as process:
        yield process


def test_a_cron_job_runs_once_wherever_it_is_started(start: Start, connect: Connect, machine: Path) -> None:
    """Who comes while it runs leaves at once, with an exit code that says so; the next night it runs again."""
    daemon = start(config("cron.yaml"))
    me = connect(daemon)
    with job(daemon, machine) as first:
        assert ended(first) == (0, "", "")
    report = (machine / "reports" / "report").read_text(encoding="utf-8")
    held = me.acquire("nightly-report")
    with job(daemon, machine) as second:
        code, out, err = ended(second)
    me.release(held.id)
    with job(daemon, machine) as third:
        assert ended(third) == (0, "", "")
    later = (machine / "reports" / "report").read_text(encoding="utf-8")

    assert re.fullmatch(r"lease \d+\nmade on .+\n", report)
    assert (code, out) == (75, "")
    assert err.startswith("governor: nightly-report: not enough permits are free")
    assert int(later.split()[1]) > held.id > int(report.split()[1])
    assert names(machine / "reports") == ["report"]
    assert me.idle()


def test_a_cron_job_never_replaces_what_came_later(start: Start, machine: Path) -> None:
    """The fence: a report that was made under a later lease stays."""
    daemon = start(config("cron.yaml"))
    report = machine / "reports" / "report"
    report.write_text("lease 1000000000\n", encoding="utf-8")
    with job(daemon, machine) as late:
        code, _, err = ended(late)

    assert code == 1
    assert "report is newer than lease" in err
    assert report.read_text(encoding="utf-8") == "lease 1000000000\n"
    assert names(machine / "reports") == ["report"]


def test_a_cron_job_that_loses_its_lease_leaves_nothing_behind(start: Start, connect: Connect, machine: Path) -> None:
    """In the middle of its work it is told, and cleans up."""
    daemon = start(config("cron.yaml"))
    me = connect(daemon)
    # The program that it asks for the name of its machine, so that it takes its time.
    slow = machine / "bin" / "uname"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    with job(daemon, machine) as process:
        draft = machine / "reports"
        until(lambda: any(draft.iterdir()), "it has begun")
        fence = int(next(draft.iterdir()).name.removeprefix("draft."))
        me.release(fence)
        code, out, err = ended(process)

    assert (code, out) == (79, "")
    assert err.startswith(f"governor: lease {fence} on nightly-report is lost: ")
    assert names(draft) == []
