"""What an ask follows from, as others have written it: read, or nothing.

It knows the two headers of https://www.w3.org/TR/trace-context/. It must never say anything of what is wrong with
them: whoever may say what he likes, also before it is known who he is, would have it in the log.
"""

import re
from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from governor.tracewords import MAX_TRACEPARENT, MAX_TRACESTATE

# What follows from nothing.
ROOT: Final = Context()
_MAX_MEMBERS: Final = 32
_TAIL: Final = r"[_0-9a-z\-*/]"
_MEMBER: Final = re.compile(
    rf"(?:[a-z]{_TAIL}{{0,255}}|[a-z0-9]{_TAIL}{{0,240}}@[a-z]{_TAIL}{{0,13}})"
    r"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
_PROPAGATOR: Final = TraceContextTextMapPropagator()


def context_of(traceparent: str, tracestate: str) -> Context:
    """What is malformed, or too long, says nothing; a state that is leaves the parent as it is."""
    if not 0 < len(traceparent) <= MAX_TRACEPARENT:
        return ROOT
    carrier = {"traceparent": traceparent}
    if state := _legal(tracestate):
        carrier["tracestate"] = state
    return _PROPAGATOR.extract(carrier, ROOT)


def _legal(tracestate: str) -> str:
    """The state if it is one; else empty. The SDK would log what it does not like of it."""
    if not 0 < len(tracestate) <= MAX_TRACESTATE:
        return ""
    members = [member for part in tracestate.split(",") if (member := part.strip(" \t"))]
    keys = {member.partition("=")[0] for member in members}
    legal = len(keys) == len(members) <= _MAX_MEMBERS and all(map(_MEMBER.fullmatch, members))
    return ",".join(members) if legal else ""
