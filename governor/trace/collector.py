"""The collector: where spans are sent, as the config and the variables of OpenTelemetry say.

It knows these variables, as far as they may hold secrets; the exporter of the SDK reads all others. It must never
repeat what they hold: what is wrong with one ends in a log.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.util.re import parse_env_headers

from governor.core.types import SECOND
from governor.tracing import ENDPOINTS, Tracing, TracingError

# The more special first, as the exporter looks for them.
_HEADERS: Final = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
# What gRPC takes; of any other it says all of them with each export. It knows of its own kind that ends with -bin.
_HEADER: Final = re.compile(r"[0-9a-z_.\-]+")
_VALUE: Final = re.compile(r"[\x20-\x7e]*")
# gRPC itself sends at once anew what was not looked at, each time that it has connected. A collector that takes a
# connection and hangs up would have it copy a batch again and again, into hundreds of MB. The exporter waits between.
_OPTIONS: Final = (("grpc.enable_retries", 0),)
_PARSER: Final = "opentelemetry.util.re"


def exporter(asked: Tracing, environ: Mapping[str, str]) -> SpanExporter:
    """One that sends spans there, once it is given any. Raises TracingError."""
    if not asked.endpoint:
        _look_at_endpoints(environ)
    timeout = None if asked.timeout is None else asked.timeout / SECOND
    return OTLPSpanExporter(
        endpoint=asked.endpoint or None,
        timeout=timeout,
        headers=_headers(environ),
        channel_options=_OPTIONS,  # type: ignore[arg-type] # numbers are as good as texts
    )


def _look_at_endpoints(environ: Mapping[str, str]) -> None:
    """The exporter would name one with each failure. The path of a unix socket may be any."""
    for name in ENDPOINTS:
        endpoint = environ.get(name, "")
        if "@" in endpoint and not endpoint.startswith("unix"):
            raise TracingError(f"tracing: {name}: there is a user or a password in it; these belong into {_HEADERS[1]}")


def _headers(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    name = next((name for name in _HEADERS if environ.get(name)), "")
    if not name:
        return ()
    with _unheard() as complaints:
        headers = tuple(parse_env_headers(environ[name], liberal=True).items())
    if complaints:
        raise TracingError(f"tracing: {name}: expected name=value, and commas between several, with values URL-encoded")
    for number, (key, value) in enumerate(headers, 1):
        if not _HEADER.fullmatch(key) or not _VALUE.fullmatch(value):
            raise TracingError(f"tracing: {name}: header {number} of {len(headers)} is none that gRPC can send")
    return headers


@contextmanager
def _unheard() -> Iterator[list[logging.LogRecord]]:
    """What the parser of headers complains of, which is said nowhere: it repeats them whole."""
    complaints: list[logging.LogRecord] = []

    def keep(record: logging.LogRecord) -> bool:
        complaints.append(record)
        return False

    logger = logging.getLogger(_PARSER)
    logger.addFilter(keep)
    try:
        yield complaints
    finally:
        logger.removeFilter(keep)
