"""The checker finds what is certainly wrong, and nothing that might be right."""

import pytest

from tests.history.check import check
from tests.history.log import NEVER, Bound, Call, Declared, History, line, read

DB = Declared({"db": Bound(1)})


def lent(
    lease: int,
    asked: int,
    answered: int,
    *,
    client: str = "ann",
    remaining: int | None = 100,
    request_id: str = "",
    claims: dict[str, int] | None = None,
    members: dict[str, list[str]] | None = None,
    outlives: int = 0,
    spare: int = 0,
    again: bool = False,
) -> Call:
    """A grant, as its client saw it."""
    return Call(
        client,
        "acquire",
        asked,
        answered,
        claims or {"db": 1},
        request_id,
        lease,
        "granted",
        remaining,
        members=members or {},
        outlives=outlives,
        spare=spare,
        again=again,
    )


def refused(asked: int, answered: int, why: str, request_id: str) -> Call:
    """An ask that came to nothing."""
    return Call("ann", "acquire", asked, answered, {"db": 1}, request_id, result=why)


def unanswered(asked: int, request_id: str) -> Call:
    """An ask that nobody answered."""
    return Call("ann", "acquire", asked, None, {"db": 1}, request_id)


def release(lease: int, asked: int, answered: int | None = None, result: str = "") -> Call:
    """Somebody gives it back, or tries to."""
    return Call("ann", "release", asked, answered, lease=lease, result=result)


def renew(
    lease: int, asked: int, answered: int | None = None, *, remaining: int | None = None, length: int | None = None
) -> Call:
    """Somebody renews it, or tries to."""
    result = "" if answered is None else "renewed"
    return Call("ann", "renew", asked, answered, lease=lease, result=result, remaining=remaining, length=length)


def dead(lease: int, asked: int, answered: int, result: str = "unknown") -> Call:
    """Somebody would renew it, but is told that there is none."""
    return Call("ann", "renew", asked, answered, lease=lease, result=result)


def gone(asked: int, lease: int | None = None) -> Call:
    """A client that was cut off."""
    return Call("ann", "gone", asked, lease=lease)


def died(asked: int, lease: int, boot: int = 0) -> Call:
    """A client that knows its daemon to be dead."""
    return Call("ann", "died", asked, lease=lease, boot=boot)


def found(*calls: Call, declared: tuple[Declared, ...] = (DB,)) -> list[str]:
    """The names of the rules that these calls break."""
    return [fault[: fault.index(":")] for fault in check(History(list(calls), list(declared)))]


@pytest.mark.parametrize(
    "calls",
    [
        (lent(1, 0, 10), lent(2, 20, 30)),
        (lent(1, 0, 30), lent(2, 0, 10)),
        (lent(1, 0, 10), renew(1, 50, 60, remaining=100), lent(2, 120, 130)),
        (lent(1, 0, 10, claims={"db": 2}),),
        (lent(1, 0, 10), renew(1, 15), lent(2, 90, 95)),
        (lent(1, 0, 10), renew(1, 15, 20, remaining=5), lent(2, 90, 95)),
    ],
    ids=[
        "one after the other",
        "at one time",
        "renewed",
        "more than there are",
        "renewed, perhaps",
        "renewed for less than it had",
    ],
)
def test_two_leases_on_one_permit_are_found(calls: tuple[Call, ...]) -> None:
    """While both are held for certain."""
    assert found(*calls) == ["I1"]


@pytest.mark.parametrize(
    "calls",
    [
        (lent(1, 0, 10), lent(2, 90, 100)),
        (lent(1, 0, 10), release(1, 20), lent(2, 21, 30)),
        (lent(1, 0, 10), gone(20), lent(2, 21, 30)),
        (lent(1, 0, 10), gone(20, lease=1), lent(2, 21, 30)),
        (lent(1, 0, 10), renew(1, 15, length=5), lent(2, 15, 20)),
        (lent(1, 0, 10), renew(1, 15, 40, remaining=5, length=5), lent(2, 15, 20)),
        (lent(1, 0, 10), renew(1, 11, 60, remaining=100), renew(1, 12, 50, remaining=8, length=8), lent(2, 13, 20)),
        (lent(1, 0, 10, remaining=None), lent(2, 11, 20)),
    ],
    ids=[
        "its time may be over",
        "somebody has set out to give it back",
        "its holder is gone",
        "it is given up",
        "it may be shorter now",
        "it is shorter now",
        "which renewal was the last is open",
        "nothing is lent",
    ],
)
def test_what_may_have_been_over_is_no_overlap(calls: tuple[Call, ...]) -> None:
    """What is not certain is not held against anybody."""
    assert found(*calls) == []


