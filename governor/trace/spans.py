"""Spans: what becomes of each ask, and of what it was granted, as OpenTelemetry has it.

It knows effects, and puts them into spans. It must never know where they go, and never keep what has no bound: whoever
waits stands in a line that has one, and of holds so many are traced.

A span of an ask is made when the ask has ended, and one of a hold when that has: until then there is only what it
takes to make them. So a daemon that dies takes with it the spans of what it had under way, and no half of one is left.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    format_span_id,
    format_trace_id,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from governor.core.effects import Abandoned, Denied, Effect, Granted, LeaseEnded, Queued
from governor.core.types import SECOND, Claim, Denial, EndReason, Grant, LeaseId, Nanos, Reason, TicketId
from governor.metrics.histogram import Exemplar
from governor.metrics.tally import ABANDONED, GRANTED, REPEATED
from governor.tracing import SESSION

# Holds that are traced at once; each takes about a kilobyte. With as many, the next one is not traced.
MAX_HOLDS: Final = 10_000
# Longer than either may be: not looked at.
_MAX_TRACEPARENT: Final = 128
_MAX_TRACESTATE: Final = 512

# Why a hold has ended here that goes on: with the daemon, which its lease outlives.
STOPPING: Final = "stopping"

# Attributes, in the words of the metrics where there are any.
RESOURCES: Final = "governor.resources"
PERMITS: Final = "governor.permits"
CLIENT: Final = "governor.client"
OUTCOME: Final = "governor.outcome"
WAIT: Final = "governor.wait_seconds"
AHEAD: Final = "governor.ahead"
LEASE: Final = "governor.lease"
MEMBERS: Final = "governor.members"
ENDED: Final = "governor.ended"

# What gRPC's conventions count as the server's failure: UNAVAILABLE.
_FAILURES: Final = frozenset((Reason.PAUSED, Reason.DRAINING, Reason.STATE_UNWRITABLE))
# Where what is claimed may be any name at all, it must not become that of a span: there would be as many as a client
# likes.
_NAMED: Final = frozenset(Reason) - {Reason.UNKNOWN_RESOURCE, Reason.MALFORMED, Reason.PERMISSION_DENIED}
# How a hold ends badly: otherwise than by a release.
_LOSSES: Final = frozenset((EndReason.EXPIRED.value, EndReason.REVOKED.value, EndReason.DISCONNECTED.value))
_ROOT: Final = Context()

_LOG: Final = logging.getLogger("governor")


Named = Sequence[Claim | Grant]
# How often, of which outcome of an ask (None: of a hold), and the example.
Exemplify = Callable[[Iterable[Claim | Grant], str | None, Exemplar], None]


class _Cause(NamedTuple):
    """What an ask follows from, by which method it came; of one that waits, since when and with how many before it."""

    method: str
    parent: Context
    ahead: int = 0
    since: Nanos | None = None


@dataclass(slots=True)
class _Hold:
    """A hold that is traced: the parent of its span, the ask's span, and by the wall clock when it began."""

    parent: Context
    asked: SpanContext
    since: Nanos
    grants: tuple[Grant, ...]
    client: str


