"""Pools: whose turn it is, who is kept out, who is opened anew, and what a reload leaves alone.

Most scenarios are one line of moves; ``Desk`` says how to read them.
"""

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given, settings

from governor.core.kinds.pool import MemberSpec, Order, Pool, PoolSpec
from governor.core.snapshot import MemberCounts
from governor.core.types import Member, Nanos, Outcome
from tests.core.kinds.dumb_pool import DumbPool
from tests.core.kinds.histories import HISTORIES, History, State, Step, Take

OUTCOMES: Final = {"-": Outcome.OK, "!": Outcome.BROKEN, "?": Outcome.UNKNOWN}


def members(text: str) -> tuple[MemberSpec, ...]:
    """``a,b:2`` is a member ``a``, and a member ``b`` that two may share."""
    parts = [part.partition(":") for part in text.split(",") if part]
    return tuple(MemberSpec(name, max_leases=int(number or 1)) for name, _, number in parts)


def pool(
    text: str, order: Order = Order.LIFO, *, max_lifetime: Nanos | None = None, idle_timeout: Nanos | None = None
) -> PoolSpec:
    """A pool of these members, with a quarantine of 10, then 20, then 25."""
    return PoolSpec(members(text), order, 10, 25, max_lifetime, idle_timeout)


class Desk:
    """Lends from a pool and takes back, as it is told by moves.

    ``+a`` lends one permit, which must be ``a`` in its first generation; ``+a,b2`` lends two, the second one ``b`` in
    its second generation. ``x3`` asks for three, which must be refused, ``x`` for one. ``-a`` gives the oldest loan
    of ``a`` back as it should be, ``!a`` broken, ``?a`` without a word; ``~a`` undoes it. ``@7`` is the time from
    there on. ``=1/2/3`` must be how many are free, lent and quarantined. ``>a,b:2`` declares other members.
    """

    def __init__(self, spec: PoolSpec) -> None:
        self.spec = spec
        self.pool = Pool(spec, 0)
        self.now = 0
        self.loans: list[tuple[Member, Nanos]] = []

    def play(self, moves: str) -> None:
        """Make all the moves."""
        for move in moves.split():
            self.move(move[0], move[1:])
            assert self.pool.in_use == len(self.loans), move

    def move(self, verb: str, what: str) -> None:
        """Make one move."""
        match verb:
            case "+":
                expected = tuple(Member(name[0], (), int(name[1:] or 1)) for name in what.split(","))
                assert self.pool.can_take(len(expected), self.now)
                assert self.pool.take(len(expected), self.now) == expected
                self.loans += [(member, self.now) for member in expected]
            case "x":
                assert not self.pool.can_take(int(what or 1), self.now)
            case "-" | "!" | "?":
                self.pool.give_back(1, (self.pop(what)[0],), OUTCOMES[verb], self.now)
            case "~":
                member, taken = self.pop(what)
                self.pool.put_back(1, (member,), taken, self.now)
            case "@":
                self.now = int(what)
            case "=":
                assert self.pool.members(self.now) == MemberCounts(*map(int, what.split("/")))
            case ">":
                self.pool.reconfigure(replace(self.spec, members=members(what)), self.now)
            case _:
                raise AssertionError(verb)

    def pop(self, name: str) -> tuple[Member, Nanos]:
        """The oldest loan of this member."""
        loan = next(loan for loan in self.loans if loan[0].id == name)
        self.loans.remove(loan)
        return loan


