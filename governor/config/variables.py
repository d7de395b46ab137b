"""Environment variables, only where an operator asks for one: ``${NAME}`` inside a value.

What a variable holds is data and nothing else: it is put in after the YAML has been read, so it cannot add keys,
lists or comments. Nobody may show it: it may be a secret.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

_MENTION: Final = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)\})?")

# Many mentions of a long value would make a small file huge.
MAX_FILLED: Final = 2**20


class VariableError(ValueError):
    """A ``${…}`` that cannot be replaced; it names the variable, never a value."""


@dataclass(slots=True)
class Variables:
    """The environment as one file sees it.

    ``only``: which variables it may use of those that are set; None is all. ``used``: which it does use.
    """

    environ: Mapping[str, str]
    only: Collection[str] | None = None
    used: set[str] = field(default_factory=set, init=False)
    _left: int = field(default=MAX_FILLED, init=False)

    def fill(self, text: str) -> str:
        """Puts the variables into ``text``, and ``${`` for each ``$${``; raises `VariableError`."""
        return _MENTION.sub(self._value, text)

    def _value(self, mention: re.Match[str]) -> str:
        if mention[0] == "$${":
            return "${"
        name = mention[1]
        if name is None:
            raise VariableError(
                "a variable is written ${NAME}, with letters, digits and _ in its name; "
                "for the characters ${ themselves write $${"
            )
        value = self.environ.get(name)
        if value is None:
            raise VariableError(f"the environment variable {name} is not set")
        if self.only is not None and name not in self.only:
            raise VariableError(
                f"the config in force does not use the environment variable {name}, so what it would mean is not told"
            )
        self.used.add(name)
        if not value.isprintable() and any("\ud800" <= character <= "\udfff" for character in value):
            raise VariableError(f"the environment variable {name} does not hold UTF-8 text")
        self._left -= len(value)
        if self._left < 0:
            raise VariableError(f"with {name} put in here, the variables of this file fill more than 1 MiB")
        return value


def is_only_variable(text: str) -> bool:
    """Whether ``text`` is one ``${NAME}`` and nothing beside it."""
    match = _MENTION.fullmatch(text)
    return match is not None and match[1] is not None
