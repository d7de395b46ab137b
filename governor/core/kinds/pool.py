"""Pool: lends members, each with a stable id and the attributes an operator gave it.

It knows which member is free, lent, quarantined or due for recycling. It must never know what a member is.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from governor.core.types import Nanos


class Order(StrEnum):
    """Which free member is lent next: the last returned, the longest returned, or the one lent least."""

    LIFO = "lifo"
    FIFO = "fifo"
    LEAST_USED = "least_used"


@dataclass(slots=True, frozen=True)
class MemberSpec:
    """One member; ``max_leases`` is how many may share it at once (at least 1)."""

    id: str
    attributes: tuple[tuple[str, str], ...] = ()
    max_leases: int = 1


@dataclass(slots=True, frozen=True)
class PoolSpec:
    """A pool of members in their declared order; no members closes it.

    ``quarantine``: how long a member that came back broken is kept out, doubled each further time it comes back
    broken without an ``ok`` between, up to ``max_quarantine``. ``max_lifetime``, ``idle_timeout``: a member older, or
    unlent longer, than this is recycled when it is next lent: its generation rises. None is never.
    """

    kind: ClassVar[str] = "pool"
    members: tuple[MemberSpec, ...]
    order: Order = Order.LIFO
    quarantine: Nanos = 1_000_000_000
    max_quarantine: Nanos = 60_000_000_000
    max_lifetime: Nanos | None = None
    idle_timeout: Nanos | None = None
