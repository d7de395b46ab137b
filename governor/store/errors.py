"""Errors: what is wrong with a state file, in one line that says what, where and what to do.

It knows what SQLite and the system say of a file. It must never know what was to be done with it.
"""

import sqlite3
from pathlib import Path
from typing import Final

# What SQLite says of a file that is no longer what it was, the last of a table that is not there. The rest (a full
# disk, a lock) may pass.
_DAMAGED: Final = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR))
# What reading may raise. The latter comes of quoting a damaged schema in an error.
UNREADABLE: Final = (sqlite3.Error, UnicodeDecodeError)


class StoreError(Exception):
    """The state cannot be read or written; one line that says what, where and what to do. ``damaged``: for good."""

    def __init__(self, message: str, *, damaged: bool = False) -> None:
        super().__init__(message)
        self.damaged = damaged


def store_error(path: Path, what: str, error: Exception) -> StoreError:
    """What went wrong with a file, in one line."""
    code = getattr(error, "sqlite_errorcode", None)
    transient = isinstance(error, OSError) or (code is not None and (code & 0xFF) not in _DAMAGED)
    said = " ".join(((error.strerror if isinstance(error, OSError) else None) or str(error)).split())
    if isinstance(error, PermissionError):
        told = "run this as its owner, or give it and its folder to this user"
        return StoreError(f"{path}: {what} ({said}); {told}")
    if transient:
        return StoreError(f"{path}: {what} ({said}); check the disk and the folder's owner")
    told = "it says who holds what, so it is not replaced: mend it with `governor state repair`, or bring a copy back"
    return StoreError(f"{path}: is damaged ({said}); {told}", damaged=True)
