"""What an ask follows from, as it comes: in the metadata of a call, and in a message of a session.

It knows where it stands. It must never know what it means, and never refuse an ask for what it says.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from governor.v1 import governor_pb2 as pb

# Trace parent and trace state; empty where nothing is said.
Trace = tuple[str, str]

NO_TRACE: Final[Trace] = ("", "")
# Of one message: more ops than a program asks under at once are not looked at, whatever it says of them.
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
    return (parents[0], ",".join(states)) if len(parents) == 1 else NO_TRACE


def traces_of(request: pb.SessionRequest) -> Mapping[int, Trace]:
    """Those of the asks of one message, by op; of an op that is named twice, the last."""
    said = ((op, (trace.traceparent, trace.tracestate)) for trace in request.traces for op in trace.ops)
    return dict(islice(said, MAX_TRACED))
