"""A comparison in one go."""

from governor.core.differences import Comparison, Difference
from governor.core.types import Nanos


def compared(comparison: Comparison, now: Nanos) -> tuple[Difference, ...]:
    """All that it finds."""
    while not comparison.step(now):
        pass
    return comparison.differences
