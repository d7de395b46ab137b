"""Clients: how much of everything is whose, for a bounded number of names.

It knows the names that clients call themselves by, and which of them have a tally of their own to show. It must never
let a client decide how much is kept: all beyond the bound are shown together.

The invariant: the leases of all tallies together are the leases that live, and none is counted twice.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from governor.core.types import SECOND, EndReason, Nanos

DEFAULT_SHOWN: Final = 100
OTHER: Final = "other"
# An empty label is none at all to Prometheus.
UNNAMED: Final = "unnamed"

# For how long a client has done nothing and held nothing when its place goes to another that wants one.
IDLE: Final[Nanos] = 3600 * SECOND
# How many tallies there may be beyond those that are shown before they are looked through for some to drop.
_SPARE: Final = 1000


class ClientTally:
    """What has become of the tickets and leases of one client; a lease of several resources counts once.

    ``before``: leases that it held when it began to be counted. ``spent``: grants that lent nothing. ``outcomes`` and
    ``ends`` are all but the commonest, which are ``granted`` and ``released``.
    """

    __slots__ = ("_news", "before", "ends", "granted", "held", "outcomes", "released", "shown", "spent", "waited")

    def __init__(self, before: int = 0, *, shown: bool = True) -> None:
        self.before = before
        self.shown = shown
        self.granted = self.spent = self.released = 0
        self.held: Nanos = 0
        self.waited: Nanos = 0
        self.outcomes: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        self._news: tuple[int, Nanos] = (0, 0)

    @property
    def leases(self) -> int:
        """How many it holds."""
        return self.before + self.granted - self.spent - self.released - sum(self.ends.values())

    def ended(self, outcome: str, waited: Nanos) -> None:
        """Count a ticket that was not simply granted."""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self.waited += waited

    def lease_ended(self, reason: EndReason, held: Nanos) -> None:
        """Count a lease, however it ended."""
        self.held += held
        if reason is EndReason.RELEASED:
            self.released += 1
        else:
            self.ends[reason] = self.ends.get(reason, 0) + 1

    def idle_since(self, now: Nanos) -> Nanos:
        """Since when it has done nothing, as far as it was looked at; ``now`` if it holds anything."""
        done = self.granted + self.released + sum(self.outcomes.values()) + sum(self.ends.values())
        if self.leases or done != self._news[0]:
            self._news = done, now
        return self._news[1]

    def add(self, other: "ClientTally") -> None:
        """Count all that ``other`` has counted."""
        self.before += other.before
        self.granted += other.granted
        self.spent += other.spent
        self.released += other.released
        self.held += other.held
        self.waited += other.waited
        for mine, its in ((self.outcomes, other.outcomes), (self.ends, other.ends)):
            for word, count in its.items():
                mine[word] = mine.get(word, 0) + count


class Clients(dict[str, ClientTally]):
    """The tally of each client by its name: ``clients[name]`` makes one if need be, whatever the name."""

    __slots__ = ("_full_at", "_limit", "_others", "_shown")

    def __init__(self, limit: int = DEFAULT_SHOWN) -> None:
        super().__init__()
        self._limit = limit
        self._shown: dict[str, ClientTally] = {}
        # Those that have no tally of their own any more, and were not shown.
        self._others = ClientTally(shown=False)
        self._full_at = limit + _SPARE

    def __missing__(self, name: str) -> ClientTally:
        """The hot path never comes here, except for a crowd of strangers."""
        if name == "":
            tally = self[UNNAMED]
        else:
            if len(self) >= self._full_at:
                self._forget()
            tally = ClientTally(shown=False)
            self._show(name, tally)
        self[name] = tally
        return tally

    def restored(self, clients: Iterable[str]) -> None:
        """Each name once for each lease that it holds from before the start."""
        for name, leases in Counter(clients).items():
            self[name].before += leases

    def limit(self, limit: int, now: Nanos) -> None:
        """Show so many from now on. Who is shown no more counts anew: its past is not that of the others."""
        self._limit = limit
        for name in list(self._shown)[limit:]:
            self._demote(name)
        self.tend(now)

    def tend(self, now: Nanos) -> None:
        """Once for each scrape: those who have been idle for an hour make room, if there are others who want it."""
        self._forget()
        idle = [(since, name) for name, tally in self._shown.items() if (since := tally.idle_since(now)) <= now - IDLE]
        wanting = [(name, tally) for name, tally in self.items() if not tally.shown and name not in {OTHER, ""}]
        for _, name in sorted(idle)[: max(0, len(wanting) - (self._limit - len(self._shown)))]:
            self._demote(name)
        for name, tally in wanting[: max(0, self._limit - len(self._shown))]:
            # What it did so far has been shown among the others, and stays there.
            done = ClientTally(tally.leases, shown=False)
            tally.before -= done.before
            self._others.add(tally)
            self._show(name, done)
            self._put(name, done)

    def shown(self) -> dict[str, ClientTally]:
        """The counts by label, which stay as they are now; those of all others in one."""
        twins = {}
        for name, tally in self._shown.items():
            twins[name] = ClientTally()
            twins[name].add(tally)
        others = ClientTally(shown=False)
        others.add(self._others)
        for name, tally in self.items():
            if not tally.shown and name:
                others.add(tally)
        if others.granted or others.before or others.outcomes or others.ends or others.released:
            twins[OTHER] = others
        return twins

    def _show(self, name: str, tally: ClientTally) -> None:
        if len(self._shown) < self._limit and name != OTHER:
            tally.shown = True
            self._shown[name] = tally

    def _demote(self, name: str) -> None:
        tally = self._shown.pop(name)
        self._put(name, ClientTally(tally.leases, shown=False))

    def _put(self, name: str, tally: ClientTally) -> None:
        self[name] = tally
        if name == UNNAMED:
            self[""] = tally

    def _forget(self) -> None:
        """Of those who are not shown, keep who holds something: there are no more of them than leases."""
        for name, tally in list(self.items()):
            if not tally.shown and not tally.leases:
                if name:
                    self._others.add(tally)
                del self[name]
        self._full_at = max(len(self) * 2, self._limit + _SPARE)
