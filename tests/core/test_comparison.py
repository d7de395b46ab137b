"""What other declarations would change is found out some of it at a time, and comes to the same."""

import pytest

from governor.core import differences
from governor.core.ask import Ask
from governor.core.differences import AT_ONCE, Comparison, Difference, Fate
from governor.core.effects import Queued
from governor.core.engine import Engine
from governor.core.events import Acquire, Reconfigure, ReserveIds
from governor.core.types import Claim, LeaseId, TicketId
from tests.core.declared import semaphore


def engine(*names: str, permits: int = 2) -> Engine:
    """Semaphores of two, all of them lent as a whole."""
    made = Engine()
    made.handle(ReserveIds(LeaseId(10**6)), now=0)
    made.handle(Reconfigure(tuple(semaphore(name, permits) for name in names)), now=0)
    for number, name in enumerate(names, 1):
        made.handle(Acquire(TicketId(number), (Claim(name, permits),)), now=0)
    return made


def wait(on: Engine, ticket: int, *names: str, permits: int = 1) -> None:
    """One more in these lines."""
    claims = tuple(Claim(name, permits) for name in names)
    assert isinstance(on.handle(Acquire(TicketId(10_000 + ticket), claims), now=0)[0], Queued)


def steps(comparison: Comparison) -> int:
    """How many it takes."""
    count = 1
    while not comparison.step(0):
        count += 1
    return count


def test_no_step_takes_longer_than_one_line_with_those_it_is_linked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many resources there are and however many wait, and whichever of them change."""
    names = [f"r{number:03}" for number in range(3 * AT_ONCE)]
    made = engine(*names)
    for number, name in enumerate(names[:50]):
        for waiter in range(7):
            wait(made, 100 * number + waiter, name)
    copied = [0]

    def counted(*args: object) -> Ask:
        copied[-1] += 1
        return Ask(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(differences, "Ask", counted)
    comparison = made.compare(tuple(semaphore(name, 3) for name in names))
    while not comparison.step(0):
        copied.append(0)

    assert max(copied) == 7
    assert len(copied) >= 50 + 2
    assert [each.granted for each in comparison.differences] == [1] * 50 + [0] * (len(names) - 50)


def test_lines_that_are_linked_are_compared_together() -> None:
    """Whoever waits for two is granted or refused because of both; also by way of a third that does not change."""
    made = engine("a", "b", "c", "d")
    wait(made, 1, "a", "b")
    wait(made, 2, "b", "c", permits=2)

    found = made.compare((semaphore("a", 3), semaphore("b", 4), semaphore("c", 1), semaphore("d", 2)))
    assert steps(found) == 2
    assert [(each.resource, each.refused, each.granted) for each in found.differences] == [
        ("a", 0, 1),
        ("b", 0, 1),
        ("c", 1, 0),
    ]
    linked = made.compare((semaphore("a", 3), semaphore("b", 2), semaphore("c", 2), semaphore("d", 1)))
    steps(linked)
    assert [(each.resource, each.granted, each.over_limit) for each in linked.differences] == [
        ("a", 0, 0),
        ("d", 0, 1),
    ]


def test_what_has_changed_between_two_steps_is_seen_as_it_is() -> None:
    """Each is told as of when it was looked at; one that is gone by then is told as one that is added."""
    names = [f"r{number:03}" for number in range(AT_ONCE + 2)]
    made = engine(*names)
    comparison = made.compare(tuple(semaphore(name, 3) for name in names))
    assert not comparison.step(0)
    made.handle(Reconfigure(tuple(semaphore(name, 3) for name in names[:-1])), now=0)
    assert comparison.step(0)

    *others, last = comparison.differences
    assert [each.resource for each in others] == names[:AT_ONCE]
    assert (last.resource, last.what, last.leases) == (names[-1], Fate.ADDED, 1)


def test_the_order_is_that_of_the_declarations_and_then_of_what_is_removed() -> None:
    """Whichever of them were tried out together."""
    made = engine("a", "b", "c", "d")
    wait(made, 1, "d", "b")
    comparison = made.compare((semaphore("e", 1), semaphore("d", 1), semaphore("a", 1)))
    steps(comparison)

    told: list[Difference] = list(comparison.differences)
    assert [(each.resource, each.what) for each in told] == [
        ("e", Fate.ADDED),
        ("d", Fate.CHANGED),
        ("a", Fate.CHANGED),
        ("b", Fate.REMOVED),
        ("c", Fate.REMOVED),
    ]