SCENARIOS: Final[dict[str, tuple[PoolSpec, str]]] = {
    # --- whose turn it is
    "lifo lends what nobody had yet in the declared order": (pool("a,b,c"), "+a +b +c x"),
    "lifo lends what came back last": (pool("a,b,c"), "+a +b -a -b +b +a +c"),
    "lifo lends all of a shared member before the next": (pool("a:2,b"), "+a,a +b x -b -a +a +b"),
    "fifo lends what nobody had yet first": (pool("a,b,c", Order.FIFO), "+a -a +b -b +c -c +a"),
    "fifo lends what came back longest ago": (pool("a,b,c", Order.FIFO), "+a +b +c -b -c -a +b +c +a"),
    "least_used lends where the fewest are lent": (pool("a:2,b:2", Order.LEAST_USED), "+a +b +a +b x -b +b"),
    "least_used lends what was lent least ever": (pool("a,b,c", Order.LEAST_USED), "+a -a +b -b +c -c +a -a +b"),
    "what is lent now counts before what ever was": (pool("a:2,b:2", Order.LEAST_USED), "+a +b -b +b -b +b"),
    "least_used spreads one ask": (pool("a:2,b:2", Order.LEAST_USED), "+a,b,a x2 +b x"),
    "a permit is a slot": (pool("a:2,b:3"), "=2/0/0 x6 +a,a,b =1/1/0 x3 +b,b =0/2/0 x"),
    # --- a lending undone
    "lifo: undone, it is its turn again": (pool("a,b"), "+a +b -a -b +b ~b +b +a"),
    "fifo: undone, it is its turn again": (pool("a,b,c", Order.FIFO), "+a -a +b ~b +b +c +a"),
    "undone in any order, the turns are as before": (pool("a,b,c", Order.FIFO), "+a +b ~a ~b +a +b +c"),
    "least_used: undone, it was never lent": (pool("a,b", Order.LEAST_USED), "+a ~a +a -a +b"),
    "undone while it is quarantined, it stays so": (pool("a:2"), "+a +a !a ~a =0/0/1 x @10 +a2,a2"),
    # --- broken
    "broken, it is kept out and opened anew": (pool("a"), "+a !a =0/0/1 x @9 x @10 =1/0/0 +a2"),
    "others are lent meanwhile": (pool("a,b"), "+a !a +b x =0/1/1"),
    "back in, it may be lent to the last slot": (pool("a:2"), "+a +a !a >a =0/0/1 @10 =0/1/0 x -a +a2"),
    "who holds it keeps it": (pool("a:2"), "+a +a !a =0/0/1 -a =0/0/1 @10 =1/0/0"),
    "again and again, it is kept out for longer": (pool("a"), "+a !a @10 +a2 !a @29 x @30 +a3 !a @54 x @55 +a4"),
    "once it works, it starts over": (pool("a"), "+a !a @10 +a2 -a +a2 !a @19 x @20 +a3"),
    "without a word it does not": (pool("a"), "+a !a @10 +a2 ?a +a2 !a @29 x @30 +a3"),
    "what was opened before it broke breaks nothing anew": (pool("a:2"), "+a +a !a !a @9 x @10 +a2 !a @29 x @30 +a3"),
    "nor does it prove that it works": (pool("a:2"), "+a +a !a -a @10 +a2 !a @29 x @30 +a3"),
    "back in, it has the turn of when it came back": (pool("a,b"), "+a +b !a -b @10 +b +a2"),
    "with fifo as well": (pool("a,b", Order.FIFO), "+a +b !a -b @10 +a2 +b"),
    # --- recycling
    "at the end of its lifetime it is opened anew": (
        pool("a", max_lifetime=10),
        "@9 +a -a @10 +a2 -a @19 +a2 -a @20 +a3",
    ),
    "whoever holds it then keeps what was opened": (pool("a:2", max_lifetime=10), "+a @10 +a2 !a -a @11 +a2"),
    "broken, its life starts anew": (pool("a", max_lifetime=15), "@8 +a !a @18 +a2 -a @22 +a2 -a @23 +a3"),
    "idle for long, it is opened anew": (pool("a", idle_timeout=5), "+a @3 -a @7 +a -a @12 +a2"),
    "it is not idle while anybody holds it": (pool("a:2", idle_timeout=5), "+a @50 +a -a -a @54 +a"),
    "a lending undone did not interrupt its idleness": (pool("a", idle_timeout=5), "+a -a @4 +a ~a @5 +a2"),
    "and it is opened anew but once for it": (pool("a", idle_timeout=5), "@5 +a2 ~a +a2"),
    # --- reloads
    "a new member is lent, a removed one is not": (pool("a,b"), "+a >b,c +b x -a +c x"),
    "removed, it is not lent again": (pool("a,b"), "+a -a >b +b -b +b x"),
    "nobody is let in until enough is back": (pool("a,b"), "+a +b >b x =0/1/0 -a x -b +b"),
    "not even to other members": (pool("a,b"), "+a,b >c,d =2/0/0 x -a +c x -b +d"),
    "fewer slots take nothing back": (pool("a:3"), "+a,a,a >a x -a x -a x -a +a x"),
    "more slots are lent at once": (pool("a"), "+a x >a:2 +a x"),
    "declared again while it is lent, it is the same": (pool("a,b"), "+a >b >a,b +b x -a +a"),
    "removed, nobody cares how it comes back": (pool("a,b"), "+a >b !a =1/0/0 +b"),
    "declared again when it is back, it is another one": (pool("a,b"), "+a >b !a >a,b +a"),
    "as it is when nobody held it": (pool("a,b"), "+a !a >b >a,b +a"),
    "a quarantine outlives a reload": (pool("a,b"), "+a !a >a,b =1/0/1 +b x @10 +a2"),
    "also when it was removed for a while": (pool("a:2,b"), "+a +a >b !a >a:2,b =1/0/1 +b x @10 +a2 x"),
    "the turns outlive a reload": (pool("a,b,c"), "+a +b -a -b >c,b,a +b +a +c"),
    "among equals the newly declared order decides": (pool("a,b"), ">b,a +b +a"),
    # --- the ends
    "without members it is closed": (pool(""), "=0/0/0 x >a +a > x -a x"),
}


