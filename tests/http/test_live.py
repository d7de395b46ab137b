"""What whoever watches is told, and when; on a clock that is moved by hand."""

from dataclasses import replace

import pytest

from governor.core.types import SECOND, Standing
from governor.history import BUCKET, BUCKETS
from governor.http import live as live_module
from tests.core.declared import pool, rate_limit, semaphore
from tests.http.watching import Watched, is_quiet, read, row, rows, told


@pytest.fixture
def scene() -> Watched:
    """A semaphore and a rate limit."""
    return Watched()


async def test_a_new_viewer_is_told_everything(scene: Watched) -> None:
    """The daemon, the totals, the names in their order, a row for each, their past; then that this is all."""
    scene.take("db", permits=3)
    scene.time.advance(BUCKET)
    events = await told(scene.view())

    assert [name for name, _ in events] == ["head", "totals", "names", "rows", "past", "done"]
    assert dict(events)["names"] == ["db", "api"]
    assert dict(events)["totals"] == {"resources": 2, "leases": 1, "waiters": 0, "sessions": 0, "now": 15_000}
    assert row(events, "db") == {
        "name": "db",
        "kind": "semaphore",
        "lends": True,
        "capacity": 4,
        "in_use": 3,
        "over": 0,
        "available": 1,
        "leases": 1,
        "waiters": 0,
        "max_waiters": 1000,
        "lease": 30_000,
        "max_wait": 30_000,
        "since": None,
        "standing": "open",
        "why": "",
        "removed": False,
        "override": None,
        "override_why": "",
        "quarantined": 0,
    }


async def test_then_only_what_has_changed(scene: Watched) -> None:
    """Once a second, and the rows of that; nothing when nothing has."""
    view = scene.view()
    await told(view)
    scene.look()
    assert is_quiet(view)

    scene.take("db")
    scene.take("db")
    assert is_quiet(view)
    scene.look()
    events = await told(view)

    assert [name for name, _ in events] == ["totals", "rows", "done"]
    assert rows(events) == ["db"]
    assert row(events, "db")["in_use"] == 2


async def test_time_alone_is_no_news_of_who_waits(scene: Watched) -> None:
    """Since when the first in line has waited stays the same; how long that is, the page counts by itself."""
    scene.take("db", permits=4)
    scene.wait("db")
    view = scene.view()
    since = row(await told(view), "db")["since"]
    assert since == 5000

    for _ in range(3):
        scene.look()
        assert is_quiet(view)


async def test_what_time_gives_back_is_news(scene: Watched) -> None:
    """A rate limit fills up by itself, and rests when it is full."""
    scene.declare(rate_limit("api", (2, SECOND, 4)))
    scene.take("api", permits=4)
    view = scene.view()
    seen = [row(await told(view), "api")["available"]]
    for _ in range(2):
        scene.look()
        seen.append(row(await told(view), "api")["available"])
    scene.look()

    assert seen == [0, 2, 4]
    assert is_quiet(view)


async def test_names_come_and_go_with_a_reload(scene: Watched) -> None:
    """A viewer is told what there is and forgets the rest; a removed resource is there while it is lent."""
    scene.take("db")
    view = scene.view()
    await told(view)
    scene.declare(semaphore("new", 1))
    scene.look()
    events = await told(view)

    assert dict(events)["names"] == ["new", "db"]
    assert sorted(rows(events)) == ["db", "new"]
    assert row(events, "db")["removed"] is True
    assert row(events, "db")["capacity"] == 0


async def test_what_operators_do_is_told(scene: Watched) -> None:
    """Pauses, drains and overrides; a capacity that has shrunk below what is lent; members that are kept out."""
    scene.declare(semaphore("db", 4), semaphore("other", 4), pool("members", ["a", "b"]))
    scene.take("db", permits=3)
    scene.driver.set_standing("db", Standing.PAUSED)
    scene.driver.set_standing("other", Standing.DRAINING)
    scene.driver.set_override("db", semaphore("db", 1).limit, 60 * SECOND)
    scene.driver.quarantine("members", "a", None)
    events = await told(scene.view())

    shown = row(events, "db")
    assert (shown["standing"], shown["capacity"], shown["over"], shown["override"]) == ("paused", 1, 2, 65_000)
    assert row(events, "other")["standing"] == "draining"
    assert row(events, "members")["quarantined"] == 1


