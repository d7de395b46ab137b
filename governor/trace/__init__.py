"""Tracing that is on: spans of asks and holds, on their way to a collector of OpenTelemetry.

It knows the SDK and how it is set up. It must never be loaded while nothing is traced, and it must never hold up a
grant: whatever is wrong with a collector is its thread's business, and spans that it does not take are lost.
"""

import os
import socket
from collections.abc import Callable

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, TraceIdRatioBased

from governor import __version__
from governor.aside import aside
from governor.clock import unix_nanos
from governor.core.types import Reason
from governor.driver import Driver
from governor.metrics import Metrics
from governor.trace.collector import exporter as _exporter
from governor.trace.outgoing import Dropped, Outgoing
from governor.trace.spans import Spans
from governor.tracing import Tracing, TracingError, cannot

__all__ = ["Dropped", "Outgoing", "Spans", "Trace", "begin"]

# How long the end waits for the last spans, in seconds.
LAST_SPANS_S = 2.0


class Trace:
    """The tracing of one driver, until `close`."""

    def __init__(
        self, driver: Driver, metrics: Metrics, provider: TracerProvider, outgoing: Outgoing, spans: Spans
    ) -> None:
        self._driver, self._metrics = driver, metrics
        self._provider, self._outgoing, self._spans = provider, outgoing, spans
        provider.add_span_processor(outgoing)
        driver.follower = spans
        driver.observers.append(spans.observe)

    async def close(self) -> None:
        """The last spans go, for a bounded time; nothing is traced any more."""
        self._driver.follower = None
        self._driver.observers.remove(self._spans.observe)
        self._spans.close()
        await aside(lambda: self._outgoing.end(LAST_SPANS_S), "traces-end")


def begin(
    asked: Tracing,
    driver: Driver,
    metrics: Metrics,
    code: Callable[[Reason], str],
    exporter: SpanExporter | None = None,
) -> Trace:
    """Trace what is asked of a driver from now on. ``code``: the status that a refusal is answered with.

    ``exporter``: instead of the one to the collector. Raises TracingError.
    """
    try:
        provider = TracerProvider(_sampler(asked), _resource(asked), shutdown_on_exit=False)
        spans = Spans(
            provider.get_tracer("governor", __version__),
            unix_nanos,
            code=code,
            exemplify=metrics.exemplify,
            too_many=lambda: metrics.spans_dropped(Dropped.TOO_MANY_HOLDS, 1),
        )
        # Last, since only these have anything that would have to be ended.
        to = exporter or _exporter(asked, os.environ)
        try:
            outgoing = Outgoing(to, exported=metrics.spans_exported, dropped=metrics.spans_dropped)
        except BaseException:
            to.shutdown()
            raise
    except TracingError:
        raise
    except Exception as error:
        raise cannot(error) from error
    return Trace(driver, metrics, provider, outgoing, spans)


def _sampler(asked: Tracing) -> Sampler | None:
    """None: as OTEL_TRACES_SAMPLER says."""
    return None if asked.ratio is None else ParentBased(TraceIdRatioBased(asked.ratio))


def _resource(asked: Tracing) -> Resource:
    """Who makes these spans; what the variables say of it counts, but for a name that the config says."""
    own: dict[str, str | int] = {"service.version": __version__, "process.pid": os.getpid()}
    if asked.service_name:
        own["service.name"] = asked.service_name
    told = Resource.create(own)
    if str(told.attributes["service.name"]).startswith("unknown_service"):
        told = told.merge(Resource({"service.name": "governor"}))
    return Resource({"host.name": socket.gethostname()}).merge(told)
