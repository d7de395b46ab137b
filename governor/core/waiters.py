"""Waiters: all the asks that stand in line, and when each has waited long enough.

It knows places and deadlines over all the lines. It must never know why an ask joins or leaves.
One invariant: an ask is in all of its lines or in none.
"""

from governor.core.agenda import Agenda
from governor.core.ask import Ask, Place
from governor.core.types import Nanos


class Waiters:
    """Waiting asks by place, over all resources. A place's key on the agenda is ``first_key`` + place."""

    __slots__ = ("_agenda", "_by_place", "_first_key", "_last_place")

    def __init__(self, agenda: Agenda, first_key: int) -> None:
        self._by_place: dict[Place, Ask] = {}
        self._agenda = agenda
        self._first_key = first_key
        self._last_place = 0

    def __len__(self) -> int:
        return len(self._by_place)

    def all(self) -> list[Ask]:
        """Everybody who waits, in the order of asking."""
        return list(self._by_place.values())

    def by_key(self, key: int) -> Ask:
        """Whose wait stands on the agenda under ``key``."""
        return self._by_place[Place(key - self._first_key)]

    def join(self, ask: Ask, deadline: Nanos) -> None:
        """Stand at the end of each of its lines, until ``deadline``."""
        self._last_place += 1
        ask.place = Place(self._last_place)
        ask.deadline = deadline
        for resource, permits in ask.wants:
            resource.line.join(ask, permits)
        self._by_place[ask.place] = ask
        self._agenda.add(self._first_key + ask.place, deadline)

    def leave(self, ask: Ask) -> None:
        """Leave all of its lines."""
        for resource, permits in ask.wants:
            resource.line.leave(ask, permits)
        del self._by_place[ask.place]
        self._agenda.drop(self._first_key + ask.place, ask.deadline)
        ask.place = Place(0)

    def wait_until(self, ask: Ask, deadline: Nanos) -> None:
        """Stay where it is, but until ``deadline``."""
        key = self._first_key + ask.place
        self._agenda.drop(key, ask.deadline)
        ask.deadline = deadline
        self._agenda.add(key, deadline)
