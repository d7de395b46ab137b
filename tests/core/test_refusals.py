"""What an ask may be refused for, what the refusal says, and which reason wins when there are several."""

import pytest

from governor.core.effects import Denied, LeaseState
from governor.core.events import Seal
from governor.core.types import MILLISECOND, SECOND, Claim, Denial, Nanos, Reason
from tests.core.declared import DAY, rate_limit, semaphore
from tests.core.play import Play

FINE = Claim("db", 1)


@pytest.mark.parametrize(
    ("claims", "field"),
    [
        ((), "claims"),
        (tuple(Claim(f"r{number}", 1) for number in range(65)), "claims"),
        ((Claim("db", 0),), "claims[0].permits"),
        ((FINE, Claim("gpu", -1)), "claims[1].permits"),
        ((FINE, Claim("gpu", 2**31)), "claims[1].permits"),
        ((FINE, Claim("gpu", 2**63)), "claims[1].permits"),
        ((FINE, Claim("gpu", 1), FINE), "claims[2].resource"),
        ((Claim("db", 1, key="tenant"),), "claims[0].key"),
        ((FINE, Claim("", 1)), "claims[1].resource"),
    ],
    ids=["none", "65", "zero", "negative", "2^31", "2^63", "twice", "key", "nameless"],
)
def test_malformed_claims_name_the_field(claims: tuple[Claim, ...], field: str) -> None:
    """The field is a path, and what was expected there is said."""
    play = Play(semaphore("db", None), semaphore("gpu", None))

    denial = play.denial(play.acquire(claims))

    assert (denial.reason, denial.field) == (Reason.MALFORMED, field)
    assert denial.expected


@pytest.mark.parametrize(
    ("wait", "lease", "field"),
    [(-1, None, "wait"), (None, 0, "lease"), (None, -SECOND, "lease"), (None, MILLISECOND - 1, "lease")],
)
def test_malformed_times_name_the_field(wait: Nanos | None, lease: Nanos | None, field: str) -> None:
    """A negative wait, or a lease below a millisecond."""
    play = Play(semaphore("db", 1))

    denial = play.denial(play.acquire((FINE,), wait=wait, lease=lease))

    assert (denial.reason, denial.field) == (Reason.MALFORMED, field)
    assert denial.expected


def test_the_bounds_themselves_are_allowed() -> None:
    """64 claims, 2^31 - 1 permits, a lease of a millisecond, a lease of exactly the longest."""
    play = Play(*(semaphore(f"r{number}", None) for number in range(64)), semaphore("db", 5))

    assert play.has(play.acquire(tuple(Claim(f"r{number}", 2**31 - 1) for number in range(64))))
    assert play.granted(play.ask("db", lease=MILLISECOND)).deadline == MILLISECOND
    assert play.granted(play.ask("db", lease=DAY)).deadline == DAY


def test_the_shortest_of_several_bounds_holds() -> None:
    """Over several resources, the lease, the longest lease and the longest wait are the smallest of each."""
    short = semaphore("short", 2, lease=5 * SECOND, max_lease=10 * SECOND, max_wait=3 * SECOND)
    play = Play(semaphore("db", 2), short)

    lease = play.granted(play.ask("db", "short"))
    assert lease.deadline == 5 * SECOND
    assert play.denial(play.ask("db", "short", lease=10 * SECOND + 1)).field == "lease"
    waiter = play.ask(("db", 2), ("short", 2))
    refused = play.renew(lease.lease, lease=10 * SECOND + 1)[0]
    assert refused.state is LeaseState.REFUSED
    assert refused.denial is not None
    assert (refused.denial.reason, refused.denial.field) == (Reason.MALFORMED, "lease")
    assert play.renew(lease.lease, lease=10 * SECOND)[0].state is LeaseState.RENEWED
    play.at(3 * SECOND)
    assert play.denial(waiter).reason is Reason.WAIT_OVER


