"""The status page of a real daemon: what it is told of real clients."""

import json
import os
import socket
import time
import urllib.request
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from governor import Client
from tests.e2e.conftest import Start
from tests.e2e.process import BOUND, Daemon, until

YAML = """
semaphores:
  thumbnails: {permits: 2, max_wait: 1h}
pools:
  db: {members: {primary: {endpoint: "s3cret"}}}
"""


def events(daemon: Daemon) -> Generator[tuple[str, Any], None, None]:
    """What a viewer is told, from the beginning."""
    request = urllib.request.Request(f"http://{daemon.http}/-/events")
    with urllib.request.urlopen(request, timeout=BOUND) as stream:  # noqa: S310  (our own URL)
        end = time.monotonic() + BOUND
        while (line := stream.readline().decode()) and time.monotonic() < end:
            if line.startswith("event: "):
                yield (
                    line.removeprefix("event: ").strip(),
                    json.loads(stream.readline().decode().removeprefix("data: ")),
                )


def first(daemon: Daemon) -> dict[str, Any]:
    """What somebody who comes now is told at first, by the names of the events."""
    with closing(events(daemon)) as stream:
        return dict(next(stream) for _ in range(4))


def details(daemon: Daemon, name: str) -> Any:  # noqa: ANN401  (what JSON says)
    """Of one resource."""
    status, text = daemon.page(f"/-/resources/{name}")
    assert status == 200
    return json.loads(text)


def test_holders_and_waiters_are_told_by_their_processes(start: Start) -> None:
    """As their sessions said; attributes of members are not."""
    daemon = start(YAML)
    with Client(daemon.address, name="ann") as client, client.acquire({"thumbnails": 2, "db": 1}) as lease:
        told = details(daemon, "db")
        assert [(one["client"], one["pid"] > 0, one["host"] != "") for one in told["leases"]] == [("ann", True, True)]
        assert told["leases"][0]["members"] == ["primary"]
        with Client(daemon.address, name="bob") as other, ThreadPoolExecutor() as pool:
            asked = pool.submit(lambda: other.acquire("thumbnails", wait=BOUND).granted)
            until(lambda: details(daemon, "thumbnails")["waiters"] != [], "somebody waits")
            (waiter,) = details(daemon, "thumbnails")["waiters"]
            assert (waiter["client"], waiter["pid"], waiter["host"]) == ("bob", os.getpid(), socket.gethostname())
            lease.release()
            assert asked.result(BOUND)
        assert "s3cret" not in json.dumps(told)
        until(lambda: first(daemon)["totals"]["sessions"] == 1, "the other one has gone")
        seen = first(daemon)
        assert seen["names"] == ["thumbnails", "db"]
        assert seen["head"]["not_ready"] is None
        assert seen["head"]["pid"] == daemon.pid


def test_a_refused_config_is_told_until_a_good_one_comes(start: Start) -> None:
    """To whoever watches as it happens, and to whoever comes later."""
    daemon = start(YAML)
    good = daemon.config.read_text()
    daemon.expect("reload refused")
    with closing(events(daemon)) as stream:
        assert next(stream)[1]["config"]["problems"] == []
        daemon.reload(good.replace("permits: 2", "permits: lots"))
        problems = next(data["config"]["problems"] for name, data in stream if name == "head")
        assert len(problems) == 1
        assert "governor.yaml:6: expected a whole number" in problems[0]
        assert "lots" not in problems[0]  # what was written by mistake may be a password
    with closing(events(daemon)) as stream:
        assert next(stream)[1]["config"]["problems"] == problems
        daemon.reload(good)
        assert next(data["config"]["problems"] for name, data in stream if name == "head") == []


def test_the_page_is_served_to_browsers(start: Start) -> None:
    """And the past begins with the daemon."""
    daemon = start(YAML)
    status, text = daemon.page("/", {"Accept": "text/html"})
    assert status == 200
    assert text.startswith("<!doctype html>")
    with closing(events(daemon)) as stream:
        names = [next(stream)[0] for _ in range(3)]
    assert names == ["head", "totals", "names"]


def test_a_viewer_does_not_hold_up_the_end(start: Start) -> None:
    """It sees the end of the stream, and the daemon ends as it does without."""
    daemon = start(YAML)
    stream = events(daemon)
    next(stream)
    assert daemon.end() == 0
    assert [name for name, _ in stream][-1] == "done"
    until(lambda: daemon.process.poll() is not None, "it has ended")
