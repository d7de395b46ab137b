"""Rate limits: what other limiters promise, the shape of the answers, and what an undone take brings back."""

from dataclasses import dataclass
from typing import Final

import pytest

from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.types import MILLISECOND, SECOND, Nanos, Outcome
from tests.core.kinds.rates import MINUTE, YEAR, spec, take

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
    """Whoever takes each permit of 3/s when it is due has had 3,000 after 1,000 seconds, to the nanosecond."""
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
