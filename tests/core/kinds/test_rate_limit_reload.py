"""Rate limits under a reload: with 40 of 100 left, what is spent stays spent."""

import json
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from governor.core.kinds.rate_limit import RateLimit, RateLimitSpec, Window
from governor.core.memory import UnreadableError
from governor.core.types import SECOND, Nanos
from tests.core.kinds.histories import lengths, windows
from tests.core.kinds.rates import MINUTE, spec, take

if TYPE_CHECKING:
    from governor.core.memory import Memory

HOUR: Final = 60 * MINUTE

T0: Final = 1000 * SECOND
HUNDRED: Final = Window(100, 1000 * SECOND, burst=100)


def forty_left() -> RateLimit:
    """A limit with 40 of 100 left at ``T0``; the next comes back ten seconds later."""
    limit = spec(HUNDRED).build(T0)
    limit.take(60, T0)
    return limit


@pytest.mark.parametrize(
    ("declared", "available", "next_one"),
    [
        pytest.param([HUNDRED], 40, 10 * SECOND, id="the same"),
        pytest.param([Window(100, 1000 * SECOND, burst=200)], 140, 10 * SECOND, id="more burst"),
        pytest.param([Window(100, 1000 * SECOND, burst=60)], 0, 10 * SECOND, id="as much burst as is spent"),
        pytest.param([Window(100, 1000 * SECOND, burst=50)], 0, 110 * SECOND, id="less burst than is spent"),
        pytest.param([Window(200, 1000 * SECOND, burst=100)], 40, 5 * SECOND, id="twice the rate"),
        pytest.param([Window(10, 1000 * SECOND, burst=100)], 40, 100 * SECOND, id="a tenth of the rate"),
        pytest.param([Window(10, 1000 * SECOND, burst=10)], 0, 100 * SECOND, id="a tenth of all: owes a burst"),
        pytest.param([Window(1, SECOND, burst=90)], 30, SECOND, id="another period"),
        pytest.param([Window(1, SECOND, burst=30)], 0, SECOND, id="another period: owes a burst"),
        pytest.param([HUNDRED, Window(1, SECOND, burst=65)], 5, SECOND, id="one more window"),
        pytest.param([HUNDRED, HUNDRED], 40, 10 * SECOND, id="twice the same window"),
        pytest.param([], None, None, id="unlimited"),
        pytest.param([Window(0, 1000 * SECOND, burst=0)], 0, None, id="closed"),
    ],
)
def test_what_is_spent_stays_spent(declared: list[Window], available: int | None, next_one: Nanos | None) -> None:
    """With 40 of 100 left, any other declaration counts the same 60 as spent."""
    limit = forty_left()
    limit.reconfigure(spec(*declared), T0)

    assert limit.available(T0) == available
    if available is not None and next_one is not None:
        assert limit.wake_at(available + 1, T0) == T0 + next_one


def test_writing_the_same_file_twenty_times_changes_nothing() -> None:
    """Not by a nanosecond, at any instant of the refill."""
    limit, untouched = forty_left(), forty_left()
    for tick in range(20):
        now = T0 + tick * 7_777_777_777
        limit.reconfigure(spec(HUNDRED), now)

        assert limit.available(now) == untouched.available(now)
        assert limit.wake_at(100, now) == untouched.wake_at(100, now)


def test_a_change_and_its_undoing_refill_nothing() -> None:
    """More burst and back, another rate and back, closed and opened again: 40 are left."""
    limit = forty_left()
    for window in (replaced(burst=200), replaced(burst=10), replaced(permits=300), replaced(permits=0), HUNDRED):
        limit.reconfigure(spec(window), T0)

    assert limit.available(T0) == 40


def replaced(*, permits: int = 100, burst: int = 100) -> Window:
    """Another version of the same window."""
    return Window(permits, 1000 * SECOND, burst)


