"""What a client with caps has is counted, whatever happens to it, and never more than its caps."""

import random

import pytest

from governor.access import Client
from governor.allowance import Allowances, _Has
from governor.config.clients import asked_at
from governor.core.effects import Granted, Queued
from governor.core.engine import Engine
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.resource import ResourceSpec
from governor.core.types import MILLISECOND, SECOND, Claim, LeaseId, Reason
from governor.driver import Driver
from governor.testing.clock import FakeClock
from governor.units import Rate

SPECS = (
    ResourceSpec("sem", SemaphoreSpec(6), 30 * SECOND, 60 * SECOND, 2 * SECOND, 30 * SECOND, 100),
    ResourceSpec("other", SemaphoreSpec(3), 30 * SECOND, 60 * SECOND, 2 * SECOND, 30 * SECOND, 100),
    ResourceSpec("rate", RateLimitSpec((Window(5, SECOND, 5),)), 30 * SECOND, 60 * SECOND, 2 * SECOND, 30 * SECOND, 9),
)
CAPPED = Client("capped", max_permits=4, max_waiters=2)


class Scene:
    """An engine, and clients that ask it under their caps."""

    def __init__(self, *clients: Client) -> None:
        self.clock = FakeClock()
        self.driver = Driver(Engine(), self.clock)
        self.driver.reserve_ids(LeaseId(1_000_000))
        self.driver.reconfigure(SPECS)
        self.allowances = Allowances(self.driver)
        self.allowances.declare(clients)

    def ask(self, client: Client, *claims: Claim, request_id: str = "") -> Reason | Granted | Queued:
        """Ask if that is allowed; what came of it."""
        known = bool(request_id) and self.driver.knows(client.name, request_id)
        denial = None if known else self.allowances.refusal(client, claims)
        if denial is not None:
            return denial.reason
        answer = self.driver.ask(claims, client=client.name, request_id=request_id)
        if isinstance(answer, Queued):
            self.driver.tell(answer.ticket, lambda _answer: None)
        return answer if isinstance(answer, (Granted, Queued)) else answer.denial.reason

    def has(self, client: Client) -> tuple[int, int]:
        """Permits and waiters, as counted."""
        has: _Has = self.allowances._has[client.name]
        return has.permits, has.waiters

    def really_has(self, client: Client) -> tuple[int, int]:
        """The same, by looking at everything."""
        leases = [self.driver.lease(lease) for lease in self.driver.lease_ids()]
        held = sum(grant.permits for view in leases if view and view.client == client.name for grant in view.grants)
        lines = [self.driver.waiter(ticket) for ticket in self.driver.waiting(None)]
        places = [view for view in lines if view and view.client == client.name]
        return held + sum(claim.permits for view in places for claim in view.claims), len(places)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_counted_is_what_there_is(seed: int) -> None:
    """Over any history of asks, releases, ends, withdrawals, reloads and time; and never above the caps."""
    chance = random.Random(seed)
    free = Client("free")
    scene = Scene(CAPPED, free)
    tickets: list[Queued] = []
    for step in range(300):
        match chance.randrange(8):
            case 0 | 1 | 2:
                client = chance.choice([CAPPED, CAPPED, free])
                names = chance.sample(["sem", "other", "rate"], chance.choice([1, 1, 2]))
                claims = [Claim(name, chance.randint(1, 3)) for name in names]
                request_id = f"r{chance.randrange(20)}" if chance.random() < 0.3 else ""
                answer = scene.ask(client, *claims, request_id=request_id)
                if isinstance(answer, Queued):
                    tickets.append(answer)
            case 3 | 4:
                leases = scene.driver.lease_ids()
                if leases:
                    scene.driver.release((chance.choice(leases),), settled=chance.random() < 0.5)
            case 5:
                scene.clock.advance(chance.choice([MILLISECOND, SECOND, 20 * SECOND]))
            case 6:
                if tickets:
                    scene.driver.abandon(tickets.pop(chance.randrange(len(tickets))).ticket)
            case _:
                if chance.random() < 0.2:
                    scene.allowances.declare([CAPPED, free])
        has = scene.has(CAPPED)
        assert has == scene.really_has(CAPPED), f"seed {seed}, step {step}"
        assert has[0] <= (CAPPED.max_permits or 0), f"seed {seed}, step {step}"
        assert has[1] <= (CAPPED.max_waiters or 0), f"seed {seed}, step {step}"


