"""The one protocol of the core: what a kind of resource must be able to answer.

It knows the questions. It must never know any of the kinds. The laws that hold for every kind are in DESIGN.md
and are tested for each row of ``kinds.KINDS``.
"""

from typing import ClassVar, Protocol

from governor.core.memory import Memory
from governor.core.snapshot import MemberCounts, MemberView, WindowView
from governor.core.types import Member, Nanos, Outcome, Said


class LimitSpec(Protocol):
    """What an operator declares of one kind: frozen, comparable, hashable."""

    kind: ClassVar[str]
    # Whether another of its kind may be in force for a while.
    overridable: ClassVar[bool]

    def build(self, now: Nanos) -> "Limit":
        """The limit in its idle state."""
        ...


class Roster(Protocol):
    """The members of a limit that has any, as operators see and order them."""

    def views(self, now: Nanos) -> tuple[MemberView, ...]:
        """Each member, in the declared order; those that are removed and still lent come last."""
        ...

    def declares(self, member_id: str) -> bool:
        """Whether there is such a member, and not only since it is still lent."""
        ...

    def recycle(self, member_id: str | None, now: Nanos) -> tuple[str, ...]:
        """Have this member, or all, opened anew. The ids of those for which that is news."""
        ...

    def view(self, member_id: str, now: Nanos) -> MemberView | None:
        """One member; None when there is none of this name."""
        ...

    def keep_out(self, member_id: str, until: Nanos, said: Said, now: Nanos) -> bool:
        """Quarantine a declared member until then, `NEVER` is until it is readmitted; whether that changes anything."""
        ...

    def readmit(self, member_id: str, now: Nanos) -> bool:
        """End the quarantine of a declared member, and its row of failures; whether there was any."""
        ...


class Limit(Protocol):
    """The state of one limit. Every ask about it names its instant; none changes it but `take` and what follows it."""

    # Whether permits come back. What is spent instead makes no lease.
    lends: ClassVar[bool]
    in_use: int

    @property
    def capacity(self) -> int | None:
        """Permits in all; None is unlimited."""
        ...

    @property
    def largest(self) -> int | None:
        """The largest ask that can ever be granted: at most the capacity; None is unlimited."""
        ...

    @property
    def marks(self) -> int:
        """Another number after any change that must be remembered before anybody is told of it.

        What is lent is no such change, for leases are remembered by themselves. What changes without a mark makes
        little difference if it is forgotten, such as which of two idle members is next.
        """
        ...

    def available(self, now: Nanos) -> int | None:
        """The largest ask that could be taken now; None is unlimited."""
        ...

    def can_take(self, permits: int, now: Nanos) -> bool:
        """Whether ``permits`` could be taken now."""
        ...

    def not_before(self, permits: int, ahead: int, now: Nanos) -> Nanos:
        """The first instant (>= now) at which ``permits`` could be taken after ``ahead`` others went first.

        A lower bound, whatever comes back meanwhile; with nothing lent and nothing ahead it is exact.
        Only for 1 <= permits <= capacity.
        """
        ...

    def wake_at(self, permits: int, now: Nanos) -> Nanos | None:
        """When ``permits`` can be taken if nothing comes back; None when time alone will not do it."""
        ...

    def members(self, now: Nanos) -> MemberCounts | None:
        """The states of a pool's members; None for other kinds."""
        ...

    @property
    def roster(self) -> Roster | None:
        """Its members; None when its permits are all alike."""
        ...

    def windows(self, now: Nanos) -> tuple[WindowView, ...]:
        """The rates that it obeys, if it does."""
        ...

    def matters_until(self, now: Nanos) -> Nanos:
        """Once it is declared no more, until when it is remembered in case it is again; ``now``: not at all.

        That is of what is not lent; while anything is lent it is there anyway.
        """
        ...

    def take(self, permits: int, now: Nanos) -> tuple[Member, ...]:
        """Take them; only after ``can_take``. A pool says which members."""
        ...

    def put_back(self, permits: int, members: tuple[Member, ...], taken: Nanos, now: Nanos) -> None:
        """Undo the take of the instant ``taken``, which nobody used."""
        ...

    def give_back(self, permits: int, members: tuple[Member, ...], outcome: Outcome, now: Nanos) -> None:
        """Take back what was lent and may have been used."""
        ...

    def reconfigure(self, spec: LimitSpec, now: Nanos) -> None:
        """Obey ``spec``, of the same kind, from now on: what is lent stays lent, what is spent stays spent."""
        ...

    def remember(self, now: Nanos) -> Memory:
        """All that sets it apart from an idle one of its spec, but for what is lent; times are lengths from now."""
        ...

    def restore(self, permits: int, members: tuple[Member, ...], now: Nanos) -> None:
        """A lease has held these since before a restart, whether or not there are so many."""
        ...

    def recall(self, memory: Memory, now: Nanos) -> None:
        """Be as it was when this was remembered, which counts as ``now``; after `restore` of all that is lent.

        Only for a limit that was just built from the same spec. Raises `UnreadableError` for what none would remember.
        """
        ...
