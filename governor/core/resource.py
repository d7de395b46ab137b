"""What an operator declares of one resource, whatever its kind.

It knows the declared bounds of asking and waiting. It must never know how a kind counts.
"""

from dataclasses import dataclass

from governor.core.limit import LimitSpec
from governor.core.types import Nanos


@dataclass(slots=True, frozen=True)
class ResourceSpec:
    """One declared resource, every default already filled in.

    ``lease``: how long a lease lasts when the ask does not say; ``max_lease``: the longest an ask may say.
    ``max_wait``: the longest an ask may wait in line, 0 is not at all. ``max_waiters``: how many may wait.
    """

    name: str
    limit: LimitSpec
    lease: Nanos
    max_lease: Nanos
    max_wait: Nanos
    max_waiters: int

    @property
    def kind(self) -> str:
        """``semaphore``, ``pool`` or ``rate_limit``."""
        return self.limit.kind
