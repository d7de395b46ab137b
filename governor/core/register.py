"""Register: what each ticket and each request id stands for.

It knows the way from a ticket, or from a client's request id, to its ask in line or to its lease. It must never
know what becomes of either. One invariant: a request id stands for one thing at a time.
"""

from governor.core.ask import MAX_TICKETS, Ask
from governor.core.leases import Lease
from governor.core.types import TicketId


class Register:
    """Tickets and request ids by what they stand for."""

    __slots__ = ("_requests", "_tickets")

    def __init__(self) -> None:
        self._tickets: dict[TicketId, Ask | Lease] = {}
        self._requests: dict[tuple[str, str], Ask | Lease] = {}

    def __len__(self) -> int:
        return len(self._tickets)

    def of_ticket(self, ticket: TicketId) -> Ask | Lease | None:
        """What ``ticket`` stands for, unless it has ended."""
        return self._tickets.get(ticket)

    def of_request(self, client: str, request_id: str) -> Ask | Lease | None:
        """What this client's request id stands for."""
        return self._requests.get((client, request_id))

    def enter(self, ask: Ask, holder: Ask | Lease) -> None:
        """The tickets and the request id of ``ask`` stand for ``holder`` from now on: itself, or its lease."""
        for ticket in ask.tickets:
            self._tickets[ticket] = holder
        self.enter_request(ask, holder)

    def enter_request(self, ask: Ask, holder: Ask | Lease) -> None:
        """The request id of ``ask``, if it has one, stands for ``holder``; whoever held its tickets is gone."""
        if ask.event.request_id:
            self._requests[ask.event.client, ask.event.request_id] = holder

    def join(self, ask: Ask, holder: Ask | Lease, ticket: TicketId) -> None:
        """One more ticket for the same; beyond a bound it is known that somebody has the answer.

        Then the oldest ticket can no longer be given up, so that ``part`` never finds that none is left: a lease in use
        must not be taken back because its last repeats could not be delivered.
        """
        if len(ask.tickets) >= MAX_TICKETS:
            self._tickets.pop(ask.tickets[0], None)
            return
        ask.tickets.append(ticket)
        self._tickets[ticket] = holder

    def part(self, ask: Ask, ticket: TicketId) -> bool:
        """This ticket stands for it no more; whether none is left that does."""
        del self._tickets[ticket]
        ask.tickets.remove(ticket)
        return not ask.tickets

    def end_tickets(self, ask: Ask) -> None:
        """All its tickets have ended; its request id still stands."""
        for ticket in ask.tickets:
            self._tickets.pop(ticket, None)

    def forget(self, ask: Ask, holder: Ask | Lease) -> None:
        """Nothing stands for ``holder`` any more; the request id is free for a new ask."""
        for ticket in ask.tickets:  # as `end_tickets`, without a call for each release
            self._tickets.pop(ticket, None)
        event = ask.event
        if event.request_id:
            request = (event.client, event.request_id)
            # After a grant was taken back, the same request id may stand for a later ask by now.
            if self._requests.get(request) is holder:
                del self._requests[request]
