"""The log: what a person sees on standard error."""

import logging
import re
import sys
from collections.abc import Iterator
from io import StringIO

import pytest

from governor import logs


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[StringIO]:
    """Standard error, with the log started on it, twice: once is not enough to say nothing twice.

    The root logger is as before in the end.
    """
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    stderr = StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    logs.start()
    logs.start()
    yield stderr
    root.handlers = handlers
    root.setLevel(level)


def test_an_event_is_one_line_with_its_instant_and_its_weight(said: StringIO) -> None:
    """In columns, so that the eye finds what is no information."""
    logging.getLogger("governor").info("listening on %s", "unix:/g.sock")
    logging.getLogger("governor.http").warning("careful")
    logging.getLogger("anybody").error("broken")

    lines = said.getvalue().splitlines()
    instant = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}"
    for line, rest in zip(
        lines, ["INFO    listening on unix:/g.sock", "WARNING careful", "ERROR   broken"], strict=True
    ):
        assert re.fullmatch(f"{instant} {re.escape(rest)}", line)


def test_details_are_left_out(said: StringIO) -> None:
    """Whatever anybody may send to a port, such as garbage, is logged below information."""
    logging.getLogger("governor.http").debug("garbage")

    assert said.getvalue() == ""
