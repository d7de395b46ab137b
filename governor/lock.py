"""One daemon to one state folder and one socket: locks that the kernel drops when their holder is gone.

It knows the two lock files. It must never judge by a file's existence: only a held lock counts, and the files stay
behind, because whoever unlinked one could not know that nobody had just locked it.

Somebody else may do so all the same. At the start that is noticed; later it lets nobody else in, for the state file is
locked, too. Whoever empties the state folder of a running daemon lets a second one start there, with nothing
remembered; the first one grants nothing any more when it notices, within a second.
"""

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Final, Self

# Longer than any pid; whatever else an odd file may hold is not read.
_PID_BYTES: Final = 32


class BindError(Exception):
    """What the daemon needs for itself cannot be had. One line: what, where, what to do about it."""


class _Lock:
    """An exclusive lock on a file that names its holder, held from construction until `release`."""

    def __init__(self, path: Path, held: str) -> None:
        """Raises `BindError`; ``held`` says what somebody else has when the lock is taken."""
        self.path = path
        # Nobody else may open it: to open a file is enough to lock it. No symlink: it could name any file of ours.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._fd = os.open(path, flags, 0o600)
        except OSError as error:
            told = f"cannot open this lock file: {error.strerror}; its folder must exist and be writable for this user"
            raise BindError(f"{path}: {told}") from error
        if (odd := _odd(os.fstat(self._fd), path.parent)) is not None:
            os.close(self._fd)
            raise BindError(f"{path}: this is no lock file of a daemon's: {odd}; see what it is, and remove it")
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._fd, _PID_BYTES, 0).decode(errors="replace").strip()
            os.close(self._fd)
            if error.errno not in {errno.EAGAIN, errno.EACCES}:
                told = f"cannot lock this file: {error.strerror}; choose a folder on a local file system"
                raise BindError(f"{path}: {told}") from error
            whose = f"process {holder}" if holder.isdigit() else "another process"
            raise BindError(f"{held} {whose}; stop that one, or give this one another") from None
        if not self._in_place():
            os.close(self._fd)
            raise BindError(f"{path}: this lock file was removed while it was being locked; start again")
        # For people and for the message above. A holder is never found by its pid, which may be another's by now; so
        # a full disk, which keeps the name out, is no reason to fail.
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def _in_place(self) -> bool:
        """Whether what is locked is what the next one would find: the lock on a removed file keeps nobody out."""
        ours = os.fstat(self._fd)
        try:
            found = self.path.lstat()
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)

    def release(self) -> None:
        """Let go, once; nothing happens the second time."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _odd(found: os.stat_result, folder: Path) -> str | None:
    """Why a file is none that a daemon has made here: it may be one that somebody wants to have written over.

    Its mode tells nothing: whoever mounts a volume for a container may have opened all of it to a group.
    """
    if not stat.S_ISREG(found.st_mode):
        return "it is no file"
    if found.st_nlink > 1:
        return "it has another name elsewhere"
    if found.st_uid not in {os.geteuid(), folder.stat().st_uid, 0}:
        return f"it belongs to user {found.st_uid}"
    return None


class FolderLock(_Lock):
    """The state folder is ours: its facts have one writer."""

    def __init__(self, folder: Path) -> None:
        """Raises `BindError`; the folder must exist."""
        super().__init__(folder / "governor.lock", f"state folder {folder} is in use by")


class SocketLock(_Lock):
    """A unix socket is ours: gRPC itself would take the path from a living server without a word."""

    def __init__(self, socket: Path) -> None:
        """Raises `BindError`; the socket's folder must exist."""
        super().__init__(socket.with_name(socket.name + ".lock"), f"socket {socket} is in use by")
