"""The loop of `governor top`: keys, signals and news, one after the other.

It knows in what order they concern the terminal. It must never know what is seen.
"""

import os
import select
import signal
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from governor.cli.dying import die_of
from governor.cli.exits import Exit
from governor.cli.live.feed import Feed
from governor.cli.live.keys import Keyboard
from governor.cli.live.painting import ABOVE, BELOW, Heading, paint
from governor.cli.live.terminal import Screen
from governor.cli.live.view import View
from governor.wording import SECOND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from governor.cli.options import Where

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_HEARD: Final = (*_ENDING, signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT)
# How long the rest of a key may be under way, such as over ssh.
_KEY_SECONDS: Final = 0.1


def run(where: "Where", interval: int) -> int:
    """Until somebody has seen enough; the exit code. ``interval`` is in nanoseconds. Raises CommandError."""
    with _wakeable() as (woken, wake):

        def news() -> None:
            # A pipe that is full wakes as well.
            with suppress(BlockingIOError):
                os.write(wake, b"\0")

        feed = Feed(where, interval / SECOND, news)
        colour = not os.environ.get("NO_COLOR")
        with Screen(sys.stdin.fileno(), sys.stdout.fileno(), colour=colour) as screen:
            feed.start()
            try:
                number = _Loop(screen, feed, where, interval).run(woken)
            finally:
                feed.stop()
    return Exit.OK if number is None else die_of(number)


class _Loop:
    def __init__(self, screen: Screen, feed: Feed, where: "Where", interval: int) -> None:
        self._screen = screen
        self._feed = feed
        self._where = str(where.address)
        self._interval = interval
        self._view = View()
        self._keyboard = Keyboard()

    def run(self, woken: int) -> int | None:
        """Until a key says so: None; or a signal: its number."""
        while not self._view.over:
            self._draw()
            limit = _KEY_SECONDS if self._keyboard.waits else None
            ready, _, _ = select.select([self._screen.keyboard, woken], [], [], limit)
            if woken in ready:
                for number in os.read(woken, 4096):
                    if number in _ENDING:
                        return number
                    self._heed(number)
            if self._screen.keyboard in ready:
                data = _read(self._screen.keyboard)
                if not data:
                    return signal.SIGHUP
                self._press(data)
            elif not ready:
                self._press(b"", final=True)
        return None

    def _press(self, data: bytes, *, final: bool = False) -> None:
        view = self._view
        for key in self._keyboard.keys(data, final=final):
            names = [each.name for each in view.rows(self._feed.seen.answer.resources)]
            _, height = self._screen.size()
            view.press(key, names, max(1, height - ABOVE - BELOW))
        self._feed.look_into(view.inside)
        if view.torn:
            view.torn = False
            self._screen.tear()

    def _heed(self, number: int) -> None:
        if number == signal.SIGTSTP:
            self._screen.leave()
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTSTP)
            # Here we go on, perhaps much later.
            signal.signal(signal.SIGTSTP, _take)
            self._screen.enter()
        elif number in {signal.SIGCONT, signal.SIGWINCH}:
            self._screen.tear()

    def _draw(self) -> None:
        width, height = self._screen.size()
        heading = Heading(self._where, time.strftime("%H:%M:%S"), self._interval)
        self._screen.show(paint(self._view, self._feed.seen, heading, width=width, height=height), width)


@contextmanager
def _wakeable() -> "Iterator[tuple[int, int]]":
    """A pipe through which signals come as their numbers, and anything else as 0; its two ends."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    before = {number: signal.signal(number, _take) for number in _HEARD}
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    try:
        yield woken, wake
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(woken)
        os.close(wake)


def _take(_number: int, _frame: object) -> None:
    """The pipe has it."""


def _read(keyboard: int) -> bytes:
    try:
        return os.read(keyboard, 1024)
    except OSError:
        # The terminal is gone.
        return b""
