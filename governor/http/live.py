"""Live: what whoever watches the status page is told, and when.

It knows which part of the state has changed since when. It must never know how a viewer is reached.

Once a second, while anybody watches, it looks at the state; with nobody there is no timer, and nothing is kept. Each
part has the number of the look that found it changed, and each viewer the number of the look that it has seen: so a
slow one misses what was in between, and there is nothing to queue for it.
"""

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from governor.core.snapshot import ResourceSnapshot, Snapshot
from governor.core.types import MILLISECOND, SECOND, Nanos
from governor.history import BUCKETS
from governor.http import shown
from governor.http.shown import Json, Shown, encode
from governor.http.sight import Sight

if TYPE_CHECKING:
    from governor.clock import Timer

MAX_VIEWERS: Final = 16
LOOK_EVERY: Final[Nanos] = SECOND
# How long a viewer may hear nothing, so that it knows that the connection is there.
HEARTBEAT_SECONDS: Final = 15.0
# How long one viewer may stay, and then come back. A small change fits into what the kernel keeps for a client that
# does not read, so nothing else tells one that is not there; and whoever waits for a place gets his turn.
STAY: Final[Nanos] = 300 * SECOND
# Of one turn of the event loop: rows that are compared, a microsecond each, and rows that are sent, with their past.
_COMPARED_AT_ONCE: Final = 200
_SENT_AT_ONCE: Final = 100


class _Row:
    """One resource as it was at the last look, and the number of the look that found it so."""

    __slots__ = ("look", "shown")

    def __init__(self, shown: Shown, look: int) -> None:
        self.shown = shown
        self.look = look


class _Part:
    """Something else that is told as a whole when it has changed."""

    __slots__ = ("look", "value")

    def __init__(self) -> None:
        self.value: Json = None
        self.look = 0

    def be(self, value: Json, look: int) -> bool:
        """It is ``value``, says this look; whether that is news."""
        if value == self.value:
            return False
        self.value, self.look = value, look
        return True


