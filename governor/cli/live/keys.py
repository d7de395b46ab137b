"""Keys, as terminals send them.

It knows bytes. It must never know what a key is for.
"""

import codecs
import re
from typing import Final

ESCAPE: Final = "escape"
_NAMED: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1bOC": "right",
    "\x1bOD": "left",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1bOH": "home",
    "\x1bOF": "end",
    "\x1b[1~": "home",
    "\x1b[4~": "end",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
    "\x15": "clear",
    "\x0c": "redraw",
}
# A whole escape sequence, known or not; then what may be the beginning of one.
_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[@-~])")
_BEGUN: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")


class Keyboard:
    """Bytes in, keys out: a printable character stands for itself, other keys have names."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    @property
    def waits(self) -> bool:
        """Whether there may be more to come of one key."""
        return bool(self._rest)

    def keys(self, data: bytes, *, final: bool = False) -> list[str]:
        """The keys that are complete. ``final``: what was begun is not gone on with, so an escape is the key itself."""
        text = self._rest + self._decoder.decode(data)
        self._rest = ""
        found = []
        while text:
            if not final and _BEGUN.match(text):
                self._rest = text
                break
            if sequence := _SEQUENCE.match(text):
                word, text = sequence.group(), text[sequence.end() :]
                if word in _NAMED:
                    found.append(_NAMED[word])
                continue
            character, text = text[0], text[1:]
            if character == "\x1b":
                found.append(ESCAPE)
            elif character in _NAMED:
                found.append(_NAMED[character])
            elif character.isprintable():
                found.append(character)
        return found
