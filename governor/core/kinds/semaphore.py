"""Semaphore: counts permits.

It knows one number lent of another. It must never know who holds them or who waits.
"""

from dataclasses import dataclass
from typing import ClassVar

from governor.core.limit import LimitSpec
from governor.core.memory import Memory
from governor.core.snapshot import MemberCounts, WindowView
from governor.core.types import Member, Nanos, Outcome


@dataclass(slots=True, frozen=True)
class SemaphoreSpec:
    """``permits``: how many there are; None is unlimited, 0 closes it."""

    kind: ClassVar[str] = "semaphore"
    overridable: ClassVar[bool] = True
    permits: int | None

    def build(self, now: Nanos) -> "Semaphore":
        """The semaphore with everything free."""
        return Semaphore(self)


class Semaphore:
    """The state of one semaphore."""

    __slots__ = ("_permits", "in_use")
    lends: ClassVar[bool] = True
    marks: ClassVar[int] = 0
    roster: ClassVar[None] = None

    def __init__(self, spec: SemaphoreSpec) -> None:
        self._permits = spec.permits
        self.in_use = 0

    @property
    def capacity(self) -> int | None:
        """Permits in all; None is unlimited."""
        return self._permits

    @property
    def largest(self) -> int | None:
        """All of them."""
        return self._permits

    def available(self, now: Nanos) -> int | None:
        """Permits that nobody holds."""
        return None if self._permits is None else max(0, self._permits - self.in_use)

    def can_take(self, permits: int, now: Nanos) -> bool:
        """Whether ``permits`` are free."""
        return self._permits is None or self.in_use + permits <= self._permits

    def not_before(self, permits: int, ahead: int, now: Nanos) -> Nanos:
        """Now: whatever is lent may come back at any instant."""
        return now

    def wake_at(self, permits: int, now: Nanos) -> Nanos | None:
        """Now or never: time frees nothing here."""
        return now if self.can_take(permits, now) else None

    def members(self, now: Nanos) -> MemberCounts | None:
        """A semaphore has none."""

    def windows(self, now: Nanos) -> tuple[WindowView, ...]:
        """Time changes nothing."""
        return ()

    def matters_until(self, now: Nanos) -> Nanos:
        """What is not lent is nothing."""
        return now

    def take(self, permits: int, now: Nanos) -> tuple[Member, ...]:
        """Lend ``permits``."""
        self.in_use += permits
        return ()

    def put_back(self, permits: int, members: tuple[Member, ...], taken: Nanos, now: Nanos) -> None:
        """Undo a take."""
        self.in_use -= permits

    def give_back(self, permits: int, members: tuple[Member, ...], outcome: Outcome, now: Nanos) -> None:
        """Take permits back; how they were used makes no difference."""
        self.in_use -= permits

    def reconfigure(self, spec: LimitSpec, now: Nanos) -> None:
        """Count against the new number from now on."""
        assert isinstance(spec, SemaphoreSpec)
        self._permits = spec.permits

    def remember(self, now: Nanos) -> Memory:
        """Nothing: what is lent says it all."""
        return {}

    def restore(self, permits: int, members: tuple[Member, ...], now: Nanos) -> None:
        """They are lent, even if there are not so many."""
        self.in_use += permits

    def recall(self, memory: Memory, now: Nanos) -> None:
        """There is nothing to recall."""
