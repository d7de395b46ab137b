"""What other lenders of semaphores promise, held against this one: throttle, Dask, Prefect, etcd."""

import pytest

from governor.core.effects import Denied, LeaseEnded, LeaseState
from governor.core.events import Wake
from governor.core.types import MILLISECOND, SECOND, EndReason, LeaseId, Reason, TicketId
from tests.core.declared import semaphore
from tests.core.play import Play


def test_the_fourth_of_three_waits() -> None:
    """Three leases of a limit of 3 are granted at once, the fourth waits."""
    play = Play(semaphore("db", 3))
    asks = [play.ask("db") for _ in range(4)]

    assert all(play.granted(ask).waited == 0 for ask in asks[:3])
    assert play.waits(asks[3])
    assert play.resource("db").waiters == 1


def test_each_release_hands_on_in_the_order_of_asking() -> None:
    """Ten who ask for one permit are served one after the other, first come first served, each on the release."""
    play = Play(semaphore("db", 1))
    asks = [play.ask("db") for _ in range(10)]

    for number, ask in enumerate(asks):
        assert [play.waits(later) for later in asks[number + 1 :]] == [True] * (9 - number)
        play.release(play.lease(ask))

    leases = [play.lease(ask) for ask in asks]
    assert leases == sorted(leases)
    assert play.resource("db").in_use == 0


def test_asking_again_is_idempotent_for_a_holder() -> None:
    """A holder who repeats the ask has one lease, and nobody has fewer permits for it."""
    play = Play(semaphore("db", 2))
    first = play.ask("db", client="a", request_id="1")
    again = play.ask("db", client="a", request_id="1")

    assert play.lease(first) == play.lease(again)
    assert (play.granted(first).repeated, play.granted(again).repeated) == (False, True)
    assert play.resource("db").in_use == 1


def test_asking_again_is_idempotent_for_a_waiter() -> None:
    """A waiter who repeats the ask keeps one place in line and gets one lease."""
    play = Play(semaphore("db", 1))
    holder = play.ask("db")
    first = play.ask("db", client="a", request_id="1")
    other = play.ask("db")
    again = play.ask("db", client="a", request_id="1")

    play.release(play.lease(holder))

    assert play.lease(first) == play.lease(again)
    assert sorted([play.granted(first).repeated, play.granted(again).repeated]) == [False, True]
    assert play.waits(other)
    assert play.resource("db").in_use == 1


def test_no_permits_at_all_is_malformed() -> None:
    """An ask for 0 permits is refused."""
    play = Play(semaphore("db", 1))

    denial = play.denial(play.ask(("db", 0)))

    assert (denial.reason, denial.field) == (Reason.MALFORMED, "claims[0].permits")


def test_an_expired_client_hands_on_in_the_same_step() -> None:
    """The step that ends the lease of a client that is gone grants the waiter."""
    play = Play(semaphore("db", 1, lease=4 * SECOND))
    gone, waiter = play.ask("db"), play.ask("db")

    play.now = 4 * SECOND
    effects = play.do(Wake())

    ended = next(effect for effect in effects if isinstance(effect, LeaseEnded))
    assert (ended.lease, ended.reason) == (play.lease(gone), EndReason.EXPIRED)
    assert play.granted(waiter) in effects
    assert play.granted(waiter).deadline == 8 * SECOND


def test_a_large_ask_is_not_starved() -> None:
    """Of a limit of 5 one is lent, then 5 wait, then 1: first come the 5, then the 1."""
    play = Play(semaphore("db", 5))
    small, large, late = play.ask("db"), play.ask(("db", 5)), play.ask("db")
    assert play.waits(large)
    assert play.waits(late)

    play.release(play.lease(small))
    assert play.has(large)
    assert play.waits(late)

    play.release(play.lease(large))
    assert play.has(late)


def test_a_long_wait_is_answered_by_the_release() -> None:
    """Whoever would wait 15 s is granted in the very step of the release."""
    play = Play(semaphore("db", 1))
    holder, waiter = play.ask("db"), play.ask("db", wait=15 * SECOND)

    play.at(SECOND)
    play.release(play.lease(holder))

    assert play.granted(waiter).waited == SECOND


