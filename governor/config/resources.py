"""Semaphores and rate limits as YAML declares them, and what the core is told of each.

It knows the keys of each kind and how they relate. It must never know how a limit counts.
"""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Annotated, ClassVar, Final

from pydantic import ConfigDict, Field

from governor.config.accepts import Context
from governor.config.declared import SOME, Conflict, Declared, list_of
from governor.config.nodes import MappingNode
from governor.config.terms import Terms
from governor.config.values import (
    RATE,
    RATE_OR_UNLIMITED,
    whole,
    whole_or_unlimited,
)
from governor.core.kinds.rate_limit import RateLimitSpec
from governor.core.kinds.rate_limit import Window as WindowSpec
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec
from governor.core.types import MAX_PERMITS
from governor.units import Rate

PERMITS: Final = whole_or_unlimited(0, MAX_PERMITS)
BURSTS: Final = whole(1, MAX_PERMITS)


class Resource(Terms):
    """One resource of whatever kind."""

    @abstractmethod
    def limit(self) -> LimitSpec:
        """What the core is told of it."""

    @classmethod
    def _one_of(cls, node: MappingNode, one: str, other: str) -> Iterable[Conflict]:
        """Either of two keys is needed, and never both."""
        if one in node and other in node:
            later = max(one, other, key=node.lines.__getitem__)
            yield (later,), f"{one} and {other} exclude each other: keep one"
        elif one not in node and other not in node and not cls.mistyped(node, one) and not cls.mistyped(node, other):
            yield (), f"{one} or {other} is missing"


class Semaphore(Resource):
    """So many permits, and no more at once."""

    shape: ClassVar[str] = "a mapping such as {permits: 8}"

    permits: Annotated[
        int | None,
        PERMITS,
        Field(description="How many permits there are; 0 closes it, unlimited never refuses.", examples=[8]),
    ]

    def limit(self) -> SemaphoreSpec:
        """The number of permits."""
        return SemaphoreSpec(self.permits)


_BURST_WORDS: Final = "How many permits may be spent at once after a quiet time. Not written: the number of the rate."


class Window(Declared):
    """One of several rates that all hold."""

    shape: ClassVar[str] = "a rate such as 100/s, or a mapping such as {rate: 100/s, burst: 20}"
    shorthand: ClassVar[str] = "rate"

    rate: Annotated[Rate, RATE, Field(description="Permits per time; 0/s closes it.", examples=["100/s", "10/30s"])]
    burst: Annotated[int | None, BURSTS, Field(description=_BURST_WORDS, examples=[20])] = None

    def spec(self) -> WindowSpec:
        """What the core is told of it."""
        return window(self.rate, self.burst)


class RateLimit(Resource):
    """Permits that are spent and come back with time."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["rate"]}, {"required": ["windows"]}],
            "dependentRequired": {"burst": ["rate"]},
        }
    )
    shape: ClassVar[str] = "a mapping such as {rate: 100/s}"

    rate: Annotated[
        Rate | None,
        RATE_OR_UNLIMITED,
        Field(
            description="Permits per time; 0/s closes it, unlimited never refuses.",
            examples=["100/s", "10/30s"],
        ),
    ] = None
    burst: Annotated[int | None, BURSTS, Field(description=_BURST_WORDS, examples=[20])] = None
    windows: Annotated[
        list[Window],
        list_of("[10/s, 1000/h]"),
        Field(
            description="Instead of rate: several rates that all hold; the tightest decides.",
            examples=[["10/s", {"rate": "1000/h", "burst": 50}]],
            json_schema_extra=SOME,
            default_factory=list,
        ),
    ]

    @classmethod
    def conflicts(cls, node: MappingNode, context: Context) -> Iterable[Conflict]:
        """Rate and windows at once, or neither; a burst of no rate in particular."""
        yield from super().conflicts(node, context)
        yield from cls._one_of(node, "rate", "windows")
        if "burst" in node and "windows" in node and "rate" not in node:
            yield ("burst",), "each of the windows has its own burst: write {rate: 10/s, burst: 5} there"

    def limit(self) -> RateLimitSpec:
        """Its windows; none for ``unlimited``."""
        if self.windows:
            return RateLimitSpec(tuple(window.spec() for window in self.windows))
        return RateLimitSpec(() if self.rate is None else (window(self.rate, self.burst),))


def window(rate: Rate, burst: int | None) -> WindowSpec:
    """What the core is told of a rate, and of its burst if one is written."""
    # A rate that is closed for a while keeps its burst in the file, and grants nothing all the same.
    burst = 0 if rate.permits == 0 else burst or rate.permits
    return WindowSpec(rate.permits, rate.period, burst)
