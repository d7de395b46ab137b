"""Waiters: all the asks that stand in line, and when each of their tickets has waited long enough.

It knows places and deadlines over all the lines. It must never know why an ask joins or leaves.
One invariant: an ask is in all of its lines or in none.
"""

from governor.core.agenda import Agenda
from governor.core.ask import Ask, Place
from governor.core.types import Nanos, TicketId


class Waiters:
    """Waiting asks by place, over all resources. A waiting ticket's key on the agenda is ``first_key`` + ticket."""

    __slots__ = ("_agenda", "_by_place", "_first_key", "_last_place", "_waits")

    def __init__(self, agenda: Agenda, first_key: int) -> None:
        self._by_place: dict[Place, Ask] = {}
        # Until when each ticket waits, and for how long it asked to.
        self._waits: dict[TicketId, tuple[Nanos, Nanos | None]] = {}
        self._agenda = agenda
        self._first_key = first_key
        self._last_place = 0

    def __len__(self) -> int:
        return len(self._by_place)

    @property
    def tickets(self) -> int:
        """How many tickets wait; several may share a place."""
        return len(self._waits)

    def all(self) -> list[Ask]:
        """Everybody who waits, in the order of asking."""
        return list(self._by_place.values())

    def by_key(self, key: int) -> TicketId:
        """Which ticket's wait stands on the agenda under ``key``."""
        return TicketId(key - self._first_key)

    def asked(self, ticket: TicketId) -> Nanos | None:
        """For how long a waiting ticket asked to wait; None when it did not say."""
        return self._waits[ticket][1]

    def latest(self, ask: Ask) -> Nanos:
        """Until when the most patient of its tickets waits."""
        return max([self._waits[ticket][0] for ticket in ask.tickets])

    def overdue(self, ask: Ask, now: Nanos) -> list[tuple[TicketId, Nanos]]:
        """Its tickets that have waited long enough, and until when."""
        waits = [(ticket, self._waits[ticket][0]) for ticket in ask.tickets]
        return [(ticket, until) for ticket, until in waits if until <= now]

    def join(self, ask: Ask) -> None:
        """Stand at the end of each of its lines; each of its tickets is to ``wait``."""
        self._last_place += 1
        ask.place = Place(self._last_place)
        for resource, permits in ask.wants:
            resource.line.join(ask, permits)
        self._by_place[ask.place] = ask

    def wait(self, ticket: TicketId, deadline: Nanos, asked: Nanos | None) -> None:
        """One ticket of an ask in line waits until ``deadline``."""
        self._waits[ticket] = (deadline, asked)
        self._agenda.add(self._first_key + ticket, deadline)

    def give_up(self, ticket: TicketId) -> None:
        """One ticket waits no more."""
        self._agenda.drop(self._first_key + ticket, self._waits.pop(ticket)[0])

    def leave(self, ask: Ask) -> None:
        """Leave all of its lines, with all of its tickets."""
        for resource, permits in ask.wants:
            resource.line.leave(ask, permits)
        del self._by_place[ask.place]
        for ticket in ask.tickets:
            self.give_up(ticket)
        ask.place = Place(0)
