"""A small stage for the engine: one clock moved by hand, tickets numbered for you, everything answered on record.

It knows how a shell must drive the engine. It must never know what the engine should answer.
"""

from typing import Final

from governor.core.differences import Difference
from governor.core.effects import (
    Denied,
    Effect,
    Granted,
    LeaseEnded,
    LeaseResult,
    Reconfigured,
    ReconfigureRefused,
    Released,
    Renewed,
    Revoked,
    Steered,
    SteerRefused,
)
from governor.core.engine import AT_ONCE, Engine
from governor.core.events import (
    Abandon,
    Acquire,
    Disconnect,
    Drain,
    Event,
    Freeze,
    Reconfigure,
    Release,
    Renew,
    ReserveIds,
    Revoke,
    Steer,
    Wake,
)
from governor.core.resource import ResourceSpec
from governor.core.snapshot import Held, ResourceSnapshot
from governor.core.types import Claim, Denial, EndReason, LeaseId, Nanos, Outcome, TicketId
from tests.core.compared import compared
from tests.core.reborn import reborn, written

PLENTY: Final = LeaseId(10**12)


class Play:
    """One engine and its clock. Every step is followed by the engine's own check of its invariants."""

    def __init__(
        self, *resources: ResourceSpec, first_id: int = 1, ceiling: int = PLENTY, at_once: int = AT_ONCE
    ) -> None:
        self.engine = Engine(first_id=LeaseId(first_id), at_once=at_once)
        self.now: Nanos = 0
        # Everything that ever happened, and when.
        self.record: list[tuple[Nanos, Effect]] = []
        self._tickets = 0
        self.do(ReserveIds(LeaseId(ceiling)))
        if resources:
            self.reconfigure(*resources)

    def do(self, event: Event) -> list[Effect]:
        """One step, now."""
        effects = self.engine.handle(event, now=self.now)
        self.engine.check(now=self.now)
        self.record.extend((self.now, effect) for effect in effects)
        return effects

    # --- time -------------------------------------------------------------------------------------------------

    def at(self, now: Nanos) -> list[Effect]:
        """Time passes until ``now``, with a timer that always fires at the very instant it was armed for."""
        effects: list[Effect] = []
        while (due := self.engine.next_deadline()) is not None and due <= now:
            self.now = max(self.now, due)
            effects += self.do(Wake())
            after = self.engine.next_deadline()
            assert after is None or after > self.now, "a timer armed for what is over would never rest"
        self.now = now
        return effects + self.do(Wake())

    def unseen_until(self, now: Nanos) -> None:
        """Time passes until ``now`` and nobody looks: whatever is due meanwhile happens with the next event."""
        self.now = now

    def frozen_until(self, now: Nanos) -> list[Effect]:
        """Time passes until ``now`` and nobody looks, and then that is noticed."""
        length, self.now = now - self.now, now
        return self.do(Freeze(length))

    def restart(self, *resources: ResourceSpec, now: Nanos, grace: Nanos = 0) -> Reconfigured | ReconfigureRefused:
        """Another daemon starts at ``now``, of its own clock, from what was remembered of this one."""
        book = written(self.engine, self.now)
        self.now = now
        self.engine, effects = reborn(book, resources, now=now, ceiling=PLENTY, grace=grace)
        self.engine.check(now=now)
        self.record += [(now, effect) for effect in effects]
        answer = effects[-1]
        assert isinstance(answer, (Reconfigured, ReconfigureRefused))
        return answer

    # --- events -----------------------------------------------------------------------------------------------

    def ask(
        self,
        *claims: str | tuple[str, int],
        client: str = "",
        wait: Nanos | None = None,
        lease: Nanos | None = None,
        request_id: str = "",
    ) -> TicketId:
        """Ask for permits, one of each resource that is named without a number."""
        wanted = tuple(Claim(claim, 1) if isinstance(claim, str) else Claim(*claim) for claim in claims)
        return self.acquire(wanted, client=client, wait=wait, lease=lease, request_id=request_id)

    def acquire(
        self,
        claims: tuple[Claim, ...],
        *,
        client: str = "",
        wait: Nanos | None = None,
        lease: Nanos | None = None,
        request_id: str = "",
    ) -> TicketId:
        """Ask for whatever is claimed, however odd."""
        self._tickets += 1
        ticket = TicketId(self._tickets)
        self.do(Acquire(ticket, claims, client=client, wait=wait, lease=lease, request_id=request_id))
        return ticket

    def abandon(self, ticket: TicketId) -> list[Effect]:
        """Whoever held this ticket is gone."""
        return self.do(Abandon(ticket))

    def release(
        self, *leases: LeaseId, outcome: Outcome = Outcome.UNKNOWN, settled: bool = False
    ) -> tuple[LeaseResult, ...]:
        """Give leases back."""
        return next(e.results for e in self.do(Release(leases, outcome, settled)) if isinstance(e, Released))

    def renew(self, *leases: LeaseId, lease: Nanos | None = None, most: Nanos | None = None) -> tuple[LeaseResult, ...]:
        """Extend leases."""
        return next(e.results for e in self.do(Renew(leases, lease, most)) if isinstance(e, Renewed))

    def disconnect(self, *leases: LeaseId) -> list[Effect]:
        """Whoever held these is gone."""
        return self.do(Disconnect(leases))

    def reconfigure(self, *resources: ResourceSpec) -> Reconfigured | ReconfigureRefused:
        """Declare what there is from now on."""
        kinds = (Reconfigured, ReconfigureRefused)
        return next(e for e in self.do(Reconfigure(resources)) if isinstance(e, kinds))

    def revoke(self, *leases: LeaseId) -> tuple[LeaseResult, ...]:
        """End leases, whoever holds them."""
        return next(e.results for e in self.do(Revoke(leases)) if isinstance(e, Revoked))

    def steer(self, order: Steer) -> Steered | SteerRefused:
        """An operator says something of a resource; the answer is the first thing that happens."""
        answer = self.do(order)[0]
        assert isinstance(answer, (Steered, SteerRefused))
        return answer

    def differences(self, *resources: ResourceSpec) -> dict[str, Difference]:
        """What to declare these would change, by name."""
        return {each.resource: each for each in compared(self.engine.compare(resources), self.now)}

    def drain(self) -> list[Effect]:
        """Refuse everybody from now on."""
        return self.do(Drain())

    def reserve_ids(self, ceiling: int) -> list[Effect]:
        """Lease ids up to and including ``ceiling`` may be given out."""
        return self.do(ReserveIds(LeaseId(ceiling)))

    # --- answers ----------------------------------------------------------------------------------------------

    def answer(self, ticket: TicketId) -> Granted | Denied | None:
        """How the ticket ended; None while it waits, or when it was abandoned in line."""
        answers = [e for _, e in self.record if isinstance(e, Granted | Denied) and e.ticket == ticket]
        assert len(answers) <= 1, f"ticket {ticket} was answered twice: {answers}"
        return answers[0] if answers else None

    def granted(self, ticket: TicketId) -> Granted:
        """The grant of a ticket that must have ended well."""
        answer = self.answer(ticket)
        assert isinstance(answer, Granted), f"ticket {ticket}: {answer}"
        return answer

    def denial(self, ticket: TicketId) -> Denial:
        """The refusal of a ticket that must have ended badly."""
        answer = self.answer(ticket)
        assert isinstance(answer, Denied), f"ticket {ticket}: {answer}"
        return answer.denial

    def lease(self, ticket: TicketId) -> LeaseId:
        """The lease of a ticket that must have ended well."""
        return self.granted(ticket).lease

    def has(self, ticket: TicketId) -> bool:
        """Whether the ticket ended well."""
        return isinstance(self.answer(ticket), Granted)

    def waits(self, ticket: TicketId) -> bool:
        """Whether the ticket has no answer yet."""
        return self.answer(ticket) is None

    def held(self, ticket: TicketId) -> Held | None:
        """What the engine shows of the lease of a ticket that ended well; None when it has ended."""
        return self.engine.held(self.lease(ticket))

    def deadline(self, ticket: TicketId) -> Nanos:
        """When the lease of this ticket ends, which must live."""
        held = self.held(ticket)
        assert held is not None, f"the lease of ticket {ticket} has ended"
        return held.deadline

    def ends(self) -> list[tuple[Nanos, LeaseId, EndReason]]:
        """The leases that ended so far: when, which and why."""
        return [(at, effect.lease, effect.reason) for at, effect in self.record if isinstance(effect, LeaseEnded)]

    def resource(self, name: str) -> ResourceSnapshot:
        """What the engine shows of one resource now."""
        return next(r for r in self.engine.snapshot(now=self.now).resources if r.name == name)
