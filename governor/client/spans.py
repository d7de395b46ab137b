"""Spans of what a program asks for and holds, by whatever provider the program has set up.

It knows the API of OpenTelemetry, and none of its SDK. It is loaded only in a program that has loaded that API. What a
provider does when a span ends is the program's own, so it is done in the program's own threads.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from opentelemetry.trace import (
    Link,
    ProxyTracerProvider,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    get_tracer_provider,
)

from governor import __version__
from governor.client.asks import SECOND, Claims
from governor.client.errors import GovernorError, NotGranted, Unavailable
from governor.client.held import Held, State
from governor.client.tracing import Trace
from governor.tracewords import ENDED, LEASE, MAX_TRACESTATE, OUTCOME, PERMITS, RESOURCES, WAIT

_RELEASED: Final = "released"
_DETACHED: Final = "detached"
_NONE_FREE: Final = "none_free"

_LOG: Final = logging.getLogger("governor.client")


def begin(claims: Claims) -> "Asking | None":
    """The span of an ask that begins now, in whatever trace the program is; None without a provider."""
    try:
        provider = get_tracer_provider()
        if isinstance(provider, ProxyTracerProvider):
            return None  # nobody has set one up
        return Asking(provider.get_tracer("governor.client", __version__), claims)
    except Exception:  # noqa: BLE001 - as in `_unharmed`
        _complain()
        return None


@contextmanager
def _unharmed() -> Iterator[None]:
    """What goes wrong in a provider is no reason to fail an ask, or to keep a permit."""
    try:
        yield
    except Exception:  # noqa: BLE001 - it is the program's, or anybody's
        _complain()


def _complain() -> None:
    _LOG.exception("a span could not be made or ended; the ask goes on without it")


class Asking:
    """One acquire. ``trace``: what it follows from, for the daemon, if anything."""

    __slots__ = ("_claims", "_span", "_tracer", "trace")

    def __init__(self, tracer: Tracer, claims: Claims) -> None:
        self._tracer = tracer
        self._claims = claims
        self._span = tracer.start_span(_title("acquire", claims), kind=SpanKind.CLIENT)
        context = self._span.get_span_context()
        self.trace = _told(context) if context.is_valid else None

    def granted(self, held: Held) -> None:
        """It is ours from now on; what was lent is followed to its end."""
        self._end("granted", waited=held.waited, lease=held.id)
        if held.length is None:
            return
        with _unharmed():
            links = (Link(self._span.get_span_context()),)
            span = self._tracer.start_span(_title("hold", self._claims), links=links)
            if span.is_recording():
                _describe(span, self._claims)
                span.set_attribute(LEASE, held.id)
                held.span = Hold(span)
                if held.state is State.LOST:  # before there was a span to tell
                    held.span.lost()

    def refused(self, error: GovernorError) -> None:
        """It was answered, and not by a grant."""
        if isinstance(error, NotGranted):
            # Whoever does not wait has asked whether there is any, and has his answer.
            self._end(error.reason, why="" if error.reason == _NONE_FREE else error.reason)
        else:
            self._end("unavailable" if isinstance(error, Unavailable) else "failed", why=str(error))

    def let_through(self) -> None:
        """The daemon is away, and the program goes on without a permit."""
        self._end("let_through")

    def given_up(self) -> None:
        """Nobody waits for it any more."""
        self._end("abandoned")

    def _end(self, outcome: str, *, waited: int | None = None, lease: int | None = None, why: str = "") -> None:
        span = self._span
        if not span.is_recording():
            return
        with _unharmed():
            _describe(span, self._claims)
            span.set_attribute(OUTCOME, outcome)
            if waited is not None:
                span.set_attribute(WAIT, waited / SECOND)
            if lease is not None:
                span.set_attribute(LEASE, lease)
            if why:
                span.set_status(Status(StatusCode.ERROR, why))
            span.end()


class Hold:
    """One lease, from its grant to its end."""

    __slots__ = ("_lost_at", "_span")

    def __init__(self, span: Span) -> None:
        self._span: Span | None = span
        # By the wall clock.
        self._lost_at: int | None = None

    def lost(self) -> None:
        """It is over; from any thread, and before the program knows."""
        if self._lost_at is None:
            self._lost_at = time.time_ns()

    def end(self, state: State, reason: str) -> None:
        """The program is done with it; safe twice. ``state`` and ``reason`` of the lease.

        What has become of it is known from these: whoever loses it may not have come to tell us when that was.
        """
        span, self._span = self._span, None
        if span is None:
            return
        with _unharmed():
            if state is State.LOST:
                span.set_attribute(ENDED, reason)
                span.set_status(Status(StatusCode.ERROR, reason))
                span.end(self._lost_at)
            else:
                span.set_attribute(ENDED, _DETACHED if state is State.DETACHED else _RELEASED)
                span.end()


def _title(what: str, claims: Claims) -> str:
    return f"{what} {claims[0][0]}" if len(claims) == 1 else what


def _describe(span: Span, claims: Claims) -> None:
    span.set_attributes({RESOURCES: [name for name, _ in claims], PERMITS: [permits for _, permits in claims]})


def _told(context: SpanContext) -> Trace:
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 0xFF:02x}"
    state = context.trace_state.to_header() if context.trace_state else ""
    return parent, state if len(state) <= MAX_TRACESTATE else ""
