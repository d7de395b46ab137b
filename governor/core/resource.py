"""Resource: what an operator declares of one, and its state: its limit and its line.

It knows the declared bounds of asking and waiting. It must never know how a kind counts.
"""

from dataclasses import dataclass, replace
from typing import Final

from governor.core.limit import LimitSpec
from governor.core.line import Line
from governor.core.memory import Memory
from governor.core.snapshot import Peak, ResourceSnapshot
from governor.core.types import UNSAID, LeaseId, Nanos, Said, Standing

# How often in a row `on_disconnect` may become less while leases of before live, until those are told apart no more.
MAX_GRACES: Final = 16

# Up to which lease, and how long those outlive their holders; None is until their deadlines.
Grace = tuple[LeaseId, Nanos | None]


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
class Override:
    """Another limit than the declared one, of the same kind, in force until the instant ``until``."""

    limit: LimitSpec
    until: Nanos
    said: Said = UNSAID


@dataclass(slots=True, frozen=True)
class Remembered:
    """One resource, for a restart: its ``spec`` and, as of ``at``, what its limit remembers besides what is lent.

    The ``spec`` is what is declared, or was last if it is no longer, the ``memory`` that of the limit in force. After a
    restart ``at`` is an instant of the new clock: as long before now as it was before the last sign of life.
    """

    spec: ResourceSpec
    memory: Memory
    at: Nanos
    standing: Standing = Standing.OPEN
    override: Override | None = None
    declared: bool = True
    # Of the standing.
    said: Said = UNSAID
    graces: tuple[Grace, ...] = ()


class Resource:
    """The state of one (resource, key).

    ``spec`` is as declared; an ``override`` has another limit in force. ``leases`` counts the live leases that cover
    it. ``ripens_at`` is the instant at which time alone lets its line move, as it stands on the engine's agenda.
    ``removed``: no longer declared, gone with its last lease. ``closed``: nothing is granted of it, as it is removed or
    its ``standing`` says so. ``said``: by whom it stands so, and why. ``most``: how much was in use at once since the
    last `peak`; of a rate limit, how much was granted in all. ``graces``: what `on_disconnect` was for older leases,
    where it has become less since; ids rise, and lengths fall.
    """

    __slots__ = (
        "agenda_key",
        "closed",
        "graces",
        "key",
        "leases",
        "limit",
        "line",
        "most",
        "override",
        "removed",
        "ripens_at",
        "said",
        "spec",
        "standing",
    )

    def __init__(self, spec: ResourceSpec, agenda_key: int, now: Nanos, key: str = "") -> None:
        self.spec = spec
        self.key = key
        self.agenda_key = agenda_key
        self.limit = spec.limit.build(now)
        self.line = Line()
        self.leases = 0
        self.most = 0
        self.ripens_at: Nanos | None = None
        self.override: Override | None = None
        self.removed = False
        self.standing = Standing.OPEN
        self.said = UNSAID
        # Of the two above, so that an ask looks at one thing.
        self.closed = False
        self.graces: tuple[Grace, ...] = ()

    @property
    def in_force(self) -> ResourceSpec:
        """What it obeys now."""
        return self.spec if self.override is None else replace(self.spec, limit=self.override.limit)

    def remember(self, now: Nanos) -> Remembered:
        """All that a restart must know of it, but for the leases."""
        memory, declared = self.limit.remember(now), not self.removed
        return Remembered(self.spec, memory, now, self.standing, self.override, declared, self.said, self.graces)

    def grace(self, lease: LeaseId) -> Nanos | None:
        """How long a lease of it outlives its holder: the longest `on_disconnect` since its grant; None: its deadline.

        Its holder was told that much, and relies on it until it has heard of something else.
        """
        for up_to, grace in self.graces:
            if lease <= up_to:
                return grace
        return self.spec.on_disconnect

    def redeclare(self, spec: ResourceSpec, now: Nanos, last_id: LeaseId) -> None:
        """Obey ``spec``, of the same kind, from now on; what is lent stays lent, and an override stays in force.

        ``last_id``: of the leases that were granted under the spec of before.
        """
        graces = self.graces if self.leases else ()
        if self.leases and _is_less(spec.on_disconnect, self.spec.on_disconnect):
            graces = (*graces, (last_id, self.spec.on_disconnect))
            if len(graces) > MAX_GRACES:
                # The oldest two become one: of no lease is it less than it was.
                graces = ((graces[1][0], graces[0][1]), *graces[2:])
        self.graces = tuple([each for each in graces if _is_less(spec.on_disconnect, each[1])])
        self.removed = False
        self.stand(self.standing, self.said)
        if spec.limit != self.spec.limit and self.override is None:
            self.limit.reconfigure(spec.limit, now)
        self.spec = spec

    def obey(self, override: Override | None, now: Nanos) -> None:
        """This limit is in force from now on, None is the declared one; what is lent stays lent."""
        former, self.override = self.in_force.limit, override
        limit = self.in_force.limit
        if limit != former:
            self.limit.reconfigure(limit, now)

    def stand(self, standing: Standing, said: Said = UNSAID) -> None:
        """An operator says so."""
        self.standing = standing
        self.said = UNSAID if standing is Standing.OPEN else said
        self.closed = self.removed or standing is not Standing.OPEN

    def remove(self) -> None:
        """It is declared no more, and nothing that an operator has said of it holds; there is no override."""
        assert self.override is None, "what is removed has an override"
        self.removed = True
        self.stand(Standing.OPEN)

    def peak(self) -> Peak:
        """The most since the last one; it begins anew with what there is now."""
        in_use, waiters = self.limit.in_use, len(self.line)
        peak = Peak(self.spec.name, self.most, self.line.most, in_use, waiters)
        self.most, self.line.most = in_use, waiters
        return peak

    def snapshot(self, now: Nanos) -> ResourceSnapshot:
        """Its numbers at this instant."""
        spec, limit, head = self.spec, self.limit, self.line.head
        capacity = 0 if self.removed else limit.capacity
        return ResourceSnapshot(
            name=spec.name,
            kind=spec.kind,
            lends=limit.lends,
            capacity=capacity,
            in_use=limit.in_use,
            over_limit=0 if capacity is None else max(0, limit.in_use - capacity),
            available=0 if self.closed else limit.available(now),
            leases=self.leases,
            waiters=len(self.line),
            oldest_wait=None if head is None else now - head.since,
            members=limit.members(now),
            removed=self.removed,
            standing=self.standing,
            override=self.override,
            spec=self.in_force,
            declared=spec,
            lease=spec.lease,
            max_wait=spec.max_wait,
            max_waiters=spec.max_waiters,
            said=self.said,
        )


def _is_less(grace: Nanos | None, other: Nanos | None) -> bool:
    return grace is not None and (other is None or grace < other)
