"""The section ``bounds``: how much of the daemon itself its clients may take.

It knows its keys. It must never know how they are held.
"""

from typing import Annotated, ClassVar, Final

from pydantic import Field

from governor.bounds import (
    DEFAULT_HANDSHAKE,
    DEFAULT_HTTP,
    DEFAULT_SESSIONS,
    DEFAULT_SESSIONS_EACH,
    DEFAULT_STREAMS,
    Bounds,
)
from governor.config.declared import Declared, optional
from governor.config.values import LENGTH, whole
from governor.core.types import Nanos

# A client that waits in line with all its streams must have some left to give back what it holds.
_FEWEST_STREAMS: Final = 10
# Each is remembered until it ends, so there is none that is as good as no bound.
_MOST: Final = 100_000


class BoundsSection(Declared):
    """How much of the daemon itself its clients may take, beside what it lends them."""

    shape: ClassVar[str] = "a mapping such as {sessions_per_client: 100}"

    connections: Annotated[
        int | None,
        whole(1, _MOST),
        Field(
            description="How many connections each address of gRPC may have; more are closed at once. Not written: "
            "10,000, or as many as the limit on open files allows.",
            examples=[1000],
        ),
    ] = None
    streams: Annotated[
        int,
        whole(_FEWEST_STREAMS, _MOST),
        optional(
            "How many calls and sessions one connection may have at a time; its client holds back more.",
            default=DEFAULT_STREAMS,
        ),
    ] = DEFAULT_STREAMS
    handshake: Annotated[
        Nanos,
        LENGTH,
        optional("How long whoever connects to gRPC may take to say hello.", default="10s"),
    ] = DEFAULT_HANDSHAKE
    sessions: Annotated[
        int,
        whole(1, _MOST),
        optional(
            "How many sessions there may be of all clients; a new one beyond that is refused.", default=DEFAULT_SESSIONS
        ),
    ] = DEFAULT_SESSIONS
    sessions_per_client: Annotated[
        int,
        whole(1, _MOST),
        optional("How many sessions there may be of one client, by its name.", default=DEFAULT_SESSIONS_EACH),
    ] = DEFAULT_SESSIONS_EACH
    http_connections: Annotated[
        int,
        whole(4, 10_000),
        optional(
            "How many connections there may be over HTTP; one that asks nothing gives way to a new one.",
            default=DEFAULT_HTTP,
        ),
    ] = DEFAULT_HTTP

    def bounds(self) -> Bounds:
        """What it asks for."""
        return Bounds(
            self.connections,
            self.streams,
            self.handshake,
            self.sessions,
            self.sessions_per_client,
            self.http_connections,
        )
