"""Refusals: each is told, alone or in a number, and a flood of them in a few entries."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.access import UNKNOWN_CALLER, Client, Verb
from governor.core.types import MILLISECOND, SECOND, Claim, Denial, Nanos, Reason
from governor.refusals import APART, LONGEST, OTHERS, Refusals
from governor.testing.clock import FakeClock

DENIED = Reason.PERMISSION_DENIED


@dataclass(frozen=True)
class Told:
    """One entry."""

    at: Nanos
    client: str
    resources: tuple[str, ...]
    reason: Reason
    detail: str
    claims: tuple[Claim, ...]
    times: int


@dataclass
class Rig:
    """Those of a daemon whose clock is moved by hand, and all that was told of them."""

    clock: FakeClock = field(default_factory=FakeClock)
    told: list[Told] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.refusals = Refusals(self.clock, self._tell)

    def _tell(
        self, client: str, resources: tuple[str, ...], reason: Reason, detail: str, claims: Sequence[Claim], times: int
    ) -> None:
        self.told.append(Told(self.clock.time, client, resources, reason, detail, tuple(claims), times))

    def asks(self, resource: str = "thumbnails", client: str = "orders", *, times: int = 1) -> None:
        """For what it may not have."""
        for _ in range(times):
            denial = Client(client, resources=("mail",)).refusal(Verb.ACQUIRE, [resource])
            assert denial is not None
            self.refusals.refused(denial, (Claim(resource, 1),))

    def heard(self) -> list[Told]:
        """What was told since this was asked last."""
        told, self.told[:] = self.told.copy(), []
        return told


@pytest.fixture
def rig() -> Rig:
    """Nobody was refused anything."""
    return Rig()


def test_one_is_told_at_once(rig: Rig) -> None:
    """Whose, of what, why, and what was asked for; and nothing is left to be done."""
    rig.asks()

    claims = (Claim("thumbnails", 1),)
    assert rig.told == [Told(0, "orders", ("thumbnails",), DENIED, "may not acquire it", claims, 1)]
    assert rig.clock.pending == 0


def test_what_repeats_it_is_told_together(rig: Rig) -> None:
    """After a second, two, four, eight and then ten, for as long as it goes on."""
    for _ in range(60_000):
        rig.asks()
        rig.clock.advance(MILLISECOND)

    told = rig.heard()
    assert [each.at // SECOND for each in told] == [0, 1, 3, 7, 15, 25, 35, 45, 55]
    assert [each.times for each in told] == [1, 999, 2000, 4000, 8000, *[10_000] * 4]

    rig.clock.advance(60 * SECOND)
    assert [(each.at // SECOND, each.times) for each in rig.heard()] == [(65, 5000)]
    assert rig.clock.pending == 0


def test_a_flood_costs_nobody_a_timer_each(rig: Rig) -> None:
    """One runs, however much there is to be told, and none once all is told: an idle daemon is not woken."""
    for client in range(50):
        for resource in range(5):
            rig.asks(f"r{resource}", f"c{client}", times=3)
            rig.clock.advance(MILLISECOND)
            assert rig.clock.pending == 1
    assert len(rig.heard()) == 250
    rig.clock.advance(2 * SECOND)

    # On whole seconds.
    assert {(each.at, each.times) for each in rig.heard()} <= {(SECOND, 2), (2 * SECOND, 2)}
    assert rig.clock.pending == 0


def test_who_was_quiet_is_told_of_at_once_again(rig: Rig) -> None:
    """And what follows is again told after a second."""
    rig.asks(times=2)
    rig.clock.advance(SECOND)
    assert [each.times for each in rig.heard()] == [1, 1]
    rig.clock.advance(2 * SECOND + LONGEST)
    rig.asks(times=2)
    rig.clock.advance(SECOND)

    assert [each.at for each in rig.heard()] == [3 * SECOND + LONGEST, 4 * SECOND + LONGEST]


def test_who_comes_now_and_then_is_told_of_less_and_less_often(rig: Rig) -> None:
    """Every three seconds for ten minutes: not 200 times."""
    for _ in range(200):
        rig.asks()
        rig.clock.advance(3 * SECOND)
    rig.refusals.close()

    told = rig.heard()
    assert sum(each.times for each in told) == 200
    assert len(told) < 70


def test_which_are_alike(rig: Rig) -> None:
    """Those of one client, of one resource, for one reason, by one rule."""
    orders = Client("orders", max_permits=2, resources=("db",))
    beyond = Denial(Reason.CLIENT_LIMIT, expected="hold and wait for 2 permits", asked=1, limit=2, client="orders")
    for denial in (
        orders.refusal(Verb.ACQUIRE, ["x"]),
        orders.refusal(Verb.ACQUIRE, ["y"]),
        orders.refusal(Verb.READ, ["x"]),
        orders.refusal_of_all(Verb.ADMIN),
        Client("mail", resources=()).refusal(Verb.ACQUIRE, ["x"]),
    ):
        assert denial is not None
        rig.refusals.refused(denial)
    for claims in ((Claim("db", 1),), (Claim("db", 2), Claim("db", 1)), (Claim("db", 1), Claim("api", 1))):
        rig.refusals.refused(beyond, claims)
    rig.refusals.refused(beyond, (Claim("db", 9),))

    assert [(each.client, each.resources, each.detail, each.times) for each in rig.heard()] == [
        ("orders", ("x",), "may not acquire it", 1),
        ("orders", ("y",), "may not acquire it", 1),
        ("orders", ("x",), "may not look at it", 1),
        ("orders", (), "may not step in for the whole daemon", 1),
        ("mail", ("x",), "may not acquire it", 1),
        ("orders", ("db",), "may hold and wait for 2 permits at most", 1),
        ("orders", ("db",), "may hold and wait for 2 permits at most", 1),
        ("orders", ("db", "api"), "may hold and wait for 2 permits at most", 1),
    ]
    rig.clock.advance(SECOND)
    # What the last of them asked for.
    assert [(each.claims, each.times) for each in rig.heard()] == [((Claim("db", 9),), 1)]


def test_who_is_not_known_has_no_name(rig: Rig) -> None:
    """But a place from which he calls; and one that was known, and is no more, still has his name."""
    for origin in ("10.0.0.7", "a unix socket", "", "10.0.0.7"):
        rig.refusals.refused(UNKNOWN_CALLER, (), origin)
    rig.refusals.refused(Denial(Reason.UNAUTHENTICATED, client="orders"))

    assert [(each.client, each.reason, each.detail) for each in rig.heard()] == [
        ("", Reason.UNAUTHENTICATED, "from 10.0.0.7"),
        ("", Reason.UNAUTHENTICATED, "from a unix socket"),
        ("", Reason.UNAUTHENTICATED, ""),
        ("orders", Reason.UNAUTHENTICATED, "is no longer known by what it came with"),
    ]


def test_who_invents_names_is_told_of_without_them(rig: Rig) -> None:
    """A hundred thousand in ten seconds: so many of them by name, the rest in numbers; others are none of that."""
    for number in range(100_000):
        rig.asks(f"guess-{number}")
        rig.clock.advance(100_000)
    rig.asks(client="mail")
    rig.refusals.close()

    told = rig.heard()
    named = [each for each in told if each.resources and each.client == "orders"]
    others = [each for each in told if not each.resources]
    assert len(named) == APART
    assert {(each.client, each.detail) for each in others} == {("orders", OTHERS)}
    assert sum(each.times for each in told) == 100_001
    assert len(told) < APART + 10
    assert [each.resources for each in told if each.client == "mail"] == [("thumbnails",)]


def test_names_of_yesterday_make_room(rig: Rig) -> None:
    """Once they have been quiet, who asks for others is told of by name again."""
    for day in range(3):
        for number in range(APART + 5):
            rig.asks(f"{day}-{number}")
        rig.clock.advance(60 * SECOND)
        names = {name for each in rig.heard() for name in each.resources}
        assert names == {f"{day}-{number}" for number in range(APART)}


def test_clients_of_former_configs_are_forgotten(rig: Rig) -> None:
    """However often the config changes, there are no more names than in one of them, and of those not yet quiet."""
    for config in range(20):
        for number in range(256):
            rig.asks(client=f"{config}-{number}", times=2)
        rig.clock.advance(60 * SECOND)
        assert len(rig.refusals._clients) <= 2 * 256
    assert sum(each.times for each in rig.told) == 20 * 256 * 2


def test_a_name_as_long_as_a_message_is_cut(rig: Rig) -> None:
    """It is refused before anybody has looked at its length."""
    rig.asks("x" * 250_000)
    rig.asks("x" * 249_999, times=2)
    rig.refusals.close()

    assert [(each.resources, each.times) for each in rig.heard()] == [(("x" * 200 + "…",), 1), (("x" * 200 + "…",), 2)]


def test_the_last_are_told_at_the_end(rig: Rig) -> None:
    """Also by whoever says the last word and lets others still be refused; no timer is left."""
    rig.asks(times=5)
    rig.refusals.tell_all()
    rig.asks(times=2)
    rig.refusals.close()
    rig.refusals.close()

    assert [each.times for each in rig.heard()] == [1, 4, 2]
    assert rig.clock.pending == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["orders", "mail", ""]), st.integers(0, 30), st.integers(1, 50)),
        st.integers(0, 30 * SECOND),
    ),
    max_size=60,
)


@given(steps=STEPS)
def test_whatever_happens_each_is_told_once(steps: list[tuple[str, int, int] | int]) -> None:
    """In numbers that add up; by one timer, which runs only while there is something to tell, and not for long."""
    rig = Rig()
    truth: Counter[str] = Counter()
    for step in steps:
        if isinstance(step, int):
            rig.clock.advance(step)
        else:
            client, resource, times = step
            rig.asks(f"r{resource}", client, times=times)
            truth[client] += times
        told = Counter[str]()
        for each in rig.told:
            told[each.client] += each.times
        assert rig.clock.pending == (told != truth)
    rig.clock.advance(LONGEST + SECOND)
    assert rig.clock.pending == 0
    assert sum(each.times for each in rig.told) == truth.total()
