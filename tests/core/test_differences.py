"""What a comparison says beyond the numbers that the stories and the machine hold it to."""

from governor.core.differences import Difference, Fate
from governor.core.events import Seal, SetOverride, SetStanding
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.types import SECOND, Standing
from tests.core.declared import pool, rate_limit, semaphore
from tests.core.play import Play


def test_what_stays_is_left_out() -> None:
    """Also what was declared no more, is lent yet, and stays so; in another order all is the same."""
    specs = semaphore("db", 1), pool("conn", ["a"])
    play = Play(*specs, semaphore("old", 1))
    play.ask("old")
    play.reconfigure(*specs)

    assert play.differences(*specs) == play.differences(*reversed(specs)) == {}


def test_what_is_declared_again_is_added_with_what_is_lent_of_it_yet() -> None:
    """So it may be over its limit from the first."""
    play = Play(semaphore("db", 3))
    play.ask(("db", 3))
    play.reconfigure(semaphore("disk", 1))

    again = semaphore("db", 2)
    added = play.differences(again, semaphore("disk", 1))["db"]

    assert added == Difference("db", Fate.ADDED, None, again, in_use=3, leases=1, over_limit=1)


def test_what_is_removed_refuses_all_who_wait_and_has_no_limit_left_to_be_over() -> None:
    """Each counts once, under what it is refused for."""
    spec = semaphore("db", 2)
    play = Play(spec, semaphore("disk", 1))
    play.ask(("db", 2))
    play.ask("db", "disk")
    play.ask(("db", 2))

    found = play.differences(semaphore("disk", 2))

    assert found["db"] == Difference("db", Fate.REMOVED, spec, None, 2, 1, 2, refused=2, most_asked=2)
    assert (found["disk"].refused, found["disk"].granted) == (0, 0)


def test_nobody_would_be_granted_what_is_paused_or_cannot_be_put_on_record() -> None:
    """However much of it there would be."""
    play = Play(semaphore("db", 1))
    play.ask("db")
    play.ask("db")
    assert play.differences(semaphore("db", 2))["db"].granted == 1

    play.do(SetStanding("db", Standing.PAUSED))
    assert play.differences(semaphore("db", 2))["db"].granted == 0
    play.do(SetStanding("db", Standing.OPEN))
    play.do(Seal(sealed=True))
    assert play.differences(semaphore("db", 2))["db"].granted == 0


def test_a_place_that_several_calls_share_counts_once() -> None:
    """As it does in the line."""
    play = Play(semaphore("db", 1))
    play.ask("db")
    for _ in range(3):
        play.ask("db", client="ann", request_id="r")

    found = play.differences(semaphore("db", 5))["db"]

    assert (found.waiters, found.granted) == (1, 1)


def test_a_rate_limit_is_compared_with_what_is_spent_of_it() -> None:
    """Who waits for permits that a larger burst would have now is granted, and nobody else."""
    play = Play(rate_limit("api", (1, 60 * SECOND, 2), max_wait=1000 * SECOND))
    play.ask(("api", 2))
    for _ in range(3):
        play.ask("api")

    found = play.differences(rate_limit("api", (1, 60 * SECOND, 3), max_wait=1000 * SECOND))["api"]

    assert (found.waiters, found.granted) == (3, 1)


def test_a_kind_that_may_change_is_another_thing() -> None:
    """Nothing is lent of it, so whoever waits is told that what it waits for is gone."""
    play = Play(semaphore("db", 0, max_waiters=5), semaphore("disk", 1))
    play.do(SetOverride("db", SemaphoreSpec(1), 60 * SECOND))
    play.do(SetStanding("db", Standing.PAUSED))

    found = play.differences(pool("db", ["a", "b"]), semaphore("disk", 1))["db"]

    assert (found.what, found.over_limit, found.problem) == (Fate.CHANGED, 0, "")
