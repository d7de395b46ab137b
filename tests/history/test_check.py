"""The checker finds what is certainly wrong, and nothing that might be right."""

import pytest

from tests.history.check import check
from tests.history.log import Bound, Call, Declared, History, line, read

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
