"""What a shell may look at without changing anything: one lease, and one place in line."""

from dataclasses import replace

from governor.core.events import Acquire, Quarantine, SetOverride, SetStanding
from governor.core.kinds.pool import MemberSpec
from governor.core.kinds.rate_limit import RateLimitSpec
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.snapshot import Held, LeaseView, MemberState, Peak, WaiterView, WindowView
from governor.core.types import SECOND, Claim, Grant, LeaseId, Outcome, Standing, TicketId
from tests.core.declared import declared, pool, rate_limit, semaphore
from tests.core.play import Play


def test_a_lease_is_shown_with_its_present_deadline() -> None:
    """Also after a renewal of another length."""
    play = Play(semaphore("db", 2, lease=10 * SECOND))
    lease = play.lease(play.ask(("db", 2), client="ann"))
    held = Held(
        lease,
        (Grant("db", 2),),
        deadline=10 * SECOND,
        client="ann",
        length=10 * SECOND,
        request_id="",
        labels=(),
        granted_for=10 * SECOND,
        granted_at=0,
        waited=0,
        orphaned=False,
    )
    assert play.engine.held(lease) == held
    play.at(SECOND)

    play.renew(lease, lease=60 * SECOND)

    assert play.engine.held(lease) == replace(held, deadline=61 * SECOND)


def test_a_request_id_leads_to_the_lease_that_lives() -> None:
    """Not to one that has ended, that was only spent, or that is another client's; nor to who waits."""
    play = Play(semaphore("db", 1, lease=10 * SECOND), rate_limit("api", (1, SECOND, 1)))
    lease = play.lease(play.ask("db", client="ann", request_id="r"))
    play.ask("db", client="ann", request_id="waits")
    play.ask("api", client="ann", request_id="spent")

    assert play.engine.lease_of("ann", "r") == lease
    for client, request_id in (("bob", "r"), ("ann", "waits"), ("ann", "spent"), ("ann", "other")):
        assert play.engine.lease_of(client, request_id) is None
    play.release(lease)
    assert play.engine.lease_of("ann", "r") is None


def test_a_renewal_that_does_not_say_takes_nothing_away() -> None:
    """Neither from one that says how long, nor when a reload has made the longest lease shorter."""
    play = Play(semaphore("db", 2, lease=10 * SECOND))
    longer, other = play.ask("db", lease=10 * SECOND), play.ask("db", lease=10 * SECOND)
    play.renew(play.lease(longer), lease=60 * SECOND)
    play.reconfigure(semaphore("db", 2, lease=5 * SECOND, max_lease=5 * SECOND))

    play.renew(play.lease(longer), play.lease(other))

    assert (play.deadline(longer), play.deadline(other)) == (60 * SECOND, 10 * SECOND)
    play.renew(play.lease(longer), lease=SECOND)
    assert play.deadline(longer) == SECOND, "one that says how long is obeyed"


def test_the_usual_lease_is_the_shortest_of_those_that_lend() -> None:
    """What a grant of the same gives that does not say for how long; of what is spent nothing is lent."""
    play = Play(
        semaphore("db", 2, lease=10 * SECOND),
        semaphore("disk", 2, lease=7 * SECOND),
        replace(rate_limit("api", (1, SECOND, 9)), lease=SECOND),
    )

    def usual(*names: str) -> int | None:
        return play.engine.usual_lease([Claim(name, 1) for name in names])

    assert usual("api", "db", "disk") == 7 * SECOND
    assert play.deadline(play.ask(("api", 1), ("db", 1), ("disk", 1))) == 7 * SECOND
    assert usual("db") == 10 * SECOND
    assert usual("api") is None
    assert usual("nothing") is None


def test_the_length_of_a_lease_is_what_a_renewal_would_give() -> None:
    """A reload may have made the longest lease shorter than it was granted for."""
    play = Play(semaphore("db", 1, lease=10 * SECOND))
    ticket = play.ask("db")
    play.reconfigure(semaphore("db", 1, lease=5 * SECOND, max_lease=5 * SECOND))

    held = play.held(ticket)

    assert held is not None
    assert held.length == 5 * SECOND
    assert play.renew(held.id)[0].remaining == 5 * SECOND


def test_of_many_leases_only_what_moves_is_shown() -> None:
    """In the order asked; what has ended or never was is left out."""
    play = Play(semaphore("db", 3, lease=10 * SECOND))
    gone, kept, ended = [play.lease(play.ask("db")) for _ in range(3)]
    play.release(ended)
    play.disconnect(gone)

    assert play.engine.deadlines([kept, ended, LeaseId(99), gone]) == [
        (10 * SECOND, False, kept),
        (2 * SECOND, True, gone),
    ]


