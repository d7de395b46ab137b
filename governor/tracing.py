"""Tracing: what an operator may ask of it, and what it has to be told of each ask.

It knows the words. It must never know how a span is made: with tracing off, nothing of OpenTelemetry is loaded.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final, Protocol

from governor.core.types import Claim, Denial, Nanos
from governor.tracewords import MAX_TRACESTATE

# By what an ask came, as OpenTelemetry's conventions call the method of a call.
ACQUIRE: Final = "governor.v1.Governor/Acquire"
SESSION: Final = "governor.v1.Governor/Session"

# OpenTelemetry's own variables, of which the SDK reads all others.
_EXPORTER: Final = "OTEL_TRACES_EXPORTER"
_DISABLED: Final = "OTEL_SDK_DISABLED"
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")

_SAMPLER: Final = "OTEL_TRACES_SAMPLER"
_ALL: Final = "parentbased_always_on"
# Where spans are sent, the more special first, as the exporter looks for them; and where, if none says so.
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_USUAL: Final = "http://localhost:4317"
# What of one may be shown: of a URL what is before its path, where a key may stand; of a unix socket all before that.
_WHERE: Final = re.compile(r"unix:[^?#]*|(?:[\w.+-]+://)?[^/?#]*", re.ASCII)

_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(slots=True, frozen=True)
class Tracing:
    """What is not said is as OpenTelemetry's variables say.

    ``ratio``: of the asks that come without a trace, how many are traced, from 0 to 1. ``timeout``: of one export.
    """

    endpoint: str = ""
    ratio: float | None = None
    service_name: str = ""
    timeout: Nanos | None = None


class TracingError(Exception):
    """Nothing can be traced as the config and the environment say."""


def cannot(error: Exception) -> TracingError:
    """What to raise for whatever goes wrong in OpenTelemetry, which reads variables when it is loaded, and later."""
    return TracingError(f"tracing: it cannot be set up: {error}; see the variables OTEL_*")


class Follower(Protocol):
    """Whoever makes spans of asks. Called in the event loop; must be quick, and must not raise."""

    def asked(self, method: str, traceparent: str = "", tracestate: str = "") -> None:
        """The next ask of the driver comes by this method, and follows from what these say, if they say anything."""
        ...

    def refused(self, denial: Denial, claims: Sequence[Claim] = (), client: str = "") -> None:
        """It is not put to the driver at all, since it is refused before."""
        ...


def of_environment(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The trace parent and state that a command was started with, if it was started within a trace."""
    parent, state = environ.get("TRACEPARENT", ""), environ.get("TRACESTATE", "")
    if not _TRACEPARENT.fullmatch(parent):
        return None
    return parent, state if state.isascii() and state.isprintable() and len(state) <= MAX_TRACESTATE else ""


def by_environment(environ: Mapping[str, str]) -> Tracing | None:
    """What is asked for where the config says nothing."""
    return Tracing() if environ.get(_EXPORTER) == "otlp" else None


def disabled(environ: Mapping[str, str]) -> bool:
    """Whether OpenTelemetry is switched off here, whatever else is asked for."""
    return environ.get(_DISABLED, "").strip().lower() == "true"


def told(asked: Tracing, environ: Mapping[str, str]) -> str:
    """Where spans go and of how many asks, in a few words without anything that could be used."""
    named = next((environ[name] for name in ENDPOINTS if environ.get(name)), _USUAL)
    where = _WHERE.match(asked.endpoint or named)
    # Whatever is before an @ is refused when it begins, but for the path of a unix socket.
    shown = "" if where is None else where[0] if where[0].startswith("unix:") else where[0].rpartition("@")[2]
    if asked.ratio is not None and asked.ratio < 1:
        share = f"{asked.ratio * 100:g}% of the asks that come without a trace"
    elif asked.ratio is not None or environ.get(_SAMPLER, "").strip() in {"", _ALL}:
        share = "all asks"
    else:
        share = f"as {_SAMPLER} says"
    return f"{shown}, {share}"


def hindrance(environ: Mapping[str, str]) -> str:
    """Why nothing can be traced, and what to do; empty if it can."""
    if not _installed():
        return "OpenTelemetry is not installed: pip install 'governord[daemon,otel]', or '.[daemon,otel]' in a checkout"
    for name in _PROTOCOLS:
        if protocol := environ.get(name):
            return "" if protocol == "grpc" else f"spans are exported by grpc alone: set {name} to grpc, or not at all"
    return ""


def _installed() -> bool:
    """Found, not loaded."""
    try:
        return None not in (find_spec("opentelemetry.sdk.trace"), find_spec("opentelemetry.exporter.otlp.proto.grpc"))
    except ModuleNotFoundError:
        return False
