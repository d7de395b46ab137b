"""Cancels: the asks that nobody waits for any more, until the daemon has heard so.

It knows them by their ops, and in which message each was said. It must never know what they asked for.

What stood in line has left it with its stream. But a daemon that died may have granted it just before, on record, and
would keep it for a holder that never heard of it: so the next one is told as well.
"""

from collections import deque
from typing import Final

from governor.client.asks import SECOND
from governor.v1 import governor_pb2 as pb

# In one message; and how many are kept for the next daemon: of more, the oldest are left to their leases' ends.
_MOST_SAID: Final = 5_000
_MOST_KEPT: Final = 10_000
# For how long a daemon that is away is looked for only to be told.
_KEPT: Final = 60 * SECOND
_NEVER: Final = (1 << 63) - 1


class Cancels:
    """Of one client process. Instants in nanoseconds of the monotonic clock."""

    def __init__(self) -> None:
        self._unsaid: deque[int] = deque()
        # With the number of the message that each went in, on this connection.
        self._said: deque[tuple[int, list[int]]] = deque()
        self._until = _NEVER

    def __bool__(self) -> bool:
        return bool(self._unsaid or self._said)

    @property
    def unsaid(self) -> bool:
        """Whether there is anything to say."""
        return bool(self._unsaid)

    def add(self, op: int) -> None:
        """Nobody waits for this ask any more, which the daemon may know of."""
        self._unsaid.append(op)

    def say(self, parts: list[bytes], number: int) -> None:
        """Add to the message of this number what there is to say."""
        if self._unsaid:
            ops = [self._unsaid.popleft() for _ in range(min(_MOST_SAID, len(self._unsaid)))]
            self._said.append((number, ops))
            parts.append(pb.SessionRequest(cancels=ops).SerializeToString())

    def handled(self, number: int) -> None:
        """The daemon has done as many messages of this connection."""
        while self._said and self._said[0][0] <= number:
            self._said.popleft()

    def disconnected(self) -> None:
        """The stream is gone: what may not have been heard is said again on the next one."""
        while self._said:
            _, ops = self._said.pop()
            self._unsaid.extendleft(reversed(ops))

    def look(self, now: int, *, greeted: bool) -> None:
        """Forget them when the daemon has been away for long; and what there is too much of."""
        if greeted or not self:
            self._until = _NEVER
            return
        if self._until == _NEVER:
            self._until = now + _KEPT
        elif now >= self._until:
            self._unsaid.clear()
        while len(self._unsaid) > _MOST_KEPT:
            self._unsaid.popleft()
