"""Manner: how a daemon of a world is, what its operator declares, and what it says.

It knows the shape of these. It must never know what becomes of them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from governor.core.effects import Denied, Granted, Queued, Released, Renewed
from governor.core.resource import ResourceSpec
from governor.core.types import Nanos

# A place in line, the end of an ask, or the answer to a release or renewal.
Answer = Queued | Granted | Denied | Released | Renewed


@dataclass(frozen=True)
class Told:
    """An answer, and the daemon's own clock then.

    ``boot``: which daemon says so; ``spare``: how much longer leases live if it dies; ``outlives``: for how long the
    lease that is granted outlives its holder, None is until its deadline.
    """

    answer: Answer
    at: Nanos
    boot: int
    spare: Nanos
    outlives: Nanos | None = 0


Tell = Callable[[Told], None]


@dataclass
class Manner:
    """How this daemon and its store are, drawn once for each seed.

    ``to_disk`` is how long it takes until what was written is sure to survive, 0 if it is at once; ``dies`` how likely
    it dies in the middle of a turn; ``reloads`` how seldom the operator declares something else, None is never;
    ``grace`` what a restart adds to the time of a lease, once, None if the operator may declare another. One that is
    ``hasty`` answers before it is sure, which is a fault.
    """

    at_once: int
    to_disk: Nanos
    dies: float
    reloads: Nanos | None
    grace: Nanos | None = None
    hasty: bool = False


@dataclass(frozen=True)
class Declaration:
    """What the operator has declared: all of it but for ``restart_grace`` holds from a reload on.

    ``max_lease`` is how long clients may be lent anything, None is for as long as resources say.
    """

    specs: tuple[ResourceSpec, ...]
    restart_grace: Nanos
    max_lease: Nanos | None
