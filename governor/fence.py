"""Fence: how high lease ids may have risen, on record in the state folder.

It knows one number in one file. It must never know what a lease is. In one sentence: an id is on record before it
can be given out, so no start ever gives out an id of an earlier one.

Writing each id down would cost a disk write a grant, so ids are reserved a million at a time; a restart skips what
was left of the last million.
"""

import errno
import os
import re
import stat
from pathlib import Path
from typing import Final

BLOCK: Final = 1_000_000

_NAME: Final = "fence"
_HEADER: Final = "governor fence 1"
_HIGHEST: Final = 2**62 - 1  # beyond it a lease id would not fit its place
# Whole to the last newline: of a record that was cut off, a part of the number would pass for a lower one.
_RECORD: Final = re.compile(rf"{_HEADER}\n([0-9]{{1,19}})\n".encode())
_LONGEST: Final = 64  # bytes to read of it: more than any record has, whatever the file has become


class FenceError(Exception):
    """The fence cannot be read or written; one line that says what, where and what to do."""


class Fence:
    """The record of one state folder, which must be locked for as long as this is used."""

    def __init__(self, folder: Path) -> None:
        """Read the record; a folder without one starts at 0. Raises FenceError."""
        self._path = folder / _NAME
        self.reserved = self._read()

    def reserve(self) -> int:
        """Put the next block on record, durably, and return the highest id of it. Blocks on the disk.

        Raises FenceError, and the old record stands.
        """
        ceiling = self.reserved + BLOCK
        if ceiling > _HIGHEST:
            raise FenceError(f"{self._path}: all lease ids are used up; start with a new state folder")
        new = self._path.with_suffix(".new")
        try:
            with new.open("w", encoding="ascii") as file:
                file.write(f"{_HEADER}\n{ceiling}\n")
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise FenceError(
                f"{self._path}: cannot be written ({error.strerror}); check the disk and the folder's owner"
            ) from error
        self.reserved = ceiling
        return ceiling

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
        return file.read(_LONGEST)