def test_a_millisecond_of_waiting_ends() -> None:
    """A wait of 1 ms is answered with no, at 1 ms."""
    play = Play(semaphore("db", 1))
    play.ask("db")
    waiter = play.ask("db", wait=MILLISECOND)

    play.at(MILLISECOND - 1)
    assert play.waits(waiter)
    play.at(MILLISECOND)
    assert play.denial(waiter).reason is Reason.WAIT_OVER


@pytest.mark.parametrize("name", ["jobs/nightly", "a&b=c", "two words", "größe-日本-🙂", "%2F", "."])
def test_names_are_just_names(name: str) -> None:
    """Nothing in a name has a meaning of its own."""
    play = Play(semaphore(name, 1))

    assert play.granted(play.ask(name)).grants[0].resource == name


def test_three_and_three_of_five() -> None:
    """The second of two asks for 3 of 5 waits for the first."""
    play = Play(semaphore("db", 5))
    first, second = play.ask(("db", 3)), play.ask(("db", 3))
    assert play.waits(second)

    play.release(play.lease(first))

    assert play.has(second)


def test_more_than_the_limit_fails_at_once() -> None:
    """An ask for more than there is never waits, and says what there is."""
    play = Play(semaphore("db", 5))

    denial = play.denial(play.ask(("db", 6)))

    assert (denial.reason, denial.resource) == (Reason.ABOVE_CAPACITY, "db")
    assert (denial.asked, denial.limit) == (6, 5)


def test_a_nested_lease_of_another_resource_leaves_the_outer_one_alone() -> None:
    """Taking and giving back a second resource does not touch the lease of the first."""
    play = Play(semaphore("outer", 1), semaphore("inner", 1))
    outer, inner = play.ask("outer", client="a"), play.ask("inner", client="a")

    play.release(play.lease(inner))

    assert play.resource("outer").in_use == 1
    assert play.renew(play.lease(outer))[0].state is LeaseState.RENEWED


def test_a_heartbeat_keeps_a_short_lease_for_as_long_as_it_beats() -> None:
    """A lease of 4 s, renewed each second, is still held after 5 s; after the last beat it ends in 4 s."""
    play = Play(semaphore("db", 1, lease=4 * SECOND))
    lease = play.lease(play.ask("db"))
    for beat in range(1, 6):
        play.at(beat * SECOND)
        assert play.renew(lease)[0].state is LeaseState.RENEWED

    play.at(9 * SECOND - 1)
    assert play.resource("db").in_use == 1
    play.at(9 * SECOND)
    assert play.resource("db").in_use == 0


def test_ten_tasks_on_two_slots() -> None:
    """However many ask, two run at a time, and all have run in the end."""
    play = Play(semaphore("db", 2))
    asks = [play.ask("db") for _ in range(10)]

    for done, ask in enumerate(asks):
        assert play.resource("db").in_use == min(2, 10 - done)
        play.release(play.lease(ask))

    assert play.resource("db").in_use == 0


def test_a_wait_of_nothing_tries_once() -> None:
    """A wait of 0 is answered in its own step, with yes or no, and leaves nobody in line."""
    play = Play(semaphore("db", 1))
    yes, no = play.ask("db", wait=0), play.ask("db", wait=0)

    assert play.has(yes)
    assert play.denial(no).reason is Reason.NONE_FREE
    assert play.denial(no).retry_after is None, "a holder may come back at any time: nobody can tell"
    assert play.resource("db").waiters == 0


def test_releasing_twice_is_reported_and_changes_nothing() -> None:
    """The second release says that the lease had ended, why and when; nobody gets a permit for it."""
    play = Play(semaphore("db", 2))
    lease = play.lease(play.ask("db"))
    play.ask("db")

    assert play.release(lease)[0].state is LeaseState.RELEASED
    play.at(3 * SECOND)
    again = play.release(lease)[0]

    assert again.state is LeaseState.ENDED
    assert again.ended is not None
    assert (again.ended.reason, again.ended.ago) == (EndReason.RELEASED, 3 * SECOND)
    assert play.resource("db").in_use == 1


