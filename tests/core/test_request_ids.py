"""The same request id from the same client gives the same answer, and never two grants (I8)."""

import pytest

from governor.core.effects import Denied, Granted
from governor.core.events import Acquire, Release
from governor.core.types import SECOND, Claim, EndReason, LeaseId, Reason, TicketId
from tests.core.declared import rate_limit, semaphore
from tests.core.play import Play

REMEMBERED = 10_000
MOST_REPEATS = 16


def test_an_id_belongs_to_its_client() -> None:
    """Two clients may use the same id for two leases."""
    play = Play(semaphore("db", 2))

    ann, ben = play.ask("db", client="ann", request_id="1"), play.ask("db", client="ben", request_id="1")

    assert play.lease(ann) != play.lease(ben)


def test_clients_without_a_name_share_their_ids() -> None:
    """The empty name is a client like any other."""
    play = Play(semaphore("db", 2))

    assert play.lease(play.ask("db", request_id="1")) == play.lease(play.ask("db", request_id="1"))


def test_an_empty_id_is_none() -> None:
    """Asks without an id are never the same ask."""
    play = Play(semaphore("db", 2))

    assert play.lease(play.ask("db", client="a")) != play.lease(play.ask("db", client="a"))


@pytest.mark.parametrize("state", ["waiting", "held", "ended"])
def test_other_claims_under_a_known_id_are_refused(state: str) -> None:
    """Whether the first ask waits, is held or has ended, another one under its id is a mistake."""
    play = Play(semaphore("db", 3))
    if state == "waiting":
        play.ask(("db", 3))
    first = play.ask("db", request_id="1")
    if state == "ended":
        play.release(play.lease(first))

    reused = play.ask(("db", 2), request_id="1")

    assert play.denial(reused).reason is Reason.REQUEST_ID_REUSED
    assert play.waits(first) == (state == "waiting")


def test_a_repeat_is_told_the_present_deadline() -> None:
    """A renewal shows in the repeated answer."""
    play = Play(semaphore("db", 1, lease=10 * SECOND))
    first = play.ask("db", request_id="1")
    play.at(5 * SECOND)
    play.renew(play.lease(first))

    again = play.granted(play.ask("db", request_id="1"))

    assert (again.repeated, again.deadline, again.waited) == (True, 15 * SECOND, 0)


@pytest.mark.parametrize("reason", [EndReason.RELEASED, EndReason.EXPIRED])
def test_the_id_of_an_ended_lease_says_that_it_ended(reason: EndReason) -> None:
    """Why and how long ago; it is not lent once more."""
    play = Play(semaphore("db", 1, lease=10 * SECOND))
    lease = play.lease(play.ask("db", request_id="1"))
    if reason is EndReason.RELEASED:
        play.at(10 * SECOND - 1)
        play.release(lease)
        play.at(12 * SECOND - 1)
    else:
        play.at(12 * SECOND)

    denial = play.denial(play.ask("db", request_id="1"))

    assert denial.reason is Reason.LEASE_ENDED
    assert denial.ended is not None
    assert (denial.ended.reason, denial.ended.ago) == (reason, 2 * SECOND)
    assert play.resource("db").in_use == 0


@pytest.mark.parametrize("how", ["line full", "none free", "wait over", "abandoned"])
def test_an_ask_that_ended_badly_is_forgotten(how: str) -> None:
    """The same id may ask again, as if for the first time."""
    play = Play(semaphore("db", 1, max_waiters=0 if how == "line full" else 1))
    holder = play.ask("db")
    ticket = play.ask("db", request_id="1", wait=0 if how == "none free" else SECOND)
    if how == "abandoned":
        play.abandon(ticket)
    play.at(SECOND)
    play.release(play.lease(holder))

    again = play.granted(play.ask(("db", 1), request_id="1"))

    assert not again.repeated


