"""What an ask follows from, as it comes: in the metadata of a call, and in a message of a session.

It knows where it stands, and how much of it may be kept. It must never know what it means, and never refuse an ask for
what it says.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from governor.tracewords import MAX_TRACEPARENT, MAX_TRACESTATE
from governor.v1 import governor_pb2 as pb

# Trace parent and trace state; empty where nothing is said.
Trace = tuple[str, str]

NO_TRACE: Final[Trace] = ("", "")
# Of one message: more ops than a program asks under at once are not looked at, whatever it says of them, nor more
# contexts than there would be if each had one of its own.
MAX_TRACED: Final = 4096
_PARENT: Final = "traceparent"
_STATE: Final = "tracestate"


def trace_of(metadata: Iterable[tuple[str, str | bytes]]) -> Trace:
    """That of a call. Two parents are none; a state may come in parts."""
    parents: list[str] = []
    states: list[str] = []
    for name, value in metadata:
        if name == _PARENT and isinstance(value, str):
            parents.append(value)
        elif name == _STATE and isinstance(value, str):
            states.append(value)
    return _bounded(parents[0], ",".join(states)) if len(parents) == 1 else NO_TRACE


def traces_of(request: pb.SessionRequest) -> Mapping[int, Trace]:
    """Those of the asks of one message, by op; of an op that is named twice, the last that says anything."""
    said: dict[int, Trace] = {}
    left = MAX_TRACED
    for context in islice(request.traces, MAX_TRACED):
        # Each is read once and kept once, however many ops follow from it: to read it is to copy it.
        trace = _bounded(context.traceparent, context.tracestate)
        if trace is not NO_TRACE:
            ops = context.ops[:left]
            said.update(dict.fromkeys(ops, trace))
            left -= len(ops)
    return said


def _bounded(parent: str, state: str) -> Trace:
    """Of what is too long, nothing; a state without a parent is nothing, too."""
    if not 0 < len(parent) <= MAX_TRACEPARENT:
        return NO_TRACE
    return parent, state if len(state) <= MAX_TRACESTATE else ""
