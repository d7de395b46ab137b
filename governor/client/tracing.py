"""Whether a program traces, and what an ask follows from.

It knows where OpenTelemetry would be. It must never load it: a program that traces has.
"""

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from governor.client.asks import Claims
    from governor.client.spans import Asking

# Trace parent and trace state, as https://www.w3.org/TR/trace-context/ writes them.
Trace = tuple[str, str]

_MAX_STATE: Final = 512


def asking(claims: "Claims") -> "Asking | None":
    """The span of an ask that begins now; None in a program that does not trace, which costs it a look."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from governor.client import spans  # noqa: PLC0415 - it loads what the program has loaded

    return spans.begin(claims)


def bounded(traceparent: str, tracestate: str) -> Trace:
    """The two, as the daemon reads them: a state that is too long is left out."""
    return traceparent, tracestate if len(tracestate.encode()) <= _MAX_STATE else ""
