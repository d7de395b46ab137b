"""The log: what a person sees on standard error, and that nobody waits for it."""

import json
import logging
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from governor import logs

INSTANT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}"


class Reader:
    """Standard error as a pipe that is read when a test says so."""

    def __init__(self) -> None:
        self._out, self.end = os.pipe()
        self._said = b""
        self._thread = threading.Thread(target=self._read)

    def begin(self) -> None:
        """From now on somebody reads."""
        self._thread.start()

    def lines(self) -> list[str]:
        """All that was written before the last writer closed its end."""
        os.close(self.end)
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self._said.decode().splitlines()

    def _read(self) -> None:
        with os.fdopen(self._out, "rb") as stream:
            self._said = stream.read()


@pytest.fixture
def reader() -> Reader:
    """Nobody reads yet."""
    return Reader()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, reader: Reader) -> Iterator[Callable[[], list[str]]]:
    """Standard error, with the log started on it, twice: once is not enough to say nothing twice.

    The root logger is as before in the end.
    """
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    with os.fdopen(reader.end, "w", encoding="utf-8", closefd=False) as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        logs.start()
        log = logs.start()

    def lines() -> list[str]:
        log.stop()
        return reader.lines()

    reader.begin()
    yield lines
    root.handlers = handlers
    root.setLevel(level)


def test_an_event_is_one_line_with_its_instant_and_its_weight(said: Callable[[], list[str]]) -> None:
    """In columns, so that the eye finds what is no information."""
    logging.getLogger("governor").info("listening on %s", "unix:/g.sock")
    logging.getLogger("governor.http").warning("careful")
    logging.getLogger("anybody").error("broken")

    for line, rest in zip(
        said(), ["INFO    listening on unix:/g.sock", "WARNING careful", "ERROR   broken"], strict=True
    ):
        assert re.fullmatch(f"{INSTANT} {re.escape(rest)}", line)


def test_details_are_left_out(said: Callable[[], list[str]]) -> None:
    """Whatever anybody may send to a port, such as garbage, is logged below information."""
    logging.getLogger("governor.http").debug("garbage")

    assert said() == []


def test_no_text_of_others_makes_a_line_of_its_own(said: Callable[[], list[str]]) -> None:
    """Nor acts on a terminal: neither a message nor what was raised; to see it, nobody need escape anything himself."""

    def fail(why: str) -> None:
        raise ValueError(why)

    forged = "x\n2026-01-01 00:00:00.000 INFO    forged\r\x1b[2J\u202e"
    logging.getLogger("governor").info("by %s", forged)
    try:
        fail(forged)
    except ValueError:
        logging.getLogger("governor").exception("at %s", forged)

    lines = said()
    assert [line for line in lines if not line.startswith("  ")] == lines[:2]
    assert all(re.match(INSTANT, line) for line in lines[:2])
    assert all(line.isprintable() for line in lines)


def test_a_wrong_log_call_is_shown(reader: Reader) -> None:
    """With its traceback, in its place, and whoever made it goes on."""
    log = logs.Log(reader.end)
    log.handle(logging.LogRecord("governor", logging.INFO, "", 0, "%d", ("three",), None))
    log.stop()
    reader.begin()

    assert reader.lines()[-1].startswith("TypeError: ")


def test_a_pipe_that_nobody_reads_holds_up_nobody(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit is counted, and said in its place once somebody reads; what came before and after is whole."""
    monkeypatch.setattr(logs, "MAX_WAITING", 100)
    # Full from the start: else it depends on when the log's thread first runs what is dropped.
    os.set_blocking(reader.end, False)
    with suppress(BlockingIOError):
        while True:
            os.write(reader.end, b"\n" * 4096)
    os.set_blocking(reader.end, True)
    log = logs.Log(reader.end)

    for number in range(1000):
        log.say(f"{number} line")
    reader.begin()
    while not log._waiting.empty():  # it is read: this is bounded by the timeout of every test
        pass
    log.say("at last")
    log.stop()

    *told, last = [line for line in reader.lines() if line]
    number = gaps = 0
    for line in told:
        if line == f"{number} line":
            number += 1
        else:
            # The log's thread may take a line before it finds the pipe full: then there is room for this much.
            gap = re.fullmatch(r"(\d+) lines? of the log (was|were) dropped: nobody took them in time", line)
            assert gap, line
            number += int(gap[1])
            gaps += 1
    assert number == 1000
    assert 1 <= gaps <= 2
    assert 100 <= len(told) - gaps < 1000
    assert last == "at last"


def test_a_gap_is_told_when_nothing_else_follows(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator who comes back to a quiet daemon still learns that lines are missing."""
    monkeypatch.setattr(logs, "MAX_WAITING", 1)
    log = logs.Log(reader.end)
    for _ in range(100):
        log.say("x" * 10_000)

    reader.begin()
    log.stop()

    assert "of the log were dropped" in reader.lines()[-1]


def test_a_disk_that_is_full_for_a_while_costs_the_lines_of_that_while() -> None:
    """How many they are is said with the next that can be written."""
    written: list[bytes] = []

    def write(_fd: int, data: bytes) -> None:
        written.append(data)
        if len(written) <= 2:
            raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "_write", write)
        log = logs.Log(0)
        for text in ("one", "two", "three", "four"):
            log.say(text)
        log.stop()

    assert written[2:] == [b"2 lines of the log were dropped: nobody took them in time\nthree\n", b"four\n"]


