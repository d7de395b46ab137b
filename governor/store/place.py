"""Place: where files of the state lie, which ones these are, and how much room there is.

It knows what the file system says of a path. It must never know what is in a file.
"""

import os
from pathlib import Path


def same(path: Path, inode: int) -> int:
    """The inode of a file, which must be ``inode`` if that is known; raises OSError."""
    try:
        found = path.stat().st_ino
    except FileNotFoundError:
        raise FileNotFoundError(None, f"{path.name} is gone", str(path)) from None
    if inode not in {0, found}:
        raise FileNotFoundError(None, f"{path.name} is another file now", str(path))
    return found


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
