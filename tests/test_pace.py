"""How long an ask is likely to take yet, from how it went."""

from governor.core.types import SECOND, Claim, Grant
from governor.pace import Pace

ONE = (Claim("sem", 1),)
GRANT = (Grant("sem", 1),)


def test_nothing_is_known_before_anybody_waited() -> None:
    """But for what rate limits say."""
    pace = Pace()
    assert pace.expected(ONE, 5, 0) is None
    assert pace.expected(ONE, 5, -3) is None
    assert pace.expected(ONE, 5, 7) == 7


def test_it_is_the_time_between_grants_for_each_that_is_ahead() -> None:
    """And one more for oneself; never less than a rate limit says."""
    pace = Pace()
    for number in range(1, 50):
        pace.granted(GRANT, 10 * SECOND, number * 2 * SECOND)
    expected = pace.expected(ONE, 4, 0)
    assert expected is not None
    assert abs(expected - 10 * SECOND) < SECOND // 10
    assert pace.expected(ONE, 4, 60 * SECOND) == 60 * SECOND


def test_idle_time_counts_for_nothing() -> None:
    """Whoever came long after the last one went has waited for only so long."""
    pace = Pace()
    for hours in range(1, 50):
        pace.granted(GRANT, SECOND, hours * 3600 * SECOND)
    assert pace.expected(ONE, 0, 0) == SECOND


def test_of_several_resources_the_slowest_counts() -> None:
    """As far as anything is known of them."""
    pace = Pace()
    pace.granted((Grant("sem", 1), Grant("pool", 1)), 3 * SECOND, 0)
    pace.granted((Grant("slow", 1),), 9 * SECOND, 0)
    both = (*ONE, Claim("slow", 1), Claim("never seen", 1))
    assert pace.expected(both, 0, 0) == 9 * SECOND
    assert pace.expected((Claim("pool", 2),), 1, 0) == 6 * SECOND
    assert pace.expected((Claim("never seen", 1),), 1, 0) is None


def test_what_is_not_declared_any_more_is_forgotten() -> None:
    """So nothing is kept of it."""
    pace = Pace()
    pace.granted(GRANT, SECOND, 0)
    pace.forget(["sem", "never seen"])
    assert pace.expected(ONE, 0, 0) is None