PROGRAM = """
import json
import logging
from governor import logs
log = logs.start()
for number in range({lines}):
    logging.info("%d", number)
log.stop()
"""


def _program(lines: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", PROGRAM.format(lines=lines)], stderr=subprocess.PIPE)


def test_a_process_that_ends_has_said_everything() -> None:
    """Its last line is out before it is gone."""
    with _program(5_000) as process:
        _, said = process.communicate(timeout=30)

    assert (process.returncode, len(said.splitlines())) == (0, 5_000)
    assert said.endswith(b" INFO    4999\n")


def test_a_process_ends_although_nobody_reads_what_it_said() -> None:
    """And not by a crash of Python, which would want to flush a stream that a thread still writes to."""
    with _program(5_000) as process:
        assert process.wait(30) == 0
        assert process.stderr is not None
        process.stderr.close()


class TestJson:
    """For what collects lines: one object each."""

    @staticmethod
    def log(reader: Reader) -> logs.Log:
        """A log of that form, on a pipe."""
        log = logs.Log(reader.end, logs.LogFormat.JSON)
        reader.begin()
        return log

    def test_an_event(self, reader: Reader) -> None:
        """When, how bad, what; and in fields what the message says in words."""
        log = self.log(reader)
        record = logging.makeLogRecord(
            {
                "name": "governor",
                "levelname": "INFO",
                "msg": "lease %d\nexpired",
                "args": (7,),
                "created": 1_700_000_000.1239,
                "fields": {"lease": 7, "client": "", "time": "never", "resources": ("db",)},
            }
        )
        log.emit(record)
        log.stop()
        (line,) = reader.lines()
        assert json.loads(line) == {
            "time": "2023-11-14T22:13:20.124Z",
            "level": "info",
            "message": "lease 7\nexpired",
            "lease": 7,
            "resources": ["db"],
        }

    def test_a_name_does_nothing_to_a_terminal(self, reader: Reader) -> None:
        """Wherever it stands; it is the same for whoever reads the object."""
        log = self.log(reader)
        name = "a\x9b31m\u202eb\n\U000e0001é"
        log.emit(logging.makeLogRecord({"name": "governor", "msg": name, "fields": {"client": name}}))
        log.stop()
        (line,) = reader.lines()
        assert line.isprintable()
        assert (json.loads(line)["message"], json.loads(line)["client"]) == (name, name)

    def test_what_is_nothing_and_what_is_naught(self, reader: Reader) -> None:
        """A field that says nothing is left out; a number that is 0, a no and a list of none say something."""
        log = self.log(reader)
        fields: dict[str, object] = {
            "none": None,
            "empty": "",
            "zero": 0,
            "never": 0.0,
            "no": False,
            "names": (),
            "more": {},
        }
        log.emit(logging.makeLogRecord({"name": "governor", "levelname": "INFO", "msg": "so", "fields": fields}))
        log.stop()
        said = json.loads(reader.lines()[0])
        said = {name: value for name, value in said.items() if name not in {"time", "level", "message"}}
        assert said == {"zero": 0, "never": 0.0, "no": False, "names": [], "more": {}}

    def test_a_fault(self, reader: Reader) -> None:
        """With its traceback in one field, and whose it is."""
        log = self.log(reader)
        try:
            int("odd")
        except ValueError:
            log.emit(logging.LogRecord("asyncio", logging.ERROR, "", 0, "failed", (), sys.exc_info()))
        log.stop()
        said = json.loads(reader.lines()[0])
        assert (said["level"], said["message"], said["logger"]) == ("error", "failed", "asyncio")
        assert said["exception"].splitlines()[0] == "Traceback (most recent call last):"
        assert said["exception"].splitlines()[-1] == "ValueError: invalid literal for int() with base 10: 'odd'"

    def test_lines_that_were_dropped(self, reader: Reader) -> None:
        """How many there are is a line of the same form, each time; none is lost without a word."""
        log = logs.Log(reader.end, logs.LogFormat.JSON)
        lines = logs.MAX_WAITING + 5_000
        for number in range(lines):
            log.emit(logging.makeLogRecord({"name": "governor", "levelname": "INFO", "msg": f"line {number}"}))
        reader.begin()
        log.stop()
        said = [json.loads(line) for line in reader.lines()]
        gaps = [each["message"] for each in said if each["level"] == "warning"]
        form = r"(\d+) lines? of the log (?:was|were) dropped: nobody took (?:it|them) in time"
        dropped = [int(found[1]) for gap in gaps if (found := re.fullmatch(form, gap))]
        assert dropped, gaps
        assert sum(dropped) + len(said) - len(gaps) == lines

    def test_what_is_no_event_stands_as_it_is(self, reader: Reader) -> None:
        """Such as why a daemon did not start: whoever started it reads it."""
        log = self.log(reader)
        log.say("governor: no")
        log.stop()
        assert reader.lines() == ["governor: no"]


def test_a_terminal_shows_text_and_everything_else_gets_json() -> None:
    """Unless it is said which."""
    terminal, end = pty.openpty()
    out, pipe = os.pipe()
    try:
        forms = {
            (fd, form): type(logs.Log(fd, form).formatter) is logs._Text
            for fd in (end, pipe, None)
            for form in logs.LogFormat
        }
    finally:
        for fd in (terminal, end, out, pipe):
            os.close(fd)
    assert {pair for pair, text in forms.items() if text} == {
        (end, logs.LogFormat.AUTO),
        *((fd, logs.LogFormat.TEXT) for fd in (end, pipe, None)),
    }
