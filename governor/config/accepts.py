"""How a single value is accepted or refused.

It knows how to tell pydantic what a scalar means, and editors what it looks like. Every refusal is in our own words
and shows what was written, never what a variable held.
"""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from governor.address import AddressError
from governor.config.nodes import Broken, MappingNode, Scalar, found
from governor.units import UnitError

T = TypeVar("T")

# Comparing takes time that grows faster than the words; a file of nothing but mistakes gets so many guesses.
MAX_WORD: Final = 64
MAX_GUESSES: Final = 1000

# In the schema of every value, since any may have a variable in it.
VARIABLE: Final = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"}


@dataclass(slots=True)
class Guesses:
    """Says what a mistyped word was meant to be, a bounded number of times."""

    left: int = MAX_GUESSES

    def nearest(self, word: str, words: Iterable[str]) -> str | None:
        """The one of ``words`` that is most like ``word``, if any is."""
        if self.left == 0 or len(word) > MAX_WORD:
            return None
        self.left -= 1
        near = difflib.get_close_matches(word.lower().replace("-", "_"), list(words), n=1)
        return near[0] if near else None


@dataclass(slots=True, frozen=True)
class Context:
    """What a value needs to know of its file: where relative paths start, what ~ is, its ``defaults``."""

    folder: Path
    home: str | None
    defaults: MappingNode | None
    guesses: Guesses = field(default_factory=Guesses)


def context_of(info: ValidationInfo) -> Context:
    """The context that the whole validation was started with."""
    assert isinstance(info.context, Context)
    return info.context


class HintError(ValueError):
    """A value that will not do; the message is a hint at the way out, and may be empty."""


# What pydantic is to call a complaint of ours.
OURS: Final = "ours"


def fault(message: str, bare: str = "") -> PydanticCustomError:
    """A refusal in our own words, as pydantic carries it; ``bare`` as of `Problem`."""
    return PydanticCustomError(OURS, "{message}", {"message": message, "bare": bare})


def said(report: ErrorDetails) -> tuple[str, str]:
    """Message and ``bare`` of such a refusal."""
    return report["msg"], report["ctx"]["bare"]


# What `Broken` is answered with: it was complained about when the file was read.
REPORTED: Final = PydanticCustomError("reported", "reported already")


def refusal(what: str, node: object, hint: str = "") -> PydanticCustomError:
    """``expected …; found …``, unless it was complained about already."""
    if isinstance(node, Broken):
        return REPORTED
    return fault(f"expected {what}; found {found(node)}" + (f": {hint}" if hint else ""), f"expected {what}")


@dataclass(slots=True, frozen=True)
class Accepts(Generic[T]):
    """A value, for an ``Annotated``.

    ``what`` it is, in words that follow "expected". ``meaning`` of a scalar; it raises `HintError`, `UnitError` or
    `AddressError`. ``schema`` of it for editors. ``words`` that it may be, and that are easily mistyped.
    """

    what: str
    meaning: Callable[[Scalar, Context], T]
    schema: JsonSchemaValue
    words: tuple[str, ...] = ()

    def read(self, node: object, context: Context) -> T:
        """What ``node`` means; raises `PydanticCustomError`."""
        if not isinstance(node, Scalar) or node.null:
            raise refusal(self.what, node)
        try:
            return self.meaning(node, context)
        except (HintError, UnitError, AddressError) as error:
            raise refusal(self.what, node, self._way_out(error, node, context)) from None

    def _way_out(self, error: ValueError, scalar: Scalar, context: Context) -> str:
        # What a variable may have had a part in is not repeated, not even in better words.
        if isinstance(error, UnitError) and error.meant and not scalar.secret:
            return f"write {error.meant}"
        return str(error) or self._guess(scalar, context)

    def _guess(self, scalar: Scalar, context: Context) -> str:
        near = None if scalar.secret else context.guesses.nearest(scalar.text, self.words)
        return f"did you mean {near}?" if near else ""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        def read(node: object, info: ValidationInfo) -> T:
            return self.read(node, context_of(info))

        return core_schema.with_info_plain_validator_function(read)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"title": self.what, "anyOf": [*self.schema.get("anyOf", [self.schema]), VARIABLE]}