def test_each_ticket_of_a_place_has_its_own_wait() -> None:
    """Neither a shorter nor a longer wait beside it makes one shorter or longer; the place goes with the last."""
    play = Play(semaphore("db", 1))
    play.ask("db")
    first = play.ask("db", request_id="1", wait=10 * SECOND)
    shorter = play.ask("db", request_id="1", wait=SECOND)
    longer = play.ask("db", request_id="1", wait=20 * SECOND)

    for ticket, wait in ((shorter, SECOND), (first, 10 * SECOND), (longer, 20 * SECOND)):
        play.at(wait - 1)
        assert play.waits(ticket)
        assert play.resource("db").waiters == 1
        play.at(wait)
        answer = play.answer(ticket)
        assert isinstance(answer, Denied)
        assert (answer.denial.reason, answer.waited) == (Reason.WAIT_OVER, wait)
    assert play.resource("db").waiters == 0


def test_a_wait_that_is_over_takes_nothing_from_who_shares_the_place() -> None:
    """The first caller has gone away unserved, and the second is granted in its place, before whoever came between."""
    play = Play(semaphore("db", 1))
    holder = play.ask("db")
    first = play.ask("db", request_id="1", wait=SECOND)
    between = play.ask("db")
    second = play.ask("db", request_id="1", wait=10 * SECOND)
    play.at(2 * SECOND)
    assert play.denial(first).reason is Reason.WAIT_OVER

    play.release(play.lease(holder))

    assert play.granted(second).waited == 2 * SECOND
    assert not play.granted(second).repeated
    assert play.waits(between)


def test_each_ticket_is_told_the_max_wait_that_ended_its_own_wait() -> None:
    """Who asked for no more than it had is told of no bound; who asked for more, or did not say, is."""
    play = Play(semaphore("db", 1, max_wait=10 * SECOND))
    play.ask("db")
    content = play.ask("db", request_id="1", wait=10 * SECOND)
    others = [play.ask("db", request_id="1", wait=20 * SECOND), play.ask("db", request_id="1")]
    play.at(10 * SECOND)

    assert play.denial(content).longest is None
    assert [play.denial(ticket).longest for ticket in others] == [10 * SECOND, 10 * SECOND]


def test_a_place_may_be_older_than_a_lowered_max_wait() -> None:
    """A reload shortens nobody's wait; who joins later waits as max_wait now says, while the place is there."""
    play = Play(semaphore("db", 1, max_wait=30 * SECOND))
    play.ask("db")
    first = play.ask("db", request_id="1", wait=20 * SECOND)
    play.at(10 * SECOND)
    play.reconfigure(semaphore("db", 1, max_wait=5 * SECOND))
    short = play.ask("db", request_id="1", wait=SECOND)
    second = play.ask("db", request_id="1")

    play.at(11 * SECOND)
    assert play.denial(short).reason is Reason.WAIT_OVER
    play.at(15 * SECOND)
    assert play.denial(second).reason is Reason.WAIT_OVER
    play.at(18 * SECOND)
    third = play.ask("db", request_id="1")
    play.at(20 * SECOND - 1)
    assert play.waits(first)
    assert play.waits(third)
    play.at(20 * SECOND)
    assert {play.denial(ticket).reason for ticket in (first, third)} == {Reason.WAIT_OVER}


def test_repeats_do_not_wait_beyond_max_wait() -> None:
    """However often it is repeated: max_wait counts from the first ask."""
    play = Play(semaphore("db", 1, max_wait=10 * SECOND))
    play.ask("db", lease=60 * SECOND)
    first = play.ask("db", request_id="1")
    play.at(9 * SECOND)
    second = play.ask("db", request_id="1")
    play.at(10 * SECOND)

    assert {play.denial(ticket).reason for ticket in (first, second)} == {Reason.WAIT_OVER}


def test_a_repeat_that_does_not_wait_is_answered_at_once() -> None:
    """It joins nobody's wait, and the first one waits on."""
    play = Play(semaphore("db", 1))
    play.ask("db")
    first = play.ask("db", request_id="1", wait=10 * SECOND)

    assert play.denial(play.ask("db", request_id="1", wait=0)).reason is Reason.NONE_FREE
    assert play.waits(first)


