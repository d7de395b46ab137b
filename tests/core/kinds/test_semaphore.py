"""Semaphores: one number lent of another."""

from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.types import Outcome


def test_it_lends_as_many_as_there_are() -> None:
    """Three of five and two of five, and nothing more until something is back."""
    limit = SemaphoreSpec(5).build(0)
    limit.take(3, 0)
    assert not limit.can_take(3, 0)
    limit.take(2, 0)
    assert (limit.available(0), limit.wake_at(1, 0)) == (0, None)
    limit.give_back(3, (), Outcome.BROKEN, 0)

    assert (limit.in_use, limit.available(0), limit.wake_at(3, 7)) == (2, 3, 7)


def test_zero_permits_close_it() -> None:
    """Nothing can be taken, and more than nothing is above capacity."""
    limit = SemaphoreSpec(0).build(0)

    assert (limit.capacity, limit.available(0), limit.can_take(1, 0)) == (0, 0, False)


def test_unlimited_counts_all_the_same() -> None:
    """Any ask is granted, and what is lent is known when a limit is declared."""
    limit = SemaphoreSpec(None).build(0)
    limit.take(2**31, 0)
    assert (limit.capacity, limit.available(0), limit.in_use) == (None, None, 2**31)
    limit.reconfigure(SemaphoreSpec(1), 0)

    assert (limit.capacity, limit.available(0), limit.can_take(1, 0)) == (1, 0, False)


def test_shrinking_takes_nothing_back_and_lets_nobody_in_until_below() -> None:
    """Four of five lent, two from now on: the next is lent when one is left."""
    limit = SemaphoreSpec(5).build(0)
    limit.take(4, 0)
    limit.reconfigure(SemaphoreSpec(2), 0)
    limit.give_back(2, (), Outcome.OK, 0)
    assert (limit.in_use, limit.available(0), limit.can_take(1, 0)) == (2, 0, False)
    limit.give_back(1, (), Outcome.OK, 0)

    assert limit.can_take(1, 0)


def test_growing_lets_in_at_once() -> None:
    """What was full is not any more."""
    limit = SemaphoreSpec(1).build(0)
    limit.take(1, 0)
    limit.reconfigure(SemaphoreSpec(3), 0)

    assert limit.available(0) == 2
