"""Where every line that `governor` says goes out, and what the terminal is spared.

It knows streams and characters. It must never know what a line is about.
"""

import errno
import io
import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from governor.wording import SECOND, fitted, harmless

if TYPE_CHECKING:
    from governor.cli.table import Column


class _Nowhere(io.StringIO):
    """Stands for a stdout that was closed before the command began: what is written there is refused."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "standard output is closed")


def tolerate_any_text() -> None:
    """A name that the terminal's encoding cannot show is shown escaped, instead of ending the command.

    And a closed stdout is like a full disk, rather than no stream at all, of which Python would make None.
    """
    if sys.stdout is None:
        sys.stdout = _Nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def give_up_what_is_unwritten() -> None:
    """Have Python not try that again at its end: it would say so, and exit with a code of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - as light as it can be
                os.dup2(nowhere.fileno(), stream.fileno())


def say(lines: Iterable[str]) -> None:
    """Write lines to stdout; raises OSError. Colours reach a terminal only, and none if NO_COLOR is set."""
    click.echo("\n".join(lines), color=False if os.environ.get("NO_COLOR") else None)


def terminal_width() -> int | None:
    """In columns; None where stdout is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def say_table(columns: "Sequence[Column]") -> None:
    """Write a table to stdout, its header bold."""
    from governor.cli.table import arrange

    head, *rows = arrange(columns, width=terminal_width())
    say([click.style(head, bold=True), *rows])


def say_json(value: Mapping[str, object]) -> None:
    """Write one JSON document to stdout, indented for people."""
    say([harmless(json.dumps(value, indent=2, ensure_ascii=False))])


def complain_json(code: int, message: str, *, reason: str = "", retry: int | None = None) -> None:
    """Write an error to stderr as one line of JSON; ``retry`` is in nanoseconds."""
    after = None if retry is None else retry / SECOND
    error = {"code": code, "reason": reason or None, "message": message, "retry_after_seconds": after}
    _complain(harmless(json.dumps({"error": error}, ensure_ascii=False)))


def complain(message: str) -> None:
    """Write a message to stderr, to a terminal with no word cut in two."""
    if sys.stderr is not None and sys.stderr.isatty():
        message = fitted(message, shutil.get_terminal_size().columns)
    _complain(message)


def _complain(message: str) -> None:
    try:
        click.echo(message, err=True)
    except OSError:
        # There is nowhere left to say it; the exit code still does.
        return
