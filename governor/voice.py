"""Voice: all that a session's client can be told.

It knows the words. It must never know how they reach the client, nor when they are said.
"""

from collections.abc import Sequence
from typing import Protocol

from governor.core.effects import Granted, LeaseResult
from governor.core.types import Denial, LeaseId, Nanos


class Voice(Protocol):
    """How a session's client is told. None of this may raise, or call back."""

    def granted(self, op: int, granted: Granted, remaining: Nanos | None) -> None:
        """It has what it asked for; ``remaining`` is how long, None if nothing was lent."""
        ...

    def all_granted(self, ops: Sequence[int], granted: Sequence[Granted], remaining: Nanos) -> None:
        """As `granted`, for asks that are alike and were granted in one step."""
        ...

    def refused(self, op: int, denial: Denial, *, waited: Nanos = 0, lease: LeaseId | None = None) -> None:
        """It has not, and will not."""
        ...

    def crowded(self, op: int) -> None:
        """It has not, since too many others of the same session wait."""
        ...

    def queued(self, op: int, ahead: int, expected: Nanos | None) -> None:
        """It stands in line, with ``ahead`` others before it."""
        ...

    def released(self, leases: Sequence[LeaseId]) -> None:
        """These were given back, as asked."""
        ...

    def result(self, result: LeaseResult) -> None:
        """What else became of a lease that it named."""
        ...

    def ended(self, result: LeaseResult) -> None:
        """A lease has ended that it did not give back."""
        ...

    def kept_alive(self) -> None:
        """All its leases have been renewed."""
        ...

    def superseded(self) -> None:
        """The same session speaks with another voice from now on."""
        ...
