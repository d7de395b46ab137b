"""What becomes of a resource that is no longer declared, and of one that comes back."""

import pytest

from governor.core import resources
from governor.core.effects import Reconfigured
from governor.core.events import SetOverride
from governor.core.types import SECOND, Reason
from tests.core.declared import rate_limit, semaphore
from tests.core.play import Play

UNCHANGED = Reconfigured((), (), ())


def test_a_removed_resource_lives_until_its_last_lease() -> None:
    """It drains: renewals and releases work, it is shown last, and it is gone with the lease."""
    play = Play(semaphore("old", 2), semaphore("db", 1))
    lease = play.lease(play.ask("old"))

    assert play.reconfigure(semaphore("db", 1)) == Reconfigured((), (), ("old",))
    assert [(s.name, s.removed) for s in play.engine.snapshot(now=0).resources] == [
        ("db", False),
        ("old", True),
    ]
    assert play.denial(play.ask("old")).reason is Reason.UNKNOWN_RESOURCE
    play.at(SECOND)
    assert play.renew(lease)[0].remaining == 30 * SECOND
    assert play.reconfigure(semaphore("db", 1)) == UNCHANGED
    play.release(lease)
    assert [shown.name for shown in play.engine.snapshot(now=SECOND).resources] == ["db"]


def test_a_removed_resource_is_gone_when_its_last_lease_expires() -> None:
    """Nobody needs to release for it."""
    play = Play(semaphore("old", 2, lease=SECOND))
    play.ask("old")
    play.reconfigure()

    play.at(SECOND)

    assert play.engine.snapshot(now=SECOND).resources == ()


def test_a_removed_resource_without_leases_is_gone_at_once() -> None:
    """Nothing is left to drain, and a rate limit never has anything."""
    play = Play(semaphore("db", 1), rate_limit("api", (1, SECOND, 1)))
    play.ask("api")

    play.reconfigure()

    assert play.engine.snapshot(now=0).resources == ()


def test_who_waits_for_a_removed_resource_is_told_and_leaves_all_its_lines() -> None:
    """An ask for two resources ends when one of them goes, and those behind it in the other line move up."""
    play = Play(semaphore("old", 1), semaphore("db", 1))
    play.ask("old")
    both, behind = play.ask("old", "db"), play.ask("db")
    assert play.waits(behind)

    play.reconfigure(semaphore("db", 1))

    assert (play.denial(both).reason, play.denial(both).resource) == (Reason.UNKNOWN_RESOURCE, "old")
    assert play.has(behind)


def test_a_resource_that_comes_back_takes_up_its_state() -> None:
    """What was lent before it was removed still counts when it is declared again while draining."""
    play = Play(semaphore("db", 1))
    lease = play.lease(play.ask("db"))
    play.reconfigure()

    play.reconfigure(semaphore("db", 1))

    waiter = play.ask("db")
    assert play.waits(waiter)
    assert not play.resource("db").removed
    play.release(lease)
    assert play.has(waiter)


def test_a_rate_limit_that_is_removed_and_declared_again_is_not_refilled() -> None:
    """At once, later, after a restart in between, and with other numbers: what was spent is back when it would be."""
    spec = rate_limit("api", (4, 40 * SECOND, 4))
    play = Play(semaphore("db", 1), spec)
    play.ask(("api", 4))
    play.reconfigure(semaphore("db", 1))
    assert play.engine.resource("api", now=play.now) is None
    assert play.denial(play.ask("api")).reason is Reason.UNKNOWN_RESOURCE
    play.reconfigure(semaphore("db", 1), spec)
    assert play.resource("api").available == 0

    play.reconfigure(semaphore("db", 1))
    play.at(20 * SECOND)
    play.restart(semaphore("db", 1), now=play.now)
    play.reconfigure(semaphore("db", 1), rate_limit("api", (4, 40 * SECOND, 10)))
    assert play.resource("api").available == 8


def test_what_is_spent_of_a_removed_rate_limit_is_remembered_until_it_is_back() -> None:
    """No longer: then a new one is as good."""
    play = Play(rate_limit("api", (4, 40 * SECOND, 4)), rate_limit("idle", (1, SECOND, 1)))
    play.ask("api")
    play.reconfigure(semaphore("db", 1))
    assert play.engine.remembered() == ["db"]
    assert [kept.spec.name for kept in play.engine.fading(now=play.now)] == ["api"]
    play.at(10 * SECOND)
    play.reconfigure(semaphore("db", 2))

    assert play.engine.fading(now=play.now) == ()


def test_of_two_kinds_with_one_name_each_keeps_its_own() -> None:
    """While it is a semaphore, what was spent of the rate limit is remembered, over restarts too."""
    spec = rate_limit("api", (1, 40 * SECOND, 1))
    play = Play(spec)
    play.ask("api")
    play.reconfigure(semaphore("api", 1))
    assert play.engine.remembered() == ["api"]
    assert play.resource("api").available == 1
    remembered = play.engine.remember("api", now=play.now)
    assert remembered is not None
    assert remembered.spec.kind == "semaphore"
    play.restart(semaphore("api", 1), now=play.now)
    play.restart(semaphore("api", 1), now=play.now)
    play.reconfigure(spec)

    assert play.resource("api").available == 0


def test_an_override_is_no_way_to_refill_a_removed_limit() -> None:
    """It ends with the declaration, and so does what it allowed."""
    spec = rate_limit("api", (1, 40 * SECOND, 1))
    play = Play(spec)
    play.do(SetOverride("api", rate_limit("api", (10, SECOND, 10)).limit, 60 * SECOND))
    play.ask(("api", 10))
    play.reconfigure(semaphore("db", 1))
    play.reconfigure(semaphore("db", 1), spec)

    assert play.resource("api").available == 0


def test_only_so_many_removed_limits_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are back first are forgotten first."""
    monkeypatch.setattr(resources, "MAX_FADING", 2)
    specs = [rate_limit(f"api{n}", (1, n * SECOND, 1)) for n in (3, 1, 2)]
    play = Play(*specs)
    for spec in specs:
        play.ask(spec.name)
    play.reconfigure(semaphore("db", 1))

    assert [kept.spec.name for kept in play.engine.fading(now=play.now)] == ["api2", "api3"]