def test_whoever_is_gone_may_come_back_for_more() -> None:
    """What is granted later is his as anybody's."""
    assert found(gone(0), lent(1, 5, 10), lent(2, 20, 30)) == ["I1"]


def test_a_member_is_not_lent_to_two() -> None:
    """I2, though the pool as a whole has room."""
    pool = Declared({"conn": Bound(2, {"east": 1, "west": 1})})
    calls = [lent(n, 0, 10, claims={"conn": 1}, members={"conn": ["east"]}) for n in (1, 2)]

    assert found(*calls, declared=(pool,)) == ["I1"]
    calls[1].members["conn"] = ["west"]
    assert found(*calls, declared=(pool,)) == []


def test_after_a_shrink_what_was_lent_before_may_stay() -> None:
    """But nothing more may be granted; around the reload either number holds."""
    declared = (Declared({"db": Bound(2)}, 0, 50), Declared({"db": Bound(1)}, 40))
    first, second = lent(1, 0, 10, remaining=1000), lent(2, 20, 30, remaining=1000)

    assert found(first, second, declared=declared) == []
    assert found(first, lent(2, 45, 60), declared=declared) == []
    assert found(first, lent(2, 51, 60), declared=declared) == ["I1"]
    assert found(lent(1, 0, 10, claims={"gone": 1}), declared=declared) == ["I1"]
    assert found(lent(1, 0, 10, claims={"db": 9}), declared=(Declared({"db": Bound(None)}),)) == []


def test_a_rate_limit_that_grants_too_much_is_found() -> None:
    """I9, of any stretch from an ask to an answer; a burst, and what that time brings."""
    rate = Declared({"db": Bound(windows=[(1, 100, 2)])})

    def spent(*answered: int) -> list[str]:
        calls = [lent(n, at - 10, at, remaining=None) for n, at in enumerate(answered, 1)]
        return found(*calls, declared=(rate,))

    assert spent(10, 30, 110) == []
    assert spent(10, 30, 109) == []
    assert spent(10, 30, 99) == ["I9"]
    assert found(*[lent(n, 0, 1, remaining=None) for n in range(1, 9)], declared=(rate, DB)) == []


def test_a_rate_limit_that_a_reload_has_refilled_is_found() -> None:
    """I9: at most the largest burst that was in force, and what the rates of then have brought, or the last."""

    def window(since: int, until: int, permits: int, burst: int) -> Declared:
        return Declared({"db": Bound(windows=[(permits, 100, burst)])}, since, until)

    def spent(declared: tuple[Declared, ...], *answered: int) -> list[str]:
        calls = [lent(n, at, at, remaining=None) for n, at in enumerate(answered, 1)]
        return sorted(set(found(*calls, declared=declared)))

    lowered = (window(0, 100, 1, 2), window(100, 200, 1, 1), window(200, 900, 1, 2))
    assert spent(lowered, 90, 90, 190, 290) == []
    assert spent(lowered, 90, 90, 210, 220) == ["I9"]
    slower = (window(0, 100, 4, 1), window(90, 900, 1, 1))
    assert spent(slower, 75, 100, 200) == []
    assert spent(slower, 76, 100, 200) == ["I9"]
    assert spent(slower, 75, 100, 199) == ["I9"]
    removed = (window(0, 100, 1, 1), Declared({}, 90, 190), window(190, 900, 9, 1))
    assert spent(removed, 90, 190) == []
    assert spent(removed, 91, 190) == ["I9"]


def test_ids_that_do_not_rise_are_found() -> None:
    """I7, if one was known when the other was asked for; of those asked for at one time either may be the first."""
    plenty = Declared({"db": Bound(9)})

    assert found(lent(5, 0, 10), lent(4, 20, 30), declared=(plenty,)) == ["I7"]
    assert found(lent(5, 0, 10), lent(4, 5, 30), declared=(plenty,)) == []
    assert found(lent(5, 0, 10), unanswered(1, "1"), lent(4, 20, 30, request_id="1"), declared=(plenty,)) == []


