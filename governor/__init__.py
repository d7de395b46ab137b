"""Permission to use scarce things, handed out in a fair line and taken back on time.

This package root knows the version, and where the names of `governor.client` are: importing `governor` is free of side
effects, so the client, the daemon and the command line each pay only for what they import.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from governor.client import (
        AsyncClient,
        AsyncLease,
        Client,
        GovernorError,
        Lease,
        LeaseLost,
        NotGranted,
        Unavailable,
        UsageError,
    )

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "AsyncLease",
    "Client",
    "GovernorError",
    "Lease",
    "LeaseLost",
    "NotGranted",
    "Unavailable",
    "UsageError",
    "__version__",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from governor import client  # noqa: PLC0415 - when somebody wants it

    return getattr(client, name)
