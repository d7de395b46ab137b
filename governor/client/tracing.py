"""Whether a program traces, and what an ask follows from.

It knows where OpenTelemetry would be. It must never load it: a program that traces has.
"""

import logging
import os
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from governor.client.asks import Claims
    from governor.client.spans import Asking

# Trace parent and trace state, as https://www.w3.org/TR/trace-context/ writes them.
Trace = tuple[str, str]

_LOG: Final = logging.getLogger("governor.client")
# The API makes a provider of this name when it is first asked for one.
_NAMED: Final = "OTEL_PYTHON_TRACER_PROVIDER" in os.environ
# Whatever is there in its place is not OpenTelemetry as we know it; that does not change, and is said once.
_unusable = threading.Event()


def asking(claims: "Claims") -> "Asking | None":
    """The span of an ask that begins now; None in a program that does not trace, which costs it a look."""
    api = sys.modules.get("opentelemetry.trace")
    # None is also what stands there for a module that must not be loaded. Many programs load the API by way of some
    # library and set nothing up, and to ask it so costs a fifth of an acquire: where it keeps a provider is no part of
    # its contract, so only what is surely none is believed.
    if api is None or (getattr(api, "_TRACER_PROVIDER", api) is None and not _NAMED) or _unusable.is_set():
        return None
    try:
        from governor.client import spans  # noqa: PLC0415 - it loads what the program has loaded
    except Exception:  # noqa: BLE001 - it is the program's, and no reason to fail an ask
        if not _unusable.is_set():
            _unusable.set()
            _LOG.exception("OpenTelemetry is there and cannot be used; asks go on without spans")
        return None
    return spans.begin(claims)