def test_a_refused_renewal_leaves_the_lease_as_it_was() -> None:
    """Too short or too long changes nothing: the lease still ends when it would have."""
    play = Play(semaphore("db", 1, lease=10 * SECOND, max_lease=10 * SECOND))
    lease = play.lease(play.ask("db"))
    play.at(5 * SECOND)

    for length in (0, MILLISECOND - 1, -SECOND, 10 * SECOND + 1):
        assert play.renew(lease, lease=length)[0].state is LeaseState.REFUSED

    play.at(10 * SECOND - 1)
    assert play.resource("db").in_use == 1
    play.at(10 * SECOND)
    assert play.resource("db").in_use == 0


def test_the_order_in_which_reasons_are_looked_for() -> None:
    """Malformed before unknown, unknown before a long lease, that before never, and never before not now."""
    play = Play(semaphore("db", 2, max_waiters=0))
    play.ask(("db", 2))
    nonsense, unknown, too_many = Claim("db", 0), Claim("nowhere", 1), Claim("db", 3)

    def reason(*claims: Claim, lease: Nanos | None = None) -> Reason:
        return play.denial(play.acquire(claims, lease=lease)).reason

    assert reason(unknown, nonsense) is Reason.MALFORMED
    assert reason(too_many, unknown, lease=2 * DAY) is Reason.UNKNOWN_RESOURCE
    assert reason(too_many, lease=2 * DAY) is Reason.MALFORMED
    assert reason(too_many) is Reason.ABOVE_CAPACITY
    assert reason(FINE) is Reason.LINE_FULL

    play.drain()
    assert reason(unknown) is Reason.DRAINING


def test_a_full_line_refuses_at_once() -> None:
    """The bound of the line is the number of those who wait, and a free permit needs no place in it."""
    play = Play(semaphore("db", 1, max_waiters=2))
    play.ask("db")
    waiters = [play.ask("db") for _ in range(2)]

    full = play.denial(play.ask("db"))
    assert (full.reason, full.resource) == (Reason.LINE_FULL, "db")
    play.abandon(waiters[0])
    assert play.waits(play.ask("db"))


def test_no_line_at_all_still_grants_what_is_free() -> None:
    """With max_waiters 0 an ask is granted or refused, and with max_wait 0 likewise."""
    play = Play(semaphore("no-line", 1, max_waiters=0), semaphore("no-wait", 1, max_wait=0))

    assert play.has(play.ask("no-line"))
    assert play.denial(play.ask("no-line")).reason is Reason.LINE_FULL
    assert play.has(play.ask("no-wait"))
    assert play.denial(play.ask("no-wait", wait=SECOND)).reason is Reason.NONE_FREE


def test_a_full_line_of_one_resource_refuses_the_whole_ask() -> None:
    """All or nothing: a place in only one of two lines is of no use."""
    play = Play(semaphore("db", 1, max_waiters=0), semaphore("gpu", 1))
    play.ask("db")

    denial = play.denial(play.ask("gpu", "db"))

    assert (denial.reason, denial.resource) == (Reason.LINE_FULL, "db")
    assert play.resource("gpu").waiters == 0


def test_who_does_not_wait_gets_nothing_past_a_line() -> None:
    """What is free belongs to whoever waits for more of it."""
    play = Play(semaphore("db", 3))
    play.ask(("db", 2))
    play.ask(("db", 3))

    denial = play.denial(play.ask("db", wait=0))

    assert (denial.reason, denial.retry_after) == (Reason.NONE_FREE, None)


def test_hopeless_names_the_resource_that_is_late() -> None:
    """Of several resources the refusal names the one whose permits come too late."""
    play = Play(semaphore("db", 1), rate_limit("api", (1, 10 * SECOND, 1)))
    play.ask("api")

    denial = play.denial(play.ask("db", "api", wait=SECOND))

    assert (denial.reason, denial.resource, denial.retry_after) == (Reason.HOPELESS, "api", 10 * SECOND)
    assert play.resource("db").in_use == 0


