"""Memory: what a limit remembers over a restart, as plain as JSON.

It knows how to read values that somebody may have damaged. It must never know what they mean.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Memory: TypeAlias = "int | float | str | Sequence[Memory] | Mapping[str, Memory] | None"


class UnreadableError(ValueError):
    """This is not what any limit of its kind would have remembered."""


def table(memory: Memory) -> Mapping[str, Memory]:
    """Values by name."""
    if not isinstance(memory, Mapping):
        raise UnreadableError(f"expected names with values, found {_short(memory)}")
    return memory


def rows(memory: Memory) -> Sequence[Memory]:
    """Values in order."""
    if isinstance(memory, str) or not isinstance(memory, Sequence):
        raise UnreadableError(f"expected a list, found {_short(memory)}")
    return memory


def number(memory: Memory, at_least: int | None = None) -> int:
    """A whole number."""
    if not isinstance(memory, int) or isinstance(memory, bool) or (at_least is not None and memory < at_least):
        least = "" if at_least is None else f" of at least {at_least}"
        raise UnreadableError(f"expected a whole number{least}, found {_short(memory)}")
    return memory


def text(memory: Memory) -> str:
    """Words."""
    if not isinstance(memory, str):
        raise UnreadableError(f"expected a text, found {_short(memory)}")
    return memory


def _short(memory: Memory) -> str:
    told = repr(memory)
    return told if len(told) <= 40 else f"{told[:37]}..."  # noqa: PLR2004 - as much as fits into a sentence
