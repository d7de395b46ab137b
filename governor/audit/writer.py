"""The writer of the audit trail: one thread, with a bounded amount of lines before it.

It knows the order of lines, what becomes of those that do not fit, and when to try again. It must never know what they
say, and never hold up whoever puts a line.

The invariant: whatever is put is either written, or counted in a line that is written in its place.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from governor.audit.file import AuditFile
from governor.wording import were

# Of lines that wait, in bytes: some seconds of a busy daemon. As much again may be on its way to the disk.
MAX_BYTES: Final = 2**24
# How long after a failure it is tried again, in seconds.
RETRY_S: Final = 1.0
# Lines of those that come first that are made at once: less than a millisecond's work.
_SLICE: Final = 100

_LOG: Final = logging.getLogger("governor")


class Writer:
    """``missed`` makes the line that stands for so many that were dropped; ``meanwhile``: what is done while it fails.

    Called in the thread: ``failed`` for each attempt that failed, ``news`` after each attempt.
    """

    def __init__(
        self,
        file: AuditFile,
        missed: Callable[[int], bytes],
        *,
        meanwhile: str,
        failed: Callable[[], None],
        news: Callable[[], None],
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._file = file
        self._missed_line = missed
        self._meanwhile = meanwhile
        self._failed = failed
        self._news = news
        self._max_bytes = max_bytes
        self._work = threading.Condition()
        self._lines: list[bytes] = []
        self._bytes = 0
        self._missed = 0
        # Lines before all that is put, and how many there are yet.
        self._first: Iterator[bytes] = iter(())
        self._firsts = 0
        self._reopening = self._ending = False
        # How many lines were put, up to which they are taken to be written, and up to which they are.
        self.put = self.taken = self.written = 0
        # Why it cannot be written; empty while it can.
        self.problem = ""
        # The batch that is being written. Of the thread alone.
        self._batch: deque[bytes] = deque()
        # A daemon thread, since it may stand in a write for ever.
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The bytes that wait, beside those on their way to the disk."""
        return self._bytes

    def begin_with(self, lines: Iterator[bytes], number: int) -> None:
        """Before anything is put: have so many written first. They take no room: the thread makes them as it writes."""
        with self._work:
            self._first, self._firsts = lines, number
            self._work.notify()

    def add(self, lines: Sequence[bytes]) -> int:
        """Have these written after all before; how many of them are dropped, since they do not fit."""
        dropped = 0
        with self._work:
            for line in lines:
                # Once one is dropped the next are, too, until a batch is taken: what stands for them is one line.
                if self._missed or self._bytes + len(line) > self._max_bytes:
                    self._missed += 1
                    dropped += 1
                else:
                    self._lines.append(line)
                    self._bytes += len(line)
            self.put += len(lines)
            self._work.notify()
        return dropped

    def reopen(self) -> None:
        """Somebody may have moved the file away: go on with whatever is at its path."""
        with self._work:
            self._reopening = True
            self._work.notify()

    def end(self) -> None:
        """Write what is there, and no more; see `join`."""
        with self._work:
            self._ending = True
            self._work.notify()

    def join(self, seconds: float) -> int:
        """Wait for the end, so long at most; how many lines are not written, or not known to be."""
        self._thread.join(seconds)
        with self._work:
            return len(self._batch) + self._firsts + len(self._lines)

    def _run(self) -> None:
        while True:
            with self._work:
                self._work.wait_for(self._has_work)
                ending, reopening, self._reopening = self._ending, self._reopening, False
            if reopening:
                self._reopen()
            good = self._write()
            if good:
                with self._work:
                    self.written = self.taken
                    over = self._ending and not self._lines and not self._missed and not self._firsts
            else:
                over = ending
            self._news()
            if over:
                self._close()
                return
            if not good:
                with self._work:
                    self._work.wait_for(lambda: self._ending or self._reopening, RETRY_S)

    def _has_work(self) -> bool:
        return bool(self._lines or self._missed or self._batch or self._firsts or self._reopening or self._ending)

    def _take(self) -> None:
        """All that waits, unless there is a batch that could not be written: what waits stays within its bound."""
        if self._batch:
            return
        if self._firsts:
            number = min(_SLICE, self._firsts)
            self._firsts -= number
            self._batch.extend(islice(self._first, number))
            return
        self._batch.extend(self._lines)
        self._lines, self._bytes = [], 0
        if self._missed:
            self._batch.append(self._missed_line(self._missed))
            _LOG.warning(
                "audit file %s: %s dropped: it took them too slowly", self._file.path, were(self._missed, "line")
            )
            self._missed = 0
        self.taken = self.put

    def _write(self) -> bool:
        try:
            with self._work:
                self._take()
            self._file.write(self._batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, lines wait for this thread, and it must go on
            self._failed()
            if self.problem != (problem := _why(error)):
                self.problem = problem
                _LOG.error(
                    "audit file %s: cannot be written: %s; until then, %s", self._file.path, problem, self._meanwhile
                )
            return False
        if self.problem:
            self.problem = ""
            _LOG.info("audit file %s: can be written again", self._file.path)
        return True

    def _reopen(self) -> None:
        try:
            self._file.reopen()
        except Exception as error:  # noqa: BLE001 - as above
            self._failed()
            _LOG.error(
                "audit file %s: cannot be opened anew: %s; what was opened before is written on",
                self._file.path,
                _why(error),
            )

    def _close(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            # Such as of a network: what the kernel took before it may not be there.
            self._failed()
            _LOG.error(
                "audit file %s: cannot be closed: %s; see whether its last lines are there",
                self._file.path,
                _why(error),
            )


def _why(error: Exception) -> str:
    """In one line, and never empty: empty is no problem."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(f"{type(error).__name__}: {error}".split())
