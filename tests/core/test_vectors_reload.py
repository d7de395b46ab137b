"""What happens to those who hold and those who wait when the operator declares something else."""

from dataclasses import replace

from governor.core.effects import Denied, Reconfigured, ReconfigureRefused
from governor.core.types import SECOND, LeaseId, Reason
from tests.core.declared import pool, rate_limit, semaphore
from tests.core.play import Play

UNCHANGED = Reconfigured((), (), ())


def test_a_higher_burst_keeps_what_was_spent() -> None:
    """Of 100 with 40 left, 200 leaves 140: what is spent stays spent."""
    play = Play(rate_limit("api", (100, 100 * SECOND, 100)))
    play.ask(("api", 60))
    assert play.resource("api").available == 40

    play.reconfigure(rate_limit("api", (100, 100 * SECOND, 200)))

    assert play.resource("api").available == 140


def test_a_lower_burst_leaves_no_less_than_nothing() -> None:
    """Of 100 with 40 left, 50 leaves nothing for now, and never a negative number."""
    play = Play(rate_limit("api", (100, 100 * SECOND, 100)))
    play.ask(("api", 60))

    play.reconfigure(rate_limit("api", (100, 100 * SECOND, 50)))

    assert play.resource("api").available == 0
    play.at(200 * SECOND)
    assert play.resource("api").available == 50


def test_the_same_file_twenty_times_changes_nothing() -> None:
    """Neither what is spent nor who waits is touched."""
    specs = (rate_limit("api", (100, 100 * SECOND, 100)), semaphore("db", 1), pool("conn", ["a"]))
    play = Play(*specs)
    play.ask(("api", 60))
    play.ask("db")
    waiter = play.ask("db")
    before = play.engine.snapshot(now=0)

    for _ in range(20):
        assert play.reconfigure(*specs) == UNCHANGED

    assert play.engine.snapshot(now=0) == before
    assert play.waits(waiter)


def test_another_order_in_the_file_is_shown_and_changes_nothing_else() -> None:
    """Resources are shown in the order of the config."""
    play = Play(semaphore("a", 1), semaphore("b", 1))

    assert play.reconfigure(semaphore("b", 1), semaphore("a", 1)) == UNCHANGED
    assert [shown.name for shown in play.engine.snapshot(now=0).resources] == ["b", "a"]


def test_a_faster_rate_serves_a_waiter_sooner() -> None:
    """The time of whoever waits is computed anew when the rate changes under it."""
    play = Play(rate_limit("api", (1, 10 * SECOND, 1)))
    play.ask("api")
    waiter = play.ask("api", wait=30 * SECOND)
    assert play.engine.next_deadline() == 10 * SECOND

    play.at(SECOND)
    play.reconfigure(rate_limit("api", (1, 2 * SECOND, 1)))
    play.at(5 * SECOND)

    assert play.granted(waiter).waited <= 3 * SECOND


def test_a_slower_rate_serves_a_waiter_later() -> None:
    """A waiter is not granted at the time that the old rate would have given."""
    play = Play(rate_limit("api", (1, 10 * SECOND, 1)))
    play.ask("api")
    waiter = play.ask("api", wait=30 * SECOND)

    play.reconfigure(rate_limit("api", (1, 20 * SECOND, 1)))

    play.at(20 * SECOND - 1)
    assert play.waits(waiter)
    play.at(20 * SECOND)
    assert play.has(waiter)


def test_a_waiter_that_became_hopeless_is_told_at_its_deadline() -> None:
    """A slower rate does not cut short the wait that was promised."""
    play = Play(rate_limit("api", (1, 10 * SECOND, 1)))
    play.ask("api")
    waiter = play.ask("api", wait=15 * SECOND)

    play.reconfigure(rate_limit("api", (1, 20 * SECOND, 1)))
    play.at(15 * SECOND - 1)
    assert play.waits(waiter)
    play.at(15 * SECOND)

    assert play.denial(waiter).reason is Reason.WAIT_OVER


def test_growing_wakes_in_the_same_step() -> None:
    """Whoever can be served by the larger number is served by the step that declares it."""
    play = Play(semaphore("db", 1))
    play.ask("db")
    waiters = [play.ask("db") for _ in range(3)]

    play.reconfigure(semaphore("db", 3))

    assert [play.waits(waiter) for waiter in waiters] == [False, False, True]


def test_a_limit_lifted_altogether_serves_everybody() -> None:
    """Unlimited is a legal value, also later."""
    play = Play(semaphore("db", 1))
    play.ask("db")
    waiters = [play.ask("db") for _ in range(3)]

    play.reconfigure(semaphore("db", None))

    assert not any(play.waits(waiter) for waiter in waiters)
    assert play.resource("db").in_use == 4


def test_shrinking_admits_nobody_until_below() -> None:
    """From 3 held to a limit of 1: the first two releases serve nobody, the third does."""
    play = Play(semaphore("db", 3))
    leases = [play.lease(play.ask("db")) for _ in range(3)]
    waiter = play.ask("db")
    play.reconfigure(semaphore("db", 1))
    assert play.resource("db").over_limit == 2

    play.release(leases[0])
    play.release(leases[1])
    assert play.waits(waiter)
    assert play.resource("db").over_limit == 0
    play.release(leases[2])
    assert play.has(waiter)


def test_an_ask_that_became_impossible_is_told_and_holds_up_nobody() -> None:
    """The large ask at the head is refused as never, and the small one behind it moves on."""
    play = Play(semaphore("db", 5))
    held = play.lease(play.ask(("db", 3)))
    large, small = play.ask(("db", 4)), play.ask("db")

    play.reconfigure(semaphore("db", 3))

    denial = play.denial(large)
    assert (denial.reason, denial.asked, denial.limit) == (Reason.ABOVE_CAPACITY, 4, 3)
    assert play.waits(small)
    play.release(held)
    assert play.has(small)


