"""The desk: what operators are told, and may do, that is not the engine's.

It knows what the daemon must say of itself to be operated. It must never know how.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from governor.config import Config, ConfigState, Reloaded
from governor.core.types import Nanos
from governor.entries import Act
from governor.rpc.admin.where import Where
from governor.rpc.calls import Told


@dataclass(slots=True, frozen=True)
class About:
    """The daemon at this moment. ``started_at`` is of the wall clock, in nanoseconds since 1970.

    ``http``: where its pages are, as a URL; empty is nowhere. ``state_problem``: why the state cannot be written, empty
    when it can. ``audit_problem``: why nothing is granted on account of the audit file, empty when it is no reason.
    ``revoked`` and ``expired``: how many leases ended so since the start. ``tracing``: where spans go and of how many
    asks, empty when nothing is traced.
    """

    host: str
    started_at: Nanos
    http: str
    state_folder: str
    durability: str
    state_problem: str
    audit_problem: str
    revoked: int
    expired: int
    tracing: str


@dataclass(slots=True, frozen=True)
class Desk:
    """What the daemon brings along.

    ``config``: which one is in force. ``reload``: read it anew, for whom. ``read``: what a file would mean in the place
    of the daemon's own, called what the second argument says; raises `ConfigError`, and may block. ``running``: the
    config in force and the one of the start. ``watch``: the method Watch.
    """

    where: Where
    about: Callable[[], About]
    config: Callable[[], ConfigState]
    reload: Callable[[str], Awaitable[Reloaded]]
    read: Callable[[bytes, str], Config]
    running: Callable[[], tuple[Config, Config]]
    act: Act
    watch: Told