def test_the_grace_of_a_lease_is_that_of_its_least_patient_resource() -> None:
    """What is not live has none, and neither has what is kept."""
    keep = declared("keep", SemaphoreSpec(3), on_disconnect=None)
    play = Play(keep, declared("soon", SemaphoreSpec(3), on_disconnect=SECOND), semaphore("db", 3))
    kept, both = play.lease(play.ask("keep")), play.lease(play.ask("keep", "soon", "db"))

    assert (play.engine.grace(kept), play.engine.grace(both)) == (None, SECOND)
    play.release(both)
    assert play.engine.grace(both) is None


def test_a_rate_limit_makes_no_renewal_shorter() -> None:
    """It lends nothing, so how long it would lend at most says nothing of a lease that covers it, too."""
    rate = declared("api", RateLimitSpec(()), lease=SECOND, max_lease=SECOND)
    play = Play(semaphore("db", 1, lease=10 * SECOND), rate)

    held = play.held(play.ask("api", "db"))

    assert held is not None
    assert held.length == 10 * SECOND
    assert play.renew(held.id)[0].remaining == 10 * SECOND


def test_what_does_not_live_is_not_held() -> None:
    """What ended, what was only spent and what never was."""
    play = Play(semaphore("db", 1), rate_limit("api"))
    ended = play.lease(play.ask("db"))
    play.release(ended)
    spent = play.lease(play.ask("api"))

    assert [play.engine.held(lease) for lease in (ended, spent, LeaseId(99))] == [None, None, None]


def test_a_look_ends_nothing() -> None:
    """A lease is held until a step has ended it; whoever looks knows the time."""
    play = Play(semaphore("db", 1, lease=10 * SECOND))
    ticket = play.ask("db")
    play.unseen_until(11 * SECOND)
    assert play.deadline(ticket) == 10 * SECOND

    play.at(11 * SECOND)

    assert play.held(ticket) is None


def test_a_place_rises_as_others_leave() -> None:
    """It is what an ask at this place would be told now."""
    play = Play(semaphore("db", 1))
    holder = play.ask("db")
    first, second, third = (play.ask("db") for _ in range(3))
    assert [play.engine.place(ticket, now=play.now) for ticket in (first, second, third)] == [(0, 0), (1, 0), (2, 0)]
    play.at(SECOND)

    play.abandon(first)

    assert play.engine.place(third, now=play.now) == (1, SECOND)
    play.release(play.lease(holder))
    assert play.engine.place(third, now=play.now) == (0, SECOND)


def test_a_place_knows_what_time_will_bring() -> None:
    """Those ahead go first, and as time passes the instant stays."""
    play = Play(rate_limit("api", (1, 10 * SECOND, 1)))
    play.ask("api")
    play.ask("api")
    ticket = play.ask("api")
    play.at(3 * SECOND)

    assert play.engine.place(ticket, now=play.now) == (1, 20 * SECOND)


def test_a_place_in_a_long_line_is_counted_up_to_a_bound() -> None:
    """To be asked again and again must stay cheap."""
    play = Play(semaphore("db", 1))
    tickets = [play.ask("db") for _ in range(151)]

    assert play.engine.place(tickets[100], now=0) == (99, 0)
    assert play.engine.place(tickets[-1], now=0) == (100, 0)


def test_only_who_waits_has_a_place() -> None:
    """A ticket that was granted, denied or abandoned, or never was, has none."""
    play = Play(semaphore("db", 1))
    granted, denied, gone = play.ask("db"), play.ask("db", wait=0), play.ask("db")
    play.abandon(gone)

    assert [play.engine.place(t, now=play.now) for t in (granted, denied, gone, TicketId(99))] == [None] * 4


def test_tickets_that_share_a_place_stand_where_it_stands() -> None:
    """They do not stand before one another."""
    play = Play(semaphore("db", 1))
    play.ask("db")
    first, second = play.ask("db", request_id="1"), play.ask("db", request_id="1")

    assert play.engine.place(first, now=0) == play.engine.place(second, now=0) == (0, 0)


