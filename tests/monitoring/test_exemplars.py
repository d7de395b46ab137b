"""Examples of waits and holds in a real Prometheus, as dashboards ask for them."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.e2e.client import Client, ask
from tests.e2e.conftest import starting
from tests.e2e.process import BOUND, until
from tests.monitoring.boards import Json, boards, filled, objects, panels, text
from tests.monitoring.prometheus import data, scraping
from tests.trace.collector import collecting

TRACE = "0af7651916cd43dd8448eb211c80319c"
FOLLOWING = (("traceparent", f"00-{TRACE}-b7ad6b7169203331-01"),)
CONFIG = """\
global: {{scrape_interval: 500ms}}
scrape_configs:
  - job_name: governor
    static_configs: [{{targets: ["{http}"]}}]
"""


def test_what_a_dashboard_asks_for_is_there(tmp_path: Path, program: Callable[[str], str]) -> None:
    """The last of each bucket of waits and holds, with the trace that it is in; one query of each panel asks for it."""
    prometheus = program("prometheus")
    with ExitStack() as stack:
        collector, start = stack.enter_context(collecting()), stack.enter_context(starting(tmp_path))
        daemon = start(f"tracing: http://{collector.address}\nsemaphores: {{db: {{permits: 1}}}}\n")
        config = CONFIG.format(http=daemon.http)
        address = stack.enter_context(scraping(prometheus, tmp_path, config, "--enable-feature=exemplar-storage"))
        with Client(daemon.address) as client:
            first = client.acquire("db")
            waiting = client.stub.Acquire.future(ask("db"), metadata=FOLLOWING, timeout=BOUND)
            until(lambda: client.resource("db").waiters == 1, "one waits")
            client.release(first.id)
            client.release(waiting.result(BOUND).lease.id)
        asked = [expr for board in boards() for expr in _shown_with_examples(board)]
        choice = {"job": "governor", "instance": daemon.http, "resource": "db", "__rate_interval": "5s"}
        waits = [filled(expr, choice) for expr in asked if "acquire_wait" in expr and "granted" in expr]
        holds = [filled(expr, choice) for expr in asked if "hold_seconds" in expr]
        assert waits
        assert holds
        for expr in (*waits, *holds):
            until(lambda expr=expr: TRACE in _traces(address, expr), f"there is an example for {expr}")  # type: ignore[misc]


def _shown_with_examples(board: dict[str, Json]) -> Iterator[str]:
    for panel in panels(board):
        if "targets" in panel:
            yield from (text(each, "expr") for each in objects(panel["targets"]) if each.get("exemplar"))


def _traces(address: str, expr: str) -> set[str]:
    """Of all examples that a query has."""
    now = time.time()
    series = objects(data(address, "query_exemplars", query=expr, start=now - 3600, end=now + 3600))
    return {text(each, "labels", "trace_id") for found in series for each in objects(found["exemplars"])}
