"""The stream of what happens, written as it comes, to whoever reads it.

It knows when the stream, the daemon and the reader are gone. It must never know what an event says.
"""

import os
import select
import stat
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, NoReturn, Self

from governor.cli.admin import reached
from governor.cli.exits import CommandError, Exit
from governor.cli.hints import guessing
from governor.cli.output import complain, say

if TYPE_CHECKING:
    from governor.cli.options import Where
    from governor.v1.admin_pb2 import Event, WatchRequest

    Tell = Callable[[Event], str | None]

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
# A daemon that is away says so at once or never.
_AWAY: Final = frozenset({Exit.CANNOT_REACH, Exit.TRY_LATER})


def once(where: "Where", request: "WatchRequest", tell: "Tell") -> None:
    """Until the daemon ends the stream.

    Raises:
        CommandError: It could not be had, or broke.
        BrokenPipeError: Whoever reads is gone.
    """
    with Reader() as reader:
        _hear(where, request, tell, reader)


def follow_on(where: "Where", request: "WatchRequest", tell: "Tell") -> NoReturn:
    """The same, from one daemon after the other; what happens while none is there is not told. Raises as `once`."""
    pause = _FIRST_PAUSE
    ever = away = False

    def heard() -> None:
        nonlocal pause, ever, away
        if away:
            complain("governor: the daemon is back")
        pause, ever, away = _FIRST_PAUSE, True, False

    with Reader() as reader:
        while True:
            try:
                _hear(where, request, tell, reader, heard)
                why = f"the daemon at {where.address} has ended"
            except CommandError as error:
                if not ever or error.exit not in _AWAY:
                    raise
                why = error.sentence
            if not away:
                complain(f"governor: {why}; waiting for it to be back")
                away = True
            reader.wait(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)


def _hear(
    where: "Where",
    request: "WatchRequest",
    tell: "Tell",
    reader: "Reader",
    heard: Callable[[], None] = lambda: None,
) -> None:
    """One stream. ``heard`` is told of each message."""
    with reached(where) as admin, guessing(admin, *request.resources):
        try:
            for answer in admin.listed(lambda stub: stub.Watch, request, seconds=None, opened=reader.stops):
                heard()
                lines = [line for event in answer.events if (line := tell(event)) is not None]
                if lines:
                    say(lines)
        except CommandError:
            reader.check()
            raise


class Reader:
    """Whoever reads our output, through a pipe: that it is gone is seen though nothing is to be written."""

    def __init__(self) -> None:
        self._gone = threading.Event()
        self._done, self._end = os.pipe()
        self._stop: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if _is_pipe():
            self._thread = threading.Thread(target=self._look, name="governor-reader", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over()

    def stops(self, stop: Callable[[], None]) -> None:
        """What is to be called when it goes."""
        self._stop = stop
        if self._gone.is_set():
            stop()

    def check(self) -> None:
        """Raises BrokenPipeError if it is gone."""
        if self._gone.is_set():
            raise BrokenPipeError

    def wait(self, seconds: float) -> None:
        """So long, while it is there. Raises BrokenPipeError when it goes."""
        self._gone.wait(seconds)
        self.check()

    def _over(self) -> None:
        os.close(self._end)
        if self._thread is not None:
            self._thread.join()
        os.close(self._done)

    def _look(self) -> None:
        poll = select.poll()
        # Of the writing end of a pipe, an error is told unasked, and is that nobody reads.
        poll.register(sys.stdout.fileno(), 0)
        poll.register(self._done, 0)
        ready = {number for number, _ in poll.poll()}
        if self._done not in ready:
            self._gone.set()
            self._stop()


def _is_pipe() -> bool:
    try:
        mode = os.fstat(sys.stdout.fileno()).st_mode
    except (OSError, ValueError):  # no file at all
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
