"""Everything that can happen to the engine, as imperatives.

It knows what may be asked of the engine. It must never know who asks or how the answer travels.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from governor.core.types import UNSAID, Claim, LeaseId, Nanos, Outcome, Said, Standing, TicketId

if TYPE_CHECKING:
    from governor.core.limit import LimitSpec
    from governor.core.resource import Remembered, ResourceSpec
    from governor.core.snapshot import Held, Past


# Events are not frozen: several are made for each call, and freezing triples the cost. Nobody writes to them.
@dataclass(slots=True)
class Acquire:
    """Ask for all of ``claims`` together, under a ``ticket`` number that was never used before.

    ``wait``: None is the smallest ``max_wait`` of the resources, 0 does not wait; never longer than that ``max_wait``.
    ``lease``: None is the shortest ``lease`` of the resources that lend.
    ``request_id``: unless empty, the same id from the same ``client`` gives the same lease or place in line.
    """

    ticket: TicketId
    claims: tuple[Claim, ...]
    client: str = ""
    wait: Nanos | None = None
    lease: Nanos | None = None
    request_id: str = ""
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Abandon:
    """Whoever held this ticket is gone. Safe in any state, and twice.

    Waiting: it leaves the line. Granted, and nobody else holds a ticket to the same lease: the lease ends as
    ``disconnected`` and what it spent of rate limits is refunded. To be sent only while the grant is undelivered.
    """

    ticket: TicketId


@dataclass(slots=True)
class Release:
    """Give leases back; the answer has one result for each id.

    ``settled``: whoever asked for them has its answer and will not ask again, so their request ids are free at once.
    """

    leases: tuple[LeaseId, ...]
    outcome: Outcome = Outcome.UNKNOWN
    settled: bool = False


@dataclass(slots=True)
class Renew:
    """Extend leases to ``lease`` from now; one result for each id.

    None is as long as each was granted for, and takes nothing away: a restart, a freeze or another renewal may have
    given it more, and whoever was told so must be able to rely on it until he is told otherwise. ``most``: as long
    as that from now, at most, as far as it gives any.
    """

    leases: tuple[LeaseId, ...]
    lease: Nanos | None = None
    most: Nanos | None = None


@dataclass(slots=True)
class Disconnect:
    """Whoever held these leases is gone. What becomes of each is what its least patient resource says.

    It ends at once, or after a grace unless it is renewed within, or as if nothing had happened.
    """

    leases: tuple[LeaseId, ...]


@dataclass(slots=True)
class Wake:
    """Time has passed; whatever is due by now happens. Every other event does that first, too."""


@dataclass(slots=True)
class Reconfigure:
    """These are the resources from now on: all of it or, if it cannot be, nothing."""

    resources: "tuple[ResourceSpec, ...]"


@dataclass(slots=True)
class Restore:
    """All this is as it was before a restart; lease ids continue above the highest. It comes before any ask.

    The resources must be declared as they were remembered: `Reconfigure` comes before, and once more after it if they
    are to be others from now on. Instants are of the new clock. ``past``: those whose request ids still stand, oldest
    first. ``fading``: resources that were neither declared nor lent, but spent. The tickets of all these are gone, but
    it is taken for granted that somebody had the answer.
    """

    leases: "tuple[Held, ...]"
    resources: "tuple[Remembered, ...]" = ()
    past: "tuple[Past, ...]" = ()
    fading: "tuple[Remembered, ...]" = ()


@dataclass(slots=True)
class Freeze:
    """Nothing was done for ``length`` until now: every lease ends that much later, and none within the next second.

    So what renews a lease, and has arrived meanwhile, is heard before anything ends. Waits are over when they would
    have been, and rate limits go on: theirs is the time of those who wait.
    """

    length: Nanos


@dataclass(slots=True)
class Drain:
    """Refuse all new asks and everybody who waits; leases go on and may be renewed and released."""


@dataclass(slots=True)
class ReserveIds:
    """Lease ids up to and including ``ceiling`` may be given out: a higher one is on record for the next start."""

    ceiling: LeaseId


@dataclass(slots=True)
class Seal:
    """While ``sealed`` nothing is granted, as when ids run out: what is granted could not be put on record."""

    sealed: bool


@dataclass(slots=True)
class Revoke:
    """End leases now, whoever holds them; the answer has one result for each id."""

    leases: tuple[LeaseId, ...]


@dataclass(slots=True)
class SetStanding:
    """A resource is ``PAUSED``, ``DRAINING`` or ``OPEN`` from now on."""

    resource: str
    standing: Standing
    said: Said = UNSAID


@dataclass(slots=True)
class SetOverride:
    """Another limit than the declared one, of the same kind, is in force until the instant ``until``; None: none is."""

    resource: str
    limit: "LimitSpec | None"
    until: Nanos = 0
    said: Said = UNSAID


@dataclass(slots=True)
class Recycle:
    """What is open on a member, or on all of a pool, must be opened anew: at once if idle, else when next lent."""

    resource: str
    member: str | None = None


@dataclass(slots=True)
class Quarantine:
    """Keep a member out until the instant ``until``, None is until `Readmit`, in place of any quarantine it is in."""

    resource: str
    member: str
    until: Nanos | None = None
    said: Said = UNSAID


@dataclass(slots=True)
class Readmit:
    """End any quarantine of a member; its next failure counts as the first."""

    resource: str
    member: str


# What an operator orders about one resource.
Steer = SetStanding | SetOverride | Recycle | Quarantine | Readmit

Event = (
    Acquire
    | Release
    | Renew
    | Abandon
    | Disconnect
    | Wake
    | Reconfigure
    | Restore
    | Freeze
    | Drain
    | ReserveIds
    | Seal
    | Revoke
    | Steer
)
