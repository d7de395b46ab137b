"""Tracing begins whole or not at all."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from governor import trace
from governor.core.engine import Engine
from governor.driver import Driver
from governor.metrics import Metrics
from governor.rpc import code_of
from governor.testing.clock import FakeClock
from governor.tracing import Tracing, TracingError

OTLP: Final = "opentelemetry.exporter.otlp.proto.grpc.exporter"


class _Exporter(SpanExporter):
    """It takes nothing, and knows whether it was shut down."""

    def __init__(self) -> None:
        self.shut = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self.shut = True


@pytest.fixture
def driver() -> Iterator[Driver]:
    """One that could be traced."""
    driver = Driver(Engine(), FakeClock())
    yield driver
    driver.close()


def _wrong_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "abc")


def _wrong_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")


def _no_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ValueError("no spans")

    monkeypatch.setattr(trace, "Spans", refuse)


def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)


@pytest.mark.parametrize("wrong", [_wrong_variable, _wrong_timeout, _no_spans, _no_threads])
def test_what_fails_leaves_nothing_behind(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, wrong: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """No thread, no exporter that is open, nobody who is told, and nobody's log is held back."""
    made: list[_Exporter] = []

    def exporter(*_: object) -> _Exporter:
        made.append(_Exporter())
        return made[-1]

    threads, filters = set(threading.enumerate()), list(logging.getLogger(OTLP).filters)
    wrong(monkeypatch)
    if wrong is not _wrong_timeout:
        monkeypatch.setattr(trace, "_exporter", exporter)
    with pytest.raises(TracingError, match=r"^tracing: it cannot be set up: .+; see the variables OTEL_\*$"):
        trace.begin(Tracing(), driver, Metrics(driver.snapshot, version="1"), code_of)

    # One of another test may have ended meanwhile.
    assert set(threading.enumerate()) <= threads
    assert logging.getLogger(OTLP).filters == filters
    assert all(each.shut for each in made)
    assert (driver.follower, driver.observers) == (None, [])
