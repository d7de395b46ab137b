"""A program that traces, as far as a client can tell: a provider of its own, and all spans that ended."""

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Program:
    """What a program has set up: a provider, and all spans that ended."""

    def __init__(self, provider: TracerProvider) -> None:
        self._exporter = InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.provider = provider
        self.tracer = provider.get_tracer("program")

    @property
    def made(self) -> list[ReadableSpan]:
        """In the order of their ends, but for its own."""
        return [span for span in self._exporter.get_finished_spans() if span.name.startswith(("acquire", "hold"))]

    @property
    def asks(self) -> list[ReadableSpan]:
        """Of acquires."""
        return [span for span in self.made if span.name.startswith("acquire")]

    @property
    def holds(self) -> list[ReadableSpan]:
        """Of holds."""
        return [span for span in self.made if span.name.startswith("hold")]