def test_a_permit_that_is_partly_back_is_rounded_against_the_asker() -> None:
    """A third of a permit is back; at the new rate its rest takes as long as it takes, rounded up."""
    limit = spec(Window(1, 3, burst=1)).build(0)
    limit.take(1, 0)
    limit.reconfigure(spec(Window(1, 5, burst=1)), 1)

    # Two thirds of a permit are owed, which takes 3 1/3 ns.
    assert limit.wake_at(1, 1) == 1 + 4


def test_versions_of_a_window_are_told_by_their_period() -> None:
    """Each window goes on from what was spent of the one with the same period, whatever their order."""
    second, minute = Window(10, SECOND, burst=10), Window(100, MINUTE, burst=100)
    limit = spec(second, minute).build(0)
    limit.take(10, 0)
    limit.reconfigure(spec(Window(200, MINUTE, burst=100), Window(20, SECOND, burst=10)), SECOND)

    # All of the ten are back by the second, 5/3 by the minute.
    assert limit.available(SECOND) == 10
    limit.reconfigure(spec(Window(200, MINUTE, burst=100)), SECOND)
    assert limit.available(SECOND) == 91


def test_from_unlimited_to_limited_nothing_was_spent() -> None:
    """What was granted without a limit counts against none."""
    limit = spec().build(0)
    limit.take(10**6, 0)
    limit.reconfigure(spec(HUNDRED), 1)

    assert limit.available(1) == 100


def test_of_two_windows_at_one_rate_the_fuller_counts() -> None:
    """60 are spent, which a burst of 10 owes only in part: the window that follows both owes what the other did."""
    limit = forty_left()
    limit.reconfigure(spec(replaced(permits=10, burst=10), replaced(permits=10, burst=100)), T0)
    limit.reconfigure(spec(replaced(permits=10, burst=90)), T0)

    assert limit.available(T0) == 30


def test_a_reload_after_the_clock_stepped_back_refills_nothing() -> None:
    """Time stood still at the last take, and there it goes on."""
    limit = forty_left()
    limit.reconfigure(spec(replaced(permits=200)), 0)

    assert limit.available(0) == 40
    assert limit.wake_at(41, 0) == T0 + 5 * SECOND


def test_a_new_rate_gives_a_waiter_a_new_time() -> None:
    """Ten times the rate, and it waits a tenth as long."""
    limit = forty_left()
    assert limit.wake_at(50, T0) == T0 + 100 * SECOND
    limit.reconfigure(spec(Window(1000, 1000 * SECOND, burst=100)), T0)

    assert limit.wake_at(50, T0) == T0 + 10 * SECOND


def test_what_was_taken_at_the_instant_of_a_reload_is_not_refunded_after_it() -> None:
    """It was counted in other windows, and a refund would let through one permit too many of the new ones."""
    limit = RateLimitSpec(()).build(0)
    limit.take(1, 7)
    limit.reconfigure(RateLimitSpec((Window(1, SECOND, 1),)), 7)
    limit.take(1, 7)
    limit.put_back(1, (), 7, 7)

    assert not limit.can_take(1, 7)


def test_what_is_taken_after_a_reload_is_refunded() -> None:
    """A nanosecond later there is no doubt."""
    limit = RateLimitSpec(()).build(0)
    limit.reconfigure(RateLimitSpec((Window(1, SECOND, 1),)), 7)
    limit.take(1, 7)
    limit.put_back(1, (), 7, 7)

    assert limit.can_take(1, 7)


