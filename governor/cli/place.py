"""Where an ask stands in line, on one line of a terminal that is drawn again and again.

It knows terminals. It must never write a character where nobody looks: not to a file, not from the background.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

from governor.wording import SECOND, printable, span

if TYPE_CHECKING:
    from collections.abc import Iterator

# What a client calls, about once a second: how many come before, and the seconds that it is likely to take yet.
OnQueued = Callable[[int, float | None], None]

# The daemon stops counting here.
_MANY: Final = 100
CLEAR: Final = "\r\x1b[K"


def shown() -> bool:
    """Whether there is a terminal to show it on."""
    return sys.stderr is not None and sys.stderr.isatty() and (os.environ.get("TERM") or "dumb") != "dumb"


@contextmanager
def line(names: Sequence[str], notice: Callable[[], str] | None = None) -> "Iterator[OnQueued | None]":
    """What to tell where one stands, if there is a terminal to show it on; in the end the line is as it was.

    ``notice`` is asked when one comes to stand in line: what it says, if anything, is written above, and stays.
    """
    if not shown():
        yield None
        return
    drawn = Line(names, sys.stderr, notice=notice)
    try:
        yield drawn.draw
    finally:
        drawn.end()


class Line:
    """One line for one ask. It may be drawn from another thread than it is ended from, and later."""

    def __init__(
        self,
        names: Sequence[str],
        terminal: TextIO,
        clock: Callable[[], float] = time.monotonic,
        *,
        notice: Callable[[], str] | None = None,
    ) -> None:
        self._names = printable(", ".join(names))
        self._terminal = terminal
        self._clock = clock
        self._since = clock()
        self._lock = threading.Lock()
        self._notice = notice
        self._is_drawn = self._is_over = False

    def draw(self, ahead: int, expected: float | None) -> None:
        """Show it, in place of what was shown before."""
        notice, self._notice = self._notice, None
        said = notice() if notice is not None else ""
        so_far = self._clock() - self._since
        with self._lock:
            if self._is_over or not self._is_watched():
                return
            # Ctrl-C may come as soon as there is something to see, and must not leave it there.
            self._is_drawn = True
            if said:
                self._write(f"{CLEAR}{said}\n")
            self._write(CLEAR + fit(text(self._names, ahead, expected, so_far), width_of(self._terminal)))

    def end(self) -> None:
        """Leave no trace of it."""
        with self._lock:
            self._is_over = True
            if self._is_drawn and self._is_watched():
                self._write(CLEAR)

    def _is_watched(self) -> bool:
        """Whether this is the job in the foreground."""
        try:
            return os.tcgetpgrp(self._terminal.fileno()) == os.getpgrp()
        except OSError:
            # Not the terminal of this session; nobody else has a claim to it either.
            return True

    def _write(self, characters: str) -> None:
        try:
            self._terminal.write(characters)
            self._terminal.flush()
        except OSError:
            self._is_over = True


def width_of(terminal: TextIO) -> int:
    """In columns."""
    try:
        return os.get_terminal_size(terminal.fileno()).columns
    except OSError:
        return 80


def text(names: str, ahead: int, expected: float | None, so_far: float) -> str:
    """The line in words."""
    place = "next in line" if ahead == 0 else f"{ahead} ahead" if ahead < _MANY else f"{_MANY} or more ahead"
    likely = "" if expected is None else f", about {span(max(1, round(expected)) * SECOND)} to go"
    return f"waiting for {names}: {place}{likely}, {span(int(so_far) * SECOND, passed=True)} so far"


def fit(text: str, width: int) -> str:
    """Cut to less than a line of the terminal, which would begin another one when it is full."""
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) < width else set_cell_size(text, max(0, width - 2)) + "…"
