"""When a file that changes is looked at, and when what is seen is there to stay: by a clock that a test moves."""

import asyncio
import ctypes
import errno
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TextIO

import pytest

import governor.watching
from governor.config import contents, fingerprint
from governor.core.types import MILLISECOND, SECOND
from governor.inotify import Inotify
from governor.testing.clock import FakeClock
from governor.watching import BOUND, POLL, POLL_SETTLE, SETTLE, Watcher

pytestmark = pytest.mark.usefixtures("never_blocks")

PATIENCE = 20.0
HAIR = MILLISECOND
LATE = "some changes are noticed only within 30s, since not all of its path can be watched"


class Scene:
    """A watcher of a real file, by real events of the kernel and a fake clock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text("one")
        self.clock = FakeClock()
        self.clock.advance(1000 * SECOND)
        self.seen = fingerprint(b"one")
        # What was in the file, or that it was gone, at each call.
        self.calls: list[str] = []
        self.watcher = Watcher(path, self.clock, lambda: self.seen, self._changed)

    def _changed(self) -> None:
        # Not at once: nothing may block there, and this reads.
        asyncio.get_running_loop().call_soon(self._read)

    def _read(self) -> None:
        text = self.path.read_text() if self.path.exists() else "gone"
        self.calls.append(text)
        self.seen = fingerprint(text.encode()) if text != "gone" else f"{self.path}: there is no such file"

    async def heard(self, act: Callable[[], object]) -> None:
        """Do something to the file; when this returns, all events of that are heard."""
        act()
        for _ in range(10):  # they are in the queue when the call that caused them returns
            await asyncio.sleep(0)

    async def advance(self, by: int) -> None:
        """Move the clock on; when this returns, no look is under way."""
        self.clock.advance(by)
        await self.quiet()

    async def quiet(self) -> None:
        """No look is under way."""
        await until(lambda: self.watcher._looking is None)
        await asyncio.sleep(0)

    @property
    def calm(self) -> bool:
        """Nothing is to be done but to poll."""
        return self.watcher._stir is None and self.clock.pending == 1


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """It has begun, and has looked once."""
    scene = Scene(tmp_path / "file")
    scene.watcher.begin()
    await scene.advance(0)
    assert scene.calm
    yield scene
    scene.watcher.close()
    assert scene.clock.pending == 0


async def until(condition: Callable[[], bool]) -> None:
    """Look again and again, for a bounded time."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - the kernel and threads set no event
            await asyncio.sleep(0.001)


