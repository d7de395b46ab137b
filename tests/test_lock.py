"""Locks on the state folder and beside sockets."""

import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from governor.lock import BindError, FolderLock, SocketLock

HOLDER = """
import sys
from pathlib import Path
from governor.lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_folder_has_one_holder(tmp_path: Path) -> None:
    """The second is told by whom it is held; once that one lets go, it can be had."""
    first = FolderLock(tmp_path)
    with pytest.raises(BindError, match=rf"^state folder .* is in use by process {os.getpid()}; "):
        FolderLock(tmp_path)

    first.release()

    with FolderLock(tmp_path) as again:
        assert again.path == tmp_path / "governor.lock"


def test_a_lock_dies_with_its_process(tmp_path: Path) -> None:
    """Killed without a chance to clean up, it leaves a file that stops nobody."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BindError, match=rf"in use by process {holder.pid}; "):
            FolderLock(tmp_path)
        holder.kill()

    assert (tmp_path / "governor.lock").read_text() == f"{holder.pid}\n"
    with FolderLock(tmp_path):
        assert (tmp_path / "governor.lock").read_text() == f"{os.getpid()}\n"


def test_a_file_is_no_lock(tmp_path: Path) -> None:
    """Whatever stands in it."""
    (tmp_path / "g.sock.lock").write_text("1\n")

    SocketLock(tmp_path / "g.sock").release()


def test_a_refused_lock_leaves_the_name_of_its_holder(tmp_path: Path) -> None:
    """Whoever asks next is told the truth as well."""
    with SocketLock(tmp_path / "g.sock"):
        for _ in range(2):
            with pytest.raises(BindError, match=f"process {os.getpid()};"):
                SocketLock(tmp_path / "g.sock")


def test_a_holder_without_a_name(tmp_path: Path) -> None:
    """Nothing is made up about it."""
    with FolderLock(tmp_path) as held:
        held.path.write_text("somebody\x1b[2J\n")

        with pytest.raises(BindError, match="in use by another process;"):
            FolderLock(tmp_path)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_lock_file_that_is_removed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, replaced: bool
) -> None:
    """Between opening and locking: the lock would keep nobody out, so it is none; the next try is as ever."""
    flock = fcntl.flock

    def removed_before(descriptor: int, operation: int) -> None:
        (tmp_path / "governor.lock").unlink()
        if replaced:
            (tmp_path / "governor.lock").touch()
        flock(descriptor, operation)

    with monkeypatch.context() as racing:
        racing.setattr(fcntl, "flock", removed_before)
        with pytest.raises(BindError, match=r"governor\.lock: this lock file was removed"):
            FolderLock(tmp_path)

    FolderLock(tmp_path).release()


def test_release_is_safe_twice(tmp_path: Path) -> None:
    """The second does not close what got the same number meanwhile."""
    lock = FolderLock(tmp_path)
    lock.release()

    with FolderLock(tmp_path):
        lock.release()
        with pytest.raises(BindError):
            FolderLock(tmp_path)


def test_a_child_program_does_not_inherit_it(tmp_path: Path) -> None:
    """A program started meanwhile cannot keep the lock beyond our own end."""
    lock = FolderLock(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=False,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        lock.release()

        FolderLock(tmp_path).release()
        child.kill()


@pytest.mark.parametrize("folder", ["none", "file"])
def test_a_folder_that_is_none(tmp_path: Path, folder: str) -> None:
    """One line says which file could not be made and what it needs."""
    (tmp_path / "file").write_text("")

    with pytest.raises(BindError, match=r"governor\.lock: cannot open this lock file: .*; its folder must exist"):
        FolderLock(tmp_path / folder)


def test_no_link_is_followed(tmp_path: Path) -> None:
    """A link in a folder that others can write to could name any file of ours."""
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "governor.lock").symlink_to("victim")

    with pytest.raises(BindError, match="cannot open this lock file"):
        FolderLock(tmp_path)

    assert (tmp_path / "victim").read_text() == "precious"


def test_nothing_else_is_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever somebody puts where the lock is to be: another file's second name, a pipe, or a file of his own."""
    lock, victim = tmp_path / "governor.lock", tmp_path / "victim"
    victim.write_text("precious")
    lock.hardlink_to(victim)
    with pytest.raises(
        BindError, match=r"governor\.lock: this is no lock file of a daemon's: it has another name else"
    ):
        FolderLock(tmp_path)
    assert victim.read_text() == "precious"

    lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(BindError, match="it is no file"):
        FolderLock(tmp_path)

    lock.unlink()
    lock.write_text("precious")
    look = os.fstat

    def anothers(descriptor: int) -> os.stat_result:
        found = list(look(descriptor))
        found[stat.ST_UID] = 4711
        return os.stat_result(found)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", anothers)
        with pytest.raises(BindError, match="it belongs to user 4711"):
            FolderLock(tmp_path)
    assert lock.read_text() == "precious"

    # What a volume's group may do to it says nothing.
    lock.chmod(0o660)
    FolderLock(tmp_path).release()