class Spans:
    """Of one driver: a `Follower` of its asks, and one of its observers."""

    def __init__(
        self,
        tracer: Tracer,
        now: Callable[[], Nanos],
        *,
        code: Callable[[Reason], str],
        exemplify: Exemplify,
        too_many: Callable[[], None],
        max_holds: int = MAX_HOLDS,
    ) -> None:
        """``now``: the wall clock. ``code``: the status that a refusal is answered with.

        ``exemplify``: told of each span that is sampled, for metrics to point at. ``too_many``: called for each hold
        that is not traced.
        """
        self._tracer = tracer
        self._now = now
        self._code = code
        self._exemplify = exemplify
        self._too_many = too_many
        self._max_holds = max_holds
        self._propagator = TraceContextTextMapPropagator()
        self._cause = _Cause(SESSION, _ROOT)
        self._waiting: dict[TicketId, _Cause] = {}
        self._holds: dict[LeaseId, _Hold] = {}
        self._complained = False

    def asked(self, method: str, traceparent: str = "", tracestate: str = "") -> None:
        """As `Follower.asked`."""
        self._cause = _Cause(method, _ROOT)
        if traceparent:
            with self._unharmed():
                self._cause = _Cause(method, self._context(traceparent, tracestate))

    def refused(self, denial: Denial, claims: Sequence[Claim] = (), client: str = "") -> None:
        """As `Follower.refused`."""
        with self._unharmed():
            self._denied(self._cause, denial.reason, claims, client, 0)

    def observe(self, effects: Sequence[Effect]) -> None:
        """Of one step of the engine. A ticket that did not wait is of the ask that is just being made."""
        for effect in effects:
            try:
                self._see(effect)
            except Exception:  # noqa: BLE001 - a sampler may be anybody's, and is no reason to fail a step
                self._complain()

    def close(self) -> None:
        """The daemon ends; what is held goes on without it."""
        holds, self._holds = self._holds, {}
        now = self._now()
        for lease, hold in holds.items():
            with self._unharmed():
                self._ended(lease, hold, STOPPING, now - hold.since)

    def _see(self, effect: Effect) -> None:
        # Not a match, as in `metrics.tally`.
        if type(effect) is Granted:
            self._granted(self._cause_of(effect.ticket), effect)
        elif type(effect) is LeaseEnded:
            if (hold := self._holds.pop(effect.lease, None)) is not None:
                self._ended(effect.lease, hold, effect.reason.value, effect.held)
        elif type(effect) is Queued:
            self._waiting[effect.ticket] = self._cause._replace(ahead=effect.ahead, since=self._now())
        elif type(effect) is Denied:
            cause = self._cause_of(effect.ticket)
            self._denied(cause, effect.denial.reason, effect.claims, effect.client, effect.waited)
        elif type(effect) is Abandoned:
            cause, now = self._cause_of(effect.ticket), self._now()
            self._begin(cause, ABANDONED, "CANCELLED", effect.claims, effect.client, effect.waited, now).end(now)

    def _cause_of(self, ticket: TicketId) -> _Cause:
        waited = self._waiting.pop(ticket, None)
        return self._cause if waited is None else waited

    @contextmanager
    def _unharmed(self) -> Iterator[None]:
        try:
            yield
        except Exception:  # noqa: BLE001 - as in `observe`
            self._complain()

    def _complain(self) -> None:
        """Once: it would be the same for every ask."""
        if not self._complained:
            self._complained = True
            _LOG.exception("traces: a span could not be made; it is left out, and so are others like it")

    # --- asks ---------------------------------------------------------------------------------------------------

    def _granted(self, cause: _Cause, granted: Granted) -> None:
        grants, client = granted.grants, granted.client
        outcome, waited, now = GRANTED, granted.waited, self._now()
        if granted.repeated:
            # What it says is how long the first one waited at the place that this one has joined, if it has.
            outcome, waited = REPEATED, 0 if cause.since is None else max(0, now - cause.since)
        span = self._begin(cause, outcome, "OK", grants, client, waited, now)
        if not span.is_recording():
            return
        span.set_attribute(LEASE, granted.lease)
        if granted.repeated:
            if (hold := self._holds.get(granted.lease)) is not None:
                span.add_link(hold.asked)  # the ask that it repeats
        elif granted.deadline is not None:
            if len(self._holds) < self._max_holds:
                asked = span.get_span_context()
                parent = cause.parent or set_span_in_context(NonRecordingSpan(asked), _ROOT)
                self._holds[granted.lease] = _Hold(parent, asked, now, grants, client)
            else:
                self._too_many()
        span.end(now)

    def _denied(self, cause: _Cause, reason: Reason, claims: Named, client: str, waited: Nanos) -> None:
        code, now = self._code(reason), self._now()
        span = self._begin(cause, reason.value, code, claims, client, waited, now, named=reason in _NAMED)
        if reason in _FAILURES:
            span.set_status(Status(StatusCode.ERROR, reason.value))
        span.end(now)

    def _begin(
        self,
        cause: _Cause,
        outcome: str,
        code: str,
        claims: Named,
        client: str,
        waited: Nanos,
        now: Nanos,
        *,
        named: bool = True,
    ) -> Span:
        """The span of an ask that has just ended. Not ``named``: a client has chosen what it claims."""
        title = f"acquire {claims[0].resource}" if named and len(claims) == 1 else "acquire"
        span = self._tracer.start_span(title, cause.parent, SpanKind.SERVER, start_time=now - waited)
        if span.is_recording():
            span.set_attributes(
                {
                    RESOURCES: [claim.resource for claim in claims],
                    PERMITS: [claim.permits for claim in claims],
                    CLIENT: client,
                    OUTCOME: outcome,
                    WAIT: waited / SECOND,
                    AHEAD: cause.ahead,
                    "rpc.system.name": "grpc",
                    "rpc.method": cause.method,
                    "rpc.response.status_code": code,
                }
            )
            self._exemplify(claims, outcome, _exemplar(span, waited, now))
        return span

    # --- holds --------------------------------------------------------------------------------------------------

    def _ended(self, lease: LeaseId, hold: _Hold, why: str, held: Nanos) -> None:
        grants, now = hold.grants, self._now()
        title = f"hold {grants[0].resource}" if len(grants) == 1 else "hold"
        span = self._tracer.start_span(title, hold.parent, links=(Link(hold.asked),), start_time=now - held)
        if not span.is_recording():
            return
        span.set_attributes(
            {
                RESOURCES: [grant.resource for grant in grants],
                PERMITS: [grant.permits for grant in grants],
                CLIENT: hold.client,
                LEASE: lease,
                ENDED: why,
            }
        )
        if members := [member.id for grant in grants for member in grant.members]:
            span.set_attribute(MEMBERS, members)
        if why in _LOSSES:
            span.set_status(Status(StatusCode.ERROR, why))
        if why != STOPPING:
            self._exemplify(grants, None, _exemplar(span, held, now))
        span.end(now)

    # --- what an ask follows from -------------------------------------------------------------------------------

    def _context(self, traceparent: str, tracestate: str) -> Context:
        """What is malformed, or too long, says nothing."""
        if len(traceparent) > _MAX_TRACEPARENT:
            return _ROOT
        carrier = {"traceparent": traceparent}
        if tracestate and len(tracestate) <= _MAX_TRACESTATE:
            carrier["tracestate"] = tracestate
        return self._propagator.extract(carrier, _ROOT)


def _exemplar(span: Span, value: Nanos, at: Nanos) -> Exemplar:
    context = span.get_span_context()
    return Exemplar(value, format_trace_id(context.trace_id), format_span_id(context.span_id), at)