@pytest.mark.parametrize(("spec", "moves"), SCENARIOS.values(), ids=SCENARIOS.keys())
def test_scenario(spec: PoolSpec, moves: str) -> None:
    """Each move of a scenario turns out as it says."""
    Desk(spec).play(moves)


def test_a_reload_may_change_the_order() -> None:
    """From lifo to fifo, between two lendings."""
    desk = Desk(pool("a,b"))
    desk.play("+a +b -a -b")
    desk.pool.reconfigure(pool("a,b", Order.FIFO), 0)
    desk.play("+a +b")


def test_attributes_are_told_as_declared_when_it_was_lent() -> None:
    """New attributes are for the next lease, in a new generation; who holds a member keeps what it was told."""
    limit = PoolSpec((MemberSpec("a", (("endpoint", "db1"),), max_leases=2),)).build(0)
    (before,) = limit.take(1, 0)
    limit.reconfigure(PoolSpec((MemberSpec("a", (("endpoint", "db2"),), max_leases=2),)), 0)
    (after,) = limit.take(1, 0)
    limit.give_back(1, (before,), Outcome.BROKEN, 0)

    assert before == Member("a", (("endpoint", "db1"),), 1)
    assert after == Member("a", (("endpoint", "db2"),), 2)
    assert limit.members(0) == MemberCounts(free=1, lent=0, quarantined=0)


def test_one_ask_has_a_bounded_number_of_slots() -> None:
    """However many there are: each slot is lent by itself, and nobody else is served meanwhile."""
    limit = PoolSpec((MemberSpec("a", max_leases=1_000_000),)).build(0)

    assert limit.capacity == 1_000_000
    assert limit.largest == 1000


def test_a_member_that_is_not_known_can_be_given_back_or_undone() -> None:
    """It is not in use any more, and that is all there is to it."""
    limit = PoolSpec(members("a:3")).build(0)
    limit.take(2, 0)
    limit.give_back(1, (Member("z"),), Outcome.OK, 0)
    limit.put_back(1, (Member("z"),), 0, 0)

    assert limit.in_use == 0


def test_two_members_of_the_same_id_are_a_bug() -> None:
    """Whoever reads a declaration refuses it first."""
    with pytest.raises(AssertionError, match="same id"):
        PoolSpec(members("a,b,a")).build(0)


def test_a_member_without_slots_is_a_bug() -> None:
    """Whoever reads a declaration refuses it first."""
    with pytest.raises(AssertionError, match="nobody could hold"):
        PoolSpec(members("a:0")).build(0)


