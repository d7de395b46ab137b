"""Contact: what is under way to the daemon, and until when it has known us for sure.

It knows when each message was sent, which of them the daemon has done, and when anything came. It must never know what
a message says. In one sentence: only an answer tells when the daemon knew us, by when that was sent which it answers.

Instants in nanoseconds of the monotonic clock.
"""

from collections import deque
from typing import Final

from governor.client.asks import SECOND

# Messages that may be under way; what is to be said meanwhile goes into the next one.
WINDOW: Final = 3
# Nothing that was sent since then was answered while something depends on the daemon: it is asked for a sign of life.
PROBE: Final = SECOND
# Nothing at all for so long: this connection is given up.
SILENCE: Final = 8 * SECOND


class Contact:
    """With whoever is at the other end, over one connection after the other.

    ``open``: there is a stream; ``greeted``: its daemon has welcomed us. ``said`` and ``done``: how many messages went
    over it, and how many of those the daemon has done. ``known_at``: until then somebody has known us for sure, and
    ``assured_at``: a daemon that had greeted us, since whoever sends us away knows no lease of ours.
    """

    __slots__ = (
        "_began_at",
        "_heard_at",
        "_hello_at",
        "_mute",
        "_probed_at",
        "_sent_at",
        "assured_at",
        "done",
        "greeted",
        "known_at",
        "open",
        "said",
    )

    def __init__(self) -> None:
        self.open = self.greeted = False
        self.said = self.done = 0
        # When what was answered last had been sent. What comes may have lain unread, or have been long on its way, so
        # nothing else says how long the daemon has known us for sure.
        self.known_at = self.assured_at = 0
        # Whether nothing has come over this connection.
        self._mute = True
        # When each of those under way was sent, oldest first, and the first one of this connection.
        self._sent_at: deque[int] = deque()
        self._hello_at = 0
        # When anything last came, and when this connection was begun.
        self._heard_at = self._began_at = 0
        # When it was last asked for a sign of life, which is under way until something is answered that was sent no
        # earlier; 0 while it was not, on this connection.
        self._probed_at = 0

    def begin(self, now: int) -> None:
        """A stream is open, and nothing was said on it yet."""
        self.open = self._mute = True
        self.greeted = False
        self.said = self.done = 0
        self._sent_at.clear()
        self._began_at = now
        self._probed_at = 0

    def end(self) -> None:
        """The stream is gone, and all that was under way with it."""
        self.open = self.greeted = False
        self.said = self.done = 0

    @property
    def under_way(self) -> bool:
        """Whether the daemon has yet to do something that was said."""
        return self.said > self.done

    def may_speak(self, *, holding: bool) -> bool:
        """Whether a message may go now, if it does; ``holding``: by somebody who holds leases."""
        # Whoever reads our hello may take us for gone from then on, unless we hear from it. So one who holds anything
        # says it to nobody who may not be there: a proxy without a daemon, or one that ends just now.
        return self.open and self.said - self.done < WINDOW and not (self._mute and holding)

    def say(self, now: int) -> int:
        """One more message goes; its number on this connection, from 1."""
        self.said += 1
        self._sent_at.append(now)
        if self.said == 1:
            self._hello_at = now
        return self.said

    def hear(self, now: int) -> None:
        """Something came, which may be old."""
        self._heard_at = now
        self._mute = False

    def done_with(self, handled: int) -> None:
        """So many of our messages are."""
        since = 0
        while self._sent_at and self.done < handled:
            self.done += 1
            since = self._sent_at.popleft()
        self.done = handled
        self.knew_us(since)

    def knew_us(self, since: int) -> None:
        """The daemon has read what was sent at ``since``: so it knew us then, and has heard us since."""
        if since <= self.known_at:
            return
        self.known_at = since
        if self.greeted:
            self.assured_at = since

    def greet(self) -> None:
        """The daemon has welcomed us."""
        # In this order, for whoever looks at it from another thread.
        self.assured_at = max(self.known_at, self._hello_at)
        self.greeted = True

    # --- while something depends on the daemon ------------------------------------------------------------------

    def next_look(self) -> int:
        """When `look` must be called next."""
        return self._silent_at() if self.known_at < self._probed_at else self._probe_at()

    def look(self, now: int) -> tuple[bool, bool]:
        """Whether to ask for a sign of life, and whether to give this connection up."""
        if now >= self._silent_at():
            return False, True
        if self.known_at >= self._probed_at and now >= self._probe_at():
            self._probed_at = now
            return True, False
        return False, False

    def _probe_at(self) -> int:
        return max(self.known_at, self._began_at) + PROBE

    def _silent_at(self) -> int:
        return max(self._heard_at, self._began_at) + SILENCE