def test_a_shared_place_counts_once_in_the_line() -> None:
    """A line of one is full for others, and still open to whoever shares the place."""
    play = Play(semaphore("db", 1, max_waiters=1))
    play.ask("db")
    first = play.ask("db", request_id="1")

    assert play.denial(play.ask("db")).reason is Reason.LINE_FULL
    assert play.waits(play.ask("db", request_id="1"))
    assert play.waits(first)


def test_leaving_a_shared_place_keeps_it_for_the_other() -> None:
    """The place is lost with the last ticket, not with the first."""
    play = Play(semaphore("db", 1))
    holder = play.ask("db")
    first = play.ask("db", request_id="1")
    behind = play.ask("db")
    second = play.ask("db", request_id="1")
    play.abandon(first)

    play.release(play.lease(holder))

    assert play.answer(first) is None
    assert play.has(second)
    assert play.waits(behind)


def test_a_lease_with_two_tickets_ends_when_both_are_gone() -> None:
    """Whoever still has the answer keeps the lease."""
    play = Play(semaphore("db", 1))
    first = play.ask("db", request_id="1")
    second = play.ask("db", request_id="1")

    assert play.abandon(first) == []
    assert play.resource("db").in_use == 1
    play.abandon(second)
    assert play.resource("db").in_use == 0


def test_a_repeat_outlives_the_resource() -> None:
    """While a removed resource drains, the id of a lease of it still gives that lease."""
    play = Play(semaphore("db", 1))
    first = play.ask("db", request_id="1")
    play.reconfigure()

    assert play.lease(play.ask("db", request_id="1")) == play.lease(first)


def test_a_repeat_is_answered_while_draining() -> None:
    """A shutdown does not take away the answer of whoever holds a lease."""
    play = Play(semaphore("db", 1))
    first = play.ask("db", request_id="1")
    play.drain()

    assert play.lease(play.ask("db", request_id="1")) == play.lease(first)
    assert play.denial(play.ask("db", request_id="2")).reason is Reason.DRAINING


def test_repeats_in_line_are_bounded() -> None:
    """Sixteen may share a place; the next is told that the line is full, and those sixteen wait on."""
    play = Play(semaphore("db", 1))
    holder = play.ask("db")
    waiters = [play.ask("db", request_id="1") for _ in range(MOST_REPEATS)]

    assert play.denial(play.ask("db", request_id="1")).reason is Reason.LINE_FULL
    play.release(play.lease(holder))
    assert len({play.lease(waiter) for waiter in waiters}) == 1


def test_a_lease_in_use_is_not_taken_back_for_its_repeats() -> None:
    """However many repeats are given up undelivered, whoever had the first answer keeps the lease."""
    play = Play(semaphore("db", 1))
    first = play.ask("db", request_id="1")
    repeats = [play.ask("db", request_id="1") for _ in range(3 * MOST_REPEATS)]
    for repeat in repeats:
        play.abandon(repeat)

    assert play.resource("db").in_use == 1
    assert play.lease(play.ask("db", request_id="1")) == play.lease(first)


def test_repeats_are_answered_however_many() -> None:
    """A client may ask about its lease a hundred times, and about what it spent."""
    play = Play(semaphore("db", 1), rate_limit("api", (1, SECOND, 1)))
    for name in ("db", "api"):
        leases = {play.lease(play.ask(name, request_id=name)) for _ in range(100)}
        assert len(leases) == 1


def test_spent_grants_are_remembered_and_forgotten_like_leases() -> None:
    """Ten thousand grants later, the request id of a spent grant asks anew."""
    play = Play(rate_limit("api"))
    first = play.ask("api", request_id="1")
    for number in range(REMEMBERED):
        play.engine.handle(Acquire(TicketId(1000 + number), (Claim("api", 1),)), now=0)

    again = play.granted(play.ask("api", request_id="1"))
    assert not again.repeated
    assert again.lease > play.lease(first)
    assert play.abandon(first) == []


