"""The laws of every kind: each is checked for each row of ``KINDS``, on random histories."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governor.core.kinds import KINDS
from governor.core.memory import Memory, UnreadableError
from governor.core.types import SECOND, Nanos, Outcome
from tests.core.kinds.histories import (
    HISTORIES,
    SPECS,
    GiveBack,
    History,
    Reload,
    Restart,
    State,
    Step,
    Take,
    Wait,
    lengths,
)

asks = st.integers(1, 13)  # 12 is the most that a limit of these histories has
FOREVER = 10**6 * SECOND

every_kind = pytest.mark.parametrize("kind", sorted(KINDS))
# For each kind and law, each time: it adds up.
few = settings(max_examples=30)


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)


def damaged(memory: Memory, nonsense: Memory) -> st.SearchStrategy[Memory]:
    """The same with something else in one place, as deep as may be."""
    if isinstance(memory, dict) and memory:
        parts = st.sampled_from(sorted(memory))
        inner = parts.flatmap(lambda name: damaged(memory[name], nonsense).map(lambda part: {**memory, name: part}))
        return st.just(nonsense) | inner
    if isinstance(memory, list) and memory:
        rest = memory[1:]
        return st.just(nonsense) | damaged(memory[0], nonsense).map(lambda part: [part, *rest])
    return st.just(nonsense)


def draw_history(data: st.DataObject, kind: str) -> History:
    """Any history of this kind."""
    return data.draw(HISTORIES[kind])


def possible(state: State, permits: int) -> bool:
    """Whether so many could ever be had."""
    capacity = state.limit.capacity
    return capacity is None or permits <= capacity


def answers(state: State) -> list[object]:
    """Every answer the limit gives at this instant; instants are told as lengths from now."""
    limit, now = state.limit, state.now
    told: list[object] = [limit.capacity, limit.in_use, limit.available(now), limit.members(now)]
    for permits in (1, 2, 3, 6):
        wake_at = limit.wake_at(permits, now)
        told += [limit.can_take(permits, now), None if wake_at is None else wake_at - now]
        if possible(state, permits):
            told += [limit.not_before(permits, ahead, now) - now for ahead in (0, 3)]
    return told


def look(state: State, *, generations: bool = True) -> list[object]:
    """All that can be seen of a limit: its answers now and later, and whom it lends next. Uses the limit up."""
    seen: list[object] = []
    for length in (0, 1, 9, 40, 10**3, SECOND):
        state.now += length
        seen += answers(state)
        for _ in range(state.limit.capacity or 0):
            if state.limit.can_take(1, state.now):
                lent = state.limit.take(1, state.now)
                seen += [(member.id, member.attributes, generations and member.generation) for member in lent]
    return seen


def test_every_kind_has_random_histories() -> None:
    """A new kind brings a strategy for its specs, or its laws are not tested."""
    assert SPECS.keys() == KINDS.keys()


@every_kind
@few
@given(data=st.data())
def test_asking_changes_nothing(kind: str, data: st.DataObject) -> None:
    """No answer changes any later one; so a refused ask changes nothing."""
    history = draw_history(data, kind)

    def ask(step: Step, state: State) -> None:
        assert answers(state) == answers(state), step

    assert look(history.replay(ask)) == look(history.replay())


@every_kind
@few
@given(data=st.data(), start=st.sampled_from([-5, 10**18 + 7]))
def test_the_result_depends_on_lengths_of_time_alone(kind: str, data: st.DataObject, start: Nanos) -> None:
    """The same history at another time leads to the same: no clock, no chance and no special instant."""
    history = draw_history(data, kind)

    assert look(replace(history, start=start).replay()) == look(history.replay())


@every_kind
@few
@given(data=st.data())
def test_available_is_the_largest_ask_that_can_be_taken(kind: str, data: st.DataObject) -> None:
    """``available`` and ``can_take`` agree."""
    state = draw_history(data, kind).replay()
    available = state.limit.available(state.now)

    for permits in range(1, 14):
        assert state.limit.can_take(permits, state.now) == (available is None or permits <= available)


@every_kind
@few
@given(data=st.data(), permits=asks)
def test_wake_at_is_when_it_works_if_nobody_else_comes(kind: str, data: st.DataObject, permits: int) -> None:
    """Refused one nanosecond before ``wake_at``, granted at it; None only if it never works."""
    state = draw_history(data, kind).replay()
    limit, now = state.limit, state.now
    at = limit.wake_at(permits, now)
    if limit.can_take(permits, now):
        assert at == now
    elif at is None:
        assert not limit.can_take(permits, now + FOREVER)
    else:
        assert now < at
        assert not limit.can_take(permits, at - 1)
        assert limit.can_take(permits, at)


@every_kind
@few
@given(data=st.data(), permits=asks)
def test_not_before_is_when_it_works_if_everything_comes_back(kind: str, data: st.DataObject, permits: int) -> None:
    """Refused one nanosecond before ``not_before`` although all is back; at it, granted."""
    state = draw_history(data, kind).replay()
    if not possible(state, permits):
        return
    at = state.limit.not_before(permits, 0, state.now)
    for loan in list(state.loans):
        state.give_back(loan, Outcome.UNKNOWN)

    assert state.now <= at
    if at > state.now:
        assert not state.limit.can_take(permits, at - 1)
    assert state.limit.can_take(permits, at)


@every_kind
@few
@given(data=st.data(), permits=st.integers(1, 4), ahead=st.integers(0, 12))
def test_not_before_promises_no_waiter_too_much(kind: str, data: st.DataObject, permits: int, ahead: int) -> None:
    """Whoever stands behind ``ahead`` permits, each served and given back as soon as can be, is not served sooner."""
    state = draw_history(data, kind).replay()
    limit = state.limit
    if not possible(state, permits):
        return
    promised = limit.not_before(permits, ahead, state.now)
    for loan in list(state.loans):
        state.give_back(loan, Outcome.UNKNOWN)
    for wanted in [1] * ahead + [permits]:
        at = limit.wake_at(wanted, state.now)
        assert at is not None
        state.now = at
        state.give_back(state.take(wanted), Outcome.OK)

    assert promised <= state.now


@every_kind
@few
@given(data=st.data())
def test_what_is_above_capacity_is_never_granted_and_nothing_else_is_not(kind: str, data: st.DataObject) -> None:
    """An idle limit grants an ask if, and only if, it is not above its capacity, which stays so."""
    spec = data.draw(SPECS[kind])
    for permits in range(1, 14):
        idle = State(spec, spec.build(0), 0)

        assert idle.limit.can_take(permits, 0) == possible(idle, permits)
        assert idle.limit.can_take(permits, FOREVER) == possible(idle, permits)


@every_kind
@few
@given(
    data=st.data(),
    takes=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    backwards=st.booleans(),
    length=lengths,
)
def test_putting_back_restores_exactly(
    kind: str, data: st.DataObject, takes: tuple[int, int], length: Nanos, *, backwards: bool
) -> None:
    """Two takes that nobody used, undone in any order after any time, might never have been.

    But for the very instant of a reload: what is taken then cannot be told from what was counted in other windows.
    """
    history = draw_history(data, kind)
    if any(isinstance(step, Reload) for step in history.steps):
        history = replace(history, steps=(*history.steps, Wait(1)))
    state = history.replay()
    loans = [state.take(permits) for permits in takes if state.limit.can_take(permits, state.now)]
    state.now += length
    for loan in reversed(loans) if backwards else loans:
        state.put_back(loan)
    untouched = replace(history, steps=(*history.steps, Wait(length))).replay()

    # Recycling that was due is done at the first of the two takes: generations may differ by that.
    assert look(state, generations=False) == look(untouched, generations=False)


@every_kind
@few
@given(data=st.data())
def test_what_is_in_use_is_what_is_lent_and_within_the_capacity(kind: str, data: st.DataObject) -> None:
    """I1: in use is what the loans add up to; beyond a capacity that has shrunk it never rises."""
    history = draw_history(data, kind)
    before = 0

    def watch(step: Step, state: State) -> None:
        nonlocal before
        limit = state.limit
        lent = sum(loan.permits for loan in state.loans) if limit.lends else 0
        assert limit.in_use == lent
        if not isinstance(step, Take):
            assert limit.in_use <= before
        elif limit.in_use != before and limit.capacity is not None:
            assert limit.in_use <= limit.capacity
        before = limit.in_use

    history.replay(watch)


@every_kind
@few
@given(data=st.data(), outcome=st.sampled_from(Outcome))
def test_when_all_is_back_nothing_is_in_use(kind: str, data: st.DataObject, outcome: Outcome) -> None:
    """I10: nothing is left of anybody once everything is given back, and with time all of it can be had."""
    state = draw_history(data, kind).replay()
    while state.loans:
        GiveBack(0, outcome).happen(state)

    assert state.limit.in_use == 0
    assert state.limit.available(state.now + FOREVER) == state.limit.capacity


@every_kind
@few
@given(data=st.data())
def test_declaring_the_same_again_changes_nothing(kind: str, data: st.DataObject) -> None:
    """A reload with an equal spec, at any point of a history, shows nowhere."""
    history = draw_history(data, kind)
    same: list[Step] = []
    spec = history.spec
    for step in history.steps:
        spec = step.spec if isinstance(step, Reload) else spec
        same += [step, Reload(spec)]

    assert look(replace(history, steps=tuple(same)).replay()) == look(history.replay())


@every_kind
@few
@given(data=st.data())
def test_a_restart_at_any_point_shows_nowhere(kind: str, data: st.DataObject) -> None:
    """What is remembered, and what is lent, is all there is to know; while nothing runs, no time passes."""
    history = draw_history(data, kind)
    with_restarts: list[Step] = []
    for step in history.steps:
        with_restarts += [step, Restart()]

    assert look(replace(history, steps=tuple(with_restarts)).replay()) == look(history.replay())


@every_kind
@few
@given(data=st.data())
def test_what_is_recalled_is_what_was_remembered(kind: str, data: st.DataObject) -> None:
    """To the letter, so that nothing fades with each restart."""
    state = draw_history(data, kind).replay()
    before = state.limit.remember(state.now)

    state.restart()

    assert state.limit.remember(state.now) == before


@every_kind
@few
@given(data=st.data(), nonsense=st.recursive(plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_nonsense_is_recalled_or_refused(kind: str, data: st.DataObject, nonsense: Memory) -> None:
    """Whatever stands in the place of a memory, or of any part of one, nothing but a refusal comes of it."""
    state = draw_history(data, kind).replay()
    memory = data.draw(damaged(json.loads(json.dumps(state.limit.remember(state.now))), nonsense))
    limit = state.spec.build(state.now)
    try:
        limit.recall(memory, state.now)
    except UnreadableError:
        return
    look(State(state.spec, limit, state.now))


@every_kind
@few
@given(data=st.data())
def test_without_a_mark_nothing_is_spent_and_nothing_is_shut(kind: str, data: st.DataObject) -> None:
    """Whoever remembers a limit at its marks alone lends nothing after a restart that was spent, or found broken."""
    history = draw_history(data, kind)
    seen: list[tuple[int, Memory, Nanos]] = []

    def watch(step: Step, state: State) -> None:
        if not seen or isinstance(step, Reload) or state.limit.marks != seen[-1][0]:
            seen.append((state.limit.marks, state.limit.remember(state.now), state.now))

    state = history.replay(watch)
    late = state.spec.build(state.now)
    for loan in state.loans:
        late.restore(loan.permits, loan.members, loan.taken)
    late.recall(seen[-1][1], seen[-1][2])

    assert (late.in_use, late.available(state.now)) == (state.limit.in_use, state.limit.available(state.now))
    assert late.members(state.now) == state.limit.members(state.now)