def test_without_a_number_for_its_lease_a_newcomer_is_refused() -> None:
    """No number above the ceiling is given out, whether there is something free or not, and nothing is taken."""
    play = Play(semaphore("db", 2), ceiling=1)
    assert play.granted(play.ask("db")).lease == 1

    denial = play.denial(play.ask("db"))

    assert denial.reason is Reason.STATE_UNWRITABLE
    assert play.resource("db").in_use == 1


def test_without_numbers_at_all_nothing_is_granted() -> None:
    """A fresh engine may give out no number until some are reserved."""
    play = Play(semaphore("db", 1), ceiling=0)

    assert play.denial(play.ask("db")) == Denial(Reason.STATE_UNWRITABLE, expected="lease ids")
    play.do(Seal(sealed=True))
    assert play.denial(play.ask("db")) == Denial(Reason.STATE_UNWRITABLE)


def test_what_cannot_be_put_on_record_is_not_granted() -> None:
    """However many numbers there are; leases go on, and whoever waits is granted when it can be."""
    play = Play(semaphore("db", 1))
    lease = play.lease(play.ask("db"))
    waiter = play.ask("db")

    play.do(Seal(sealed=True))
    assert play.renew(lease)[0].state is LeaseState.RENEWED
    play.release(lease)
    play.reserve_ids(2**40)
    assert play.waits(waiter)
    assert play.denial(play.ask("db")).reason is Reason.STATE_UNWRITABLE

    play.do(Seal(sealed=False))
    assert not play.waits(waiter)


def test_who_waits_for_a_number_is_granted_when_there_are_more() -> None:
    """Those in line stay there, in order, while there is no number for them."""
    play = Play(semaphore("db", 2), semaphore("gpu", 1), ceiling=3)
    leases = [play.lease(play.ask("db")) for _ in range(2)]
    waiters = [play.ask("db") for _ in range(3)]
    play.ask("gpu")
    play.release(*leases)
    assert all(play.waits(waiter) for waiter in waiters)
    assert play.denial(play.ask("db")).reason is Reason.STATE_UNWRITABLE

    play.reserve_ids(4)
    assert [play.waits(waiter) for waiter in waiters] == [False, True, True]
    play.reserve_ids(10)
    assert [play.waits(waiter) for waiter in waiters] == [False, False, True]


def test_one_number_is_for_one_lease() -> None:
    """With one number and two lines that could use it, one of them moves."""
    play = Play(semaphore("a", 1), semaphore("b", 1), semaphore("c", 1), ceiling=3)
    leases = [play.lease(play.ask("a")), play.lease(play.ask("b"))]
    waiters = [play.ask("b"), play.ask("a")]
    play.ask("c")
    play.release(*leases)

    play.reserve_ids(4)

    assert sorted(play.waits(waiter) for waiter in waiters) == [False, True]


def test_a_wait_without_a_number_is_over_in_time() -> None:
    """Who waits for a number is told no at its deadline."""
    play = Play(semaphore("db", 1), semaphore("gpu", 1), ceiling=2)
    lease = play.lease(play.ask("db"))
    waiter = play.ask("db", wait=2 * SECOND)
    play.ask("gpu")
    play.release(lease)

    play.at(2 * SECOND)

    assert play.denial(waiter).reason is Reason.WAIT_OVER


def test_a_lower_ceiling_takes_nothing_back() -> None:
    """A ceiling only rises."""
    play = Play(semaphore("db", 2), ceiling=5)
    play.reserve_ids(1)

    assert play.has(play.ask("db"))
    assert play.has(play.ask("db"))


def test_every_refusal_tells_what_was_asked_and_how_long_it_waited() -> None:
    """Metrics count by these."""
    play = Play(semaphore("db", 1))
    play.ask("db")
    waiter = play.ask("db", wait=2 * SECOND)
    at_once = play.ask("db", "nowhere")
    play.at(2 * SECOND)

    for ticket, claims, waited in (
        (waiter, (FINE,), 2 * SECOND),
        (at_once, (FINE, Claim("nowhere", 1)), 0),
    ):
        answer = play.answer(ticket)
        assert isinstance(answer, Denied)
        assert (answer.claims, answer.waited) == (claims, waited)
