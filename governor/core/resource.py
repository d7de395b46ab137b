"""Resource: what an operator declares of one, and its state: its limit and its line.

It knows the declared bounds of asking and waiting. It must never know how a kind counts.
"""

from dataclasses import dataclass

from governor.core.limit import LimitSpec
from governor.core.line import Line
from governor.core.memory import Memory
from governor.core.snapshot import Peak, ResourceSnapshot
from governor.core.types import Nanos


@dataclass(slots=True, frozen=True)
class ResourceSpec:
    """One declared resource, every default already filled in.

    ``lease``: how long a lease lasts when the ask does not say; ``max_lease``: the longest an ask may say.
    ``on_disconnect``: how long a lease outlives the session that held it, 0 is not at all, None is until its deadline.
    ``max_wait``: the longest an ask may wait in line, 0 is not at all. ``max_waiters``: how many may wait.
    """

    name: str
    limit: LimitSpec
    lease: Nanos
    max_lease: Nanos
    on_disconnect: Nanos | None
    max_wait: Nanos
    max_waiters: int

    @property
    def kind(self) -> str:
        """``semaphore``, ``pool`` or ``rate_limit``."""
        return self.limit.kind


@dataclass(slots=True, frozen=True)
class Remembered:
    """One resource, for a restart: its ``spec`` and, as of ``at``, what its limit remembers besides what is lent.

    After a restart ``at`` is an instant of the new clock: as long before now as it was before the last sign of life.
    """

    spec: ResourceSpec
    memory: Memory
    at: Nanos


class Resource:
    """The state of one (resource, key).

    ``leases`` counts the live leases that cover it. ``ripens_at`` is the instant at which time alone lets its line
    move, as it stands on the engine's agenda. ``draining``: no longer declared, gone with its last lease. ``most``: how
    much was in use at once since the last `peak`; of a rate limit, how much was granted in all.
    """

    __slots__ = ("agenda_key", "draining", "key", "leases", "limit", "line", "most", "ripens_at", "spec")

    def __init__(self, spec: ResourceSpec, agenda_key: int, now: Nanos, key: str = "") -> None:
        self.spec = spec
        self.key = key
        self.agenda_key = agenda_key
        self.limit = spec.limit.build(now)
        self.line = Line()
        self.leases = 0
        self.most = 0
        self.ripens_at: Nanos | None = None
        self.draining = False

    def remember(self, now: Nanos) -> Remembered:
        """All that a restart must know of it, but for the leases."""
        return Remembered(self.spec, self.limit.remember(now), now)

    def redeclare(self, spec: ResourceSpec, now: Nanos) -> None:
        """Obey ``spec``, of the same kind, from now on; what is lent stays lent."""
        self.draining = False
        if spec.limit != self.spec.limit:
            self.limit.reconfigure(spec.limit, now)
        self.spec = spec

    def peak(self) -> Peak:
        """The most since the last one; it begins anew with what there is now."""
        in_use, waiters = self.limit.in_use, len(self.line)
        peak = Peak(self.spec.name, self.most, self.line.most, in_use, waiters)
        self.most, self.line.most = in_use, waiters
        return peak

    def snapshot(self, now: Nanos) -> ResourceSnapshot:
        """Its numbers at this instant."""
        spec, limit, head = self.spec, self.limit, self.line.head
        capacity = 0 if self.draining else limit.capacity
        return ResourceSnapshot(
            name=spec.name,
            kind=spec.kind,
            lends=limit.lends,
            capacity=capacity,
            in_use=limit.in_use,
            over_limit=0 if capacity is None else max(0, limit.in_use - capacity),
            available=0 if self.draining else limit.available(now),
            leases=self.leases,
            waiters=len(self.line),
            oldest_wait=None if head is None else now - head.since,
            members=limit.members(now),
            draining=self.draining,
            lease=spec.lease,
            max_wait=spec.max_wait,
            max_waiters=spec.max_waiters,
        )