def test_more_than_it_may_ever_have_is_never_and_more_than_now_is_not_now() -> None:
    """Those are different words."""
    scene = Scene(CAPPED)

    assert scene.ask(CAPPED, Claim("sem", 5)) is Reason.PERMISSION_DENIED
    first = scene.ask(CAPPED, Claim("sem", 3))
    assert isinstance(first, Granted)
    assert scene.ask(CAPPED, Claim("sem", 2)) is Reason.CLIENT_LIMIT
    scene.driver.release((first.lease,))
    assert isinstance(scene.ask(CAPPED, Claim("sem", 2)), Granted)


def test_what_waits_counts_and_whoever_is_behind_is_not_held_up() -> None:
    """A client at its cap is refused, and does not stand at the head of a line until it has room itself."""
    scene = Scene(CAPPED)
    other = Client("free")
    for _ in range(2):
        assert isinstance(scene.ask(other, Claim("sem", 3)), Granted)
    assert isinstance(scene.ask(CAPPED, Claim("sem", 3)), Queued)
    assert scene.ask(CAPPED, Claim("sem", 2)) is Reason.CLIENT_LIMIT
    assert isinstance(scene.ask(CAPPED, Claim("sem", 1)), Queued)
    assert scene.has(CAPPED) == (4, 2)


def test_a_line_has_so_many_of_its_asks() -> None:
    """Others may wait all the same."""
    scene = Scene(client := Client("c", max_waiters=1))
    assert isinstance(scene.ask(Client("free"), Claim("sem", 6)), Granted)
    assert isinstance(scene.ask(client, Claim("sem", 1)), Queued)
    assert scene.ask(client, Claim("sem", 1)) is Reason.CLIENT_LIMIT
    assert isinstance(scene.ask(Client("free"), Claim("sem", 1)), Queued)


def test_an_ask_that_is_repeated_is_no_more() -> None:
    """A reply that was lost must cost nothing, also at the cap."""
    scene = Scene(CAPPED)
    first = scene.ask(CAPPED, Claim("sem", 4), request_id="a")
    again = scene.ask(CAPPED, Claim("sem", 4), request_id="a")

    assert isinstance(first, Granted)
    assert isinstance(again, Granted)
    assert again.lease == first.lease
    assert scene.has(CAPPED) == (4, 0)


def test_an_ask_that_is_repeated_while_it_waits_is_one() -> None:
    """It counts until the last of those who wait for it is gone, and leaves its client all else that it may have."""
    scene = Scene(CAPPED)
    holder = scene.ask(Client("free"), Claim("sem", 6))
    assert isinstance(holder, Granted)
    waits = [scene.ask(CAPPED, Claim("sem", 3), request_id="a") for _ in range(3)]
    tickets = [each.ticket for each in waits if isinstance(each, Queued)]
    assert (len(tickets), scene.has(CAPPED)) == (3, (3, 1))

    assert isinstance(scene.ask(CAPPED, Claim("other", 1)), Granted)
    for ticket in tickets[:2]:
        scene.driver.abandon(ticket)
    assert scene.has(CAPPED) == (4, 1)
    scene.allowances.declare([CAPPED])
    assert scene.has(CAPPED) == (4, 1)
    scene.driver.release((holder.lease,))
    assert scene.has(CAPPED) == (4, 0)


def test_it_asks_so_often_and_is_told_when_again() -> None:
    """To the nanosecond, as a rate limit."""
    scene = Scene(client := Client("c", max_rate=asked_at(Rate(2, SECOND))))
    assert [scene.allowances.too_fast(client) for _ in range(2)] == [None, None]
    denial = scene.allowances.too_fast(client)
    assert denial is not None
    assert (denial.reason, denial.retry_after) == (Reason.CLIENT_LIMIT, SECOND // 2)
    scene.clock.advance(SECOND // 2 - 1)
    assert scene.allowances.too_fast(client) is not None
    scene.clock.advance(1)
    assert scene.allowances.too_fast(client) is None


def test_a_reload_gives_no_new_rate() -> None:
    """Of a client that stays; what was asked for has been."""
    client = Client("c", max_rate=asked_at(Rate(2, SECOND)))
    scene = Scene(client)
    for _ in range(2):
        assert scene.allowances.too_fast(client) is None
    scene.allowances.declare([client, Client("new")])
    assert scene.allowances.too_fast(client) is not None


def test_nobody_with_caps_is_nothing_to_see() -> None:
    """What happens then costs nothing more than before."""
    scene = Scene(Client("free"))
    before = len(scene.driver.observers)
    scene.allowances.declare([CAPPED])
    assert len(scene.driver.observers) == before + 1
    scene.allowances.close()
    assert len(scene.driver.observers) == before