def test_the_head_of_one_line_does_not_overtake_in_another() -> None:
    """What it needs is all free, but in one of its lines somebody else is first, who wants more than there is."""
    play = Play(semaphore("db", 2), semaphore("gpu", 1))
    play.ask("db")
    gpu = play.ask("gpu")
    large, both = play.ask(("db", 2)), play.ask("db", "gpu")

    play.release(play.lease(gpu))

    assert (play.resource("db").available, play.resource("gpu").available) == (1, 1)
    assert play.waits(large)
    assert play.waits(both)


def test_a_grant_in_one_line_moves_the_others_on() -> None:
    """Whoever stood behind an ask for two resources in the line of the second moves up when the first comes free."""
    play = Play(semaphore("db", 1), semaphore("gpu", 3))
    db = play.ask("db")
    both, behind, last = play.ask("db", "gpu"), play.ask("gpu"), play.ask(("gpu", 2))

    play.release(play.lease(db))

    assert play.has(both)
    assert play.has(behind)
    assert play.waits(last)


def test_cancelled_waiters_leave_nothing_behind() -> None:
    """A hundred who waited and went are no longer counted, and are not served when the permit comes back."""
    play = Play(semaphore("db", 1))
    holder = play.ask("db")
    for ticket in [play.ask("db") for _ in range(100)]:
        play.abandon(ticket)

    assert play.resource("db").waiters == 0
    assert play.resource("db").oldest_wait is None
    play.release(play.lease(holder))
    assert play.resource("db").in_use == 0
    assert play.engine.next_deadline() is None


def test_a_renewal_after_the_release_brings_nothing_back() -> None:
    """A renewal that was on its way while the lease was released is told so."""
    play = Play(semaphore("db", 1))
    lease = play.lease(play.ask("db"))
    play.release(lease)

    late = play.renew(lease)[0]

    assert late.state is LeaseState.ENDED
    assert play.resource("db").in_use == 0
    assert play.has(play.ask("db"))


def test_the_engine_says_which_id_it_gave_last() -> None:
    """The last id and the number of live leases follow each grant and each end."""
    play = Play(semaphore("db", 2), first_id=40)
    assert (play.engine.last_id, play.engine.live_leases) == (39, 0)

    lease = play.lease(play.ask("db"))
    assert (lease, play.engine.last_id, play.engine.live_leases) == (40, 40, 1)
    play.release(lease)
    assert (play.engine.last_id, play.engine.live_leases) == (40, 0)


def test_resources_are_shown_before_any_use() -> None:
    """What is declared is shown, idle, with its numbers."""
    play = Play(semaphore("db", 3), semaphore("open", None))

    db, unlimited = play.resource("db"), play.resource("open")

    assert (db.capacity, db.in_use, db.available, db.waiters, db.leases) == (3, 0, 3, 0, 0)
    assert (unlimited.capacity, unlimited.available, unlimited.over_limit) == (None, None, 0)


def test_a_lease_for_a_caller_that_was_cancelled_is_given_back() -> None:
    """A grant that could not be told is taken back, and its request id may ask anew."""
    play = Play(semaphore("db", 1))
    gone = play.ask("db", client="a", request_id="1")
    waiter = play.ask("db")

    effects = play.abandon(gone)

    assert [e.reason for e in effects if isinstance(e, LeaseEnded)] == [EndReason.DISCONNECTED]
    assert play.has(waiter)
    play.release(play.lease(waiter))
    assert play.has(play.ask("db", client="a", request_id="1"))


def test_a_lock_is_not_granted_to_a_waiter_that_is_gone() -> None:
    """Who left before the release is passed over."""
    play = Play(semaphore("db", 1))
    holder, gone, waiter = play.ask("db"), play.ask("db"), play.ask("db")
    play.abandon(gone)

    play.release(play.lease(holder))

    assert play.answer(gone) is None
    assert play.has(waiter)


