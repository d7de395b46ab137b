"""The tree of a config file: mappings, lists and scalars that remember their lines.

It knows no types: a scalar stays the text that was written, so ``on``, ``1_0``, ``1:30`` and ``010`` never turn
into something else. Who wants a number reads one.
"""

import re
from dataclasses import dataclass
from typing import Final

from governor.config.problems import quoted
from governor.config.variables import is_only_variable

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
# What YAML 1.2 reads as a number or a boolean.
TYPED: Final = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)|true|True|TRUE|false|False|FALSE"
)
# What is shown as well without quotes around it.
_BARE: Final = re.compile(r"[-+.]?[0-9][\w.:+-]{0,40}|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)|true|false")


@dataclass(slots=True, frozen=True)
class Scalar:
    """One value: its ``text``, with variables filled in, and how it was ``written``."""

    text: str
    written: str
    quoted: bool
    line: int

    @property
    def secret(self) -> bool:
        """Whether a variable may have had a part in it."""
        return "${" in self.written

    @property
    def plain(self) -> bool:
        """Whether it may be a number. Quotes around a lone variable say nothing: inside { } it needs them."""
        return not self.quoted or is_only_variable(self.written)

    @property
    def null(self) -> bool:
        """Whether nothing was written."""
        return not self.quoted and self.text in _NULLS

    @property
    def typed(self) -> bool:
        """Whether YAML would make a number or a boolean of what was written."""
        return not self.quoted and TYPED.fullmatch(self.written) is not None


class MappingNode(dict[str, "Node"]):
    """Keys as they were written, with the line of each.

    ``partial`` when one was refused and left out. ``meant``: unknown keys, and the known one that each may be.
    """

    __slots__ = ("line", "lines", "meant", "partial")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}
        self.partial = False
        self.meant: dict[str, str | None] = {}


class ListNode(list["Node"]):
    """Items in their order."""

    __slots__ = ("line",)

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line


@dataclass(slots=True, frozen=True)
class Broken:
    """Stands where something was refused already, so that nobody complains a second time."""

    line: int


Node = Scalar | MappingNode | ListNode | Broken


def found(node: object) -> str:
    """What stands there, in words, with variables by their name."""
    match node:
        case MappingNode():
            return "a mapping"
        case ListNode():
            return "a list"
        case Scalar() if is_only_variable(node.written):
            return f"what {node.written} holds" if node.text else f"nothing in {node.written}"
        case Scalar() if node.null:
            return "nothing"
        case Scalar() if not node.quoted and _BARE.fullmatch(node.written):
            return node.written
        case Scalar():
            return quoted(node.written)
        case _:
            raise AssertionError(node)