def test_closing_a_semaphore_refuses_all_who_wait() -> None:
    """A limit of 0 is legal: nobody could ever be served."""
    play = Play(semaphore("db", 1))
    play.ask("db")
    waiter = play.ask("db")

    play.reconfigure(semaphore("db", 0))

    assert play.denial(waiter).reason is Reason.ABOVE_CAPACITY
    assert play.resource("db").over_limit == 1


def test_another_kind_is_refused_while_something_is_lent() -> None:
    """All or nothing: the rest of the new declaration does not come into force either."""
    play = Play(semaphore("db", 1), semaphore("gpu", 1))
    lease = play.lease(play.ask("db"))
    waiter = play.ask("db")
    before = play.engine.snapshot(now=0)

    refused = play.reconfigure(pool("db", ["a"]), semaphore("new", 1))

    assert isinstance(refused, ReconfigureRefused)
    assert len(refused.problems) == 1
    assert "db" in refused.problems[0]
    assert play.engine.snapshot(now=0) == before
    assert play.waits(waiter)
    play.release(lease)
    assert play.has(waiter)


def test_another_kind_is_refused_while_a_removed_one_drains() -> None:
    """A lease of the old kind is in the way, declared or not."""
    play = Play(semaphore("db", 1))
    lease = play.lease(play.ask("db"))
    play.reconfigure()

    assert isinstance(play.reconfigure(pool("db", ["a"])), ReconfigureRefused)
    play.release(lease)
    assert play.reconfigure(pool("db", ["a"])) == Reconfigured(("db",), (), ())


def test_another_kind_with_nothing_lent_tells_those_who_wait() -> None:
    """A changed kind is another resource of the same name: whoever waited for the old one is told that it is gone."""
    play = Play(rate_limit("api", (1, 10 * SECOND, 1)))
    play.ask("api")
    waiter = play.ask("api")

    assert play.reconfigure(semaphore("api", 1)) == Reconfigured(("api",), (), ("api",))

    assert play.denial(waiter).reason is Reason.UNKNOWN_RESOURCE
    assert play.granted(play.ask("api")).deadline is not None


def test_a_refund_goes_to_the_limit_that_was_spent_from() -> None:
    """Also if that was removed and declared again meanwhile: whoever waits there is granted it."""
    play = Play(semaphore("db", 2), rate_limit("api", (1, 10 * SECOND, 1)))
    gone = play.ask("db", "api")
    play.reconfigure(semaphore("db", 2))
    play.reconfigure(semaphore("db", 2), rate_limit("api", (1, 10 * SECOND, 1)))
    waiter = play.ask("api")
    assert play.waits(waiter)

    play.abandon(gone)

    assert play.granted(waiter).grants
    assert play.resource("api").available == 0


def test_new_bounds_hold_for_new_asks() -> None:
    """A shorter max_wait or a shorter line leaves alone whoever waits already."""
    spec = semaphore("db", 1)
    play = Play(spec)
    play.ask("db")
    waiters = [play.ask("db", wait=20 * SECOND) for _ in range(2)]

    play.reconfigure(replace(spec, max_wait=SECOND, max_waiters=2))

    assert play.denial(play.ask("db")).reason is Reason.LINE_FULL
    play.at(20 * SECOND - 1)
    assert all(play.waits(waiter) for waiter in waiters)
    play.at(20 * SECOND)
    short = play.ask("db")
    play.at(21 * SECOND)
    assert play.denial(short).reason is Reason.WAIT_OVER


def test_a_new_lease_length_holds_for_new_leases() -> None:
    """A lease keeps the length it was granted for."""
    spec = semaphore("db", 2, lease=10 * SECOND)
    play = Play(spec)
    old = play.lease(play.ask("db"))
    play.reconfigure(replace(spec, lease=20 * SECOND))

    assert play.renew(old)[0].remaining == 10 * SECOND
    assert play.granted(play.ask("db")).deadline == 20 * SECOND


def test_members_that_stay_keep_their_state() -> None:
    """A pool that gains a member keeps who is lent; the new one is lent at once to whoever waits."""
    play = Play(pool("conn", ["a"]))
    first = play.ask("conn")
    waiter = play.ask("conn")

    play.reconfigure(pool("conn", ["a", "b"]))

    assert [member.id for member in play.granted(first).grants[0].members] == ["a"]
    assert [member.id for member in play.granted(waiter).grants[0].members] == ["b"]


def test_everybody_is_told_of_one_reload_in_the_order_of_the_line() -> None:
    """Those who wait for what is gone are told in the order in which they asked."""
    play = Play(semaphore("db", 1))
    play.ask("db")
    waiters = [play.ask("db") for _ in range(5)]
    seen = len(play.record)

    play.reconfigure()

    assert [e.ticket for _, e in play.record[seen:] if isinstance(e, Denied)] == waiters
    assert play.release(LeaseId(1))[0].state == "released"


def test_a_rate_limit_is_not_forgotten_for_another_kind_that_had_its_name_meanwhile() -> None:
    """What is spent of it is remembered until it is back, whatever the name stands for in between."""
    api = rate_limit("api", (1, 60 * SECOND, 2))
    play = Play(api)
    play.ask(("api", 2))
    for meanwhile in (semaphore("api", 1), pool("api", ["a"]), semaphore("other", 1)):
        play.reconfigure(meanwhile)

    play.reconfigure(api)

    assert play.resource("api").available == 0
