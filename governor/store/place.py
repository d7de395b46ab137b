"""Place: where files of the state lie, which ones these are, and how much room there is.

It knows what the file system says of a path. It must never know what is in a file.
"""

import errno
import fcntl
import os
import struct
from pathlib import Path
from typing import Final

from governor.store.errors import StoreError

# Of a file, as long as it is open somewhere: the device and the inode.
Which = tuple[int, int]


# A byte that no file has, far from those that SQLite locks, and how a lock on it is asked for: it belongs to the open
# file, so that nothing else that this process does with the file lets go of it.
_LOCKED: Final = 2**62
_LOCK: Final = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, _LOCKED, 1, 0)


class Kept:
    """A file that is ours alone until this is closed, and known again: its inode is not free.

    The folder is locked as well, by a file that somebody may take for a left-over. This lock goes with what it is for.
    """

    def __init__(self, path: Path) -> None:
        """Raises OSError, or StoreError when it is another's."""
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _LOCK)
        except OSError as error:
            self.close()
            if error.errno not in {errno.EAGAIN, errno.EACCES}:
                raise
            told = (
                "another daemon uses it, though nobody has locked its folder: stop that one, or give this one another"
            )
            raise StoreError(f"{path}: {told}") from None
        found = os.fstat(self._descriptor)
        self._which = (found.st_dev, found.st_ino)

    def check(self) -> None:
        """Raise OSError unless it is still the one that stands there."""
        same(self._path, self._which)

    def close(self) -> None:
        """Safe twice. It takes away all locks that SQLite has on the file, so only after that is done with it."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def same(path: Path, which: Which | None) -> Which:
    """Which file that is, which must be ``which`` if that is known; raises OSError."""
    try:
        found = path.stat()
    except FileNotFoundError:
        raise FileNotFoundError(None, f"{path.name} is gone", str(path)) from None
    if which not in {None, (found.st_dev, found.st_ino)}:
        told = f"{path.name} is another file now: move back the one that it was, or restart to go on with this one"
        raise FileNotFoundError(None, told, str(path))
    return found.st_dev, found.st_ino


def length(path: Path) -> int:
    """In bytes; it is as good as none when it cannot be seen."""
    try:
        return os.stat(path).st_size  # noqa: PTH116 - called often
    except OSError:
        return 0


def room(path: Path) -> int:
    """How much longer it could become, in bytes; not at all when that cannot be seen."""
    try:
        found = os.statvfs(path)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize
