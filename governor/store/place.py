"""Place: where files of the state lie, which ones these are, and how much room there is.

It knows what the file system says of a path. It must never know what is in a file.
"""

import os
from pathlib import Path

# Of a file, as long as it is open somewhere: the device and the inode.
Which = tuple[int, int]


class Kept:
    """A file that is known again until this is closed, also when nobody else has it open: its inode is not free."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._path = path
        # Only of such a descriptor does the end not take away the locks that SQLite has on the file.
        self._descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        found = os.fstat(self._descriptor)
        self._which = (found.st_dev, found.st_ino)

    def check(self) -> None:
        """Raise OSError unless it is still the one that stands there."""
        same(self._path, self._which)

    def close(self) -> None:
        """Safe twice."""
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
