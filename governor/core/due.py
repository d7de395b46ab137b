"""Due: what time alone makes happen, before an event does.

It knows what falls due, and of how much of it one step can be asked. It must never know what the event means.
"""

from typing import TYPE_CHECKING, Final

from governor.core import admission, steering
from governor.core.agenda import NEVER
from governor.core.ask import Ask
from governor.core.effects import Denied, Effect
from governor.core.events import (
    Abandon,
    Acquire,
    Disconnect,
    Event,
    Quarantine,
    Readmit,
    Reconfigure,
    Recycle,
    Release,
    Renew,
    Revoke,
    SetOverride,
    SetStanding,
)
from governor.core.lending import RIPENINGS, WAITS, Lending
from governor.core.types import Denial, LeaseId, Nanos, Outcome, Reason, TicketId

if TYPE_CHECKING:
    from governor.core.leases import Lease

# What changes how much there is to lend, and may not do so before what is due by then has happened.
_NEEDS_ALL: Final = (Reconfigure, SetStanding, SetOverride, Recycle, Quarantine, Readmit)


def catch_up(lending: Lending, event: Event, now: Nanos, at_once: int, effects: list[Effect]) -> None:
    """Make happen what is due by ``now``, in the order of the instants, before ``event``.

    What is granted meanwhile is granted ``now``, so that no lease is born dead. If it is more than a slice, the
    rest is left for the next event: lines move no further in this step, and of the rest only that happens which is
    due to what ``event`` names, so that nothing that is over is renewed or repeated. What changes limits needs all.
    """
    left = NEVER if isinstance(event, _NEEDS_ALL) else at_once
    while (first := lending.agenda.first()) is not None and first[0] <= now:
        if left == 0:
            _catch_up_with(lending, event, now, effects)
            return
        left -= 1
        due, key = first
        if key < 0:
            steering.override_over(lending, lending.resources.by_key(~key), due, now, effects)
        elif key < RIPENINGS:
            lease = lending.leases.live(LeaseId(key))
            assert lease is not None, "I6: a lease that does not live was due"
            lending.end(lease, lease.ends_as, Outcome.UNKNOWN, now, effects)
        elif key < WAITS:
            lending.touch(lending.resources.by_key(key))
        else:
            _wait_over(lending, lending.waiters.by_key(key), due, now, effects)
        lending.settle(due, now, effects)


def _catch_up_with(lending: Lending, event: Event, now: Nanos, effects: list[Effect]) -> None:
    """Make happen what is due by ``now`` to those leases, or that place in line, that ``event`` names."""
    register, leases = lending.register, lending.leases
    named: list[Ask | Lease | None] = []
    match event:
        case Release() | Renew() | Disconnect() | Revoke():
            named += [leases.live(lease_id) for lease_id in dict.fromkeys(event.leases)]
        case Acquire():
            steering.end_overrides(lending, event.claims, now, effects)
            named.append(register.of_request(event.client, event.request_id))
        case Abandon():
            named.append(register.of_ticket(event.ticket))
        case _:
            pass
    for known in named:
        if isinstance(known, Ask):
            for ticket, until in lending.waiters.overdue(known, now):
                _wait_over(lending, ticket, until, now, effects)
        elif known is not None and known.deadline is not None and known.end is None and known.deadline <= now:
            lending.end(known, known.ends_as, Outcome.UNKNOWN, now, effects)


def _wait_over(lending: Lending, ticket: TicketId, due: Nanos, now: Nanos, effects: list[Effect]) -> None:
    """One ticket has waited long enough; others that share its place go on."""
    ask = lending.register.of_ticket(ticket)
    assert isinstance(ask, Ask), "I6: a ticket that does not wait was due"
    longest = admission.cap(ask.wants, lending.waiters.asked(ticket))
    denial = Denial(Reason.WAIT_OVER, admission.blocker(ask.wants, due), longest=longest)
    effects.append(Denied(ticket, denial, ask.event.claims, now - ask.since, ask.event.client))
    lending.give_up(ask, ticket)