async def test_a_refused_config_is_told_until_there_is_a_good_one(scene: Watched) -> None:
    """With its problems, and which one is in force since when."""
    view = scene.view()
    await told(view)
    good = scene.head
    scene.refuse("governor.yaml:2: no", "governor.yaml:3: neither")
    scene.look()
    config = dict(await told(view))["head"]["config"]
    assert config["problems"] == ["governor.yaml:2: no", "governor.yaml:3: neither"]
    assert (config["source"], config["since"], config["refused_at"]) == ("/etc/governor.yaml", 1.8e9, 1.8e9 + 60)

    scene.head = replace(good, state_problem="the disk is full", not_ready="the state cannot be written")
    scene.look()
    head = dict(await told(view))["head"]
    assert (head["config"]["problems"], head["state_problem"]) == ([], "the disk is full")
    assert head["not_ready"] == "the state cannot be written"

    scene.driver.drain()
    scene.look()
    assert dict(await told(view))["head"]["draining"] is True


async def test_the_past_comes_whole_and_then_by_the_bucket(scene: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resource of which nothing is said had nothing to say."""
    monkeypatch.setattr(live_module, "STAY", 3600 * SECOND)
    scene.take("db", permits=2, lease=3600 * SECOND)
    scene.time.advance(3 * BUCKET)
    view = scene.view()
    past = dict(await told(view))["past"]
    assert (past["from"], past["to"], past["more"]) == (0, 2, False)
    assert past["of"] == {"db": [[2, 2, 2], [0, 0, 0]]}

    scene.take("db", lease=3600 * SECOND)
    scene.time.advance(BUCKET)
    past = dict(await told(view))["past"]
    assert (past["from"], past["to"], past["of"]) == (3, 3, {"db": [[3], [0]]})

    scene.time.advance(100 * BUCKET)
    past = dict(await told(view))["past"]
    assert past["to"] - past["from"] + 1 == BUCKETS
    assert past["of"] == {"db": [[3] * BUCKETS, [0] * BUCKETS]}


async def test_a_resource_that_is_new_has_the_past_that_it_has(scene: Watched) -> None:
    """Shorter than that of others, also if nothing has happened: what was before is not known."""
    scene.time.advance(5 * BUCKET)
    scene.declare(semaphore("db", 4), semaphore("new", 4))
    scene.time.advance(2 * BUCKET)
    past = dict(await told(scene.view()))["past"]

    assert past["of"] == {"new": [[0, 0], [0, 0]]}


async def test_a_slow_viewer_misses_what_is_over(scene: Watched) -> None:
    """Nothing is queued for it: it is told what is, and what has changed since it looked last."""
    scene.declare(semaphore("db", 4), semaphore("other", 4))
    quick, slow = scene.view(), scene.view()
    await told(quick)
    await told(slow)
    for _ in range(3):
        scene.take("db")
        scene.look()
        assert rows(await told(quick)) == ["db"]
    scene.take("other")
    scene.look()

    assert rows(await told(quick)) == ["other"]
    events = await told(slow)
    assert rows(events) == ["db", "other"]
    assert row(events, "db")["in_use"] == 3
    assert is_quiet(slow)


async def test_a_viewer_that_is_being_told_misses_nothing_that_comes_meanwhile(scene: Watched) -> None:
    """What changes while the chunks are taken is told, now or the next time."""
    view = scene.view()
    chunks = await view.more()
    assert chunks is not None
    next(chunks)
    scene.take("db")
    scene.look()
    rest = read(chunks)
    events = rest + (await told(view))

    assert row(list(reversed(events)), "db")["in_use"] == 1
    assert is_quiet(view)


async def test_what_goes_while_a_viewer_is_told_is_left_out(scene: Watched) -> None:
    """And named no more the next time."""
    view = scene.view()
    chunks = await view.more()
    assert chunks is not None
    next(chunks)
    scene.declare(semaphore("new", 1))
    scene.look()
    first = read(chunks)

    assert "db" not in rows(first)
    assert dict(await told(view))["names"] == ["new"]


async def test_a_thousand_resources_come_in_parts(scene: Watched) -> None:
    """Each made in a turn of its own, none of them long; and compared in parts, too."""
    scene.declare(*(semaphore(f"r{number}", 4) for number in range(1000)))
    scene.time.advance(BUCKET)
    view = scene.view()
    chunks = await view.more()
    assert chunks is not None
    sizes = [len(chunk) for chunk in chunks]

    assert max(sizes) < 40_000
    assert len(sizes) > 20
    assert len(scene.live.rows) == 1000
    scene.take("r999")
    scene.take("r0")
    scene.look()
    assert rows(await told(view)) == ["r0", "r999"]


HOSTILE = "</script><img src=x onerror=alert(1)>\r\n\ndata: {}\n\nevent: names\u2028\u0000\U0001f600"


async def test_no_name_breaks_out_of_its_event(scene: Watched) -> None:
    """Whatever is in it stays one line of one event, and comes out as it went in."""
    scene.declare(semaphore(HOSTILE, 4))
    events = await told(scene.view())

    assert dict(events)["names"] == [HOSTILE]
    assert [name for name, _ in events] == ["head", "totals", "names", "rows", "done"]
