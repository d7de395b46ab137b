"""The log: one line an event, on standard error: text for people, or JSON for what collects it.

It knows how a line looks and how it gets out. It must never know what is worth one. A record may bring ``fields``,
which JSON has beside the message that says the same in words.

Whoever logs never waits: lines go through a bounded queue to a thread that writes them. When nobody reads the pipe
behind standard error, that thread stands still and nothing else does; lines that no longer fit are counted, and the
count is said once there is room again.
"""

import json
import logging
import os
import queue
import select
import sys
import threading
import traceback
from contextlib import suppress
from enum import StrEnum
from types import TracebackType
from typing import Final

from governor.wording import MILLISECOND, count, fitted, harmless, instant, printable

# Lines that wait to be written: more than a reader that works ever leaves lying, and some megabytes.
MAX_WAITING: Final = 10_000
# How long the end of the process waits for a reader to take the last of them.
LAST_LINES_S: Final = 2.0

_Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class LogFormat(StrEnum):
    """How lines look; ``AUTO`` is text where standard error is a terminal, and JSON everywhere else."""

    AUTO = "auto"
    TEXT = "text"
    JSON = "json"


def start(form: LogFormat = LogFormat.TEXT) -> "Log":
    """Send every log record of this process to standard error, from INFO up, until the log is stopped."""
    root = logging.getLogger()
    for earlier in root.handlers:
        if isinstance(earlier, Log):
            earlier.stop()
    # Without standard error, its number may be that of any file which was opened since.
    log = Log(None if sys.stderr is None else sys.stderr.fileno(), form)
    root.handlers = [log]
    root.setLevel(logging.INFO)
    return log


class Log(logging.Handler):
    """A handler that writes lines to ``fd``, which stays the caller's; None: nowhere."""

    def __init__(self, fd: int | None, form: LogFormat = LogFormat.TEXT) -> None:
        super().__init__()
        self.setFormatter(_formatter(form, fd))
        self._fd = fd
        self._waiting: queue.Queue[str | None] = queue.Queue(MAX_WAITING)
        self._putting = threading.Lock()
        self._dropped = 0
        self._ending = False
        # A daemon thread, since it may stand in a write for ever. That is also why it does not write through
        # sys.stderr: it would keep the lock of that from Python's own flush at the end, which is a crash.
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Have a record written as a line; never waits."""
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - a wrong log call is shown and must not fail what it tells of
            line = traceback.format_exc().rstrip("\n")
        self.say(line)

    def say(self, text: str) -> None:
        """Have a text written as it stands, after all that was said before; never waits."""
        with self._putting:
            try:
                self._admit_gap()
                self._waiting.put_nowait(text)
            except queue.Full:
                self._dropped += 1

    def explain(self, text: str) -> None:
        """Why there will be no more of it: the same, to a terminal with no word cut in two."""
        width = os.get_terminal_size(self._fd).columns if self._fd is not None and os.isatty(self._fd) else 0
        self.say(fitted(text, width or None))

    def stop(self) -> None:
        """Wait, for a bounded time, until all is written. What is said from now on is not."""
        self._ending = True
        with suppress(queue.Full):  # only to wake the thread: it has work enough then
            self._waiting.put_nowait(None)
        self._thread.join(LAST_LINES_S)

    def _admit_gap(self) -> None:
        """In the place of lines that were dropped, how many they are; raises queue.Full if it does not fit either."""
        if self._dropped:
            self._waiting.put_nowait(self._gap(self._dropped))
            self._dropped = 0

    def _gap(self, lines: int) -> str:
        told = f"{count(lines, 'line')} of the log {'was' if lines == 1 else 'were'} dropped: nobody took them in time"
        if not isinstance(self.formatter, _Json):
            return told
        return self.format(logging.makeLogRecord({"name": "governor", "levelname": "WARNING", "msg": told}))

    def _write_all(self) -> None:
        unwritten = 0
        while True:
            with self._putting:
                if self._waiting.empty():
                    self._admit_gap()
                if self._ending and self._waiting.empty():
                    return
            line = self._waiting.get()
            if line is None or self._fd is None:
                continue
            text = f"{self._gap(unwritten)}\n{line}\n" if unwritten else f"{line}\n"
            try:
                _write(self._fd, text.encode(errors="backslashreplace"))
                unwritten = 0
            except OSError:  # the reader is gone or the disk full; there is no other place to say so
                unwritten += 1


def _formatter(form: LogFormat, fd: int | None) -> logging.Formatter:
    if form is LogFormat.JSON or (form is LogFormat.AUTO and not (fd is not None and os.isatty(fd))):
        return _Json()
    return _Text("%(asctime)s.%(msecs)03d %(levelname)-7s %(message)s", "%Y-%m-%d %H:%M:%S")


class _Text(logging.Formatter):
    """One line a record, and after it how it came to that: nothing in either looks like another record, or acts."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's word
        """As logging calls it."""
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: _Raised) -> str:  # noqa: N802
        """Indented."""
        return "\n".join(f"  {printable(line)}" for line in super().formatException(ei).split("\n"))


class _Json(logging.Formatter):
    """One object a line. A field never takes the place of what every line has."""

    def format(self, record: logging.LogRecord) -> str:
        """As logging calls it."""
        at = round(record.created * 1000) * MILLISECOND
        said: dict[str, object] = {
            "time": instant(at, 3),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.name != "governor":
            said["logger"] = record.name
        fields: dict[str, object] = getattr(record, "fields", {})
        said.update({name: value for name, value in fields.items() if value not in (None, "") and name not in said})
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return harmless(json.dumps(said, ensure_ascii=False, default=str))


def _write(fd: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:  # whoever shares it with us has set it so
            select.select([], [fd], [])
