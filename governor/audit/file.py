"""The audit file: lines are added to it, and when it is long it begins anew.

It knows one path, and what others may do to it meanwhile. It must never know what a line says, or what is to be done if
it cannot be written.

For one thread at a time; each call may take as long as the disk does. Lines are handed to the kernel and not flushed:
they outlive the daemon, not the machine.
"""

import logging
import os
import stat
from collections import deque
from collections.abc import Callable
from itertools import islice, pairwise
from pathlib import Path
from typing import Final

# Others on the machine are not to know who holds what.
_MODE: Final = 0o640
# To read is only to see how it ends; a named pipe that is open for reading, too, needs nobody at its other end, and no
# write to it ever fails for want of one.
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY
# How much is handed over at once, in bytes.
_CHUNK: Final = 2**18

_LOG: Final = logging.getLogger("governor")


class AuditFileError(Exception):
    """The audit file cannot be had; the message is one line: which, why, and what to do."""


class AuditFile:
    """An open file. ``max_size`` in bytes, None is no bound; ``keep`` former ones stay beside it.

    ``complain`` is told, in a sentence, what went wrong without keeping lines from being written.
    """

    def __init__(self, path: Path, max_size: int | None, keep: int, complain: Callable[[str], None]) -> None:
        """Raises AuditFileError."""
        self.path = path
        self._max_size = max_size
        self._keep = keep
        self._complain = complain
        try:
            self._fd = os.open(path, _FLAGS, _MODE)
        except OSError as error:
            raise AuditFileError(
                f"audit file {path}: cannot be opened: {error.strerror}; make its folder, or name another under audit"
            ) from error
        self._done = self._cut = 0
        self._begin()

    def _begin(self) -> None:
        about = os.fstat(self._fd)
        regular = stat.S_ISREG(about.st_mode)
        # What is no file of its own, such as a pipe, is never begun anew; nor is what is only named so, as /dev/stdout.
        named = self.path.is_relative_to("/dev") or self.path.is_relative_to("/proc")
        self._own = regular and not named
        self._limit = self._max_size if self._own else None
        # How much of the next line has been written into it, and into the one before it.
        self._done, self._cut = 0, self._done or self._cut
        # It ends within a line: a disk was full. The next one must not become a part of that.
        self._torn = regular and about.st_size > 0 and os.pread(self._fd, 1, about.st_size - 1) != b"\n"

    def write(self, lines: deque[bytes]) -> None:
        """Add these at its end; those that are written whole are taken out of ``lines``. Raises OSError."""
        size = self._look()
        if lines and self._cut and self._cut == len(lines[0]) - 1:
            lines.popleft()  # nothing is missing of it but that it is the last line there
        self._cut = 0
        while lines:
            if self._torn:
                os.write(self._fd, b"\n")
                self._torn, size = False, None
            data, size = self._chunk(lines, size), None
            self._done += os.write(self._fd, memoryview(data)[self._done :])
            while lines and self._done >= len(lines[0]):
                self._done -= len(lines.popleft())

    def _look(self) -> int | None:
        """How long it is, if it is a file of its own; one that was deleted is begun anew, as nobody could read it."""
        if not self._own:
            return None
        about = os.fstat(self._fd)
        if about.st_nlink:
            return about.st_size
        self._done = 0  # what there was of the next line is gone, too
        self._open_again()
        _LOG.warning("audit file %s: was deleted, with the lines in it; a new one is begun", self.path)
        return None

    def _chunk(self, lines: deque[bytes], size: int | None) -> bytes:
        """As many whole lines as there is room for, or one; the first may be there in part. ``size``: if known."""
        if self._limit is None:
            room = _CHUNK
        else:
            # Not counted, but looked at: others may have cut it off.
            if size is None:
                size = os.fstat(self._fd).st_size
            if size and not self._done and size + len(lines[0]) > self._limit:
                self._begin_anew(size)
                size = os.fstat(self._fd).st_size
            room = min(_CHUNK, self._limit - size + self._done)
        number = 0
        for line in lines:
            room -= len(line)
            if room < 0 and number:
                break
            number += 1
        return b"".join(islice(lines, number))

    def _begin_anew(self, size: int) -> None:
        """What is there becomes the newest of the former ones; if that fails, more is added to it instead."""
        # Beside the file itself, if the path is a link. Not Path.resolve, which has an error of its own for links that
        # lead in a circle; here it is opening that says so.
        former = [Path(os.path.realpath(self.path))]
        try:
            # Up to the first that there is not: it takes the one before it, and so on.
            while former[-1].exists() and len(former) <= self._keep:
                former.append(former[0].with_name(f"{former[0].name}.{len(former)}"))
            for newer, older in reversed([*pairwise(former)]):
                newer.replace(older)
            self._open_again()
        except OSError as error:
            assert self._max_size is not None
            self._limit = size + self._max_size
            self._complain(f"audit file {self.path}: no new one can be begun: {error.strerror}; it grows on")

    def reopen(self) -> None:
        """Open whatever is at the path now, as somebody may have moved the file away; raises OSError, and goes on."""
        self._open_again()

    def _open_again(self) -> None:
        former, self._fd = self._fd, os.open(self.path, _FLAGS, _MODE)
        # Before anything that may fail: nothing is to be written to a number that is closed.
        try:
            self._begin()
        finally:
            os.close(former)

    def close(self) -> None:
        """Nothing is added any more."""
        os.close(self._fd)
