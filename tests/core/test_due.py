"""What a shell that keeps one timer has to know: whether it still comes in time."""

from governor.core.types import SECOND
from tests.core.declared import semaphore
from tests.core.play import Play


def test_what_is_due_is_never_missed() -> None:
    """With a lease that ends at 30 s, something is due before 31 s and nothing before 30 s."""
    play = Play(semaphore("jobs", 1, lease=30 * SECOND))
    play.ask("jobs")

    assert not play.engine.due_before(30 * SECOND)
    assert play.engine.due_before(30 * SECOND + 1)


def test_what_was_due_may_be_told_until_somebody_looks() -> None:
    """A lease that was given back leaves its instant behind: coming then is in vain, not wrong."""
    play = Play(semaphore("jobs", 1, lease=30 * SECOND))
    play.ask("jobs")
    play.release(play.engine.last_id)

    assert play.engine.due_before(30 * SECOND + 1)
    assert play.engine.next_deadline() is None
    assert not play.engine.due_before(30 * SECOND + 1)
