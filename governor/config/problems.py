"""What is wrong with a config file, in words for the person who wrote it.

It knows how a problem names its place. It must never show what an environment variable held, and never print a
character that a terminal would obey.
"""

import json
import re
from dataclasses import dataclass
from typing import Final

from governor.wording import printable

# Keys and list positions from the root of the file down to a value.
Trail = tuple[str | int, ...]

# A file of nothing but mistakes is answered in bounded time and space.
MAX_PROBLEMS: Final = 1000
MAX_SHOWN: Final = 80

_BARE_KEY: Final = re.compile(r"[\w-]+")

# Far more than is ever shown: to look through half a megabyte takes a minute.
_LOOKED_AT: Final = 1000
# What tells of itself that it is a secret, also as a key: a token of ours, a key in PEM, a URL with a password.
_TELLING: Final = re.compile(r"gov_[\w-]|-----BEGIN|://[^/\s@]*:(?!\$\{)[^/\s@]*@")
# As a value: a word that nobody could guess or remember.
_GUESSED_BY_NOBODY: Final = re.compile(r"(?=[A-Za-z_]*[0-9])(?=[0-9_]*[A-Za-z])\w{32,}", re.ASCII)
_NOT_SHOWN: Final = "(not shown: it may be a secret)"


@dataclass(slots=True, frozen=True)
class Problem:
    """One thing to put right. ``line`` counts from 1 and is None where the file as a whole is meant.

    ``bare``: the message without anything that was written in the file; empty: there is nothing of that in it.
    """

    file: str
    line: int | None
    path: str
    message: str
    bare: str = ""

    @property
    def public(self) -> str:
        """For those who may not read the file. What was written by mistake, even as a key, may be a password."""
        return f"{self._place}: {self.bare or self.message}"

    def __str__(self) -> str:
        return f"{self._place}: {self.path}: {self.message}" if self.path else f"{self._place}: {self.message}"

    @property
    def _place(self) -> str:
        return printable(self.file) if self.line is None else f"{printable(self.file)}:{self.line}"


class ConfigError(Exception):
    """A config that cannot be used, with everything that is wrong with it in the order of its lines."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems: Final = problems

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


class Problems:
    """Gathers the problems of one file, the first `MAX_PROBLEMS` found of them; the rest are only counted."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._found: list[Problem] = []
        self._more = 0

    def add(self, line: int | None, trail: Trail, message: str, bare: str = "") -> None:
        """Notes one more; ``bare`` as of `Problem`."""
        if len(self._found) < MAX_PROBLEMS:
            self._found.append(Problem(self._file, line, path(trail), message, bare))
        else:
            self._more += 1

    def __bool__(self) -> bool:
        return bool(self._found)

    def error(self) -> ConfigError:
        """All of them as the one error that is raised."""
        found = sorted(self._found, key=lambda problem: problem.line or 0)
        if self._more:
            found.append(Problem(self._file, None, "", f"and {self._more} more problems"))
        return ConfigError(tuple(found))


def path(trail: Trail) -> str:
    """``pools.orders-db.members``, ``listen[0]``, ``semaphores."a.b"``: keys that need quotes get them."""
    text = ""
    for step in trail:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            shown = len(step) <= MAX_SHOWN and _BARE_KEY.fullmatch(step) and not telling(step)
            key = step if shown else quoted(step)
            text += f".{key}" if text else key
    return text


def telling(text: str) -> bool:
    """Whether it tells of itself that it is a secret, wherever it stands."""
    return _TELLING.search(text, 0, _LOOKED_AT) is not None


def quoted(text: str) -> str:
    """``text`` in double quotes, shortened, safe on a terminal; nothing of what looks like a secret."""
    if telling(text) or _GUESSED_BY_NOBODY.search(text, 0, _LOOKED_AT):
        return _NOT_SHOWN
    return printable(json.dumps(_cut(text), ensure_ascii=False))


def shortened(text: str) -> str:
    """``text`` without quotes, shortened, safe on a terminal."""
    return printable(_cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def spoken(words: list[str], last: str = "or") -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
