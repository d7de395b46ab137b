"""What the engine shows of itself: frozen records, made at one instant.

It knows numbers only. Metrics and the CLI read these and nothing else of the engine.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from governor.core.types import UNSAID, Claim, EndReason, Grant, LeaseId, Nanos, Said, Standing, TicketId

if TYPE_CHECKING:
    from governor.core.resource import Override, ResourceSpec


@dataclass(slots=True, frozen=True)
class MemberCounts:
    """How many members of a pool are in each state: with a free slot, fully lent, or quarantined."""

    free: int
    lent: int
    quarantined: int


class MemberState(StrEnum):
    """A member of a pool: with a free slot, fully lent, kept out (lent or not), or no longer declared but lent."""

    FREE = "free"
    LENT = "lent"
    QUARANTINED = "quarantined"
    REMOVED = "removed"


@dataclass(slots=True, frozen=True)
class MemberView:
    """One member of a pool.

    ``lendings``: how often it was lent in all. ``failures``: how often in a row it came back broken. ``until``: when
    its quarantine ends by itself, None if it is in none or it lasts until an operator ends it. ``by_operator``: an
    operator began it, and in ``said`` who, and why.
    """

    id: str
    state: MemberState
    attributes: tuple[tuple[str, str], ...]
    generation: int
    max_leases: int
    lent: int
    lendings: int
    failures: int
    until: Nanos | None
    by_operator: bool
    said: Said = UNSAID


@dataclass(slots=True, frozen=True)
class WindowView:
    """One window of a rate limit, ``permits`` per ``period``. ``next_at``: when one can be had, None: now or never."""

    permits: int
    period: Nanos
    burst: int
    available: int
    next_at: Nanos | None


@dataclass(slots=True, frozen=True)
class LeaseView:
    """A live lease, for people. ``waited``: how long its ask stood in line. ``renewals``: since a restart.

    ``orphaned``: its holder is gone; unless somebody renews it, it ends as ``disconnected``.
    """

    id: LeaseId
    client: str
    labels: tuple[tuple[str, str], ...]
    grants: tuple[Grant, ...]
    granted_at: Nanos
    deadline: Nanos
    waited: Nanos
    renewals: int
    orphaned: bool
    request_id: str


@dataclass(slots=True, frozen=True)
class WaiterView:
    """One place in line, for people: since when, and until when the most patient of its ``tickets`` waits."""

    client: str
    labels: tuple[tuple[str, str], ...]
    claims: tuple[Claim, ...]
    since: Nanos
    until: Nanos
    tickets: tuple[TicketId, ...]
    request_id: str


# Not frozen: freezing twenty fields costs more than all else of a look at thousands of resources.
@dataclass(slots=True)
class ResourceSnapshot:
    """One resource. ``capacity`` and ``available`` are None when unlimited.

    ``capacity``: permits in all; of a rate limit its smallest burst. ``in_use``: permits lent (0 for a rate limit).
    ``lends``: permits come back, rather than being spent.
    ``available``: permits that one ask could have now, were the line empty. ``over_limit``: lent beyond a capacity
    that has shrunk. ``oldest_wait``: of the first in line, None when the line is empty. ``members``: pools only.
    ``standing``: what an operator says of it, and in ``said`` who, and why. ``removed``: no longer declared, gone with
    its last lease. ``spec`` is in force; it differs from what is ``declared`` while there is an ``override``.
    """

    name: str
    kind: str
    lends: bool
    capacity: int | None
    in_use: int
    over_limit: int
    available: int | None
    leases: int
    waiters: int
    oldest_wait: Nanos | None
    members: MemberCounts | None
    removed: bool
    standing: Standing
    override: "Override | None"
    spec: "ResourceSpec"
    declared: "ResourceSpec"
    lease: Nanos
    max_wait: Nanos
    max_waiters: int
    said: Said = UNSAID


@dataclass(slots=True, frozen=True)
class Snapshot:
    """The whole engine; ``resources`` in the order of the config, the removed ones last.

    ``leases`` and ``waiters`` count leases and waiting asks over all resources, each once. ``at``: its instant.
    """

    resources: tuple[ResourceSnapshot, ...]
    leases: int
    waiters: int
    draining: bool
    at: Nanos


# Not frozen: one is made for each resource every ten seconds, in one go.
@dataclass(slots=True)
class Peak:
    """The most of one resource since it was last asked for: permits ``in_use`` at once, and ``waiters``.

    Of a rate limit, ``in_use`` is how many permits were granted in all, refunds aside. ``in_use_now`` and
    ``waiters_now``: what is left of that at the end, which for a rate limit is 0.
    """

    resource: str
    in_use: int
    waiters: int
    in_use_now: int
    waiters_now: int


# Not frozen: the store asks for one for each lease that it writes down.
@dataclass(slots=True)
class Held:
    """One live lease: all that there is to know of it, so that `Restore` can bring it back.

    ``length``: for how long a renewal extends it that does not say; it follows from the rest and the resources.
    ``granted_for``: how long it was to last when it was granted, after ``waited`` in line. ``orphaned``: it is within
    its grace, and if nobody renews it, it ends as ``disconnected``. ``spent``: those of its resources that it holds
    nothing of, for theirs was spent at the grant; they may be gone by now, or be others of the same name.
    """

    id: LeaseId
    grants: tuple[Grant, ...]
    deadline: Nanos
    client: str
    length: Nanos
    request_id: str
    labels: tuple[tuple[str, str], ...]
    granted_for: Nanos
    granted_at: Nanos
    waited: Nanos
    orphaned: bool
    spent: tuple[str, ...] = ()


@dataclass(slots=True)
class Past:
    """A lease that has ended while its request id still stands for it: whoever asks again is told what it was.

    One that ended as ``spent`` is told as granted; ``waited`` is how long that ask stood in line.
    """

    id: LeaseId
    claims: tuple[Claim, ...]
    client: str
    request_id: str
    reason: EndReason
    ended_at: Nanos
    waited: Nanos
