"""Fence: where governor up to 0.1 had on record how high lease ids may have risen.

It knows one number in one file. It must never know what a lease is. The store has taken its place; a folder from before
is read once more, so that no start ever gives out an id of an earlier one.
"""

import errno
import os
import re
import stat
from pathlib import Path
from typing import Final

_NAME: Final = "fence"
_HEADER: Final = "governor fence 1"
_HIGHEST: Final = 2**62 - 1  # beyond it a lease id would not fit its place
# Whole to the last newline: of a record that was cut off, a part of the number would pass for a lower one.
_RECORD: Final = re.compile(rf"{_HEADER}\n([0-9]{{1,19}})\n".encode())
_LONGEST: Final = 64  # bytes to read of it: more than any record has, whatever the file has become


class FenceError(Exception):
    """The fence cannot be read; one line that says what, where and what to do."""


class FormerFence:
    """The record of one state folder, which must be locked for as long as this is used."""

    def __init__(self, folder: Path) -> None:
        """Read the record; a folder without one has 0. Raises FenceError."""
        self._path = folder / _NAME
        self.reserved = self._read()

    def retire(self) -> None:
        """The number is on record elsewhere. Where this one cannot be removed, it does no harm."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError:
            return

    def _read(self) -> int:
        try:
            record = _RECORD.fullmatch(_beginning(self._path))
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise FenceError(f"{self._path}: cannot be read ({error.strerror}); check the folder's owner") from error
        if record is None or (number := int(record[1])) > _HIGHEST:
            raise FenceError(
                f"{self._path}: is damaged: expected the line {_HEADER!r} and a line with a number. Lease ids must not "
                "start over while somebody may still hold an old one: restore the file, or write a number there that "
                "is higher than any lease id ever seen"
            )
        return number


def _beginning(path: Path) -> bytes:
    # To open a pipe waits for somebody to write to it, and nobody will.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return file.read(_LONGEST) or b""  # None of some that the kernel makes up