def test_a_lease_begins_with_the_grant_and_not_with_the_ask() -> None:
    """Nine seconds in line cost nothing of a lease of ten."""
    play = Play(semaphore("db", 1, lease=10 * SECOND))
    holder, waiter = play.ask("db", lease=9 * SECOND), play.ask("db")
    play.at(9 * SECOND)

    assert play.granted(holder).deadline == 9 * SECOND
    assert play.granted(waiter).deadline == 19 * SECOND


def test_a_renewal_that_may_give_no_more_than_so_much_takes_nothing_away() -> None:
    """It bounds what is given from now on, not what was; a lease that is shorter is renewed as ever."""
    play = Play(semaphore("db", 2, lease=10 * SECOND))
    long, short = play.lease(play.ask("db")), play.lease(play.ask("db", lease=2 * SECOND))

    play.at(SECOND)
    assert [each.remaining for each in play.renew(long, short, most=4 * SECOND)] == [4 * SECOND, 2 * SECOND]
    play.at(3 * SECOND)
    assert play.renew(short)[0].state is LeaseState.ENDED
    play.at(9 * SECOND)
    assert play.renew(long, most=4 * SECOND)[0].remaining == 4 * SECOND
    play.at(13 * SECOND - 1)
    assert play.renew(long, most=4 * SECOND)[0].state is LeaseState.RENEWED


def test_leases_below_a_second_are_exact() -> None:
    """A lease of 1,500,001 ns lives for 1,500,000 and ends at 1,500,001."""
    play = Play(semaphore("db", 1))
    lease = play.lease(play.ask("db", lease=1_500_001))

    play.at(1_500_000)
    assert play.renew(lease, lease=1_500_001)[0].remaining == 1_500_001
    play.at(3_000_001)
    assert play.renew(lease)[0].state is LeaseState.ENDED


def test_an_answer_for_each_lease_of_a_batch() -> None:
    """A batch of releases and renewals is answered id by id, in the order asked."""
    play = Play(semaphore("db", 5, lease=10 * SECOND))
    first, second, third = (play.lease(play.ask("db")) for _ in range(3))
    play.release(second)

    renewed = play.renew(first, second, LeaseId(99), first)
    assert [one.lease for one in renewed] == [first, second, 99, first]
    assert [one.state.value for one in renewed] == ["renewed", "ended", "unknown", "renewed"]

    released = play.release(third, third, LeaseId(99), second, first)
    assert [one.state.value for one in released] == ["released", "ended", "unknown", "ended", "released"]
    assert play.resource("db").in_use == 0


def test_a_batch_of_releases_serves_a_large_ask() -> None:
    """Permits that come back together are handed on together."""
    play = Play(semaphore("db", 2))
    leases = [play.lease(play.ask("db")) for _ in range(2)]
    large, small = play.ask(("db", 2)), play.ask("db")

    play.release(*leases)

    assert play.has(large)
    assert play.waits(small)


def test_nobody_is_served_twice_for_one_abandoned_ticket() -> None:
    """Abandoning a ticket twice, or one that never was, is nothing."""
    play = Play(semaphore("db", 1))
    gone = play.ask("db")
    play.abandon(gone)

    assert play.abandon(gone) == []
    assert play.abandon(TicketId(77)) == []


def test_a_denied_ticket_cannot_be_abandoned() -> None:
    """A ticket that ended as a refusal has no second end."""
    play = Play(semaphore("db", 1))
    play.ask("db")
    denied = play.ask("db", wait=0)

    assert play.abandon(denied) == []


def test_a_shutdown_tells_everybody_who_waits() -> None:
    """Draining answers each waiter once, and lets the holder finish."""
    play = Play(semaphore("db", 1))
    holder = play.ask("db")
    waiters = [play.ask("db") for _ in range(3)]

    effects = play.drain()

    assert [e.ticket for e in effects if isinstance(e, Denied)] == waiters
    assert {play.denial(waiter).reason for waiter in waiters} == {Reason.DRAINING}
    assert play.renew(play.lease(holder))[0].state is LeaseState.RENEWED
    assert play.release(play.lease(holder))[0].state is LeaseState.RELEASED
    assert play.engine.snapshot(now=0).draining