def test_one_lease_for_two_is_found() -> None:
    """I7: an id is of one ask, unless it is the same ask again."""
    assert found(lent(1, 0, 10), lent(1, 20, 30)) == ["I7"]
    assert found(lent(1, 0, 10, request_id="1"), lent(1, 20, 30, request_id="2")) == ["I7"]
    assert found(lent(1, 0, 10, request_id="1"), lent(1, 20, 30, request_id="1")) == []


def test_two_leases_for_one_request_id_are_found() -> None:
    """I8, however long ago the first was; ids are of one client."""
    assert found(lent(1, 0, 10, request_id="1"), lent(2, 500, 510, request_id="1")) == ["I8"]
    assert found(lent(1, 0, 10, request_id="1"), lent(2, 500, 510, request_id="1", client="ben")) == []


@pytest.mark.parametrize("result", ["unknown", "ended"])
def test_a_lease_that_was_forgotten_is_found(result: str) -> None:
    """I12: its holder knows that he has it, and hears that he has not."""
    assert found(lent(1, 0, 10), dead(1, 50, 60, result)) == ["I12"]
    assert found(lent(1, 0, 10), release(1, 50, 60, result)) == ["I12"]
    assert found(lent(1, 0, 10), renew(1, 50, 60, remaining=100), dead(1, 140, 145, result)) == ["I12"]
    assert found(lent(1, 0, 10), dead(1, 90, 100, result)) == []
    assert found(lent(1, 0, 10), release(1, 50), release(1, 60, 70, result)) == []
    assert found(lent(1, 0, 10), gone(50), dead(1, 60, 70, result)) == []


def test_a_request_that_was_forgotten_is_found() -> None:
    """I12: whoever has the lease for certain asks once more and hears that it has ended."""
    first, again = lent(1, 0, 10, request_id="1"), refused(50, 60, "lease_ended", "1")

    assert found(first, again) == ["I12"]
    assert found(first, release(1, 20), again) == []
    assert found(first, refused(50, 60, "lease_ended", "2")) == []


def test_what_was_given_back_and_comes_back_is_found() -> None:
    """I6: a lease ends once."""
    back = release(1, 20, 30, "released")

    assert found(lent(1, 0, 10), back, release(1, 40, 50, "released")) == ["I6"]
    assert found(lent(1, 0, 10), back, renew(1, 40, 50, remaining=100)) == ["I6"]
    assert found(lent(1, 0, 10), back, release(1, 25, 50, "released")) == []


def test_a_log_survives_its_file() -> None:
    """Each call is a line, and a line that was cut off is none."""
    calls = [
        lent(1, 0, 10, request_id="1", members={"db": ["east"]}),
        unanswered(5, "2"),
        renew(1, 50, 60, remaining=100, length=100),
        gone(70),
        refused(80, 90, "none_free", ""),
    ]
    text = "".join(line(call) + "\n" for call in calls)

    assert list(read(text.splitlines(keepends=True))) == calls
    assert list(read(text[:-10].splitlines(keepends=True))) == calls[:-1]


@pytest.mark.parametrize("outlives", [30, NEVER])
def test_who_is_cut_off_has_it_for_as_long_as_he_was_told(outlives: int) -> None:
    """And no longer than its own time; by the longest that he had been told of by then."""
    end = min(100, 50 + outlives)
    lease = lent(1, 0, 10, outlives=outlives)

    assert found(lease, gone(50, 1), lent(2, end - 9, end - 1)) == ["I1"]
    assert found(lease, gone(50, 1), dead(1, end - 9, end - 1)) == ["I12"]
    assert found(lease, gone(50, 1), lent(2, end - 9, end), dead(1, end - 9, end)) == []
    again = lent(1, 30, 40, outlives=NEVER, request_id="1")
    lease.request_id = "1"
    assert found(lease, again, gone(50, 1), dead(1, 90, 99)) == ["I12"]
    assert found(lease, again, gone(39, 1), dead(1, 90, 99)) == (["I12"] if outlives == NEVER else [])


def test_who_comes_back_and_renews_is_not_cut_off_any_more() -> None:
    """If his renewal was answered; and the time of before is over with it, which may have been longer."""
    lease, cut = lent(1, 0, 10, outlives=10), gone(20, 1)

    assert found(lease, cut, renew(1, 25, 28, remaining=50), dead(1, 70, 74)) == ["I12"]
    assert found(lease, cut, renew(1, 25, 28, remaining=50), dead(1, 70, 75)) == []
    assert found(lease, cut, renew(1, 25), dead(1, 30, 31)) == []
    assert found(lease, renew(1, 15, 28, remaining=50), cut, dead(1, 30, 31)) == []


