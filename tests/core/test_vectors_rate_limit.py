"""Rate limits behind the engine: who waits for one is served on schedule, and what is promised holds."""

import pytest

from governor.core.effects import Granted
from governor.core.types import MILLISECOND, SECOND, Reason
from tests.core.declared import rate_limit, semaphore
from tests.core.play import Play


def test_two_windows_serve_all_who_wait_on_schedule() -> None:
    """1 per 7 s and 5 per 60 s: each is served when both windows allow, and none waits only to fail.

    The second window has five at once and one more per 12 s, so that it begins to bind with the eleventh.
    """
    play = Play(rate_limit("api", (1, 7 * SECOND, 1), (5, 60 * SECOND, 5), max_wait=600 * SECOND))
    asks = [play.ask("api") for _ in range(14)]

    play.at(600 * SECOND)

    waited = [play.granted(ask).waited / SECOND for ask in asks]
    assert waited == [0, 7, 14, 21, 28, 35, 42, 49, 56, 63, 72, 84, 96, 108]


@pytest.mark.parametrize("lead", [0, 1, 333_333, 99 * MILLISECOND])
def test_waiting_exactly_the_promised_time_succeeds(lead: int) -> None:
    """After a refusal the promised instant works, twenty times out of twenty, and a nanosecond before never does."""
    play = Play(rate_limit("api", (7, 3 * SECOND, 2)))
    play.ask(("api", 2))
    for _ in range(20):
        play.now += lead
        refused = play.denial(play.ask("api", wait=0))
        assert refused.reason is Reason.NONE_FREE
        assert refused.retry_after is not None
        play.now += refused.retry_after - 1
        assert play.denial(play.ask("api", wait=0)).retry_after == 1
        play.now += 1
        assert play.has(play.ask("api", wait=0))


def test_a_waiter_is_granted_at_the_instant_promised() -> None:
    """The timer wakes a waiter at the very nanosecond of its permit, and no deadline is left behind."""
    play = Play(rate_limit("api", (3, SECOND, 1)))
    play.ask("api")
    waiter = play.ask("api")

    assert play.engine.next_deadline() == 333_333_334
    play.at(333_333_333)
    assert play.waits(waiter)
    play.at(333_333_334)
    assert play.has(waiter)
    assert play.engine.next_deadline() is None


def test_those_who_wait_count_as_served_first() -> None:
    """A newcomer behind three others is told the time after theirs, and is hopeless when that is too late."""
    play = Play(rate_limit("api", (1, 10 * SECOND, 1), max_wait=60 * SECOND))
    play.ask("api")
    for _ in range(3):
        play.ask("api")

    hopeless = play.denial(play.ask("api", wait=40 * SECOND - 1))
    assert (hopeless.reason, hopeless.retry_after) == (Reason.HOPELESS, 40 * SECOND)
    in_time = play.ask("api", wait=40 * SECOND)
    play.at(40 * SECOND)
    assert play.granted(in_time).waited == 40 * SECOND


def test_a_refused_ask_changes_nothing() -> None:
    """Of 10, five are spent; an ask for six is refused and spends nothing; five more are granted."""
    play = Play(rate_limit("api", (10, 10 * SECOND, 10)))
    play.ask(("api", 5))
    assert play.denial(play.ask(("api", 6), wait=0)).reason is Reason.NONE_FREE
    assert play.resource("api").available == 5
    assert play.has(play.ask(("api", 5), wait=0))
    assert play.resource("api").available == 0


def test_more_than_a_burst_is_never() -> None:
    """With 5/s and a burst of 5, an ask for 6 could never be granted, however long it waited."""
    play = Play(rate_limit("api", (5, SECOND, 5)))

    denial = play.denial(play.ask(("api", 6)))

    assert (denial.reason, denial.asked, denial.limit) == (Reason.ABOVE_CAPACITY, 6, 5)


def test_nothing_is_saved_up_beyond_a_burst() -> None:
    """After ten years of silence exactly a burst is granted at once."""
    play = Play(rate_limit("api", (5, SECOND, 5)))
    play.now = 10 * 365 * 86_400 * SECOND

    granted = [play.ask("api", wait=0) for _ in range(6)]

    assert all(play.has(ask) for ask in granted[:5])
    assert play.denial(granted[5]).retry_after == SECOND // 5


def test_a_frozen_daemon_grants_no_more_than_a_burst_when_it_wakes() -> None:
    """Ten wait for 1/s with a burst of 1; after a freeze of 20 s one is granted, and then one a second."""
    play = Play(rate_limit("api", (1, SECOND, 1), max_wait=60 * SECOND))
    play.ask("api")
    waiters = [play.ask("api") for _ in range(10)]

    play.unseen_until(20 * SECOND)
    play.at(20 * SECOND)
    assert sum(not play.waits(waiter) for waiter in waiters) == 1
    play.at(23 * SECOND)
    assert sum(not play.waits(waiter) for waiter in waiters) == 4


