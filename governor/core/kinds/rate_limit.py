"""Rate limit: permits are spent and come back with time (GCRA, on integers).

It knows when the next permit is due. It must never know who spends them or who waits.
"""

from dataclasses import dataclass
from typing import ClassVar

from governor.core.types import Nanos


@dataclass(slots=True, frozen=True)
class Window:
    """``permits`` per ``period``, of which up to ``burst`` at once; 0 permits closes it."""

    permits: int
    period: Nanos
    burst: int


@dataclass(slots=True, frozen=True)
class RateLimitSpec:
    """All ``windows`` at once, the tightest decides; no window is unlimited."""

    kind: ClassVar[str] = "rate_limit"
    windows: tuple[Window, ...]
