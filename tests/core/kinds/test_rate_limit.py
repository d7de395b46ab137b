"""Rate limits: what other limiters promise, what a reload keeps, and a deliberately dumb limiter to compare with."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from governor.core.kinds.rate_limit import RateLimit, RateLimitSpec, Window
from governor.core.types import MILLISECOND, SECOND, Nanos, Outcome
from tests.core.kinds.histories import lengths, windows

MINUTE: Final = 60 * SECOND
YEAR: Final = 365 * 24 * 60 * MINUTE


def spec(*windows: Window) -> RateLimitSpec:
    """A rate limit of these windows."""
    return RateLimitSpec(windows)


def take(limit: RateLimit, permits: int, now: Nanos) -> bool:
    """Take them if that can be done."""
    taken = limit.can_take(permits, now)
    if taken:
        assert limit.take(permits, now) == ()
    return taken


# --- what other limiters promise -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """An ask, its answer, and what is left after it."""

    at: Nanos
    permits: int
    granted: bool
    left: int


def burst_of_5(start: Nanos) -> list[Row]:
    """Five single permits and no more."""
    return [*(Row(start, 1, granted=True, left=left) for left in (4, 3, 2, 1, 0)), Row(start, 1, granted=False, left=0)]


TABLES: Final[dict[str, tuple[RateLimitSpec, list[Row]]]] = {
    "2/s: two at once, and two more a second later": (
        spec(Window(2, SECOND, burst=2)),
        [
            Row(0, 1, granted=True, left=1),
            Row(1 * MILLISECOND, 1, granted=True, left=0),
            Row(2 * MILLISECOND, 1, granted=False, left=0),
            Row(1002 * MILLISECOND, 1, granted=True, left=1),
            Row(1003 * MILLISECOND, 1, granted=True, left=0),
            Row(1004 * MILLISECOND, 1, granted=False, left=0),
        ],
    ),
    "5/s: whatever is above the burst is never granted": (
        spec(Window(5, SECOND, burst=5)),
        [
            Row(0, 15, granted=False, left=5),
            Row(0, 7, granted=False, left=5),
            Row(0, 6, granted=False, left=5),
            Row(0, 5, granted=True, left=0),
        ],
    ),
    "5/s: drained, two seconds bring back five and not six": (
        spec(Window(5, SECOND, burst=5)),
        [Row(0, 5, granted=True, left=0), *burst_of_5(2 * SECOND)],
    ),
    "1/90ms: after two minutes of idleness, two at once again": (
        spec(Window(1, 90 * MILLISECOND, burst=2)),
        [Row(start, 1, granted=left is not None, left=left or 0) for start in (0, 2 * MINUTE) for left in (1, 0, None)],
    ),
    "10/min with a burst of 5: a permit every six seconds": (
        spec(Window(10, MINUTE, burst=5)),
        [
            *burst_of_5(0),
            Row(6 * SECOND, 1, granted=True, left=0),
            Row(6 * SECOND, 1, granted=False, left=0),
        ],
    ),
    "10/min with a burst of 5: never more than five, however long it was idle": (
        spec(Window(10, MINUTE, burst=5)),
        [*burst_of_5(0), *burst_of_5(36 * SECOND), *burst_of_5(78 * SECOND), *burst_of_5(125 * SECOND)],
    ),
    "a refused ask takes nothing": (
        spec(Window(1, MINUTE, burst=10)),
        [
            Row(0, 5, granted=True, left=5),
            Row(0, 6, granted=False, left=5),
            Row(0, 5, granted=True, left=0),
        ],
    ),
    "7/min: the next permit comes between the eighth and the ninth second": (
        spec(Window(7, MINUTE, burst=3)),
        [
            Row(0, 3, granted=True, left=0),
            Row(8 * SECOND, 1, granted=False, left=0),
            Row(9 * SECOND, 1, granted=True, left=0),
        ],
    ),
    "more than one a nanosecond does not overflow": (
        spec(Window(1_000_000_001, SECOND, burst=1)),
        [
            Row(10**19, 1, granted=True, left=0),
            Row(10**19, 1, granted=False, left=0),
            Row(10**19 + 1, 1, granted=True, left=0),
        ],
    ),
    "ten years of idleness bring back the burst and no more": (
        spec(Window(1_000_000_001, SECOND, burst=1_000_000_001)),
        [
            Row(0, 1_000_000_001, granted=True, left=0),
            Row(10 * YEAR, 1_000_000_002, granted=False, left=1_000_000_001),
            Row(10 * YEAR, 1_000_000_001, granted=True, left=0),
            Row(10 * YEAR, 1, granted=False, left=0),
        ],
    ),
    "the tightest window decides, and a refusal by one takes nothing of the other": (
        spec(Window(10, SECOND, burst=3), Window(4, MINUTE, burst=4)),
        [
            Row(0, 4, granted=False, left=3),
            Row(0, 3, granted=True, left=0),
            Row(SECOND, 2, granted=False, left=1),
            Row(SECOND, 1, granted=True, left=0),
            Row(14 * SECOND, 1, granted=False, left=0),
            Row(15 * SECOND, 1, granted=True, left=0),
        ],
    ),
    "no permits at all: closed": (
        spec(Window(0, SECOND, burst=5), Window(9, SECOND, burst=9)),
        [Row(0, 1, granted=False, left=0), Row(10 * YEAR, 1, granted=False, left=0)],
    ),
}


@pytest.mark.parametrize(("declared", "rows"), TABLES.values(), ids=TABLES.keys())
def test_table(declared: RateLimitSpec, rows: list[Row]) -> None:
    """Each row of a table is answered as it says, on a limit that was declared at its first instant."""
    limit = declared.build(rows[0].at)
    for row in rows:
        answer = (take(limit, row.permits, row.at), limit.available(row.at))

        assert answer == (row.granted, row.left), row


def test_a_denial_names_the_instant_at_which_it_works() -> None:
    """Waiting exactly as long as was promised succeeds, twenty times out of twenty."""
    limit = spec(Window(7, SECOND, burst=2)).build(0)
    now = 0
    assert take(limit, 2, now)
    for _ in range(20):
        assert not take(limit, 1, now)
        now = limit.not_before(1, 0, now)
        assert not limit.can_take(1, now - 1)
        assert take(limit, 1, now)


def test_steady_asking_gets_the_rate_and_one_burst() -> None:
    """3/s asked ten times a second for a minute grants 3 and 180 and no more."""
    limit = spec(Window(3, SECOND, burst=3)).build(0)
    granted = sum(take(limit, 1, 100 * MILLISECOND * tick) for tick in range(601))

    assert granted == 3 + 180


def test_a_rate_that_no_nanosecond_divides_is_kept_in_the_long_run() -> None:
    """Whoever takes each permit of 3/s when it is due has had 3 million after a million seconds, not one less."""
    limit = spec(Window(3, SECOND, burst=2)).build(0)
    assert take(limit, 2, 0)
    now = 0
    for _ in range(3000):
        now = limit.not_before(1, 0, now)
        assert take(limit, 1, now)

    assert now == 1000 * SECOND


def test_a_whole_line_is_served_as_promised() -> None:
    """1 per 7 s and 5 per minute: fifteen waiters are each served when they were told on joining the line."""
    limit = spec(Window(1, 7 * SECOND, burst=1), Window(5, MINUTE, burst=5)).build(0)
    promises = [limit.not_before(1, ahead, 0) for ahead in range(15)]
    now = 0
    for promise in promises:
        now = limit.not_before(1, 0, now)
        assert now == promise
        assert take(limit, 1, now)

    assert promises[:10] == [7 * SECOND * ahead for ahead in range(10)]
    assert promises[10:] == [12 * SECOND * ahead - 48 * SECOND for ahead in range(10, 15)]


# --- the shape of the answers --------------------------------------------------------------------------------------


def test_no_window_is_unlimited() -> None:
    """Without a window there is no capacity, and any ask is granted at once."""
    limit = spec().build(0)

    assert limit.capacity is None
    assert limit.available(0) is None
    assert all(take(limit, 2**31, 0) for _ in range(10))
    assert limit.wake_at(2**31, 5) == 5
    assert limit.not_before(2**31, 2**40, 5) == 5


def test_the_capacity_is_the_smallest_burst() -> None:
    """What no window could ever let through is above the capacity; time does not help."""
    limit = spec(Window(9, SECOND, burst=7), Window(9, MINUTE, burst=4)).build(0)

    assert limit.capacity == 4
    assert limit.wake_at(5, 0) is None


def test_a_window_of_no_length_is_a_bug() -> None:
    """Whoever reads a declaration refuses it first."""
    with pytest.raises(AssertionError, match="no length"):
        spec(Window(1, 0, burst=1)).build(0)


def test_spent_is_not_lent() -> None:
    """Nothing is in use, and nothing comes back when it is given back."""
    limit = spec(Window(1, SECOND, burst=3)).build(0)
    limit.take(2, 0)
    limit.give_back(2, (), Outcome.OK, 0)

    assert not limit.lends
    assert (limit.in_use, limit.available(0), limit.members(0)) == (0, 1, None)


def test_a_clock_that_steps_back_stands_still() -> None:
    """Nothing is refused for an hour, or granted twice, because the clock went back an hour."""
    limit = spec(Window(1, SECOND, burst=2)).build(60 * MINUTE)
    assert take(limit, 1, 60 * MINUTE)

    assert limit.available(0) == 1
    assert limit.not_before(1, 0, 0) == 0
    assert take(limit, 1, 0)
    assert not limit.can_take(1, 0)
    assert limit.not_before(1, 0, 0) == 60 * MINUTE + SECOND
    assert limit.available(60 * MINUTE + SECOND) == 1


# --- undoing -------------------------------------------------------------------------------------------------------


def test_a_refund_does_not_grant_twice_what_time_brought_back() -> None:
    """1/s with a burst of 1: after a second it was taken again, so to undo the first take brings nothing."""
    limit = spec(Window(1, SECOND, burst=1)).build(0)
    assert take(limit, 1, 0)
    assert take(limit, 1, SECOND)
    limit.put_back(1, (), taken=0, now=SECOND)

    assert not limit.can_take(1, 2 * SECOND - 1)
    assert limit.can_take(1, 2 * SECOND)


def test_a_refund_brings_back_what_time_had_not() -> None:
    """1/s with a burst of 9: a second after five were taken four were still out, and only those are refunded."""
    limit = spec(Window(1, SECOND, burst=9)).build(0)
    assert take(limit, 5, 0)
    assert take(limit, 2, SECOND)
    limit.put_back(5, (), taken=0, now=SECOND)

    assert limit.available(SECOND) == 7


def test_what_was_taken_before_a_reload_is_not_refunded_after_it() -> None:
    """It was counted in other windows, and may be worth anything in these."""
    limit = spec(Window(1, SECOND, burst=4)).build(0)
    assert take(limit, 4, 0)
    limit.reconfigure(spec(Window(1, MINUTE, burst=4)), 1)
    limit.put_back(4, (), taken=0, now=1)

    assert limit.available(1) == 0


def test_a_reload_of_the_same_leaves_refunds_alone() -> None:
    """What was taken before it can still be undone."""
    limit = spec(Window(1, MINUTE, burst=4)).build(0)
    assert take(limit, 4, 0)
    limit.reconfigure(spec(Window(1, MINUTE, burst=4)), 1)
    limit.put_back(4, (), taken=0, now=1)

    assert limit.available(1) == 4


# --- reloading -----------------------------------------------------------------------------------------------------

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


# --- a dumb limiter ------------------------------------------------------------------------------------------------


@dataclass
class Log:
    """Grants by their instants. An ask conforms if no length of time that ends with it would hold too many."""

    window: Window
    grants: list[tuple[Nanos, int]] = field(default_factory=list)

    def conforms(self, permits: int, now: Nanos) -> bool:
        """Look at each length of time that starts with a grant."""
        rate = Fraction(self.window.permits, self.window.period)
        burst = self.window.burst if rate else 0
        return permits <= burst and all(
            permits + sum(others for at, others in self.grants if at >= start) <= burst + (now - start) * rate
            for start, _ in self.grants
        )


@settings(max_examples=200)
@given(
    st.lists(windows, max_size=3).map(tuple),
    st.lists(st.tuples(lengths, st.integers(1, 7)), max_size=20),
)
def test_it_grants_what_a_log_of_all_grants_allows(declared: tuple[Window, ...], asks: list[tuple[Nanos, int]]) -> None:
    """I9, and nothing less: an ask is refused only if it would break a window."""
    limit = RateLimitSpec(declared).build(0)
    logs = [Log(window) for window in declared]
    now = 0
    for length, permits in asks:
        now += length
        granted = take(limit, permits, now)
        assert granted == all(log.conforms(permits, now) for log in logs)
        if granted:
            for log in logs:
                log.grants.append((now, permits))


@settings(max_examples=200)
@given(
    st.lists(windows, min_size=1, max_size=2).map(tuple),
    st.lists(st.tuples(lengths, st.integers(1, 7), st.none() | st.integers(0, 9)), max_size=20),
)
def test_no_refund_lets_through_what_the_rest_would_not_have_left(
    declared: tuple[Window, ...], moves: list[tuple[Nanos, int, int | None]]
) -> None:
    """I9, whatever is undone and whenever: what was used would have been granted had the rest never been asked."""
    limit = RateLimitSpec(declared).build(0)
    used: list[tuple[Nanos, int]] = []
    now = 0
    for length, permits, undone in moves:
        now += length
        if undone is not None and used:
            taken, refund = used.pop(undone % len(used))
            limit.put_back(refund, (), taken, now)
        elif take(limit, permits, now):
            assert all(Log(window, used).conforms(permits, now) for window in declared)
            used.append((now, permits))


@given(windows, st.lists(st.tuples(lengths, st.integers(1, 7)), max_size=5), st.integers(0, 20), st.integers(1, 7))
@example(Window(3, SECOND, burst=1), [(0, 1)], 7, 1)
@example(Window(1_000_000_001, SECOND, burst=2), [(0, 2)], 9, 2)
def test_the_place_in_line_tells_the_instant(
    window: Window, asks: list[tuple[Nanos, int]], ahead: int, permits: int
) -> None:
    """With one window, behind single permits that each go when they can, ``not_before`` is when it is served."""
    assume(window.permits >= 1 and permits <= window.burst)
    assume(window.burst == 1 or window.permits <= (window.burst - 1) * window.period + 1)
    limit = spec(window).build(0)
    now = 0
    for length, others in asks:
        now += length
        take(limit, others, now)
    promised = limit.not_before(permits, ahead, now)
    for _ in range(ahead):
        now = limit.not_before(1, 0, now)
        assert take(limit, 1, now)

    assert limit.not_before(permits, 0, now) == promised
