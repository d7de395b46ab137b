"""The reloader: one reading at a time, all of it or nothing, and everybody who asked is told."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import governor.reload
from governor.config import ConfigError, Reloaded, contents, load
from governor.core.engine import Engine
from governor.core.types import Claim, LeaseId
from governor.driver import Driver
from governor.metrics import Metrics
from governor.notify import Notifier
from governor.reload import Reloader
from governor.testing.clock import FakeClock

pytestmark = pytest.mark.usefixtures("never_blocks")

ONE = "semaphores: {one: {permits: 1}}\n"
TWO = "semaphores: {one: {permits: 2}}\n"
BAD = "semaphores: {one: {permits: 1, color: 2, size: 3}}\n"
BOUND = 60.0


class Gate:
    """In the place of reading a file: it counts the readings, and may hold them up before they begin."""

    def __init__(self) -> None:
        self.readings = 0
        self.begun = threading.Event()
        self._open = threading.Event()
        self._open.set()

    def shut(self) -> None:
        """No reading goes on."""
        self._open.clear()

    def open(self) -> None:
        """They go on, and so do all that come."""
        self._open.set()

    def __call__(self, path: Path) -> bytes:
        """What is in the file when the gate is open."""
        self.readings += 1
        self.begun.set()
        assert self._open.wait(BOUND)
        return contents(path)

    async def until_one_is_held_up(self) -> None:
        """A reading has begun since the gate was shut."""
        assert await asyncio.to_thread(self.begun.wait, BOUND)
        self.begun.clear()


class Scene:
    """A reloader of an engine, over a real file."""

    def __init__(self, path: Path, gate: Gate) -> None:
        path.write_text(ONE)
        self.path = path
        self.gate = gate
        self.driver = Driver(Engine(), FakeClock())
        self.driver.reserve_ids(LeaseId(1000))
        self.metrics = Metrics(self.driver.snapshot, version="0")
        config = load(path, {})
        self.driver.reconfigure(config.resources)
        self.reloader = Reloader(self.driver, self.metrics, Notifier({}, 1), config, path, {"SIZE": "7"})
        self.told: list[Reloaded] = []
        self.reloader.observers.append(self.told.append)

    def write(self, text: str) -> None:
        """Another text in its file."""
        self.path.write_text(text)

    @property
    def permits(self) -> int | None:
        """How many there are of the one resource."""
        return self.driver.snapshot().resources[0].capacity

    @property
    def successful(self) -> bool | None:
        """Whether the last reload was, as the metrics have it."""
        return self.metrics.facts().config.last_successful


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """An open one."""
    gate = Gate()
    monkeypatch.setattr(governor.reload, "contents", gate)
    yield gate
    gate.open()


@pytest.fixture
def scene(tmp_path: Path, gate: Gate) -> Scene:
    """Before it has begun."""
    return Scene(tmp_path / "governor.yaml", gate)


@pytest.fixture
def reloader(scene: Scene) -> Reloader:
    """One that has begun."""
    scene.reloader.begin()
    return scene.reloader


async def until(condition: Callable[[], bool]) -> None:
    """Look again and again, for a bounded time."""
    async with asyncio.timeout(BOUND):
        while not condition():  # noqa: ASYNC110 - a thread sets no event
            await asyncio.sleep(0.001)


async def test_a_good_file_is_in_force_and_says_what_it_changed(scene: Scene, reloader: Reloader) -> None:
    """Resources by name, keys of the daemon by name, and which of them need a start."""
    before = reloader.state
    scene.metrics.restored(["shop", "cron"])
    scene.write(
        "semaphores: {one: {permits: 2}, two: {permits: 1}}\ndrain_timeout: 7s\nhttp: off\nrestart_grace: 1s\n"
        "max_client_series: 1\n"
    )
    outcome = await reloader.reload("ann")

    assert (outcome.problems, outcome.added, outcome.changed, outcome.removed) == ((), ("two",), ("one",), ())
    assert (outcome.settings, outcome.at_next_start) == (
        ("drain_timeout", "max_client_series"),
        ("http", "restart_grace"),
    )
    assert outcome.by == ("ann",)
    assert outcome.state == reloader.state
    assert reloader.state.source == str(scene.path)
    assert reloader.state.hash == reloader.seen != before.hash
    assert reloader.state.since >= before.since
    assert scene.told == [outcome]
    assert scene.permits == 2
    assert set(scene.metrics.facts().tallies.clients) == {"shop", "other"}


async def test_what_has_changed_is_told_with_what_it_was(
    scene: Scene, reloader: Reloader, caplog: pytest.LogCaptureFixture
) -> None:
    """To everybody and in the log; not what may be a secret."""
    caplog.set_level("INFO", "governor")
    members = "pools: {conn: {members: {a: {password: %s}}}}\n"
    scene.write("semaphores: {one: {permits: 10}}\n" + members % "hunter2")
    await reloader.reload()
    scene.write("semaphores: {one: {permits: 4, lease: 1m}}\ndrain_timeout: 7s\n" + members % "hunter3")

    outcome = await reloader.reload()

    assert outcome.told == (
        "changed one (permits 10 -> 4, lease 30s -> 1m), "
        "conn (members.a.password (not shown) -> (not shown)); set drain_timeout (10s -> 7s)"
    )
    assert caplog.messages[-1].endswith(f": 2 resources (1 pool, 1 semaphore); {outcome.told}")
    assert "hunter" not in caplog.text


async def test_a_resource_may_have_the_name_of_a_key(scene: Scene, reloader: Reloader) -> None:
    """Each has changed as it has."""
    scene.write("semaphores: {drain_timeout: {permits: 1}}\n")
    await reloader.reload()
    scene.write("semaphores: {drain_timeout: {permits: 2}}\ndrain_timeout: 7s\n")

    assert (await reloader.reload()).told == "changed drain_timeout (permits 1 -> 2); set drain_timeout (10s -> 7s)"


async def test_very_much_that_has_changed_is_told_in_part(scene: Scene, reloader: Reloader) -> None:
    """Names are all there; how, of the first; of one with many settings and of long ones some."""
    names = [f"r{number}" for number in range(200)]
    scene.write(f"semaphores: {{{', '.join(f'{name}: {{permits: 1}}' for name in names)}}}\n")
    await reloader.reload()
    scene.write(f"semaphores: {{{', '.join(f'{name}: {{permits: 2}}' for name in names)}}}\n")
    told = (await reloader.reload()).told
    assert told.count("(permits 1 -> 2)") == 50
    assert told.startswith("changed r0 (permits 1 -> 2), r1")
    assert told.endswith(", r198, r199")

    scene.write("pools: {conn: {members: {a: {}, b: {}, c: {}, d: {}, e: {}, f: {}, g: {}, h: {}}}}\n")
    await reloader.reload()
    scene.write("pools: {conn: {members: {i: {}, j: {}, k: {}}}}\n")
    assert (await reloader.reload()).told == (
        "changed conn (members a, b, c, d, e, f, g, h -> i, j, k, members.a max_leases 1 -> none, "
        "members.b max_leases 1 -> none, members.c max_leases 1 -> none, members.d max_leases 1 -> none, "
        "members.e max_leases 1 -> none, and 6 more)"
    )


async def test_a_bad_file_changes_nothing_and_stays_visible_until_a_good_one(
    scene: Scene, reloader: Reloader, caplog: pytest.LogCaptureFixture
) -> None:
    """The config in force is so since when it was; each problem is told to whoever asks and in the log."""
    caplog.set_level(logging.INFO)
    before = reloader.state
    scene.write(BAD)
    outcome = await reloader.reload()

    assert len(outcome.problems) == 2
    assert all(f"{scene.path}:1: " in problem for problem in outcome.problems)
    assert [r.getMessage() for r in caplog.records] == [f"reload refused: {problem}" for problem in outcome.problems]
    state = reloader.state
    assert (state.hash, state.since) == (before.hash, before.since)
    assert [problem.partition(":1: ")[0] for problem in state.problems] == [str(scene.path)] * 2
    assert state.refused_at is not None
    assert state.refused_at >= before.since
    assert reloader.seen != state.hash
    assert (scene.permits, scene.successful) == (1, False)

    scene.write(ONE)
    outcome = await reloader.reload()
    assert outcome.problems == ()
    assert reloader.state == before, "the same text as ever is in force, and nothing else is to be said"
    assert scene.successful


async def test_what_the_engine_refuses_is_refused_whole(scene: Scene, reloader: Reloader) -> None:
    """A kind that cannot change while it is lent, and nothing else of that file."""
    scene.driver.ask((Claim("one", 1),), wait=0)
    scene.write("pools: {one: {size: 1}}\ndrain_timeout: 7s\n")
    outcome = await reloader.reload()

    assert [f"{scene.path}: one: cannot become a pool" in problem for problem in outcome.problems] == [True]
    assert outcome.settings == ()
    assert reloader.config.drain_timeout != 7_000_000_000


async def test_of_very_many_problems_the_first_are_kept(
    scene: Scene, reloader: Reloader, caplog: pytest.LogCaptureFixture
) -> None:
    """The state goes out with each list of resources, so it is bounded; the log has ten times as many."""
    scene.write("semaphores:\n" + "".join(f"  s{n}: {{permit: 1}}\n" for n in range(900)))
    outcome = await reloader.reload()

    assert len(reloader.state.problems) == len(outcome.problems) == 21
    assert outcome.problems[-1] == f"and 880 more; `governor check {scene.path}` lists them all"
    logged = [record.getMessage() for record in caplog.records]
    assert logged[:20] == [f"reload refused: {problem}" for problem in outcome.problems[:20]]
    assert all(f"{scene.path}:{line}: " in text for line, text in zip(range(2, 202), logged, strict=False))
    assert logged[200:] == [f"reload refused: and 700 more; `governor check {scene.path}` lists them all"]


async def test_as_many_problems_as_the_log_has_room_for(
    scene: Scene, reloader: Reloader, caplog: pytest.LogCaptureFixture
) -> None:
    """Then nothing is said of more."""
    scene.write("semaphores:\n" + "".join(f"  s{n}: {{permits: 0x}}\n" for n in range(200)))
    await reloader.reload()
    assert len(caplog.records) == 200
    assert "more;" not in caplog.text


async def test_a_file_that_cannot_be_read_is_refused_and_told_from_one_that_can(
    scene: Scene, reloader: Reloader
) -> None:
    """What was seen last is why not."""
    scene.path.unlink()
    outcome = await reloader.reload()

    assert outcome.problems == (f"{scene.path}: there is no such file",)
    assert reloader.seen == outcome.problems[0]
    assert scene.permits == 1


async def test_a_flood_makes_one_reading_and_one_more(scene: Scene, reloader: Reloader, gate: Gate) -> None:
    """However many ask while one is under way: the next one serves them all."""
    gate.shut()
    reloader.request("SIGHUP")
    await gate.until_one_is_held_up()
    for _ in range(10_000):
        reloader.request("SIGHUP")
    asked = [asyncio.ensure_future(reloader.reload(f"ann{n}")) for n in range(100)]
    await asyncio.sleep(0)
    gate.open()
    outcomes = await asyncio.gather(*asked)

    assert gate.readings == 2
    assert len(scene.told) == 2
    assert {id(outcome) for outcome in outcomes} == {id(scene.told[1])}
    assert scene.told[1].by == ("SIGHUP", *(f"ann{n}" for n in range(7)))


async def test_whoever_asks_is_told_of_a_reading_that_began_later(scene: Scene, reloader: Reloader, gate: Gate) -> None:
    """One that is under way may have seen the file as it was before."""
    gate.shut()
    first = asyncio.ensure_future(reloader.reload())
    await gate.until_one_is_held_up()
    second = asyncio.ensure_future(reloader.reload())
    await asyncio.sleep(0)
    scene.write(BAD)
    gate.open()
    # The second reading is over before there is anything else to be read.
    assert (await first).problems
    assert (await second).problems
    assert gate.readings == 2
    scene.write(TWO)
    third = await reloader.reload()

    assert third.problems == ()
    assert scene.permits == 2


async def test_what_was_read_already_is_no_reload_for_whoever_only_saw_a_change(
    scene: Scene, reloader: Reloader, gate: Gate
) -> None:
    """Somebody who changes a file and sends a signal gets one reload, although the change is seen as well."""
    scene.write(TWO)
    await reloader.reload("SIGHUP")
    gate.shut()
    reloader.request_if_changed("watch")
    await gate.until_one_is_held_up()
    after = asyncio.ensure_future(reloader.reload())
    await asyncio.sleep(0)
    assert len(scene.told) == 1
    gate.open()
    await after

    assert [outcome.by for outcome in scene.told] == [("SIGHUP",), ()]
    scene.write(ONE)
    reloader.request_if_changed("watch")
    reloader.request_if_changed("watch")
    await until(lambda: len(scene.told) == 3)
    assert scene.told[2].by == ("watch",)
    assert scene.permits == 1


async def test_whoever_wants_it_anyway_gets_it_with_those_who_do_not(scene: Scene, reloader: Reloader) -> None:
    """A signal is answered also if nothing has changed."""
    reloader.request_if_changed("watch")
    reloader.request("SIGHUP")
    reloader.request_if_changed("watch")
    await until(lambda: len(scene.told) == 1)

    assert scene.told[0].by == ("watch", "SIGHUP")


async def test_whoever_gives_up_takes_it_from_nobody(scene: Scene, reloader: Reloader, gate: Gate) -> None:
    """A call that is cancelled leaves the reading to the others."""
    gate.shut()
    impatient, patient = (asyncio.ensure_future(reloader.reload()) for _ in range(2))
    await gate.until_one_is_held_up()
    impatient.cancel()
    with suppress(asyncio.CancelledError):
        await impatient
    scene.write(TWO)
    gate.open()

    assert (await patient).problems == ()
    assert scene.permits == 2


async def test_what_is_asked_before_the_daemon_serves_is_done_when_it_does(scene: Scene, gate: Gate) -> None:
    """A signal that comes while it starts is not lost, nor is a call."""
    scene.reloader.request("SIGHUP")
    asked = asyncio.ensure_future(scene.reloader.reload("ann"))
    await asyncio.sleep(0)
    assert gate.readings == 0
    scene.write(TWO)
    scene.reloader.begin()

    assert (await asked).by == ("SIGHUP", "ann")
    assert gate.readings == 1
    assert scene.permits == 2


async def test_when_it_ends_everybody_is_told_so(scene: Scene, reloader: Reloader, gate: Gate) -> None:
    """Whoever waits for a reading, and whoever asks later; a file that is never read to its end holds up nothing."""
    gate.shut()
    under_way = asyncio.ensure_future(reloader.reload())
    await gate.until_one_is_held_up()
    later = asyncio.ensure_future(reloader.reload())
    await asyncio.sleep(0)
    scene.write(TWO)
    await reloader.close()
    outcomes = [await under_way, await later, await reloader.reload()]
    reloader.request("SIGHUP")

    assert [outcome.problems for outcome in outcomes] == [("the daemon ends; nothing was read",)] * 3
    assert (scene.permits, gate.readings, scene.told) == (1, 1, [])


async def test_without_a_named_file_there_is_nothing_to_read(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """Which is said to whoever calls, and to whoever sends a signal; it is no failure."""
    reloader = Reloader(scene.driver, scene.metrics, Notifier({}, 1), scene.reloader.config, None, {})
    reloader.begin()
    reloader.request("SIGHUP")
    outcome = await reloader.reload()

    assert outcome.problems == ("no config file was named at the start; nothing to read anew",)
    assert [record.getMessage() for record in caplog.records] == [f"reload: {outcome.problems[0]}"]
    assert (reloader.state.source, reloader.state.problems, scene.successful) == ("", (), True)


async def test_what_was_written_by_mistake_is_for_those_who_may_read_the_file(
    scene: Scene, reloader: Reloader, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever reloads and the log have all of it; what everybody is told, now and later, says where and what for."""
    scene.write('pools: {db: {members: {a: "hunter2"}}}\n')
    outcome = await reloader.reload()

    assert "hunter2" in outcome.problems[0]
    assert "hunter2" in caplog.text
    assert outcome.told == f"{scene.path}:1: {reloader.state.problems[0].partition(':1: ')[2]}"
    assert "hunter2" not in outcome.told
    assert 'expected a mapping such as {endpoint: "db1:5432", max_leases: 10}' in outcome.told

    # What tells of itself that it is a secret, nobody is shown.
    scene.write('pools: {db: {members: {a: "postgres://u:hunter3@h"}}}\n')
    assert "hunter3" not in (await reloader.reload()).problems[0] + caplog.text


