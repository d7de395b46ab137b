"""Bounds: how much of the daemon itself its clients may take, beside what it lends them.

It knows the numbers and their names. It must never know how any of them is held.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SECOND: Final = 1_000_000_000

DEFAULT_STREAMS: Final = 4_000
DEFAULT_SESSIONS: Final = 10_000
DEFAULT_SESSIONS_EACH: Final = 2_000
DEFAULT_HTTP: Final = 64
DEFAULT_HANDSHAKE: Final = 10 * SECOND


class Bound(StrEnum):
    """What somebody had too much of when he was refused or cut off."""

    SESSIONS = "sessions"
    SESSIONS_PER_CLIENT = "sessions_per_client"
    UNREAD = "unread"
    HTTP_CONNECTIONS = "http_connections"


@dataclass(slots=True, frozen=True)
class Bounds:
    """What there may be at once. ``handshake``, in nanoseconds: how long whoever connects may take to say hello.

    ``connections``: to each address of gRPC; None is as many as the limit on open files allows. ``streams``: calls and
    sessions of one connection. ``sessions``: of all clients together.
    """

    connections: int | None = None
    streams: int = DEFAULT_STREAMS
    handshake: int = DEFAULT_HANDSHAKE
    sessions: int = DEFAULT_SESSIONS
    sessions_per_client: int = DEFAULT_SESSIONS_EACH
    http_connections: int = DEFAULT_HTTP
