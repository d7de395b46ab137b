"""Driver: the only place where asyncio meets the engine.

It knows which caller waits for which ticket, and which event a call is. It must never decide anything about permits.
In one sentence: every caller that waits has a ticket in line, and every ticket in line a
caller that waits.

Each call is one synchronous step of the engine. A call that is answered at once never gives up the event loop, so
nothing can come between the decision and its answer; one that waits is woken by the very step that grants it.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from governor.clock import Clock
from governor.core.effects import (
    Denied,
    Effect,
    Granted,
    LeaseResult,
    Queued,
    Reconfigured,
    ReconfigureRefused,
    Released,
    Renewed,
    Restored,
    RestoreRefused,
    Revoked,
    Steered,
    SteerRefused,
)
from governor.core.engine import Engine
from governor.core.events import (
    Abandon,
    Acquire,
    Disconnect,
    Drain,
    Quarantine,
    Readmit,
    Reconfigure,
    Recycle,
    Release,
    Renew,
    ReserveIds,
    Restore,
    Revoke,
    Seal,
    SetOverride,
    SetStanding,
    Steer,
)
from governor.core.limit import LimitSpec
from governor.core.resource import Remembered, ResourceSpec
from governor.core.types import UNSAID, Claim, LeaseId, Nanos, Outcome, Said, Standing, TicketId
from governor.steps import Answer, Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from governor.core.snapshot import Held, MemberView, Past
    from governor.tracing import Follower

__all__ = ["Answer", "Driver"]


class Driver(Steps):
    """An engine with callers: what may be asked of it, each a step.

    ``follower``: whoever puts an ask to it tells him first by what it came; None while nothing is traced.
    """

    def __init__(self, engine: Engine, clock: Clock, *, beating: bool = True) -> None:
        """As `Steps`."""
        super().__init__(engine, clock, beating=beating)
        self._last_ticket = 0
        self._unwritable: set[str] = set()
        # Who revokes what observers are being told of, and why; no business of the engine's.
        self.revoking = UNSAID
        # Told of each member that came back broken: its pool, what became of it, and who says so.
        self.broken_observers: list[Callable[[str, MemberView, str], None]] = []
        self.follower: Follower | None = None

    def ask(
        self,
        claims: tuple[Claim, ...],
        *,
        client: str = "",
        wait: Nanos | None = None,
        lease: Nanos | None = None,
        request_id: str = "",
        labels: tuple[tuple[str, str], ...] = (),
    ) -> Granted | Denied | Queued:
        """Ask. Whoever is `Queued` must, before giving up the event loop, say with `tell` who waits for the answer."""
        self._last_ticket += 1
        ticket = TicketId(self._last_ticket)
        return _answer_to(ticket, self._step(Acquire(ticket, claims, client, wait, lease, request_id, labels)))

    def ask_alike(
        self,
        request_ids: "Iterator[str]",
        claims: tuple[Claim, ...],
        client: str,
        wait: Nanos | None,
        lease: Nanos | None,
        labels: tuple[tuple[str, str], ...],
    ) -> list[Granted | Denied | Queued]:
        """`ask` with one id after the other, at one instant, up to one that is `Queued`; the answers so far.

        What follows from a step, such as that its observers are called, follows once for all of them.
        """
        now = self._look_at_clock()
        handle, ticket = self._engine.handle, self._last_ticket
        effects: list[Effect] = []
        answers: list[Granted | Denied | Queued] = []
        try:
            for request_id in request_ids:
                ticket += 1
                happened = handle(
                    Acquire(ticket, claims, client, wait, lease, request_id, labels),  # type: ignore[arg-type]
                    now=now,
                )
                effects += happened
                answer = happened[0]
                if not (isinstance(answer, Granted) and answer.ticket == ticket):  # as a rule it is that alone
                    answer = _answer_to(ticket, happened)
                answers.append(answer)
                if isinstance(answer, Queued):
                    break
        finally:
            self._last_ticket = ticket
            self._follow(effects, now)
        return answers

    def tell(self, ticket: TicketId, caller: "Callable[[Answer], None]") -> None:
        """``caller`` is called with the answer to this ticket, in the step that makes it; it must not raise."""
        self._callers[ticket] = caller

    async def answer(self, ticket: TicketId) -> Answer:
        """The answer to a ticket in line.

        Cancelling it leaves the line in the same turn, or gives the grant back when one was just made.
        """
        caller: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.tell(ticket, partial(_settle, caller))
        try:
            return await caller
        except asyncio.CancelledError:
            self.abandon(ticket)
            raise

    def abandon(self, ticket: TicketId) -> None:
        """Whoever held this ticket is gone: it leaves the line, or its undelivered grant is taken back."""
        self._callers.pop(ticket, None)
        self._step(Abandon(ticket))

    def release(
        self, leases: tuple[LeaseId, ...], outcome: Outcome = Outcome.UNKNOWN, *, settled: bool = False
    ) -> tuple[LeaseResult, ...]:
        """Give leases back; a result for each, in order. ``settled``: nobody will repeat the asks for them."""
        lent = self._lent(leases) if outcome is Outcome.BROKEN else {}
        for effect in self._step(Release(leases, outcome, settled)):
            if isinstance(effect, Released):
                if lent:
                    self._tell_broken(lent)
                return effect.results
        raise AssertionError("the engine did not answer a release")

    def _lent(self, leases: tuple[LeaseId, ...]) -> "dict[tuple[str, str], tuple[MemberView, str]]":
        """The members that these leases hold, as they are, and who holds them."""
        lent: dict[tuple[str, str], tuple[MemberView, str]] = {}
        for held in filter(None, map(self.held, leases)):
            for grant in held.grants:
                for member in grant.members:
                    view = self.member(grant.resource, member.id)
                    if view is not None:
                        lent[grant.resource, member.id] = view, held.client
        return lent

    def _tell_broken(self, lent: "dict[tuple[str, str], tuple[MemberView, str]]") -> None:
        """Of those that were just said to be broken, and of which that was news."""
        for (pool, member), (before, client) in lent.items():
            view = self.member(pool, member)
            if view is None or (view.failures, view.generation) == (before.failures, before.generation):
                continue  # it is gone, or what was said of it is of before it was opened anew
            for told in self.broken_observers:
                told(pool, view, client)

    def renew(
        self, leases: tuple[LeaseId, ...], lease: Nanos | None = None, most: Nanos | None = None
    ) -> tuple[LeaseResult, ...]:
        """Extend leases to ``lease`` from now, or else as each was granted but to no more than ``most``; in order."""
        for effect in self._step(Renew(leases, lease, most)):
            if isinstance(effect, Renewed):
                return effect.results
        raise AssertionError("the engine did not answer a renewal")

    def disconnect(self, leases: tuple[LeaseId, ...]) -> None:
        """Whoever held these is gone: each ends, or will after a grace, or lives on, as its resources say."""
        self._step(Disconnect(leases))

    def reconfigure(self, resources: tuple[ResourceSpec, ...]) -> Reconfigured | ReconfigureRefused:
        """Declare exactly these resources, or change nothing."""
        for effect in self._step(Reconfigure(resources)):
            if isinstance(effect, (Reconfigured, ReconfigureRefused)):
                return effect
        raise AssertionError("the engine did not answer a reconfiguration")

    def drain(self) -> None:
        """Refuse new asks and everybody who waits; leases go on."""
        self._step(Drain())

    def reserve_ids(self, ceiling: LeaseId) -> None:
        """Lease ids up to ``ceiling`` may be given out."""
        self._step(ReserveIds(ceiling))

    def set_writable(self, writable: bool, *, by: str = "state") -> None:  # noqa: FBT001 - the one thing it sets
        """Whether anything may be granted, as far as it can be put on record; ``by`` whom, since all must agree."""
        if writable:
            self._unwritable.discard(by)
        else:
            self._unwritable.add(by)
        self._step(Seal(sealed=bool(self._unwritable)))

    def restore(
        self,
        leases: "Sequence[Held]",
        resources: "Sequence[Remembered]",
        past: "Sequence[Past]",
        fading: "Sequence[Remembered]" = (),
    ) -> Restored | RestoreRefused:
        """Go on where another ended; before anybody asks."""
        for effect in self._step(Restore(tuple(leases), tuple(resources), tuple(past), tuple(fading))):
            if isinstance(effect, (Restored, RestoreRefused)):
                return effect
        raise AssertionError("the engine did not answer a restoration")

    # --- operators ------------------------------------------------------------------------------------------

    def revoke(self, leases: tuple[LeaseId, ...], said: Said = UNSAID) -> tuple[LeaseResult, ...]:
        """End leases now, whoever holds them; a result for each, in order. ``said``: by whom, and why."""
        self.revoking = said
        try:
            effects = self._step(Revoke(leases))
        finally:
            self.revoking = UNSAID
        for effect in effects:
            if isinstance(effect, Revoked):
                return effect.results
        raise AssertionError("the engine did not answer a revocation")

    def set_standing(self, resource: str, standing: Standing, said: Said = UNSAID) -> Steered | SteerRefused:
        """Pause a resource, drain it, or open it again."""
        return self._steer(SetStanding(resource, standing, said))

    def set_override(
        self, resource: str, limit: LimitSpec | None, length: Nanos = 0, said: Said = UNSAID
    ) -> Steered | SteerRefused:
        """Put another limit in force for ``length`` from now; None: the declared one, at once."""
        return self._steer(SetOverride(resource, limit, 0 if limit is None else self._clock.now() + length, said))

    def recycle(self, resource: str, member: str | None = None) -> Steered | SteerRefused:
        """Have one member of a pool, or all, opened anew when it is next lent."""
        return self._steer(Recycle(resource, member))

    def quarantine(
        self, resource: str, member: str, length: Nanos | None = None, said: Said = UNSAID
    ) -> Steered | SteerRefused:
        """Keep a member out for ``length`` from now; None: until it is readmitted."""
        until = None if length is None else self._clock.now() + length
        return self._steer(Quarantine(resource, member, until, said))

    def readmit(self, resource: str, member: str) -> Steered | SteerRefused:
        """End any quarantine of a member."""
        return self._steer(Readmit(resource, member))

    def _steer(self, order: Steer) -> Steered | SteerRefused:
        for effect in self._step(order):
            if isinstance(effect, (Steered, SteerRefused)):
                return effect
        raise AssertionError("the engine did not answer an order")


def _answer_to(ticket: int, effects: "Sequence[Effect]") -> Granted | Denied | Queued:
    for effect in effects:
        if isinstance(effect, (Granted, Denied, Queued)) and effect.ticket == ticket:
            return effect
    raise AssertionError("the engine did not answer an ask")


def _settle(caller: "asyncio.Future[Answer]", answer: Answer) -> None:
    if not caller.done():
        caller.set_result(answer)
