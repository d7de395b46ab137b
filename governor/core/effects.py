"""Everything the engine can answer, in the past tense: the shells carry these out.

It knows what happened. It must never know who is told, or how.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import final

from governor.core.types import Claim, Denial, Ended, EndReason, Grant, LeaseId, Nanos, TicketId


@final
@dataclass(slots=True)
class Granted:
    """A ticket ended well. ``deadline`` is None when nothing was lent (rate limits only).

    ``repeated``: the same request id was granted this lease before; nothing new was lent.
    """

    ticket: TicketId
    lease: LeaseId
    grants: tuple[Grant, ...]
    deadline: Nanos | None
    waited: Nanos
    client: str
    repeated: bool = False


@dataclass(slots=True)
class Denied:
    """A ticket ended badly. ``claims`` is what it asked for, ``waited`` how long it stood in line."""

    ticket: TicketId
    denial: Denial
    claims: tuple[Claim, ...]
    waited: Nanos = 0
    client: str = ""


@dataclass(slots=True)
class Abandoned:
    """A waiting ticket left the line unanswered, because whoever held it is gone."""

    ticket: TicketId
    claims: tuple[Claim, ...]
    waited: Nanos
    client: str = ""


@dataclass(slots=True)
class Queued:
    """A ticket stands in line; ``ahead`` others come before it in the longest of its lines.

    When it has joined the place of an earlier ticket in a long line, ``ahead`` stops counting at 100.

    ``not_before`` is the first instant at which it could be granted, as far as rate limits can tell.
    """

    ticket: TicketId
    ahead: int
    not_before: Nanos
    claims: tuple[Claim, ...]
    client: str


@final
@dataclass(slots=True)
class LeaseEnded:
    """A lease ended, for its one reason. ``left`` is deadline - now: negative for one that expired late."""

    lease: LeaseId
    reason: EndReason
    grants: tuple[Grant, ...]
    client: str
    held: Nanos
    left: Nanos


@dataclass(slots=True)
class LeaseExtended:
    """A lease was renewed with ``left`` to go, and now ends at ``deadline``."""

    lease: LeaseId
    grants: tuple[Grant, ...]
    left: Nanos
    deadline: Nanos
    client: str


@dataclass(slots=True)
class LeaseOrphaned:
    """The holder of a lease is gone: unless it is renewed before, it ends at ``deadline``, as ``disconnected``."""

    lease: LeaseId
    deadline: Nanos


@dataclass(slots=True)
class Refunded:
    """Nobody received a grant of rate limits only: what it spent is not spent, as far as nobody else has taken it."""

    lease: LeaseId
    grants: tuple[Grant, ...]
    client: str


class LeaseState(StrEnum):
    """What became of one id of a Release, Renew or Revoke."""

    RELEASED = "released"
    RENEWED = "renewed"
    REVOKED = "revoked"
    ENDED = "ended"
    UNKNOWN = "unknown"
    REFUSED = "refused"


@dataclass(slots=True)
class LeaseResult:
    """The answer for one id. ``remaining`` is set when renewed, ``ended`` when it had ended before.

    It lives for as long as ``remaining`` from now, and longer if it had more and the renewal did not say how long.

    ``REFUSED`` carries the ``denial``: the length asked for is not allowed, and the lease lives on as it was.
    """

    lease: LeaseId
    state: LeaseState
    remaining: Nanos | None = None
    ended: Ended | None = None
    denial: Denial | None = None


@final
@dataclass(slots=True)
class Released:
    """The answer to one Release: a result for each id, in the order asked."""

    results: tuple[LeaseResult, ...]


@dataclass(slots=True)
class Renewed:
    """The answer to one Renew: a result for each id, in the order asked."""

    results: tuple[LeaseResult, ...]


@dataclass(slots=True)
class Revoked:
    """The answer to one Revoke: a result for each id, in the order asked."""

    results: tuple[LeaseResult, ...]


@dataclass(slots=True)
class Steered:
    """An operator's order about a resource is obeyed. Not ``changed``: it was so already.

    ``members``: the ids of those that the order was about.
    """

    resource: str
    changed: bool
    members: tuple[str, ...] = ()


class SteerProblem(StrEnum):
    """Why an operator's order about a resource cannot be obeyed."""

    UNKNOWN_RESOURCE = "unknown_resource"
    # Declared no more; it goes with its last lease.
    REMOVED = "removed"
    # The limit is not of the kind that the resource is.
    OTHER_KIND = "other_kind"
    # The members of a pool are what the config says.
    POOL = "pool"
    NOT_A_POOL = "not_a_pool"
    UNKNOWN_MEMBER = "unknown_member"
    # It would have ended by now.
    OVER = "over"


@dataclass(slots=True)
class SteerRefused:
    """An operator's order changed nothing."""

    resource: str
    problem: SteerProblem


@dataclass(slots=True)
class OverrideOver:
    """The time of an override is over: the declared limit is in force again."""

    resource: str


@final
@dataclass(slots=True)
class Reconfigured:
    """The new resources are in force; names by what happened to them. ``removed`` ones stay while they are lent."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(slots=True)
class ReconfigureRefused:
    """Nothing was changed; each problem is a sentence that names the resource."""

    problems: tuple[str, ...]


@dataclass(slots=True)
class Restored:
    """So many leases live on."""

    leases: int


@dataclass(slots=True)
class RestoreRefused:
    """What was to be restored makes no sense; each problem is a sentence. The engine is of no use any more.

    ``culprits``: what each problem is about, the id of a lease or the name of a resource.
    """

    problems: tuple[str, ...]
    culprits: tuple[LeaseId | str, ...] = ()


@dataclass(slots=True)
class Frozen:
    """Every lease ends ``length`` later than it would have, or a second from now if that is later; so many live."""

    length: Nanos
    leases: int


Effect = (
    Granted
    | Denied
    | Abandoned
    | Queued
    | LeaseEnded
    | LeaseExtended
    | LeaseOrphaned
    | Refunded
    | Released
    | Renewed
    | Reconfigured
    | ReconfigureRefused
    | Restored
    | RestoreRefused
    | Frozen
    | Revoked
    | Steered
    | SteerRefused
    | OverrideOver
)