def test_tickets_are_forgotten_as_they_end() -> None:
    """Nothing is kept of a ticket once it was denied or abandoned, or once its lease has ended."""
    play = Play(semaphore("db", 1))
    register = play.engine._lending.register
    lease = play.lease(play.ask("db", request_id="1"))
    play.ask("db", request_id="1")
    gone = play.ask("db", request_id="2")
    play.ask("db", wait=0)
    play.ask("db", wait=SECOND)
    assert len(register) == 4

    play.abandon(gone)
    play.at(SECOND)
    assert len(register) == 2
    play.release(lease)
    assert len(register) == 0


def test_the_last_ten_thousand_leases_are_remembered() -> None:
    """The memory of ended leases is bounded: the oldest is forgotten, with its request id."""
    play = Play(semaphore("db", 2))
    first = play.lease(play.ask("db", request_id="first"))
    second = play.lease(play.ask("db", request_id="second"))
    play.release(first)
    play.release(second)
    for number in range(REMEMBERED - 1):
        # Without the stage: it checks and keeps everything, and this is about ten thousand of the same.
        ask = Acquire(TicketId(1000 + number), (Claim("db", 1),))
        grant = next(e for e in play.engine.handle(ask, now=0) if isinstance(e, Granted))
        play.engine.handle(Release((grant.lease,)), now=0)

    assert play.release(first, second)[0].state == "unknown"
    assert play.release(first, second)[1].state == "ended"
    assert play.denial(play.ask("db", request_id="second")).reason is Reason.LEASE_ENDED
    again = play.granted(play.ask("db", request_id="first"))
    assert not again.repeated
    assert again.lease > second


def test_the_id_of_a_settled_release_asks_anew() -> None:
    """Whoever gave the lease back had its answer, so nothing needs to be kept of the ask; the end is remembered."""
    play = Play(semaphore("db", 1), rate_limit("api"))
    leases = [play.lease(play.ask("db", request_id="1")), play.lease(play.ask("api", request_id="2"))]

    results = play.release(*leases, settled=True)

    assert [result.state for result in results] == ["released", "ended"]
    assert [result.state for result in play.release(*leases)] == ["ended", "ended"]
    for name, request_id in (("db", "1"), ("api", "2")):
        again = play.granted(play.ask(name, request_id=request_id))
        assert not again.repeated
        assert again.lease > max(leases)


def test_nothing_is_kept_of_what_was_settled() -> None:
    """Neither request ids nor the leases that they stood for nor their tickets."""
    play = Play(semaphore("db", 1, lease=SECOND), rate_limit("api"))
    register, leases = play.engine._lending.register, play.engine._lending.leases
    late = play.ask("db", request_id="1")
    spent = play.ask("api", request_id="2")
    play.at(SECOND)
    soon = play.ask("db", request_id="3")

    play.release(*map(play.lease, (late, spent, soon)), settled=True)

    assert len(register) == 0
    assert register.of_request("", "1") is None
    assert [memory[2] for memory in leases._ended.values()] == [None] * 3
    assert play.abandon(spent) == []


def test_a_settled_release_of_nothing_forgets_nothing() -> None:
    """What is unknown or has no request id changes nothing, and what was taken back is not the new ask of its id."""
    play = Play(semaphore("db", 2))
    taken_back = play.ask("db", request_id="1")
    plain = play.lease(play.ask("db"))
    play.abandon(taken_back)
    now = play.lease(play.ask("db", request_id="1"))

    play.release(play.lease(taken_back), LeaseId(99), plain, settled=True)

    assert play.lease(play.ask("db", request_id="1")) == now


def test_an_unsettled_release_keeps_the_id() -> None:
    """Its answer may have been lost, so a repeat is told that the lease has ended."""
    play = Play(semaphore("db", 1))
    play.release(play.lease(play.ask("db", request_id="1")))

    assert play.denial(play.ask("db", request_id="1")).reason is Reason.LEASE_ENDED
