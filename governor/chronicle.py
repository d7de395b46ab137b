"""Chronicle: whoever wants to know what happens is told, as it happens.

It knows who listens, and what each of them wants. It must never know how they are reached, and it must cost nothing
while nobody listens: only then does it look at what the engine does.

A reader has a bounded buffer. When that is full, what comes is dropped and counted, and the count is told in its place:
whoever reads slowly holds up nobody.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from governor.config import Reloaded
from governor.core.effects import Effect
from governor.core.types import UNSAID, Claim, LeaseId, Nanos, Reason, Said
from governor.driver import Driver
from governor.entries import Asker, Entry, What, entries

__all__ = ["BUFFER", "Chronicle", "Entry", "Reader", "Wanted", "What"]

Listener = Callable[[Sequence[Entry]], None]

# Entries that lie unread: some seconds of a busy daemon, and at most a few megabytes.
BUFFER: Final = 8192

# Those about the reading itself, which come whatever is wanted; and that which is about all resources at once.
_ALWAYS: Final = frozenset((What.WATCHING, What.MISSED, What.STOPPING))
# About all resources, unless they name some.
_OF_THE_DAEMON: Final = frozenset((What.DRAINING, What.FROZEN))
_NO_NAMES: Final[frozenset[str]] = frozenset()


@dataclass(slots=True, frozen=True)
class Wanted:
    """Which entries a reader wants; an empty set is all. What fits one of each kind is wanted."""

    resources: frozenset[str] = _NO_NAMES
    clients: frozenset[str] = _NO_NAMES
    what: frozenset[str] = _NO_NAMES

    def has(self, entry: Entry) -> bool:
        """Whether this one is."""
        what, named = entry.what, self.resources
        if what in _ALWAYS:
            return True
        about = not named or not named.isdisjoint(entry.resources)
        if named and what is What.RELOADED and about:
            return True  # what somebody watches may have been removed, whatever else he wants to know
        if not entry.resources and what in _OF_THE_DAEMON:
            about = True
        return about and (not self.clients or entry.client in self.clients) and (not self.what or what in self.what)


_ALL: Final = Wanted()


class Reader:
    """One who reads what he wants, when he can. Not to be read by two at once."""

    def __init__(self, wanted: Wanted, buffer: int, now: Callable[[], Nanos]) -> None:
        self._wanted = wanted
        self._everything = wanted == _ALL
        self._buffer = buffer
        self._now = now
        self._entries: list[Entry] = []
        self._missed = 0
        self._over = False
        self._news: asyncio.Future[None] | None = None

    def tell(self, told: Sequence[Entry]) -> None:
        """For whoever listens for him."""
        wanted = told if self._everything else [entry for entry in told if self._wanted.has(entry)]
        if not wanted:
            return
        # Once some are missed the next are, too, until he reads: the count stands where they would have stood.
        room = 0 if self._missed else self._buffer - len(self._entries)
        self._entries += wanted[:room]
        self._missed += max(0, len(wanted) - room)
        self._wake()

    def end(self) -> None:
        """Nothing comes any more; what is there can still be read."""
        self._over = True
        self._wake()

    async def read(self) -> list[Entry] | None:
        """All that there is, when there is any; None when nothing will come any more."""
        while not self._entries:  # nothing is missed but behind what is there
            if self._over:
                return None
            self._news = asyncio.get_running_loop().create_future()
            try:
                await self._news
            finally:
                self._news = None
        read, self._entries = self._entries, []
        if self._missed:
            read.append(Entry(self._now(), What.MISSED, missed=self._missed))
            self._missed = 0
        return read

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


class Chronicle:
    """What happens to one driver, and what is done to it. ``now``: the wall clock, in nanoseconds of Unix time."""

    def __init__(self, driver: Driver, now: Callable[[], Nanos]) -> None:
        self._driver = driver
        self._now = now
        self._listeners: list[Listener] = []
        self._readers: dict[Reader, Listener] = {}
        # Told of what operators do, and of nothing else; and of what callers may not do.
        self.act_listeners: list[Callable[[Entry], None]] = []
        self.refusal_listeners: list[Callable[[Entry], None]] = []
        # Called before the last word: whoever has something yet to tell.
        self.endings: list[Callable[[], None]] = []
        # Which client process has asked for a lease, by the name of its client.
        self.asker: Callable[[LeaseId, str], Asker | None] = lambda _lease, _client: None
        self._closed = False
        self._left: asyncio.Future[None] | None = None

    def listen(self, listener: Listener) -> None:
        """``listener`` is called with all that each step of the engine has to tell; it must not raise."""
        if not self._listeners:
            self._driver.observers.append(self._observe)
        self._listeners.append(listener)

    def leave(self, listener: Listener) -> None:
        """It is not called any more; safe twice."""
        if listener in self._listeners:
            self._listeners.remove(listener)
            if not self._listeners:
                self._driver.observers.remove(self._observe)

    def read(self, wanted: Wanted = _ALL, buffer: int = BUFFER) -> Reader:
        """A reader of what is ``wanted`` from now on; whoever has it must `forget` it."""
        reader = Reader(wanted, buffer, self._now)
        if self._closed:
            reader.end()
            return reader
        self._readers[reader] = listener = reader.tell
        self.listen(listener)
        reader.tell((Entry(self._now(), What.WATCHING),))
        return reader

    def forget(self, reader: Reader) -> None:
        """He is gone; safe twice."""
        if (listener := self._readers.pop(reader, None)) is not None:
            self.leave(listener)
        if not self._readers and self._left is not None and not self._left.done():
            self._left.set_result(None)

    @property
    def over(self) -> bool:
        """Whether the last word has been said."""
        return self._closed

    @property
    def readers(self) -> int:
        """How many there are."""
        return len(self._readers)

    def act(
        self, what: What, resources: Collection[str] = (), detail: str = "", said: Said = UNSAID, *, client: str = ""
    ) -> None:
        """Somebody has done this to the daemon, and it changed something; told by whoever carried it out."""
        actor, reason = said.actor, said.reason
        entry = Entry(self._now(), what, tuple(resources), client, reason=reason, detail=detail, actor=actor)
        entry.actor_client = said.client
        self._tell((entry,))
        for listener in self.act_listeners:
            listener(entry)

    def refused(
        self, client: str, resources: tuple[str, ...], reason: Reason, detail: str, claims: Sequence[Claim], times: int
    ) -> None:
        """This client may not do that, and has tried it so often; told by whoever does not let it."""
        entry = Entry(self._now(), What.REFUSED, resources, client, 0, tuple(claims), reason.value, detail=detail)
        entry.times = times if times > 1 else 0
        self._tell((entry,))
        for listener in self.refusal_listeners:
            listener(entry)

    def reloaded(self, outcome: Reloaded) -> None:
        """The config was read anew, on the word of whoever asked for it; it names each resource that is another now."""
        what = What.RELOAD_REFUSED if outcome.problems else What.RELOADED
        touched = (*outcome.added, *outcome.changed, *outcome.removed)
        self.act(what, touched, outcome.told, Said(", ".join(outcome.by)))

    async def close(self, patience: float) -> None:
        """Tell everybody that the daemon ends, and nothing after that. Readers have ``patience`` seconds to read it."""
        for end in self.endings:
            end()
        self.act(What.STOPPING)
        self._closed = True
        for reader, listener in self._readers.items():
            self.leave(listener)
            reader.end()
        if self._readers:
            self._left = asyncio.get_running_loop().create_future()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._left, patience)

    def _observe(self, effects: Sequence[Effect]) -> None:
        driver = self._driver
        at, now = self._now(), driver.stepped_at
        told = list(entries(effects, at=at, now=now, held=driver.held, asker=self.asker))
        if (said := driver.revoking) is not UNSAID:
            for entry in told:
                if entry.what is What.REVOKED:  # whoever is granted what has come free is nobody's doing
                    entry.actor, entry.reason, entry.actor_client = said.actor, said.reason, said.client
        if told:
            self._tell(told)

    def _tell(self, told: Sequence[Entry]) -> None:
        for listener in self._listeners:
            listener(told)
