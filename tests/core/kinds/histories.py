"""Random histories of a limit: what was declared, and what happened to it since.

A history is replayed to get the limit it leads to, as often as a law wants one to try something on.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from hypothesis import strategies as st

from governor.core.kinds.pool import MemberSpec, Order, PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import Limit, LimitSpec
from governor.core.types import SECOND, Member, Nanos, Outcome

if TYPE_CHECKING:
    from governor.core.memory import Memory

# Few and small numbers, so that everything that can coincide soon does: a nanosecond is a long time here.
lengths = st.integers(0, 60) | st.sampled_from([SECOND // 3, SECOND, 7 * SECOND])
maybe_length = st.none() | st.integers(0, 40)

windows = st.builds(
    Window, st.integers(0, 7), st.sampled_from([1, 2, 5, 10, 30, 31]), st.integers(0, 6)
) | st.sampled_from([Window(3, SECOND, 5), Window(1_000_000_001, SECOND, 4), Window(1, 7 * SECOND, 1)])

members = st.lists(
    st.builds(MemberSpec, st.sampled_from("abcd"), st.just(()) | st.just((("zone", "x"),)), st.integers(1, 3)),
    max_size=4,
    unique_by=lambda member: member.id,
)

# A strategy for the specs of each kind. A kind that has none fails the laws.
SPECS: Final[dict[str, st.SearchStrategy[LimitSpec]]] = {
    "semaphore": st.builds(SemaphoreSpec, st.none() | st.integers(0, 6)),
    "pool": st.builds(
        PoolSpec,
        members.map(tuple),
        st.sampled_from(Order),
        st.integers(0, 20),
        st.integers(0, 60),
        maybe_length,
        maybe_length,
    ),
    "rate_limit": st.builds(RateLimitSpec, st.lists(windows, max_size=3).map(tuple)),
}


@dataclass(frozen=True)
class Loan:
    """What one take took."""

    permits: int
    members: tuple[Member, ...]
    taken: Nanos


@dataclass
class State:
    """A limit, its instant, and the takes that nothing has become of yet."""

    spec: LimitSpec
    limit: Limit
    now: Nanos
    loans: list[Loan] = field(default_factory=list)

    def restart(self) -> None:
        """Forget all but what is written down, and begin anew from that, a long time later in which none has passed."""
        limit, later = self.spec.build(self.now + SECOND), self.now + SECOND
        memory: Memory = json.loads(json.dumps(self.limit.remember(self.now)))
        self.loans = [replace(loan, taken=loan.taken + SECOND) for loan in self.loans]
        for loan in self.loans:
            limit.restore(loan.permits, loan.members, loan.taken)
        limit.recall(memory, later)
        self.limit, self.now = limit, later

    def take(self, permits: int) -> Loan:
        """Take what can be taken."""
        loan = Loan(permits, self.limit.take(permits, self.now), self.now)
        self.loans.append(loan)
        return loan

    def put_back(self, loan: Loan) -> None:
        """Undo a take."""
        self.loans.remove(loan)
        self.limit.put_back(loan.permits, loan.members, loan.taken, self.now)

    def give_back(self, loan: Loan, outcome: Outcome) -> None:
        """Give back what was taken."""
        self.loans.remove(loan)
        self.limit.give_back(loan.permits, loan.members, outcome, self.now)


class Step(Protocol):
    """One thing that happens. What cannot happen as things stand does not."""

    def happen(self, state: State) -> None:
        """Let it happen."""
        ...


@dataclass(frozen=True)
class Wait:
    """Time passes."""

    length: Nanos

    def happen(self, state: State) -> None:
        """Nothing else."""
        state.now += self.length


@dataclass(frozen=True)
class Take:
    """Somebody asks for permits."""

    permits: int

    def happen(self, state: State) -> None:
        """Refused unless it can be."""
        if state.limit.can_take(self.permits, state.now):
            state.take(self.permits)


@dataclass(frozen=True)
class GiveBack:
    """Somebody is done."""

    which: int
    outcome: Outcome

    def happen(self, state: State) -> None:
        """The loan comes back."""
        if state.loans:
            state.give_back(state.loans[self.which % len(state.loans)], self.outcome)


@dataclass(frozen=True)
class PutBack:
    """Somebody never got to know."""

    which: int

    def happen(self, state: State) -> None:
        """The loan is undone."""
        if state.loans:
            state.put_back(state.loans[self.which % len(state.loans)])


@dataclass(frozen=True)
class Restart:
    """The daemon ends and begins anew."""

    def happen(self, state: State) -> None:
        """All that is left is what was remembered."""
        state.restart()


@dataclass(frozen=True)
class Reload:
    """The operator declares something else."""

    spec: LimitSpec

    def happen(self, state: State) -> None:
        """It is obeyed."""
        state.limit.reconfigure(self.spec, state.now)
        state.spec = self.spec


@dataclass(frozen=True)
class History:
    """What was declared at ``start``, and what happened since."""

    spec: LimitSpec
    steps: tuple[Step, ...]
    start: Nanos = 0

    def replay(self, watch: Callable[[Step, State], None] | None = None) -> State:
        """Where it leads to; ``watch`` is shown the state after each step."""
        state = State(self.spec, self.spec.build(self.start), self.start)
        for step in self.steps:
            step.happen(state)
            if watch is not None:
                watch(step, state)
        return state


def histories(kind: str) -> st.SearchStrategy[History]:
    """Histories of one kind."""
    which = st.integers(0, 5)
    step: st.SearchStrategy[Step] = st.one_of(
        st.builds(Take, st.integers(1, 4)),
        st.builds(Take, st.integers(1, 4)),
        st.builds(Wait, lengths),
        st.builds(GiveBack, which, st.sampled_from(Outcome)),
        st.builds(PutBack, which),
        st.builds(Reload, SPECS[kind]),
    )
    return st.builds(History, SPECS[kind], st.lists(step, min_size=5, max_size=20).map(tuple))


# Made once: a strategy is slow to make.
HISTORIES: Final = {kind: histories(kind) for kind in SPECS}