def test_who_knows_that_the_daemon_is_dead_has_the_grace_that_it_promised() -> None:
    """Once, until another has renewed it; if nothing may have cut that off, and it was not over by then."""
    lease = lent(1, 0, 10, spare=50)

    assert found(lease, died(90, 1), dead(1, 140, 149)) == ["I12"]
    assert found(lease, died(90, 1), lent(2, 140, 149)) == ["I1"]
    assert found(lease, died(90, 1), dead(1, 140, 150)) == []
    assert found(lease, died(100, 1), dead(1, 101, 102)) == []
    assert found(lease, died(90, 1), died(120, 1), died(120, 1, boot=1), dead(1, 150, 160)) == []
    assert found(lease, died(90, 1, boot=1), dead(1, 101, 102)) == []
    assert found(lent(1, 0, 10, spare=50, again=True), died(90, 1), dead(1, 101, 102)) == []
    assert found(lease, renew(1, 80, length=30), died(90, 1), dead(1, 120, 130)) == []
    renewed = renew(1, 110, 115, remaining=100)
    renewed.boot, renewed.spare = 1, 20
    assert found(lease, died(90, 1), renewed, died(200, 1, boot=1), dead(1, 220, 229)) == ["I12"]
    assert found(lease, died(90, 1), renewed, died(200, 1, boot=1), dead(1, 220, 230)) == []


def test_a_renewal_that_gives_less_than_was_granted_is_found() -> None:
    """Or nothing; unless so much may be lent no more, by what was declared then, or last of what is gone."""

    def bounds(max_lease: int) -> dict[str, Bound]:
        return {"db": Bound(1, max_lease=max_lease)}

    def renewed(remaining: int | None, *declared: Declared) -> list[str]:
        call = renew(1, 50, 60, remaining=remaining)
        call.result = call.result if remaining else "refused"
        return found(lent(1, 0, 10), call, declared=declared)

    assert renewed(100, Declared(bounds(100))) == []
    assert renewed(99, Declared(bounds(100))) == ["I12"]
    assert renewed(None, Declared(bounds(100))) == ["I12"]
    assert renewed(None, Declared({"db": Bound(1)})) == []
    lowered = (Declared(bounds(100), 0, 60), Declared(bounds(80), 60))
    assert renewed(80, *lowered) == []
    assert renewed(79, *lowered) == ["I12"]
    assert renewed(80, Declared(bounds(100), 0, 60), Declared(bounds(80), 61)) == ["I12"]
    assert renewed(80, Declared(bounds(80), 0, 40), Declared({}, 40)) == []
    assert renewed(80, Declared(bounds(100), max_lease=80)) == []


def test_a_wait_that_is_over_too_soon_is_found() -> None:
    """By what may have been declared until its client heard that it waits; of the first that asked for it."""
    declared = (Declared({"db": Bound(1, max_wait=50)}, 0, 30), Declared({"db": Bound(1, max_wait=20)}, 30))

    def waited(answered: int, queued: int | None, wait: int | None = None) -> list[str]:
        call = refused(0, answered, "wait_over", "1")
        call.queued, call.wait = queued, wait
        return found(call, declared=declared)

    assert waited(49, 29) == ["told"]
    assert waited(50, 29) == []
    assert waited(20, 30) == []
    assert waited(19, 30) == ["told"]
    assert waited(19, None) == []
    assert waited(10, 29, wait=10) == []
    assert waited(9, 29, wait=10) == ["told"]
    repeat = refused(20, 21, "wait_over", "1")
    repeat.queued = 20
    assert found(unanswered(0, "1"), repeat, declared=declared) == []


def test_what_was_spent_once_is_not_lent_when_it_is_a_semaphore() -> None:
    """A rate limit may become one while leases live that have spent of it."""
    api = Declared({"api": Bound(windows=[(1, 10, 1)], spent=True), "db": Bound(9)}, 0, 50)
    later = Declared({"api": Bound(1), "db": Bound(9)}, 50)
    both, one = {"api": 1, "db": 1}, {"api": 1}

    assert found(lent(1, 0, 10, claims=both), lent(2, 60, 70, claims=one), declared=(api, later)) == []
    assert found(lent(1, 51, 55, claims=both), lent(2, 60, 70, claims=one), declared=(api, later)) == ["I1"]
