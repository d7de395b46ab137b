"""Sight: what the status page may look at.

It knows which parts of the daemon have something to show. It must never know how that is shown.
"""

from collections.abc import Callable
from dataclasses import dataclass

from governor.clock import Clock
from governor.config import ConfigState
from governor.core.types import Nanos
from governor.driver import Driver
from governor.history import History
from governor.sessions import Sessions


@dataclass(slots=True, frozen=True)
class Head:
    """The daemon itself. ``started_at`` is of the wall clock, in nanoseconds since 1970.

    ``state_problem``: why the state cannot be written; empty: it can. ``not_ready``: in a word, why new asks are not
    taken; None when they are.
    """

    version: str
    pid: int
    host: str
    started_at: Nanos
    config: ConfigState
    state_problem: str
    not_ready: str | None


@dataclass(slots=True, frozen=True)
class Sight:
    """``sessions``: None until there are any, for pages are served before anybody else."""

    driver: Driver
    clock: Clock
    history: History
    head: Callable[[], Head]
    sessions: Callable[[], Sessions | None]
