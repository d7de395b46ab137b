"""Operators of a daemon in a test: the real service Admin, of a daemon that has no file and no state.

It knows what such a daemon can say of itself. It must never decide anything about permits.
"""

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from governor.address import TcpAddress
from governor.chronicle import Chronicle
from governor.clock import unix_nanos
from governor.config import Config, ConfigState, Reloaded, parse
from governor.driver import Driver
from governor.durability import Durability
from governor.rpc.admin import About, Desk, Where
from governor.rpc.watch import Watch

_NO_FILE: Final = "a daemon in a test has no config file: call its reload() with another config"


@dataclass(slots=True)
class InForce:
    """Which config is. Not asked of the daemon itself: it would know itself, and gRPC's threads outlive it by that."""

    config: Config


def desk(driver: Driver, chronicle: Chronicle, in_force: InForce) -> Desk:
    """The desk of one daemon, at a port of its own: whoever can run a test may do whatever it is about."""
    started_at, host = unix_nanos(), socket.gethostname()

    def state() -> ConfigState:
        return ConfigState(in_force.config.source, in_force.config.hash, started_at)

    async def reload(_actor: str) -> Reloaded:
        return Reloaded(state(), (_NO_FILE,))

    return Desk(
        where=Where((TcpAddress("127.0.0.1", 0),)),
        about=lambda: About(host, started_at, "", "", Durability.NONE, "", "", 0, 0, ""),
        config=state,
        reload=reload,
        read=lambda data, source: parse(data, source, Path.cwd(), os.environ),
        running=lambda: (in_force.config, in_force.config),
        act=chronicle.act,
        watch=Watch(chronicle, driver).watch,
    )
