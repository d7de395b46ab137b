"""Lending: the moves that everything else is made of: grant, wait, leave, end, settle.

It knows how each move keeps resources, lines, leases and the register in step. It must never know which event a
move is for. One invariant: after ``settle``, no head of a line could be granted.
"""

from typing import Final

from governor.core.agenda import Agenda
from governor.core.ask import Ask
from governor.core.effects import Denied, Effect, Frozen, Granted, LeaseEnded, LeaseOrphaned, Refunded
from governor.core.events import Acquire
from governor.core.leases import Lease, Leases
from governor.core.register import Register
from governor.core.resource import Resource
from governor.core.resources import Resources
from governor.core.types import SECOND, Denial, EndReason, Grant, LeaseId, Nanos, Outcome, TicketId
from governor.core.waiters import Waiters

# Keys on the agenda. Of one instant, leases end before lines ripen before waits are over: a permit that came back
# in time is granted. A lease's key is its id, which stays below all others for as long as ids last.
RIPENINGS: Final = 1 << 62
WAITS: Final = 1 << 63


class Lending:
    """All the state there is, and the moves. Whoever calls a move calls ``settle`` afterwards."""

    __slots__ = ("agenda", "leases", "register", "resources", "touched", "waiters")

    def __init__(self, first_id: LeaseId) -> None:
        self.agenda = Agenda()
        self.resources = Resources(self.agenda, RIPENINGS)
        self.leases = Leases(self.agenda, first_id)
        self.waiters = Waiters(self.agenda, WAITS)
        self.register = Register()
        # Whose lines may have something to gain since the last settle.
        self.touched: list[Resource] = []

    def touch(self, resource: Resource) -> None:
        """Its line may have something to gain."""
        self.touched.append(resource)

    def wait(self, ask: Ask, deadline: Nanos) -> None:
        """Join the lines, with one ticket."""
        self.waiters.join(ask)
        self.waiters.wait(ask.event.ticket, deadline, ask.event.wait)
        self.register.enter(ask, ask)
        # Behind others it changes nothing for anybody.
        self.touched.extend([resource for resource, _ in ask.wants if resource.line.head is ask])

    def wait_too(self, ask: Ask, event: Acquire, deadline: Nanos) -> None:
        """One more ticket waits at the place of ``ask``."""
        self.register.join(ask, ask, event.ticket)
        self.waiters.wait(event.ticket, deadline, event.wait)

    def give_up(self, ask: Ask, ticket: TicketId) -> None:
        """One ticket waits no more; with the last of them its ask leaves the lines."""
        self.waiters.give_up(ticket)
        if self.register.part(ask, ticket):
            self.leave(ask)

    def leave(self, ask: Ask) -> None:
        """Leave the lines without a grant."""
        self.waiters.leave(ask)
        self.register.forget(ask, ask)
        self.touched.extend([resource for resource, _ in ask.wants])

    def deny(self, ask: Ask, denial: Denial, now: Nanos, effects: list[Effect]) -> None:
        """Leave the lines, with this answer to everybody who waits at this place."""
        self.leave(ask)
        claims, client, waited = ask.event.claims, ask.event.client, now - ask.since
        effects.extend([Denied(ticket, denial, claims, waited, client) for ticket in ask.tickets])

    def grant(self, ask: Ask, now: Nanos, effects: list[Effect]) -> None:
        """Take all that it wants, which can be taken; the lease's time starts now."""
        grants: list[Grant] = []
        deadline: Nanos | None = None
        for resource, permits in ask.wants:
            limit = resource.limit
            members = limit.take(permits, now)
            grants.append(Grant(resource.spec.name, permits, members, resource.key))
            if limit.lends:
                resource.leases += 1
                deadline = now + ask.length
                if limit.in_use > resource.most:
                    resource.most = limit.in_use
            else:
                resource.most += permits
        lease = self.leases.grant(ask, tuple(grants), deadline, now)
        self.register.enter(ask, lease)
        if deadline is None and (forgotten := self.leases.finish(lease, EndReason.SPENT, now)):
            self.register.forget(forgotten.ask, forgotten)
        waited, client, repeated = now - ask.since, ask.event.client, False
        for ticket in ask.tickets:
            effects.append(Granted(ticket, lease.id, lease.grants, deadline, waited, client, repeated))
            repeated = True

    def end(
        self,
        lease: Lease,
        reason: EndReason,
        outcome: Outcome | None,
        now: Nanos,
        effects: list[Effect],
        settled: bool = False,  # noqa: FBT001, FBT002 - by name it would cost each release a tenth of a microsecond
    ) -> None:
        """End a live lease: what it lent has come back.

        Without an ``outcome`` nobody ever got to know of it: what it took is as if never taken, also what it spent.
        ``settled``: its request id is free at once.
        """
        ask = lease.ask
        # Not strict, which costs 0.1 us: there is a grant for each want.
        for (resource, permits), grant in zip(ask.wants, lease.grants):  # noqa: B905
            limit = resource.limit
            if outcome is None:
                limit.put_back(permits, grant.members, lease.granted_at, now)
            else:
                limit.give_back(permits, grant.members, outcome, now)
            if resource.line.permits:
                self.touched.append(resource)
            if limit.lends:
                resource.leases -= 1
                if resource.removed and not resource.leases:
                    self.resources.retire(resource)
        if lease.deadline is None:
            effects.append(Refunded(lease.id, lease.grants, ask.event.client))
            return
        if settled:
            self.register.forget(ask, lease)
        else:
            self.register.end_tickets(ask)
        if forgotten := self.leases.finish(lease, reason, now, settled):
            self.register.forget(forgotten.ask, forgotten)
        held, left = now - lease.granted_at, lease.deadline - now
        effects.append(LeaseEnded(lease.id, reason, lease.grants, ask.event.client, held, left))

    def orphan(self, lease: Lease, now: Nanos, effects: list[Effect]) -> None:
        """The holder of a live lease is gone: it ends now, after a grace, or when it would have."""
        assert lease.deadline is not None, "a lease without a deadline lent nothing, so it does not live"
        grace = lease.grace
        if grace == 0:
            self.end(lease, EndReason.DISCONNECTED, Outcome.UNKNOWN, now, effects)
        elif grace is not None:
            deadline = min(lease.deadline, now + grace)
            if lease.ends_as is not EndReason.DISCONNECTED or deadline < lease.deadline:
                self.leases.move(lease, deadline, EndReason.DISCONNECTED)
                effects.append(LeaseOrphaned(lease.id, deadline))

    def freeze(self, length: Nanos, now: Nanos, effects: list[Effect]) -> None:
        """Nothing was done for ``length``: every lease ends that much later, and none within a second from now."""
        for lease in self.leases:
            assert lease.deadline is not None, "a lease without a deadline lent nothing, so it does not live"
            self.leases.move(lease, max(lease.deadline + length, now + SECOND), lease.ends_as)
        effects.append(Frozen(length, len(self.leases)))

    def forget_request(self, lease_id: LeaseId) -> None:
        """Whoever asked for a lease that ended will not repeat the ask: its request id is free."""
        if forgotten := self.leases.forget(lease_id):
            self.register.forget(forgotten.ask, forgotten)

    def settle(self, at: Nanos, now: Nanos, effects: list[Effect]) -> None:
        """Grant whoever could be granted at ``at`` in the lines that were touched, and in those that this touches.

        ``at`` is the instant that the engine catches up with, or ``now``. What comes later than ``at`` is not free
        yet: whoever's wait was over before it came must not be granted because nobody looked in between.
        """
        # Who was looked at last and cannot be granted: as a rule it is the head of other lines that were touched, too.
        blocked: Ask | None = None
        for resource in self.touched:  # which grows while it is walked
            while (ask := resource.line.head) is not None:
                if ask is blocked or self.leases.exhausted or not ask.at_head or not ask.takeable(at):
                    blocked = ask
                    break
                self.waiters.leave(ask)
                self.grant(ask, now, effects)
                blocked = None
                self.touched.extend([other for other, _ in ask.wants if other is not resource])
            self._await_ripening(resource, at)
        self.touched.clear()

    def _await_ripening(self, resource: Resource, since: Nanos) -> None:
        """Put on the agenda when, after ``since``, time alone lets this line move."""
        at: Nanos | None = None
        permits = resource.line.head_permits
        if permits and not resource.limit.can_take(permits, since):
            at = resource.limit.wake_at(permits, since)
            assert at is None or at > since, "I3: what can be taken now was not"
        self.resources.ripen(resource, at)


def granted(ticket: TicketId, lease: Lease, *, repeated: bool) -> Granted:
    """The answer to a ticket of this lease."""
    ask = lease.ask
    waited = lease.granted_at - ask.since
    return Granted(ticket, lease.id, lease.grants, lease.deadline, waited, ask.event.client, repeated)