class Live:
    """All who watch, and what there is to be seen."""

    def __init__(self, sight: Sight) -> None:
        self.sight = sight
        self.viewers: dict[View, None] = {}
        self._timer: Timer | None = None
        self._clear()

    def _clear(self) -> None:
        # The number of the last look that found anything changed; none has been.
        self.look = 0
        self.rows: dict[str, _Row] = {}
        self.head, self.names = _Part(), _Part()
        self._totals: Shown = {}
        self._bucket = -1

    @property
    def is_full(self) -> bool:
        """Whether nobody else can watch."""
        return len(self.viewers) >= MAX_VIEWERS

    def view(self) -> "View":
        """One more who watches; there must be room. It must be closed."""
        assert not self.is_full, "one viewer too many"
        view = View(self)
        self.viewers[view] = None
        if len(self.viewers) == 1:
            self._look_at(self.sight.clock.now())
        return view

    def leave(self, view: "View") -> None:
        """One less; safe twice."""
        self.viewers.pop(view, None)
        if not self.viewers:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._clear()

    def totals(self) -> Shown:
        """What is true of everything together, and what time it is by the daemon's clock."""
        return {**self._totals, "now": self.sight.clock.now() // MILLISECOND}

    # --- looking --------------------------------------------------------------------------------------------

    def _look_at(self, instant: Nanos) -> None:
        self._timer = self.sight.clock.call_at(instant, self._begin)

    def _begin(self) -> None:
        sight = self.sight
        sight.driver.catch_turn()
        snapshot = sight.driver.snapshot()
        look = self.look + 1
        sessions = sight.sessions()
        totals: Shown = {
            "resources": len(snapshot.resources),
            "leases": snapshot.leases,
            "waiters": snapshot.waiters,
            "sessions": 0 if sessions is None else len(sessions),
        }
        news = totals != self._totals
        self._totals = totals
        news |= self.head.be(shown.head(sight.head(), draining=snapshot.draining), look)
        news |= self._follow_names(snapshot, look)
        if sight.history.last != self._bucket:
            self._bucket, news = sight.history.last, True
        self._compare(iter(snapshot.resources), snapshot.at, look, news=news)

    def _follow_names(self, snapshot: Snapshot, look: int) -> bool:
        names = [resource.name for resource in snapshot.resources]
        if not self.names.be(names, look):
            return False
        for gone in self.rows.keys() - set(names):
            del self.rows[gone]
        return True

    def _compare(self, resources: Iterator[ResourceSnapshot], now: Nanos, look: int, *, news: bool) -> None:
        """See which rows have changed since the last look, some in each turn of the loop."""
        some = list(islice(resources, _COMPARED_AT_ONCE))
        for resource in some:
            row, value = self.rows.get(resource.name), shown.resource(resource, now)
            if row is None:
                self.rows[resource.name] = _Row(value, look)
                news = True
            elif row.shown != value:
                row.shown, row.look, news = value, look, True
        if len(some) == _COMPARED_AT_ONCE:
            clock = self.sight.clock
            self._timer = clock.call_at(clock.now(), lambda: self._compare(resources, now, look, news=news))
            return
        self._look_at(now + LOOK_EVERY)
        if news:
            self.look = look
            for view in self.viewers:
                view.news.set()


class View:
    """One who watches: a stream of server-sent events."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._seen = 0
        self._bucket = -1
        self._closed = self._over = False
        self._until = live.sight.clock.now() + STAY
        self.news = asyncio.Event()

    async def more(self) -> Iterator[bytes] | None:
        """What is new, when anything is, or a sign of life; None when it is closed. All of it must be taken.

        When it has stayed for long enough it is told so, and closed.
        """
        while not (self._closed or self._over):
            if self._live.sight.clock.now() >= self._until:
                self._over = True
                return iter((b"event: over\ndata: null\n\n",))
            if self._live.look > self._seen:
                return self._changes()
            self.news.clear()
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self.news.wait()
            except TimeoutError:
                return iter((b": nothing new\n\n",))
        return None

    def close(self) -> None:
        """It watches no more; safe twice."""
        self._closed = True
        self.news.set()
        self._live.leave(self)

    def _changes(self) -> Iterator[bytes]:
        """All that has changed since this viewer was told last; each chunk is made in a turn of its own."""
        live, seen = self._live, self._seen
        self._seen = live.look
        if live.head.look > seen:
            yield _event("head", live.head.value)
        yield _event("totals", live.totals())
        if live.names.look > seen:
            yield _event("names", live.names.value)
        changed = [name for name, row in live.rows.items() if row.look > seen]
        for names in _batches(changed):
            # What has gone since is told as such the next time.
            yield _event("rows", [row.shown for name in names if (row := live.rows.get(name)) is not None])
        yield from self._past()
        yield b"event: done\ndata: null\n\n"

    def _past(self) -> Iterator[bytes]:
        """The buckets of the history that have ended since; what is not named there was as good as nothing."""
        history = self._live.sight.history
        last, known = history.last, self._bucket
        if last == known:
            return
        self._bucket = last
        begin = max(known + 1, last + 1 - BUCKETS)
        batches = list(_batches(list(self._live.rows))) or [[]]
        for index, names in enumerate(batches, 1):
            pasts: dict[str, Json] = {}
            for name in names:
                in_use, waiters = history.between(begin, last, name)
                if len(in_use) <= last - begin or any(in_use) or any(waiters):
                    pasts[name] = (in_use, waiters)
            yield _event("past", {"from": begin, "to": last, "of": pasts, "more": index < len(batches)})


def _batches(names: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(names), _SENT_AT_ONCE):
        yield names[start : start + _SENT_AT_ONCE]


def _event(name: str, value: Json) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode("ascii"), encode(value))
