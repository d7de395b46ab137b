"""Patience: until when an ask may have no answer, and what is true of it then.

It knows how long the daemon has said nothing to what it was asked. It must never know what an ask becomes. In one
sentence: the daemon is blamed for the time that it had, not for the time in which an ask lay here.
"""

from collections.abc import Iterable
from typing import Final

from governor.client.asks import LEAST, PATIENCE, SECOND, Ask
from governor.client.errors import GovernorError, NotGranted, Unavailable

NEVER: Final = (1 << 63) - 1
# How much later than its wait an ask in line may be answered, before we stop believing that it will be.
_LATE: Final = SECOND
# A daemon with more to do than we let it have at once takes milliseconds for a message.
_KEEPS_UP: Final = SECOND // 2


class Patience:
    """With the daemon, of all asks of one client process. Instants in nanoseconds of the monotonic clock.

    ``look_at``: nobody's patience ends before this; it may be too early, never too late. ``trouble``: why there is no
    connection; ``full``: the daemon is there, but takes no more sessions for now. ``kept_up_at``: when the daemon was
    last known to have done what it was asked.
    """

    __slots__ = ("_address", "full", "kept_up_at", "look_at", "trouble")

    def __init__(self, address: str) -> None:
        self._address = address
        self.look_at = NEVER
        self.trouble = ""
        self.full = False
        self.kept_up_at = 0

    def away(self) -> GovernorError:
        """What to tell of a daemon that cannot be reached, is silent, or takes no more sessions."""
        if self.full:
            return NotGranted(self.trouble, reason="busy")
        why = self.trouble or f"{self._address}: the daemon does not answer"
        return Unavailable(why, address=self._address)

    def look(self, asks: Iterable[Ask], now: int, *, greeted: bool) -> list[tuple[Ask, GovernorError]]:
        """Those that are not waited for any longer, and why; ``greeted``: on the connection that there is."""
        over: list[tuple[Ask, GovernorError]] = []
        first = NEVER
        for ask in asks:
            unsaid = greeted and not ask.message
            due = self._unsaid_until(ask) if unsaid else self._until(ask, greeted=greeted)
            if due > now:
                first = min(first, due)
            elif unsaid and now - self.kept_up_at < _KEEPS_UP:
                over.append((ask, _crowded(ask)))
            else:
                over.append((ask, self.away()))
        self.look_at = first
        return over

    def _unsaid_until(self, ask: Ask) -> int:
        """Of one that lies here, behind others: while the daemon keeps up with those, only its own wait bounds it."""
        wait = ask.shape.wait
        if wait:
            return ask.asked_at + max(wait, LEAST)
        if wait is None and ask.patient:
            return NEVER
        return max(ask.taken_at, ask.broke_at, self.kept_up_at) + (PATIENCE if wait is None else LEAST)

    def _until(self, ask: Ask, *, greeted: bool) -> int:
        """Of one that the daemon has, or that waits for a connection."""
        wait = ask.shape.wait
        if ask.queued:
            return NEVER if wait is None else ask.asked_at + wait + _LATE
        # What was said to somebody who never greeted us was said to nobody. Who does one message after the other is not
        # silent about the next.
        began = max(ask.sent_at, self.kept_up_at) if greeted else ask.taken_at
        since = max(began, ask.broke_at)
        until = since + LEAST
        if wait:
            until = ask.asked_at + max(wait, LEAST)
        elif wait is None:
            until = NEVER
        if not ask.patient and (wait is None or ask.broke_at):
            # It may have stood in line, which outlives a restart of the daemon, but not for long.
            until = min(until, since + PATIENCE)
        return max(until, began + LEAST)


def _crowded(ask: Ask) -> NotGranted:
    claims = ask.shape.claims
    names = ", ".join([resource for resource, _ in claims])
    return NotGranted(
        f"{names}: the wait was over before this ask could be sent; this process asks for more at once than the "
        "daemon can answer in that time: ask for less at once, or wait for longer",
        reason="wait_over",
        resource=claims[0][0] if len(claims) == 1 else "",
    )
