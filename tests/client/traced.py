"""A daemon that traces, for a module of tests that says in ``YAML`` what it declares, and who collects its spans."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import starting
from tests.e2e.process import Daemon
from tests.trace.collector import Collector, collecting


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    """What the daemon sends its spans to."""
    with collecting() as made:
        yield made


@pytest.fixture(scope="module")
def daemon(request: pytest.FixtureRequest, collector: Collector) -> Iterator[Daemon]:
    """One that traces."""
    with tempfile.TemporaryDirectory(prefix="governor-") as name, starting(Path(name)) as start:
        yield start(f"tracing: http://{collector.address}\n{request.module.YAML}")
