"""A config that changes takes effect by itself, however it is changed."""

import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGHUP

import pytest

from governor.core.types import SECOND
from governor.watching import POLL
from tests.e2e.conftest import HEAD, Connect, Start
from tests.e2e.files import WAYS, File, InPlace, Renamed
from tests.e2e.process import Daemon, until

# Of this a busy machine needs a small part, and a daemon that only polls would need three times as much.
SOON = POLL / SECOND / 3


def permits(number: int) -> str:
    """What comes after the head of a config."""
    return f"semaphores: {{one: {{permits: {number}}}}}\n"


def text(file: File, yaml: str) -> str:
    """All of a config."""
    return HEAD.format(folder=file.folder.parent, drain="100ms") + yaml


def has_inotify(daemon: Daemon) -> bool:
    """Whether the daemon has the kernel watch anything for it."""
    links = Path(f"/proc/{daemon.pid}/fd").iterdir()
    return any(_target(link) == "anon_inode:inotify" for link in links)


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:
        return ""


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_change_a_file(start: Start, connect: Connect, folder: Path, way: Callable[[Path], File]) -> None:
    """Again and again, each time once, long before a poll would see it; the same text is nothing to speak of."""
    file = way(folder / "conf")
    daemon = start(permits(1), config=file.path)
    me = connect(daemon)
    for number in (2, 3):
        file.write(text(file, permits(number)))
        before = time.monotonic()
        until(lambda number=number: me.resource("one").capacity == number, f"there are {number}")  # type: ignore[misc]
        assert time.monotonic() - before < SOON
        file.write(text(file, permits(number)))

    daemon.said("reloaded", times=2)
    assert daemon.log.count("reloaded ") == 2


def test_a_bad_file_is_told_once_and_seen_until_a_good_one_comes(start: Start, connect: Connect, folder: Path) -> None:
    """It need not be the one that was refused, and may be the one that is in force."""
    file = Renamed(folder / "conf")
    daemon = start(permits(1), config=file.path)
    me = connect(daemon)
    daemon.expect("reload refused")
    file.write(text(file, "semaphores: {one: {permit: 2}}\n"))
    daemon.said("reload refused")
    assert daemon.metric("governor_config_last_reload_successful") == 0
    file.write(text(file, "semaphores: {one: {permit: 2}}\n"))
    file.write(text(file, permits(1)))

    until(lambda: daemon.metric("governor_config_last_reload_successful") == 1, "the file is good again")
    daemon.said("nothing changed")
    assert daemon.log.count("reload refused") == 1
    assert me.resource("one").capacity == 1


def test_a_file_that_is_gone_is_told_and_changes_nothing(start: Start, connect: Connect, folder: Path) -> None:
    """What it said stays in force; made anew, it is read."""
    file = InPlace(folder / "conf")
    daemon = start(permits(1), config=file.path)
    me = connect(daemon)
    daemon.expect("reload refused")
    file.path.unlink()
    assert f"{file.path}: there is no such file" in daemon.said("reload refused")
    assert daemon.metric("governor_config_last_reload_successful") == 0
    assert me.resource("one").capacity == 1

    file.write(text(file, permits(2)))
    until(lambda: me.resource("one").capacity == 2, "there are 2")
    assert daemon.metric("governor_config_last_reload_successful") == 1


def test_watching_can_be_switched_off_and_on(start: Start, connect: Connect, folder: Path) -> None:
    """By the file itself: by a signal if it is off, and at once if it is on."""
    file = Renamed(folder / "conf")
    daemon = start("watch: false\n" + permits(1), config=file.path)
    me = connect(daemon)
    assert not has_inotify(daemon)

    file.write(text(file, "watch: true\n" + permits(2)))
    daemon.signal(SIGHUP)
    assert "changed one (permits 1 -> 2); set watch (false -> true)" in daemon.said("reloaded")
    until(lambda: has_inotify(daemon), "it is watched")
    file.write(text(file, "watch: false\n" + permits(3)))
    assert "changed one (permits 2 -> 3); set watch (true -> false)" in daemon.said("reloaded", times=2)
    until(lambda: not has_inotify(daemon), "nothing is watched any more")
    assert me.resource("one").capacity == 3