# --- there and back -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "detour",
    [
        pytest.param([[replaced(burst=10)]], id="less burst"),
        pytest.param([[replaced(permits=1, burst=1)]], id="a hundredth of all"),
        pytest.param([[Window(1, HOUR, burst=1)]], id="once an hour"),
        pytest.param([[Window(10**9, SECOND, burst=10**9)]], id="as much as there is"),
        pytest.param([[Window(10, SECOND, burst=2)], [Window(1, MINUTE, burst=1)]], id="one period after the other"),
        pytest.param([[HUNDRED, Window(1, SECOND, burst=1)]], id="one more window"),
        pytest.param([[Window(1, SECOND, burst=1)], []], id="unlimited in the end"),
        pytest.param([[]], id="unlimited"),
        pytest.param([[replaced(permits=0)], [Window(1, MINUTE, burst=1)]], id="closed, then little"),
    ],
)
def test_no_detour_refills_a_limit(detour: list[list[Window]]) -> None:
    """Whatever is declared in between: of the hundred, 40 are left, and the next comes when it would have come."""
    limit = forty_left()
    for declared in (*detour, [HUNDRED]):
        limit.reconfigure(spec(*declared), T0)

    assert limit.available(T0) == 40
    assert limit.wake_at(41, T0) == T0 + 10 * SECOND


def test_a_lowered_limit_is_not_shut_for_longer_than_its_burst_takes() -> None:
    """Turned from 100 per 1000 s into one an hour it opens after an hour; turned back, the rest counts again."""
    limit = spec(HUNDRED).build(T0)
    limit.take(100, T0)
    limit.reconfigure(spec(Window(1, HOUR, burst=1)), T0)
    assert limit.wake_at(1, T0) == T0 + HOUR
    assert take(limit, 1, T0 + HOUR)
    limit.reconfigure(spec(Window(100, HOUR, burst=100)), T0 + HOUR)

    # 100 were spent, one came back within the hour, and one was spent at its end.
    assert limit.available(T0 + HOUR) == 0


def test_what_was_put_aside_comes_back_when_nobody_asks() -> None:
    """Nothing is held against anybody for ever: while the lowered limit is idle, the rest comes back at its rate."""
    limit = spec(HUNDRED).build(T0)
    limit.take(100, T0)
    limit.reconfigure(spec(replaced(permits=10, burst=10)), T0)
    assert limit.matters_until(T0) == T0 + 10_000 * SECOND
    assert take(limit, 10, T0 + 5_000 * SECOND)
    assert limit.matters_until(T0 + 5_000 * SECOND) == T0 + 11_000 * SECOND
    limit.reconfigure(spec(replaced(permits=10, burst=100)), T0 + 5_000 * SECOND)

    # Fifty came back, ten were spent since.
    assert limit.available(T0 + 5_000 * SECOND) == 40


def test_a_window_that_is_declared_again_has_spent_what_it_would_have_by_itself() -> None:
    """What is granted meanwhile counts in the windows of then alone."""
    second, hour = Window(10, SECOND, burst=10), Window(100, HOUR, burst=100)
    limit = spec(second, hour).build(0)
    for tick in range(8):
        assert take(limit, 10, tick * SECOND)
    limit.reconfigure(spec(second), 8 * SECOND)
    for tick in range(8, 100):
        assert take(limit, 10, tick * SECOND)
    limit.reconfigure(spec(second, hour), 36 * MINUTE)

    # Sixty of the eighty came back within 36 minutes.
    assert limit.wake_at(10, 36 * MINUTE) == 36 * MINUTE
    assert [view.available for view in limit.windows(36 * MINUTE)] == [10, 80]


def test_only_so_many_windows_that_are_gone_are_remembered() -> None:
    """Those that would be back first are forgotten first; a closed one is never back."""
    limit = spec(replaced(permits=100)).build(T0)
    limit.take(100, T0)
    limit.reconfigure(spec(replaced(permits=0)), T0)
    for permits in range(1, 100):
        limit.reconfigure(spec(Window(1, permits * SECOND, burst=1)), T0)
    limit.reconfigure(spec(), T0)
    memory = limit.remember(T0)
    assert isinstance(memory, dict)
    gone = memory["gone"]
    assert isinstance(gone, list)

    assert [row[:2] for row in gone] == [*([1, seconds * SECOND] for seconds in range(93, 100)), [0, 1000 * SECOND]]
    assert limit.matters_until(T0) > T0 + 365 * 24 * HOUR


