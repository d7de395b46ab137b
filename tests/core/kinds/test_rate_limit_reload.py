"""Rate limits under a reload: with 40 of 100 left, what is spent stays spent."""

from typing import Final

import pytest

from governor.core.kinds.rate_limit import RateLimit, RateLimitSpec, Window
from governor.core.types import SECOND, Nanos
from tests.core.kinds.rates import MINUTE, spec

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
