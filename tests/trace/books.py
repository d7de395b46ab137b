"""Spans as a test sees them: all that were made, in memory, of a driver whose time a test moves."""

from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import format_span_id, format_trace_id

from governor.clock import Clock
from governor.core.types import SECOND, Claim, Grant, Nanos
from governor.driver import Driver
from governor.metrics.histogram import Exemplar
from governor.rpc import code_of
from governor.trace.spans import MAX_HOLDS, Spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# By the wall clock, when the clock of a test stands at 0.
EPOCH: Final[Nanos] = 1_700_000_000 * SECOND
TRACE_ID: Final = "0af7651916cd43dd8448eb211c80319c"
PARENT: Final = f"00-{TRACE_ID}-b7ad6b7169203331-01"
UNSAMPLED: Final = f"00-{TRACE_ID}-b7ad6b7169203331-00"


def parent(number: int) -> str:
    """Another trace for each number above 0, sampled."""
    return f"00-{number:032x}-{number:016x}-01"


class Books:
    """All spans of one driver, and what metrics were told of them."""

    def __init__(
        self, driver: Driver, clock: Clock, *, sampler: Sampler | None = None, max_holds: int = MAX_HOLDS
    ) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.examples: list[tuple[str | None, Exemplar]] = []
        self.untraced = 0
        self.driver = driver
        self.spans = Spans(
            provider.get_tracer("tests"),
            lambda: EPOCH + clock.now(),
            code=code_of,
            exemplify=self._exemplify,
            too_many=self._too_many,
            max_holds=max_holds,
        )
        driver.follower = self.spans
        driver.observers.append(self.spans.observe)

    def _exemplify(self, named: "Iterable[Claim | Grant]", outcome: str | None, exemplar: Exemplar) -> None:
        self.examples.append((outcome, exemplar))

    def _too_many(self) -> None:
        self.untraced += 1

    def leave(self) -> None:
        """Trace nothing any more."""
        self.driver.follower = None
        self.driver.observers.remove(self.spans.observe)

    @property
    def made(self) -> Sequence[ReadableSpan]:
        """All spans, in the order of their ends."""
        return self._exporter.get_finished_spans()

    @property
    def asks(self) -> list[ReadableSpan]:
        """Those of asks."""
        return [span for span in self.made if span.name.startswith("acquire")]

    @property
    def holds(self) -> list[ReadableSpan]:
        """Those of holds."""
        return [span for span in self.made if span.name.startswith("hold")]

    @property
    def outcomes(self) -> list[object]:
        """How the asks have ended."""
        return [said(span, "outcome") for span in self.asks]


@contextmanager
def books(driver: Driver, clock: Clock, *, sampler: Sampler | None = None) -> "Iterator[Books]":
    """All that a driver does meanwhile."""
    kept = Books(driver, clock, sampler=sampler)
    try:
        yield kept
    finally:
        kept.leave()


def said(span: ReadableSpan, name: str) -> object:
    """An attribute of ours."""
    assert span.attributes is not None
    return span.attributes[f"governor.{name}"]


def trace_of(span: ReadableSpan) -> str:
    """The id of its trace."""
    assert span.context is not None
    return format_trace_id(span.context.trace_id)


def id_of(span: ReadableSpan) -> str:
    """Its own id."""
    assert span.context is not None
    return format_span_id(span.context.span_id)


def parent_of(span: ReadableSpan) -> str:
    """The id of its parent; empty if it has none."""
    return "" if span.parent is None else format_span_id(span.parent.span_id)


def linked(span: ReadableSpan) -> list[str]:
    """The ids of the spans that it is linked to."""
    return [format_span_id(link.context.span_id) for link in span.links]


def lasted(span: ReadableSpan) -> tuple[Nanos, Nanos]:
    """From when to when, by the clock of the test."""
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time - EPOCH, span.end_time - EPOCH
