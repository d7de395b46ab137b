"""Watching: a file is looked at when something happens to it, and slowly beside that.

It knows when to look, and when what it sees is there to stay. It must never know what is done about it.

The kernel says what happens on this machine; of what others do on a network's disk, or below a mount, only a look every
`POLL` tells. What counts is the contents: whoever touches a file, or writes the same into it, has changed nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from governor.aside import aside
from governor.clock import Clock, Timer
from governor.config import ConfigError, contents, fingerprint
from governor.core.types import MILLISECOND, SECOND, Nanos
from governor.route import Route
from governor.wording import span

_log: Final = logging.getLogger("governor")

# A file is there to stay when nothing has happened to it for so long and two looks, as far apart, have seen the same.
SETTLE: Final[Nanos] = 200 * MILLISECOND
# But it is taken for what it is after so long: somebody writes to it without end, or it cannot be read.
BOUND: Final[Nanos] = 1500 * MILLISECOND
POLL: Final[Nanos] = 30 * SECOND
# The same two for what a poll has found. Nobody tells then whether it is being written to, and there is no hurry.
POLL_SETTLE: Final[Nanos] = SECOND
POLL_BOUND: Final[Nanos] = 5 * SECOND


@dataclass(slots=True, frozen=True)
class _Look:
    """What was seen: a fingerprint, or why not. ``unwatched``: which step to the file cannot be watched, and why."""

    seen: str
    readable: bool
    unwatched: str


@dataclass(slots=True)
class _Stir:
    """Something has happened, and it is not known yet what comes of it. ``last``: what the look before has seen."""

    since: Nanos
    settle: Nanos
    bound: Nanos
    last: str | None = None


class Watcher:
    """Calls ``changed`` when a file is other than ``seen`` says, from `begin` to `close`.

    ``seen``: the fingerprint of what was read last, or why it could not be. After ``changed`` it need not be right at
    once: what was looked at in vain does no harm.
    """

    def __init__(self, path: Path, clock: Clock, seen: Callable[[], str], changed: Callable[[], None]) -> None:
        self._path = path
        self._clock = clock
        self._seen = seen
        self._changed = changed
        self._route: Route | None = None
        self._told = ""
        self._begun = False
        self._poll: Timer | None = None
        self._stir: _Stir | None = None
        self._timer: Timer | None = None
        self._timer_at: Nanos = 0
        # When to look next; the timer may come earlier.
        self._due: Nanos = 0
        # Something has happened since the look that is under way began.
        self._again = False
        self._looking: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Look now, and then whenever there is a reason to; safe twice."""
        if self._begun:
            return
        self._begun = True
        try:
            self._route = Route(self._path)
        except OSError as error:
            self._tell(f"{error.strerror}")
        else:
            asyncio.get_running_loop().add_reader(self._route.fd, self._on_events)
        self._on_poll()

    def close(self) -> None:
        """Look no more; safe twice."""
        self._begun = False
        for timer in (self._poll, self._timer):
            if timer is not None:
                timer.cancel()
        self._poll = self._timer = self._stir = None
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        if self._route is not None:
            asyncio.get_running_loop().remove_reader(self._route.fd)
            self._route.close()
            self._route = None

    # --- when to look ---------------------------------------------------------------------------------------

    def _on_events(self) -> None:
        route = self._route
        assert route is not None, "events came of a queue that is closed"
        if not route.stirred():
            return
        self._again = True
        self._stir_up()

    def _stir_up(self) -> None:
        now = self._clock.now()
        if self._stir is None or self._stir.settle != SETTLE:
            self._stir = _Stir(now, SETTLE, BOUND)
        end = self._stir.since + BOUND
        # Of one that is being written to, the end of that is heard of.
        writing = self._route is not None and self._route.writing
        self._look_at(end if writing else min(now + SETTLE, end))

    def _on_poll(self) -> None:
        now = self._clock.now()
        self._poll = self._clock.call_at(now + POLL, self._on_poll)
        if self._stir is None:
            self._stir = _Stir(now, POLL_SETTLE, POLL_BOUND)
            self._look_at(now)

    def _look_at(self, due: Nanos) -> None:
        self._due = due
        # A timer that comes too early is left alone: in a flood of events it would be moved for each.
        if self._timer is not None and self._timer_at > due:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer_at = due
            self._timer = self._clock.call_at(due, self._on_due)

    def _on_due(self) -> None:
        self._timer = None
        if self._due > self._clock.now():
            self._look_at(self._due)
        elif self._looking is None:
            self._again = False
            self._looking = asyncio.ensure_future(self._look())

    # --- looking --------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        path, route = self._path, self._route
        try:
            look = await aside(lambda: _look(path, route), "governor-watch")
        except Exception:
            self._stir = None  # or no poll would look ever again
            raise
        finally:
            self._looking = None
        self._tell(look.unwatched)
        stir = self._stir
        assert stir is not None, "nothing had happened, and yet a file was looked at"
        if self._again and self._clock.now() < stir.since + stir.bound:
            self._look_at(self._due)
            return
        self._judge(stir, look)
        if self._again:
            self._stir_up()

    def _judge(self, stir: _Stir, look: _Look) -> None:
        now = self._clock.now()
        end = stir.since + stir.bound
        if look.seen == self._seen():
            self._stir = None
        elif now >= end or (look.readable and look.seen == stir.last):
            self._stir = None
            self._changed()
        else:
            stir.last = look.seen
            # One that is gone may be about to be made anew.
            self._look_at(min(now + stir.settle, end) if look.readable else end)

    def _tell(self, unwatched: str) -> None:
        if unwatched and unwatched != self._told:
            late = f"some changes are noticed only within {span(POLL)}"
            _log.info("config %s: %s, since not all of its path can be watched: %s", self._path, late, unwatched)
        self._told = unwatched or self._told


def _look(path: Path, route: Route | None) -> _Look:
    """Which may take as long as a disk does. It is watched first: what happens from then on is heard of."""
    unwatched = "" if route is None else route.follow()
    try:
        return _Look(fingerprint(contents(path)), readable=True, unwatched=unwatched)
    except ConfigError as error:
        return _Look(str(error), readable=False, unwatched=unwatched)
