"""Room: for the answers of all sessions together that lie unread, beyond the few that anybody may have.

It knows which outboxes have many. It must never know what lies there. In one sentence: when there is no more room,
whoever has the most unread is given up, and not whoever comes last.
"""

from collections.abc import Callable
from typing import Final, Protocol

# So many answers may lie unread on any session: more than a client that reads ever sees.
ANYBODYS: Final = 1024
# How many sessions may have more than that, at up to 4 MiB each.
MAX_SLOW: Final = 32


class Unread(Protocol):
    """Where answers lie."""

    @property
    def unread(self) -> int:
        """How many."""
        ...


class Room:
    """Who has more than anybody may. ``given_up`` is called for each whose client does not read."""

    def __init__(self, given_up: Callable[[], None] = lambda: None) -> None:
        self.given_up = given_up
        self._slow: dict[Unread, Callable[[], None]] = {}

    def __len__(self) -> int:
        return len(self._slow)

    def take(self, outbox: Unread, give_up: Callable[[], None]) -> None:
        """One more has. ``give_up`` is called, perhaps at once, when its place is wanted."""
        self._slow[outbox] = give_up
        if len(self._slow) > MAX_SLOW:
            self._slow[max(self._slow, key=lambda each: each.unread)]()

    def leave(self, outbox: Unread) -> None:
        """It has not, any more; safe twice."""
        self._slow.pop(outbox, None)
