"""The words of the core: times, ids, claims, grants, refusals.

It knows shapes only. It must never decide anything: a value here means the same to everybody who holds it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType

# Integer nanoseconds of a monotonic clock, as an instant or as a length. An alias, not a NewType: the core does
# arithmetic on them everywhere, and wrapping each sum again would cost more than it could catch.
Nanos = int

TicketId = NewType("TicketId", int)
LeaseId = NewType("LeaseId", int)

MILLISECOND: Final[Nanos] = 1_000_000
SECOND: Final[Nanos] = 1_000_000_000

# Bounds of one ask. They keep the work of one step small, whatever a client sends.
MAX_CLAIMS: Final = 64
MAX_PERMITS: Final = 2**31 - 1
MIN_LEASE: Final[Nanos] = MILLISECOND


class Reason(StrEnum):
    """Why an ask was refused; the value is the ``outcome`` label of metrics. One table maps it to a status."""

    MALFORMED = "malformed"
    REQUEST_ID_REUSED = "request_id_reused"
    UNKNOWN_RESOURCE = "unknown_resource"
    UNKNOWN_LEASE = "unknown_lease"
    ABOVE_CAPACITY = "above_capacity"
    NONE_FREE = "none_free"
    WAIT_OVER = "wait_over"
    LINE_FULL = "line_full"
    HOPELESS = "hopeless"
    LEASE_ENDED = "lease_ended"
    PAUSED = "paused"
    DRAINING = "draining"
    STATE_UNWRITABLE = "state_unwritable"
    UNAUTHENTICATED = "unauthenticated"
    PERMISSION_DENIED = "permission_denied"
    CLIENT_LIMIT = "client_limit"


class Standing(StrEnum):
    """What an operator says of a resource: as declared; nothing is granted; or everybody is sent away."""

    OPEN = "open"
    PAUSED = "paused"
    DRAINING = "draining"


class EndReason(StrEnum):
    """Why a lease ended. ``SPENT`` is a grant of rate limits only: nothing was ever lent."""

    RELEASED = "released"
    EXPIRED = "expired"
    REVOKED = "revoked"
    DISCONNECTED = "disconnected"
    SPENT = "spent"


class Outcome(StrEnum):
    """How a borrowed pool member was when it came back."""

    OK = "ok"
    BROKEN = "broken"
    UNKNOWN = "unknown"


@dataclass(slots=True, frozen=True)
class Claim:
    """A number of permits of one resource. ``key`` is the share of a keyed resource; ``""`` for now."""

    resource: str
    permits: int
    key: str = ""


@dataclass(slots=True, frozen=True)
class Member:
    """One slot of a pool as it was lent. ``generation`` rises when what was opened on it must be opened anew."""

    id: str
    attributes: tuple[tuple[str, str], ...] = ()
    generation: int = 1


# Not frozen: one is made for each claim of each grant, and freezing triples the cost (0.15 to 0.56 us).
@dataclass(slots=True)
class Grant:
    """What was granted of one claim; ``members`` has one entry a permit for a pool, none for other kinds."""

    resource: str
    permits: int
    members: tuple[Member, ...] = ()
    key: str = ""


@dataclass(slots=True, frozen=True)
class Said:
    """What goes along with an order and decides nothing: who says he gives it, and why, in his own words.

    ``client``: as which he is known.
    """

    actor: str = ""
    reason: str = ""
    client: str = ""

    def plain(self) -> dict[str, str]:
        """For the record; a client that is known is there where there are any."""
        said = {"actor": self.actor, "reason": self.reason}
        return {**said, "client": self.client} if self.client else said


UNSAID: Final = Said()


@dataclass(slots=True, frozen=True)
class Ended:
    """Why a lease ended, and how long ago."""

    reason: EndReason
    ago: Nanos


@dataclass(slots=True, frozen=True)
class Denial:
    """A refusal as data: the reason and the numbers that explain it. A refused ask has changed nothing.

    ``resource`` is what it is about; empty when it is about the whole daemon, which may be what drains.

    ``field`` and ``expected`` are for a malformed ask; of one that its client may not make, ``expected`` is what he may
    not, or how much he may, and ``client`` who he is known to be; of one that cannot be put on record, ``expected`` is
    what is not there yet. ``asked`` and ``limit`` are for one above capacity, ``longest`` is the wait or the lease that
    the resource allows at most, where the refusal is about that; ``retry_after`` is how long until it would work (None:
    nobody can tell), ``ended`` is for a lease.
    """

    reason: Reason
    resource: str = ""
    field: str = ""
    expected: str = ""
    asked: int | None = None
    limit: int | None = None
    longest: Nanos | None = None
    retry_after: Nanos | None = None
    ended: Ended | None = None
    client: str = ""
