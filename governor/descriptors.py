"""File descriptors: how many this process may have, and how many of them connections may take.

It knows the limits of the process. It must never know who connects.
"""

import contextlib
import resource
from typing import Final

# What stays free whatever connects: for the 17 files of an idle daemon, and for those that the fence, a reload or a
# connection about to be refused have open for a moment.
RESERVED: Final = 36
# Also with a limit that is as good as none: each connection costs memory, some 10 to 30 KiB.
MAX_CONNECTIONS: Final = 10_000
# Whatever the limit, somebody must be able to ask.
_FEWEST: Final = 4


def raise_limit() -> None:
    """Take all that the system grants: the lower, soft limit is there for programs that use select(2)."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # a container may forbid it, and the lower one does as well
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_each(listeners: int, http: int) -> int:
    """How many connections each of so many listeners may have open at once, beside so many over HTTP."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(_FEWEST, min(MAX_CONNECTIONS, (soft - RESERVED - http) // listeners))
