"""Allowances: how much of what a client may have at once, or ask for in a while, it has.

It knows what each client holds and waits for, from the effects of the engine, and how quickly it asks. It must never
know how a client is known, or what it may do to which resource. In one sentence: what a client holds and waits for is
never more than its caps at the moment at which it asked.

What waits counts as if it were held, and once, however often it is repeated. An ask that stood in line until its own
client had room again would hold up everybody behind it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from governor.access import Client
from governor.core.effects import Abandoned, Denied, Effect, Granted, LeaseEnded, Queued
from governor.core.limit import Limit
from governor.core.types import Claim, Denial, Grant, Nanos, Reason, TicketId
from governor.driver import Driver
from governor.units import format_duration
from governor.wording import count


@dataclass(slots=True)
class _Has:
    """What one client has: ``permits`` held or waited for, ``waiters`` in line, and its ``rate``, if it is bounded."""

    permits: int = 0
    waiters: int = 0
    rate: Limit | None = None


@dataclass(slots=True, eq=False)
class _Wait:
    """One ask in line, of a client that ``has`` it: its ``permits``, and how many ``tickets`` stand for it."""

    has: _Has
    permits: int
    tickets: int = 0


class Allowances:
    """What the clients with caps have. Without any it sees nothing of what happens, which then costs nothing."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._has: dict[str, _Has] = {}
        # Of those clients: each ask in line, by its tickets.
        self._waiting: dict[TicketId, _Wait] = {}

    def declare(self, clients: Iterable[Client]) -> None:
        """These are the clients from now on. What they have by now is counted; no rate begins anew that stays."""
        now, before = self._driver.now(), self._has
        self._has = {client.name: _Has(rate=_rate(client, before, now)) for client in clients if client.capped}
        self._waiting = {}
        if self._observe in self._driver.observers:
            self._driver.observers.remove(self._observe)
        if self._has:
            self._count()
            self._driver.observers.append(self._observe)

    def close(self) -> None:
        """See nothing more of what happens; safe twice."""
        self.declare(())

    def refusal(self, client: Client, claims: Sequence[Claim]) -> Denial | None:
        """Why this client may not ask for that now, which it has not asked for yet."""
        has = self._has.get(client.name)
        if has is None:
            return None
        asked = sum([claim.permits for claim in claims])
        most = client.max_permits
        if most is not None and asked > most:
            told = f"have more than {count(most, 'permit')} at once"
            return Denial(Reason.PERMISSION_DENIED, expected=told, client=client.name)
        if most is not None and has.permits + asked > most:
            return _beyond(client, f"hold and wait for {count(most, 'permit')}", asked, most)
        if client.max_waiters is not None and has.waiters >= client.max_waiters:
            return _beyond(client, f"have {count(client.max_waiters, 'ask')} in line", None, client.max_waiters)
        return None

    def too_fast(self, client: Client) -> Denial | None:
        """Why this client may ask nothing just now; else it has asked once more."""
        has = self._has.get(client.name)
        if has is None or has.rate is None or client.max_rate is None:
            return None
        now = self._driver.now()
        if has.rate.can_take(1, now):
            has.rate.take(1, now)
            return None
        asks, period = client.max_rate.asks, client.max_rate.period
        at = has.rate.not_before(1, 0, now)
        told = f"ask {count(asks, 'time')} in {format_duration(period)}"
        return _beyond(client, told, None, asks, at - now if asks else None)

    # --- counting -------------------------------------------------------------------------------------------

    def _count(self) -> None:
        """What they have at this moment."""
        for lease in self._driver.lease_ids():
            if (view := self._driver.lease(lease)) is not None and (has := self._has.get(view.client)) is not None:
                has.permits += _permits(view.grants)
        for ticket in self._driver.waiting(None):
            if (waiter := self._driver.waiter(ticket)) is not None and waiter.client in self._has:
                for each in waiter.tickets:
                    self._wait(each, waiter.client, waiter.claims)

    def _wait(self, ticket: TicketId, client: str, claims: Sequence[Claim]) -> None:
        # One that is repeated stands where it stood, and is one ask.
        waits = self._driver.waiter(ticket)
        known = None if waits is None else next(filter(None, map(self._waiting.get, waits.tickets)), None)
        if known is None:
            has = self._has[client]
            known = _Wait(has, sum([claim.permits for claim in claims]))
            has.permits += known.permits
            has.waiters += 1
        known.tickets += 1
        self._waiting[ticket] = known

    def _observe(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Granted):
                self._leave(effect.ticket)
                # A grant of rate limits alone lends nothing.
                if effect.deadline is not None and not effect.repeated:
                    self._hold(effect.client, _permits(effect.grants))
            elif isinstance(effect, LeaseEnded):
                self._hold(effect.client, -_permits(effect.grants))
            elif isinstance(effect, Queued):
                if effect.client in self._has:
                    self._wait(effect.ticket, effect.client, effect.claims)
            elif isinstance(effect, (Denied, Abandoned)):
                self._leave(effect.ticket)

    def _hold(self, client: str, permits: int) -> None:
        if (has := self._has.get(client)) is not None:
            has.permits += permits

    def _leave(self, ticket: TicketId) -> None:
        if (waited := self._waiting.pop(ticket, None)) is not None:
            waited.tickets -= 1
            if not waited.tickets:
                waited.has.permits -= waited.permits
                waited.has.waiters -= 1


def _permits(grants: Sequence[Grant]) -> int:
    return sum([grant.permits for grant in grants])


def _rate(client: Client, before: dict[str, _Has], now: Nanos) -> Limit | None:
    if client.max_rate is None:
        return None
    spec = client.max_rate.limit
    known = before.get(client.name)
    if known is None or known.rate is None:
        return spec.build(now)
    known.rate.reconfigure(spec, now)
    return known.rate


def _beyond(client: Client, what: str, asked: int | None, limit: int, retry_after: Nanos | None = None) -> Denial:
    return Denial(
        Reason.CLIENT_LIMIT, expected=what, asked=asked, limit=limit, retry_after=retry_after, client=client.name
    )