def test_a_spent_grant_has_no_deadline_and_needs_no_release() -> None:
    """A grant of rate limits only is over as it is made: nothing is live, nothing is armed, a release says so."""
    play = Play(rate_limit("api", (1, SECOND, 1)))
    grant = play.granted(play.ask("api"))

    assert grant.deadline is None
    assert play.engine.snapshot(now=0).leases == 0
    assert play.engine.next_deadline() is None
    ended = play.release(grant.lease)[0].ended
    assert ended is not None
    assert ended.reason == "spent"


def test_a_spent_grant_may_be_asked_about_again() -> None:
    """The same request id is told the same lease, for as long as it is remembered, and nothing more is spent."""
    play = Play(rate_limit("api", (1, SECOND, 1)))
    first = play.ask("api", client="a", request_id="1")
    again = play.ask("api", client="a", request_id="1", wait=0)

    assert play.granted(again).repeated
    assert play.lease(again) == play.lease(first)
    play.at(SECOND)
    assert play.resource("api").available == 1


def test_a_grant_that_nobody_received_was_not_spent() -> None:
    """What an undelivered grant spent is there again, and whoever waited for it is woken."""
    play = Play(rate_limit("api", (1, 10 * SECOND, 1)))
    gone, waiter = play.ask("api"), play.ask("api")

    play.abandon(gone)

    assert play.granted(waiter).waited == 0
    assert play.resource("api").available == 0


def test_a_refund_never_fills_beyond_the_burst() -> None:
    """What the clock has refilled meanwhile cannot be refunded once more."""
    play = Play(rate_limit("api", (1, SECOND, 2)))
    gone = play.ask("api")
    play.at(5 * SECOND)

    play.abandon(gone)

    assert play.resource("api").available == 2


def test_a_release_gives_back_only_what_was_lent() -> None:
    """A lease over a semaphore and a rate limit returns the one and leaves the other spent."""
    play = Play(semaphore("db", 1), rate_limit("api", (1, 10 * SECOND, 1)))
    lease = play.lease(play.ask("db", "api"))

    play.release(lease)

    assert play.resource("db").available == 1
    assert play.resource("api").available == 0


def test_an_ask_that_needs_both_is_granted_when_both_are_there() -> None:
    """The permit of the rate limit comes at 10 s, that of the semaphore at 4 s: the grant is at 10 s and not before."""
    play = Play(semaphore("db", 1), rate_limit("api", (1, 10 * SECOND, 1)))
    play.ask("db", "api", lease=4 * SECOND)
    both = play.ask("db", "api")

    play.at(10 * SECOND - 1)
    assert play.waits(both)
    assert play.resource("db").available == 1
    play.at(10 * SECOND)
    assert play.has(both)


def test_at_one_instant_leases_end_then_permits_ripen_then_waits_end() -> None:
    """A wait that ends as the permit comes back is granted, whichever of the two kinds it comes from."""
    play = Play(semaphore("db", 1), rate_limit("api", (1, 4 * SECOND, 1)))
    play.ask("db", "api", lease=4 * SECOND)
    waiters = [play.ask("db", wait=4 * SECOND), play.ask("api", wait=4 * SECOND)]

    play.at(4 * SECOND)

    assert [play.granted(waiter).waited for waiter in waiters] == [4 * SECOND, 4 * SECOND]


def test_no_window_is_unlimited() -> None:
    """A rate limit without windows grants anything at once."""
    play = Play(rate_limit("api"))

    assert play.has(play.ask(("api", 2**31 - 1)))
    assert play.has(play.ask(("api", 2**31 - 1)))
    assert play.resource("api").capacity is None


def test_a_window_of_nothing_is_closed() -> None:
    """A window of 0 permits grants nothing, ever."""
    play = Play(rate_limit("api", (0, SECOND, 1)))

    denial = play.denial(play.ask("api"))

    assert (denial.reason, denial.limit) == (Reason.ABOVE_CAPACITY, 0)


def test_asked_every_100_ms_a_minute_sees_no_more_than_its_rate() -> None:
    """3/s asked ten times a second for 60 s grants at most 3 + 180."""
    play = Play(rate_limit("api", (3, SECOND, 3)))
    asks = []
    for tick in range(600):
        play.now = tick * 100 * MILLISECOND
        asks.append(play.ask("api", wait=0))

    granted = [ask for ask in asks if isinstance(play.answer(ask), Granted)]
    assert 180 <= len(granted) <= 183