class TestPeaks:
    """The most of each resource since somebody looked."""

    def test_what_was_in_use_at_once_and_is_given_back(self) -> None:
        """The most counts, not what is left of it; permits, not leases."""
        play = Play(semaphore("db", 8))
        first, second = play.lease(play.ask(("db", 3))), play.lease(play.ask(("db", 4)))
        play.release(first, second)
        play.ask("db")

        assert play.engine.peaks() == [Peak("db", 7, 0, 1, 0)]

    def test_the_next_look_begins_with_what_there_is(self) -> None:
        """Not with nothing: what is held all along is the most, too."""
        play = Play(semaphore("db", 2))
        lease = play.lease(play.ask(("db", 2)))
        play.ask("db")
        play.engine.peaks()

        assert play.engine.peaks() == [Peak("db", 2, 1, 2, 1)]
        play.release(lease)
        assert play.engine.peaks() == [Peak("db", 2, 1, 1, 0)]
        assert play.engine.peaks() == [Peak("db", 1, 0, 1, 0)]

    def test_who_waited_at_once(self) -> None:
        """In one line; those who have gone since are counted, and those who are granted at once never stood there."""
        play = Play(semaphore("db", 1), semaphore("other", 1))
        lease = play.lease(play.ask("db"))
        for _ in range(3):
            play.ask("db")
        play.release(lease)

        assert play.engine.peaks() == [Peak("db", 1, 3, 1, 2), Peak("other", 0, 0, 0, 0)]

    def test_of_a_rate_limit_what_was_granted_in_all(self) -> None:
        """Nothing of it is in use at any time, and what has come back meanwhile was granted all the same."""
        play = Play(rate_limit("api", (10, SECOND, 10)))
        play.ask(("api", 8))
        play.at(SECOND)
        play.ask(("api", 9))

        assert play.engine.peaks() == [Peak("api", 17, 0, 0, 0)]
        assert play.engine.peaks() == [Peak("api", 0, 0, 0, 0)]


def test_an_operator_sees_a_lease_as_it_is() -> None:
    """With how often it was renewed, and whether its holder is there; what has ended is not seen."""
    play = Play(semaphore("db", 2, lease=10 * SECOND))
    play.do(Acquire(TicketId(7), (Claim("db", 2),), "ann", request_id="r", labels=(("task", "x"),)))
    lease = LeaseId(1)
    seen = LeaseView(
        id=lease,
        client="ann",
        labels=(("task", "x"),),
        grants=(Grant("db", 2),),
        granted_at=0,
        deadline=10 * SECOND,
        waited=0,
        renewals=0,
        orphaned=False,
        request_id="r",
    )
    assert play.engine.lease(lease) == seen

    play.at(SECOND)
    play.renew(lease)
    play.renew(lease)
    play.disconnect(lease)

    assert play.engine.lease(lease) == replace(seen, deadline=3 * SECOND, renewals=2, orphaned=True)
    play.revoke(lease)
    assert play.engine.lease(lease) is None


def test_leases_are_listed_and_say_what_they_cover() -> None:
    """By rising id; what was only spent of a rate limit is no lease, and nothing covers what there is not."""
    play = Play(semaphore("db", 9), semaphore("disk", 9), semaphore("idle", 1), rate_limit("api", (9, SECOND, 9)))
    play.ask("db")
    play.ask("disk", "api")
    play.ask("disk", "db")
    play.ask("api")

    ids, covers = play.engine.lease_ids(), play.engine.covers
    assert ids == [1, 2, 3]
    assert [[lease for lease in ids if covers(lease, name)] for name in ("db", "disk", "api")] == [[1, 3], [2, 3], [2]]
    assert not any(covers(lease, name) for lease in ids for name in ("idle", "nowhere"))
    assert not covers(LeaseId(4), "api")


def test_waiters_are_listed_by_place() -> None:
    """One ticket of each; behind it all that share the place, and until when the most patient of them waits."""
    play = Play(semaphore("db", 1), semaphore("disk", 1))
    play.ask("db", "disk")
    first = play.ask("db", client="ann", request_id="r", wait=5 * SECOND)
    other = play.ask("disk", client="ben")
    play.at(SECOND)
    again = play.ask("db", client="ann", request_id="r", wait=9 * SECOND)

    waiting, waiter = play.engine.waiting, play.engine.waiter
    assert (waiting(None), waiting("db"), waiting("disk"), waiting("nowhere")) == ([first, other], [first], [other], [])
    seen = WaiterView("ann", (), (Claim("db", 1),), 0, 10 * SECOND, (first, again), "r")
    assert waiter(first) == waiter(again) == seen
    play.abandon(first)
    assert waiting("db") == [again]
    assert waiter(first) is None
    assert waiter(TicketId(1)) is None  # it has a lease


def test_each_member_is_shown_with_all_that_it_has_been_through() -> None:
    """Free, lent, kept out and for how long, or removed; in the declared order."""
    play = Play(pool("conn", [MemberSpec("a", (("host", "a1"),)), "b", "c", "d"]), semaphore("db", 1))
    a, b = (play.lease(play.ask("conn")) for _ in range(2))
    play.release(a, outcome=Outcome.BROKEN)
    play.ask("conn")
    play.do(Quarantine("conn", "d"))
    play.reconfigure(pool("conn", [MemberSpec("a", (("host", "a1"),)), "c", "d", "e"]), semaphore("db", 1))

    def shown() -> list[tuple[object, ...]]:
        return [
            (m.id, m.state, m.generation, m.lent, m.lendings, m.failures, m.until, m.by_operator)
            for m in play.engine.members("conn", now=play.now)
        ]

    assert shown() == [
        ("a", MemberState.QUARANTINED, 2, 0, 1, 1, SECOND, False),
        ("c", MemberState.LENT, 1, 1, 1, 0, None, False),
        ("d", MemberState.QUARANTINED, 1, 0, 0, 0, None, True),
        ("e", MemberState.FREE, 1, 0, 0, 0, None, False),
        ("b", MemberState.REMOVED, 1, 1, 1, 0, None, False),
    ]
    first = play.engine.members("conn", now=play.now)[0]
    assert (first.attributes, first.max_leases) == ((("host", "a1"),), 1)
    play.at(SECOND)
    assert shown()[0] == ("a", MemberState.FREE, 2, 0, 1, 1, None, False)
    play.release(b)
    assert len(shown()) == 4
    assert play.engine.members("db", now=0) == play.engine.members("nowhere", now=0) == ()