async def test_a_config_that_is_only_looked_at_shows_nothing_of_the_environment(
    scene: Scene, reloader: Reloader
) -> None:
    """A variable is read only where it is in force, for what it would mean elsewhere would be told."""
    asked = b"semaphores: {one: {permits: '${SIZE}'}}\n"
    elsewhere = b"semaphores: {one: {permits: '${SIZE}'}, two: {permits: '${SIZE}'}}\n"
    for text in (asked, elsewhere):
        with pytest.raises(ConfigError, match="a variable may be used only where the config in force has the same"):
            reloader.read(text, "new.yaml")
    scene.write(asked.decode())
    assert (await reloader.reload()).problems == ()
    assert scene.permits == 7
    assert reloader.read(asked, "new.yaml").resources == reloader.config.resources
    with pytest.raises(ConfigError, match=r"new\.yaml:1: semaphores\.two\.permits: a variable may be used only"):
        reloader.read(elsewhere, "new.yaml")
    assert reloader.read(b"{}", "new.yaml").state == reloader.config.state


async def test_a_fault_is_raised_where_it_is_waited_for_and_ends_nothing(
    scene: Scene, reloader: Reloader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next reload works."""
    with monkeypatch.context() as patch:
        patch.setattr(governor.reload, "contents", lambda _path: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            await reloader.reload()
    scene.write(TWO)

    assert (await reloader.reload()).problems == ()
    assert scene.permits == 2
