"""A terminal taken over: its other screen, its keys as they are pressed, and all of it given back.

It knows escape sequences and termios. It must never know what is drawn. In one sentence: however this ends, the
terminal is as it was.
"""

import os
import termios
import tty
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from rich.cells import cell_len

from governor.cli.table import clip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from governor.cli.live.painting import Line, Style

# The other screen, no cursor, no wrapping at the right edge.
_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
_LEAVE: Final = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_RESET: Final = "\x1b[0m"
_CHOSEN: Final = "\x1b[7m"
_CLEAR: Final = "\x1b[K"
_LOOKS: Final[dict["Style", str]] = {
    "plain": "",
    "bold": "\x1b[1m",
    "dim": "\x1b[2m",
    "red": "\x1b[31m",
    "yellow": "\x1b[33m",
    "bar": "\x1b[1;4m",
}
_COLOURS: Final[frozenset["Style"]] = frozenset({"red", "yellow"})
_LEAST: Final = (20, 6)


class Screen:
    """While entered, the terminal is ours."""

    def __init__(self, keyboard: int, output: int, *, colour: bool) -> None:
        self.keyboard = keyboard
        self._output = output
        self._looks = {style: look for style, look in _LOOKS.items() if colour or style not in _COLOURS}
        self._before: termios._AttrReturn | None = None
        self._drawn: list[str] = []
        self._size = (0, 0)

    def __enter__(self) -> Self:
        self.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave()

    def enter(self) -> None:
        """Take it over. Ctrl-C and Ctrl-Z go on to be signals."""
        self._before = termios.tcgetattr(self.keyboard)
        tty.setcbreak(self.keyboard, termios.TCSANOW)
        self._write(_ENTER)
        self._drawn = []

    def leave(self) -> None:
        """Give it back, once."""
        if self._before is None:
            return
        before, self._before = self._before, None
        try:
            self._write(_LEAVE)
            termios.tcsetattr(self.keyboard, termios.TCSANOW, before)
        except (OSError, termios.error):
            # The terminal is gone, and nobody left to give it to.
            return

    def tear(self) -> None:
        """What is on it is not known any more."""
        self._drawn = []

    def size(self) -> tuple[int, int]:
        """Columns and lines; never less than can be drawn on."""
        try:
            columns, lines = os.get_terminal_size(self._output)
        except OSError:
            columns, lines = 80, 24
        return max(_LEAST[0], columns or 80), max(_LEAST[1], lines or 24)

    def show(self, lines: "Sequence[Line]", width: int) -> None:
        """Draw them, writing no line that is there already: nothing flickers, and a slow line is spared."""
        if (width, len(lines)) != self._size:
            self._size, self._drawn = (width, len(lines)), []
        parts = [] if self._drawn else ["\x1b[2J"]
        dressed = [self._dress(line, width) for line in lines]
        for number, text in enumerate(dressed):
            if not self._drawn or self._drawn[number] != text:
                parts.append(f"\x1b[{number + 1};1H{text}")
        self._drawn = dressed
        if parts:
            self._write("".join(parts))

    def _dress(self, line: "Line", width: int) -> str:
        text = clip(line.text, width)
        look = self._looks.get(line.style, "") + (_CHOSEN if line.chosen else "")
        # At the end of a line that is full, to clear the rest of it would clear its last character.
        rest = _CLEAR if cell_len(text) < width else ""
        return f"{look}{text}{_RESET}{rest}" if look else text + rest

    def _write(self, text: str) -> None:
        data = text.encode(errors="replace")
        while data:
            data = data[os.write(self._output, data) :]