@pytest.mark.parametrize(
    ("part", "value", "expected"),
    [
        ("aside", [1, 2], "expected what is spent of windows: 1, found 2"),
        ("aside", [-1], "expected a whole number of at least 0, found -1"),
        ("gone", 7, "expected a list, found 7"),
        ("gone", [[1, 2]], "expected permits, period and units of a window that is gone, found 2 values"),
        ("gone", [[1, 0, 1]], "expected a whole number of at least 1, found 0"),
    ],
)
def test_what_nobody_would_have_remembered_is_refused(part: str, value: "Memory", expected: str) -> None:
    """Windows that are gone, and what was put aside, as everything else."""
    memory: Memory = {"spent": [0], "last": 0, "since": 0, part: value}
    with pytest.raises(UnreadableError, match=f"^{expected}$"):
        spec(HUNDRED).build(0).recall(memory, 0)


moves = st.lists(st.one_of(st.tuples(lengths, st.integers(1, 7)), windows, st.just("restart")), max_size=25)


@settings(max_examples=300)
@given(windows, moves)
@example(Window(1, SECOND, 5), [(0, 5), Window(1, SECOND, 1), Window(1, SECOND, 5), (0, 1)])
@example(Window(1, SECOND, 5), [(0, 5), Window(2, SECOND, 1), Window(1, SECOND, 5), (0, 1)])
@example(Window(10, 30, 6), [(0, 6), Window(5, 10, 6), (30, 6), Window(10, 30, 6), (0, 1)])
def test_over_any_time_no_more_is_granted_than_the_limits_in_force_allow(
    first: Window, moves: list[tuple[Nanos, int] | Window | str]
) -> None:
    """I9 over reloads: at most the largest burst that was in force, and what the rates of then have brought."""
    limit = spec(first).build(0)
    # What was in force from when on, and what was granted when.
    in_force = [(0, first)]
    grants: list[tuple[Nanos, int]] = []
    now = 0
    for move in moves:
        if isinstance(move, Window):
            limit.reconfigure(spec(move), now)
            in_force.append((now, move))
        elif isinstance(move, tuple):
            now += move[0]
            if take(limit, move[1], now):
                grants.append((now, move[1]))
        else:
            memory = json.loads(json.dumps(limit.remember(now)))
            limit = spec(in_force[-1][1]).build(now)
            limit.recall(memory, now)
    for place, (start, _) in enumerate(grants):
        total = sum(permits for _, permits in grants[place:])
        spans = [*pairwise(in_force), (in_force[-1], (now, in_force[-1][1]))]
        bursts = [window.burst if window.permits else 0 for (_, window), (end, _) in spans if end >= start]
        brought = [
            Fraction(window.permits, window.period) * max(0, end - max(begin, start))
            for (begin, window), (end, _) in spans
        ]
        assert total <= max(bursts) + sum(brought), (start, grants, in_force)


@settings(max_examples=200)
@given(windows, st.lists(st.lists(windows, max_size=2), max_size=4), st.lists(st.tuples(lengths, st.integers(1, 7))))
def test_a_detour_gives_nobody_anything(
    window: Window, detour: list[list[Window]], asks: list[tuple[Nanos, int]]
) -> None:
    """Whatever was declared for a while: as much is left as without it, or less, but never less than nothing at all."""
    limit, untouched = spec(window).build(0), spec(window).build(0)
    now = 0
    for length, permits in asks:
        now += length
        assert take(limit, permits, now) == take(untouched, permits, now)
    for declared in detour:
        limit.reconfigure(spec(*declared), now)
        now += 1
    limit.reconfigure(spec(window), now)

    left, without = limit.available(now), untouched.available(now)
    assert left is not None
    assert without is not None
    assert 0 <= left <= without
