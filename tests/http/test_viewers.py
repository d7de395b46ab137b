"""Who may watch, for how long, and what is kept for whom."""

import pytest

from governor.http import live as live_module
from governor.http.live import MAX_VIEWERS
from tests.core.declared import semaphore
from tests.http.watching import Watched, is_quiet, rows, told


@pytest.fixture
def scene() -> Watched:
    """A semaphore and a rate limit."""
    return Watched()


async def test_with_nobody_there_nothing_is_kept_and_nothing_wakes(scene: Watched) -> None:
    """Neither a timer nor rows; the next one is told everything anew."""
    first, second = scene.view(), scene.view()
    await told(first)
    first.close()
    assert scene.time.pending > 0
    second.close()
    second.close()

    assert scene.time.pending == 0
    assert scene.live.rows == {}
    events = await told(scene.view())
    assert [name for name, _ in events][:4] == ["head", "totals", "names", "rows"]
    assert set(dict(events)["totals"]) == {"resources", "leases", "waiters", "sessions", "now"}


async def test_one_who_comes_between_the_looks_is_told_what_is_known(scene: Watched) -> None:
    """It does not wait for the next one; and one that comes before the first look, for that."""
    first = scene.live.view()
    early = scene.live.view()
    assert is_quiet(first)
    assert is_quiet(early)
    scene.time.advance(0)
    assert rows(await told(first)) == rows(await told(early)) == ["db", "api"]

    late = scene.live.view()
    assert rows(await told(late)) == ["db", "api"]


async def test_a_last_viewer_who_leaves_in_the_midst_of_a_look_leaves_nothing(scene: Watched) -> None:
    """The look that was under way is not gone on with."""
    scene.declare(*(semaphore(f"r{number}", 4) for number in range(1000)))
    view = scene.live.view()
    # Only the first part: the next one is a timer of its own.
    scene.time._timers.pop()[2].callback()
    assert len(scene.live.rows) == 200
    view.close()

    assert scene.time.pending == 0
    assert scene.live.rows == {}


async def test_only_so_many_may_watch(scene: Watched) -> None:
    """There is room again as soon as one leaves."""
    views = [scene.live.view() for _ in range(MAX_VIEWERS)]
    assert scene.live.is_full
    views[3].close()
    assert not scene.live.is_full


async def test_a_viewer_hears_something_when_there_is_nothing_new(
    scene: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comment, by which it knows that the connection is there."""
    monkeypatch.setattr(live_module, "HEARTBEAT_SECONDS", 0.01)
    view = scene.view()
    await told(view)
    chunks = await view.more()

    assert chunks is not None
    assert list(chunks) == [b": nothing new\n\n"]


async def test_nobody_stays_for_ever(scene: Watched) -> None:
    """Whether or not there is news: after five minutes a viewer is told that it is over, which is all, and goes."""
    view = scene.view()
    await told(view)
    scene.time.time += live_module.STAY - 1
    scene.take("db")
    scene.look()
    assert [event for event, _ in await told(view)] == ["over"]
    assert await view.more() is None

    view.close()
    view = scene.view()
    assert "rows" in [event for event, _ in await told(view)]


async def test_a_closed_viewer_is_told_that_it_is_over(scene: Watched) -> None:
    """Also one that waits just then."""
    view = scene.view()
    await told(view)
    view.close()
    assert await view.more() is None
