"""Unwritten: which grants are in no line of the audit file yet.

It knows up to which line all must be written before anybody may be told of a grant. It must never know what a line
says. What has ended is none of its business, so it holds no more than is lent, or is being answered.
"""

from collections.abc import Sequence

from governor.core.effects import Effect, Granted, LeaseEnded, Refunded
from governor.core.types import LeaseId, TicketId


class Unwritten:
    """The tickets of grants that nobody has been told of, to take them back if they cannot be written."""

    def __init__(self) -> None:
        # By lease, in the order of their lines: that line, and whoever asked for it and asked again.
        self._grants: dict[LeaseId, tuple[int, list[TicketId]]] = {}

    def __bool__(self) -> bool:
        return bool(self._grants)

    def observe(self, effects: Sequence[Effect], line: int) -> None:
        """See what has happened in one step; ``line`` is the last that tells of it."""
        for effect in effects:
            if isinstance(effect, Granted):
                known = self._grants.get(effect.lease)
                if known is not None:
                    known[1].append(effect.ticket)
                elif not effect.repeated:  # else it is written, and stands
                    self._grants[effect.lease] = line, [effect.ticket]
            elif isinstance(effect, (LeaseEnded, Refunded)):
                self._grants.pop(effect.lease, None)

    def forget(self, written: int) -> None:
        """All lines up to this one are written."""
        gone = []
        for lease, (line, _) in self._grants.items():
            if line > written:
                break
            gone.append(lease)
        for lease in gone:
            del self._grants[lease]

    def take(self) -> list[TicketId]:
        """All tickets, and none is left."""
        grants, self._grants = self._grants, {}
        return [ticket for _, tickets in grants.values() for ticket in tickets]
