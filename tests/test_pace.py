"""How long an ask is likely to take yet, from how it went."""

from governor.core.types import MILLISECOND, SECOND, Claim, Grant, Nanos
from governor.pace import Pace

ONE = (Claim("sem", 1),)
GRANT = (Grant("sem", 1),)


def expected(
    pace: Pace, claims: tuple[Claim, ...] = ONE, ahead: int = 0, at_least: Nanos = 0, now: Nanos = 0, waited: Nanos = 0
) -> Nanos | None:
    """What it says, by default of one who comes just now and is the first."""
    return pace.expected(claims, ahead, at_least, waited=waited, now=now)


def test_nothing_is_known_before_anybody_waited() -> None:
    """But for what rate limits say."""
    pace = Pace()
    assert expected(pace, ahead=5) is None
    assert expected(pace, ahead=5, at_least=-3) is None
    assert expected(pace, ahead=5, at_least=7) == 7
    assert expected(pace, ahead=5, now=SECOND, waited=SECOND) is None


def test_one_grant_says_nothing() -> None:
    """Whoever came a moment before its holder went has waited for a moment; the next holder stays as he likes."""
    pace = Pace()
    pace.granted(GRANT, MILLISECOND, SECOND)

    assert expected(pace, now=SECOND) is None
    assert expected(pace, now=SECOND, at_least=7) == 7
    pace.granted(GRANT, 3 * SECOND, 4 * SECOND)
    assert expected(pace, now=4 * SECOND) == 3 * SECOND


def test_what_came_at_once_says_nothing() -> None:
    """As when a holder of two permits goes, and two are served."""
    pace = Pace()
    pace.granted(GRANT, 3 * SECOND, 4 * SECOND)
    pace.granted(GRANT, SECOND, 4 * SECOND)

    assert expected(pace, now=4 * SECOND) is None


def test_it_is_the_time_between_grants_for_each_that_is_ahead() -> None:
    """And one more for oneself; never less than a rate limit says."""
    pace = Pace()
    for number in range(1, 50):
        pace.granted(GRANT, 10 * SECOND, number * 2 * SECOND)
    assert expected(pace, ahead=4, now=98 * SECOND) == 10 * SECOND
    assert expected(pace, ahead=4, now=98 * SECOND, at_least=60 * SECOND) == 60 * SECOND


def test_a_few_grants_count_alike() -> None:
    """The first is not what all others are measured by."""
    pace = Pace()
    for instant in (0, 1, 4, 9):
        pace.granted(GRANT, 10 * SECOND, instant * SECOND)
    assert expected(pace, now=9 * SECOND) == 3 * SECOND


def test_a_line_that_stands_still_is_slower_than_it_was() -> None:
    """Of who has waited for longer than it used to take, it is not said that it takes a moment."""
    pace = Pace()
    for number in range(3):
        pace.granted(GRANT, 10 * SECOND, number * MILLISECOND)
    now = 5 * SECOND + 2 * MILLISECOND

    assert expected(pace, now=now) == MILLISECOND
    assert expected(pace, now=now, waited=5 * SECOND) == 5 * SECOND
    assert expected(pace, now=now, waited=9 * SECOND, ahead=2) == 5 * SECOND + 2 * MILLISECOND
    assert expected(pace, now=now, waited=3 * SECOND, ahead=2) == 3 * SECOND + 2 * MILLISECOND


def test_idle_time_counts_for_nothing() -> None:
    """Whoever came long after the last one went has waited for only so long."""
    pace = Pace()
    for hours in range(1, 50):
        pace.granted(GRANT, SECOND, hours * 3600 * SECOND)
    assert expected(pace, now=50 * 3600 * SECOND) == SECOND


def test_of_several_resources_the_slowest_counts() -> None:
    """As far as anything is known of them."""
    pace = Pace()
    for number in range(2):
        pace.granted((Grant("sem", 1), Grant("pool", 1)), 60 * SECOND, number * 3 * SECOND)
        pace.granted((Grant("slow", 1),), 60 * SECOND, number * 9 * SECOND)
    both = (*ONE, Claim("slow", 1), Claim("never seen", 1))
    assert expected(pace, both) == 9 * SECOND
    assert expected(pace, (Claim("pool", 2),), ahead=1) == 6 * SECOND
    assert expected(pace, (Claim("never seen", 1),), ahead=1) is None


def test_what_is_not_declared_any_more_is_forgotten() -> None:
    """So nothing is kept of it."""
    pace = Pace()
    for number in range(2):
        pace.granted(GRANT, SECOND, number * SECOND)
    pace.forget(["sem", "never seen"])
    assert expected(pace) is None
