"""Environment variables, only where an operator asks for one: ``${NAME}`` inside a value.

What a variable holds is data and nothing else: it is put in after the YAML has been read, so it cannot add keys,
lists or comments. Nobody may show it: it may be a secret.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from governor.config.problems import Trail

_MENTION: Final = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)\})?")

# Many mentions of a long value would make a small file huge.
MAX_FILLED: Final = 2**20

# Where a value stands, and how it is written there.
Place = tuple[Trail, str]


class VariableError(ValueError):
    """A ``${…}`` that cannot be replaced; it names the variable, never a value."""


@dataclass(slots=True)
class Variables:
    """The environment as one file sees it.

    ``only``: the places where it may use any, with what is written there; None is everywhere. ``used``: where it does.
    """

    environ: Mapping[str, str]
    only: Collection[Place] | None = None
    used: set[Place] = field(default_factory=set, init=False)
    _left: int = field(default=MAX_FILLED, init=False)

    def fill(self, text: str, trail: Trail) -> str:
        """Puts the variables into ``text``, and ``${`` for each ``$${``; raises `VariableError`."""
        self.stand(text, trail)
        return _MENTION.sub(self._value, text)

    def stand(self, text: str, trail: Trail) -> None:
        """``text`` stands there; raises `VariableError` if it may not, before anything is looked up."""
        if "${" not in text or all(mention[0] == "$${" for mention in _MENTION.finditer(text)):
            return
        # Twice at one place is a key that is given twice: how much may be filled in must not tell how long values are.
        if self.only is not None and ((trail, text) not in self.only or (trail, text) in self.used):
            raise VariableError(
                "a variable may be used only where the config in force has the same, as what it would mean elsewhere "
                "is not told: write what is to be compared"
            )
        self.used.add((trail, text))

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