def descriptors() -> int:
    """How many queues of the kernel's are open."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # whatever else there is in this process may close what it has
            found += str(link.readlink()) == "anon_inode:inotify"
    return found


def write(text: str, file: TextIO) -> None:
    """Into a file that stays open."""
    file.write(text)
    file.flush()


def rename_over(path: Path, text: str) -> None:
    """Atomically."""
    new = path.with_name("new")
    new.write_text(text)
    new.rename(path)


def there_and_back(path: Path) -> None:
    """Another text, and at once what was there."""
    rename_over(path, "two")
    rename_over(path, "one")


async def test_a_change_is_told_when_two_looks_have_seen_the_same(scene: Scene) -> None:
    """Not before, and well within two seconds."""
    await scene.heard(lambda: rename_over(scene.path, "two"))
    await scene.advance(SETTLE - HAIR)
    await scene.advance(HAIR)
    assert scene.calls == []
    await scene.advance(SETTLE)

    assert scene.calls == ["two"]
    assert scene.calm
    assert 2 * SETTLE < BOUND < 2 * SECOND


async def test_what_goes_on_happening_is_waited_for_but_not_for_ever(scene: Scene) -> None:
    """Each event puts it off; after a while it is taken for what it is."""
    for number in range(BOUND // SETTLE * 2 + 1):
        assert scene.calls == []
        await scene.heard(lambda number=number: rename_over(scene.path, str(number)))  # type: ignore[misc]
        await scene.advance(SETTLE // 2)

    assert len(scene.calls) == 1


async def test_a_file_that_is_being_written_to_is_left_alone_until_that_is_over(scene: Scene) -> None:
    """However long the writer pauses, within the bound."""
    with scene.path.open("w") as file:
        await scene.heard(lambda: write("tw", file))
        await scene.advance(BOUND - HAIR)
        await scene.heard(lambda: write("o", file))
    await scene.heard(lambda: None)
    await scene.advance(HAIR)
    assert scene.calls == ["two"]


async def test_a_writer_that_never_ends_is_not_waited_for_longer_than_the_bound(scene: Scene) -> None:
    """What is there by then is read, and when it changes again, that is read as well."""
    with scene.path.open("w") as file:
        await scene.heard(lambda: write("tw", file))
        await scene.advance(BOUND)
        assert scene.calls == ["tw"]
        await scene.heard(lambda: write("o", file))
    await scene.heard(lambda: None)
    await scene.advance(SETTLE)
    await scene.advance(SETTLE)

    assert scene.calls == ["tw", "two"]


async def test_whoever_writes_the_same_has_changed_nothing(scene: Scene) -> None:
    """Nor who touches it, or puts it back in time."""
    acts: list[Callable[[], object]] = [
        scene.path.touch,
        lambda: scene.path.write_text("one"),
        lambda: rename_over(scene.path, "one"),
        partial(there_and_back, scene.path),
        lambda: [act() for act in (scene.path.unlink, partial(scene.path.write_text, "one"))],
    ]
    for act in acts:
        await scene.heard(act)
        assert not scene.calm
        await scene.advance(BOUND)
        assert scene.calm
    assert scene.calls == []


async def test_other_files_of_the_folder_are_nobodys_business(scene: Scene) -> None:
    """A log that is written beside it wakes nobody, and a new file there is not looked at."""
    await scene.heard(lambda: scene.path.with_name("log").write_text("something"))
    await scene.heard(lambda: scene.path.with_name("log").unlink())

    assert scene.calm


async def test_a_file_that_is_gone_is_waited_for_up_to_the_bound(scene: Scene) -> None:
    """Editors take it away for a moment. Then it is told, once, and so is its return."""
    await scene.heard(scene.path.unlink)
    await scene.advance(SETTLE)
    await scene.advance(BOUND - SETTLE - HAIR)
    assert scene.calls == []
    await scene.advance(HAIR)
    assert scene.calls == ["gone"]
    assert scene.calm

    await scene.heard(lambda: scene.path.write_text("one"))
    await scene.advance(SETTLE)
    await scene.advance(SETTLE)
    assert scene.calls == ["gone", "one"]


async def test_what_happens_during_a_look_is_looked_at_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also during the last one: nothing is lost between reading a file and judging it."""
    real = contents

    def contents_then_another_change(path: Path) -> bytes:
        read = real(path)
        rename_over(path, f"{read.decode()}+")
        return read

    with monkeypatch.context() as patch:
        patch.setattr(governor.watching, "contents", contents_then_another_change)
        await scene.heard(lambda: rename_over(scene.path, "two"))
        for _ in range(BOUND // SETTLE):
            await scene.advance(SETTLE)
            await scene.heard(lambda: None)
    for _ in range(2 * BOUND // SETTLE):
        await scene.advance(SETTLE)

    assert scene.calls[-1] == scene.path.read_text()
    assert scene.calm


async def test_what_the_kernel_does_not_tell_is_seen_by_a_slow_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a network's disk, or where there are no more queues to be had, which is said once."""
    caplog.set_level("INFO")

    def no_more(_self: Inotify) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Inotify, "__init__", no_more)
    scene = Scene(tmp_path / "file")
    scene.watcher.begin()
    await scene.advance(0)
    rename_over(scene.path, "tw")
    await scene.advance(POLL - HAIR)
    assert scene.calls == []
    await scene.advance(HAIR)
    rename_over(scene.path, "two")
    await scene.advance(POLL_SETTLE)
    assert scene.calls == [], "it was seen while it was being written"
    await scene.advance(POLL_SETTLE)
    await scene.advance(POLL)
    scene.watcher.close()

    assert scene.calls == ["two"]
    assert scene.clock.pending == 0
    assert [record.getMessage() for record in caplog.records] == [f"config {scene.path}: {LATE}: Too many open files"]


async def test_a_system_without_inotify_is_looked_at_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as macOS: the daemon serves, and changes are seen."""
    caplog.set_level("INFO")
    monkeypatch.setattr(ctypes, "CDLL", lambda *_args, **_options: object())
    scene = Scene(tmp_path / "file")
    scene.watcher.begin()
    await scene.advance(0)
    rename_over(scene.path, "two")
    await scene.advance(POLL)
    await scene.advance(POLL_SETTLE)
    scene.watcher.close()

    assert scene.calls == ["two"]
    (record,) = caplog.records
    assert record.getMessage() == f"config {scene.path}: {LATE}: this system has no inotify"


async def test_a_step_that_cannot_be_watched_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder that may be passed through but not read; the others are watched."""
    caplog.set_level("INFO")
    (tmp_path / "closed").mkdir()
    real = Inotify.watch

    def watch(self: Inotify, path: str, mask: int) -> int:
        if path == str(tmp_path / "closed"):
            raise OSError(errno.EACCES, "Permission denied")
        return real(self, path, mask)

    monkeypatch.setattr(Inotify, "watch", watch)
    scene = Scene(tmp_path / "closed" / "file")
    scene.watcher.begin()
    await scene.advance(0)
    for text in ("two", "three"):
        await scene.heard(lambda text=text: scene.path.write_text(text))  # type: ignore[misc]
        await scene.advance(SETTLE)
        await scene.advance(SETTLE)
    scene.watcher.close()

    assert scene.calls == ["two", "three"]
    told = f"config {scene.path}: {LATE}: {tmp_path / 'closed'}: Permission denied"
    assert [record.getMessage() for record in caplog.records] == [told]


async def test_when_the_kernel_has_lost_events_the_file_is_looked_at(scene: Scene) -> None:
    """Its queue is bounded, and whatever was in it may have been ours."""
    other = scene.path.with_name("other")

    def flood() -> None:
        limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        for _ in range(limit // 2 + 1):
            os.close(os.open(other, os.O_CREAT))
            other.unlink()
        rename_over(scene.path, "two")

    flood()
    await until(lambda: scene.watcher._stir is not None)
    await scene.advance(SETTLE)
    await scene.advance(SETTLE)
    assert scene.calls == ["two"]


async def test_it_can_begin_again_and_ends_with_nothing_left(scene: Scene) -> None:
    """No descriptor, no timer, no thread that anybody waits for; twice is once."""
    before = descriptors()
    for _ in range(3):
        scene.watcher.begin()
        scene.watcher.begin()
        await scene.heard(lambda: rename_over(scene.path, "two"))
        scene.clock.advance(SETTLE)  # a look is under way
        scene.watcher.close()
        scene.watcher.close()
        assert scene.clock.pending == 0
    await until(lambda: descriptors() == before - 1)  # that of the fixture
    assert scene.calls == []