@pytest.mark.parametrize(
    ("moves", "permits", "wake_at", "not_before"),
    [
        pytest.param("", 4, 0, 0, id="all free"),
        pytest.param("+a", 4, None, 0, id="lent: it may come back at once, or never"),
        pytest.param("+a !a", 3, 0, 0, id="enough free beside a quarantine"),
        pytest.param("+a !a", 4, 10, 10, id="one quarantine to wait for"),
        pytest.param("+a !a +b,b @4 !b @5", 1, 5, 5, id="one free, two kept out"),
        pytest.param("+a !a +b,b @4 !b @5", 2, 10, 10, id="until the first quarantine is over"),
        pytest.param("+a !a +b,b @4 !b @5", 3, 14, 14, id="until both are over, one of b is lent still"),
        pytest.param("+a !a +b,b @4 !b @5", 4, None, 14, id="until both are over, if all is back by then"),
        pytest.param("+a !a @10", 4, 10, 10, id="over by now, though nobody has asked yet"),
        pytest.param("+a,b,b,c >c,d", 1, None, 0, id="lent beyond the capacity"),
    ],
)
def test_when_to_ask_again(moves: str, permits: int, wake_at: Nanos | None, not_before: Nanos) -> None:
    """By time alone, and whatever comes back."""
    desk = Desk(pool("a,b:2,c"))
    desk.play(moves)

    assert desk.pool.wake_at(permits, desk.now) == wake_at
    assert desk.pool.not_before(permits, 0, desk.now) == not_before


def test_a_member_may_break_for_ever() -> None:
    """The quarantine is capped and the count of failures with it: nothing grows."""
    limit = PoolSpec(members("a"), quarantine=1, max_quarantine=2**70).build(0)
    now = 0
    for _ in range(100):
        now = limit.not_before(1, 0, now)
        limit.give_back(1, limit.take(1, now), Outcome.BROKEN, now)

    assert limit.not_before(1, 0, now) == now + 2**63


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("text", ["a", "a:3", "a,b,c,d", "a:2,b:2"])
def test_the_turns_take_no_more_room_the_more_are_lent(order: Order, text: str) -> None:
    """Places that members have left are swept out."""
    spec = PoolSpec(members(text), order)
    limit = spec.build(0)
    for _ in range(200):
        limit.give_back(1, limit.take(1, 0), Outcome.OK, 0)
        limit.put_back(1, limit.take(1, 0), 0, 0)

    assert len(limit._turns._heap) <= 2 * len(spec.members) + 16


@given(HISTORIES["pool"])
def test_no_member_is_lent_beyond_its_max_leases(history: History) -> None:
    """I2: whoever is lent is declared, and has a slot that nobody else holds."""

    def watch(step: Step, state: State) -> None:
        assert isinstance(state.spec, PoolSpec)
        slots = {each.id: each.max_leases for each in state.spec.members}
        lent = [member.id for loan in state.loans for member in loan.members]
        before.append(len(lent))
        if isinstance(step, Take) and before[-1] > before[-2]:
            assert all(lent.count(member.id) <= slots[member.id] for member in state.loans[-1].members)

    before = [0]
    history.replay(watch)


@settings(max_examples=200)
@given(HISTORIES["pool"])
def test_it_lends_as_a_dumb_pool_does(history: History) -> None:
    """The same members in the same generations, and the same answers, as when every member is looked at each time."""
    assert isinstance(history.spec, PoolSpec)
    clever = State(history.spec, Pool(history.spec, 0), 0)
    dumb = State(history.spec, DumbPool(history.spec, 0), 0)
    for step in history.steps:
        step.happen(clever)
        step.happen(dumb)

        assert clever.loans == dumb.loans
        assert clever.limit.in_use == dumb.limit.in_use
        assert clever.limit.available(clever.now) == dumb.limit.available(dumb.now)
        assert clever.limit.members(clever.now) == dumb.limit.members(dumb.now)
        capacity = dumb.limit.capacity or 0
        for permits in {min(1, capacity), capacity // 2, capacity} - {0}:
            assert clever.limit.wake_at(permits, clever.now) == dumb.limit.wake_at(permits, dumb.now)
            assert clever.limit.not_before(permits, 0, clever.now) == dumb.limit.not_before(permits, 0, dumb.now)
