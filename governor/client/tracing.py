"""Whether a program traces, and what an ask follows from.

It knows where OpenTelemetry would be. It must never load it: a program that traces has.
"""

import logging
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from governor.client.asks import Claims
    from governor.client.spans import Asking

# Trace parent and trace state, as https://www.w3.org/TR/trace-context/ writes them.
Trace = tuple[str, str]

_LOG: Final = logging.getLogger("governor.client")
# Whatever is there in its place is not OpenTelemetry as we know it; that does not change, and is said once.
_unusable = threading.Event()


def asking(claims: "Claims") -> "Asking | None":
    """The span of an ask that begins now; None in a program that does not trace, which costs it a look."""
    # None is what stands there for a module that must not be loaded.
    if sys.modules.get("opentelemetry.trace") is None or _unusable.is_set():
        return None
    try:
        from governor.client import spans  # noqa: PLC0415 - it loads what the program has loaded
    except Exception:  # noqa: BLE001 - it is the program's, and no reason to fail an ask
        if not _unusable.is_set():
            _unusable.set()
            _LOG.exception("OpenTelemetry is there and cannot be used; asks go on without spans")
        return None
    return spans.begin(claims)