def test_each_window_says_what_it_has_and_when_there_is_more() -> None:
    """None when there is something now, and when there never will be."""
    play = Play(
        rate_limit("api", (2, SECOND, 3), (0, 60 * SECOND, 1)),
        rate_limit("b", (1, SECOND, 1)),
        semaphore("db", 1),
        pool("conn", ["a"]),
    )
    play.ask("b")

    assert play.engine.windows("api", now=0) == (
        WindowView(2, SECOND, 3, 3, None),
        WindowView(0, 60 * SECOND, 0, 0, None),
    )
    assert play.engine.windows("b", now=SECOND // 4) == (WindowView(1, SECOND, 1, 0, SECOND),)
    assert [play.engine.windows(name, now=0) for name in ("db", "conn", "nowhere")] == [(), (), ()]


def test_what_is_declared_is_not_what_is_in_force() -> None:
    """While there is an override; what is declared no more is not declared, though it is there."""
    spec = semaphore("db", 1)
    play = Play(spec)
    play.do(SetOverride("db", SemaphoreSpec(5), 10 * SECOND))
    play.ask(("db", 5))

    shown = play.resource("db")
    assert (shown.declared, shown.spec) == (spec, replace(spec, limit=SemaphoreSpec(5)))
    assert play.engine.declared("db") == spec
    play.reconfigure(semaphore("disk", 1))
    assert play.engine.declared("db") is None
    assert play.engine.declared("nowhere") is None
    assert play.resource("db").override is None


def test_a_request_id_is_known_while_anything_stands_for_it() -> None:
    """A place in line, a lease, or one that has ended; and a lease says whose it is while it lives."""
    play = Play(semaphore("db", 1))
    lease = play.lease(play.ask("db", client="ann", request_id="lives"))
    waiter = play.ask("db", client="ben", request_id="waits")

    knows, client_of = play.engine.knows, play.engine.client_of
    assert (knows("ann", "lives"), knows("ben", "waits"), knows("ben", "lives")) == (True, True, False)
    assert (client_of(lease), client_of(LeaseId(99))) == ("ann", None)
    play.abandon(waiter)
    play.release(lease)
    assert (knows("ann", "lives"), knows("ben", "waits"), client_of(lease)) == (True, False, None)


def test_what_is_declared_no_more_fades_while_anything_is_spent_of_it() -> None:
    """Whatever has its name meanwhile."""
    play = Play(rate_limit("api", (1, SECOND, 1)))
    play.reconfigure(semaphore("api", 1))
    assert not play.engine.fades("api")
    play.reconfigure(rate_limit("api", (1, SECOND, 1)))
    play.ask("api")

    play.reconfigure(semaphore("api", 1))

    assert play.engine.fades("api")
    assert [each.spec.kind for each in play.engine.fading(now=play.now)] == ["rate_limit"]


def test_what_of_an_ask_is_paused() -> None:
    """In the order of the ask; what drains, or is not there, is not."""
    play = Play(semaphore("a", 1), semaphore("b", 1), semaphore("c", 1))
    play.do(SetStanding("c", Standing.PAUSED))
    play.do(SetStanding("a", Standing.PAUSED))
    play.do(SetStanding("b", Standing.DRAINING))

    assert play.engine.paused([Claim(name, 1) for name in ("c", "b", "x", "a")]) == ("c", "a")
    assert play.engine.paused([Claim("b", 1)]) == ()


def test_under_which_request_id_a_lease_was_asked_for() -> None:
    """While it lives, and of one that has only spent; empty where there is none."""
    play = Play(semaphore("db", 2), rate_limit("api", (10, SECOND, 10)))
    lent = play.lease(play.ask("db", client="ann", request_id="r1"))
    spent = play.lease(play.ask("api", client="ann", request_id="r2"))
    plain = play.lease(play.ask("db"))

    assert [play.engine.request_id(lease) for lease in (lent, spent, plain, LeaseId(99))] == ["r1", "r2", "", ""]
