"""What operators see: records of the core in the messages of the wire.

It knows both languages. It must never change anything.
"""

from collections.abc import Sequence
from typing import Final

from governor.belongings import Belongings
from governor.config.written import settings
from governor.core.snapshot import (
    LeaseView,
    MemberState,
    MemberView,
    ResourceSnapshot,
    WaiterView,
    WindowView,
)
from governor.core.types import Nanos
from governor.rpc import translate
from governor.rpc.translate import fill_duration
from governor.session import Session
from governor.units import Rate, format_rate
from governor.v1 import admin_pb2

_MEMBER_STATES: Final = {
    MemberState.FREE: admin_pb2.MemberState.FREE,
    MemberState.LENT: admin_pb2.MemberState.LENT,
    MemberState.QUARANTINED: admin_pb2.MemberState.QUARANTINED,
    MemberState.REMOVED: admin_pb2.MemberState.REMOVED,
}


def resource(
    seen: ResourceSnapshot, members: Sequence[MemberView], windows: Sequence[WindowView], now: Nanos
) -> admin_pb2.GetResourceResponse:
    """All about one resource."""
    return admin_pb2.GetResourceResponse(
        resource=translate.resource(seen, now),
        settings=settings(seen.spec),
        members=[member(each, now) for each in members],
        windows=[window(each, now) for each in windows],
    )


def member(view: MemberView, now: Nanos) -> admin_pb2.MemberState:
    """One member of a pool."""
    made = admin_pb2.MemberState(
        id=view.id,
        state=_MEMBER_STATES[view.state],
        attributes=dict(view.attributes),
        generation=view.generation,
        max_leases=view.max_leases,
        lent=view.lent,
        lendings=view.lendings,
        failures=view.failures,
        by_operator=view.by_operator,
        actor=view.said.actor,
        actor_client=view.said.client,
        reason=view.said.reason,
    )
    if view.until is not None:
        fill_duration(made.quarantined_for, max(0, view.until - now))
    return made


def window(view: WindowView, now: Nanos) -> admin_pb2.WindowState:
    """One window of a rate limit."""
    rate = format_rate(Rate(view.permits, view.period))
    made = admin_pb2.WindowState(rate=rate, burst=view.burst, available=view.available)
    if view.next_at is not None:
        fill_duration(made.next, max(0, view.next_at - now))
    return made


def lease(view: LeaseView, owner: Belongings | None, now: Nanos) -> admin_pb2.LeaseState:
    """One lease, and whose it is. Built in place: half the cost of nested constructors."""
    made = admin_pb2.LeaseState(id=view.id, client=view.client, renewals=view.renewals, orphaned=view.orphaned)
    if view.labels:
        made.labels.update(view.labels)
    translate.fill_grants(made.grants, view.grants)
    fill_duration(made.age, now - view.granted_at)
    fill_duration(made.remaining, max(0, view.deadline - now))
    if view.waited:
        fill_duration(made.waited, view.waited)
    if owner is not None:
        _whose(made, owner)
    return made


def waiter(
    place: int, view: WaiterView, owner: Session | None, expected: Nanos | None, paused: Sequence[str], now: Nanos
) -> admin_pb2.WaiterState:
    """One place in line, and whose it is; which of what it asks for is ``paused``."""
    made = admin_pb2.WaiterState(place=place, client=view.client, tickets=len(view.tickets), paused=paused)
    if view.labels:
        made.labels.update(view.labels)
    for claim in view.claims:
        made.claims.add(resource=claim.resource, permits=claim.permits, key=claim.key)
    fill_duration(made.waited, now - view.since)
    fill_duration(made.remaining, max(0, view.until - now))
    if expected is not None:
        fill_duration(made.expected, expected)
    if owner is not None:
        _whose(made, owner)
    return made


def _whose(made: admin_pb2.LeaseState | admin_pb2.WaiterState, owner: Belongings) -> None:
    made.session, made.pid, made.host = owner.name, owner.pid, owner.host
    for label, word in owner.labels:
        if label not in made.labels:
            made.labels[label] = word


def session(seen: Session, now: Nanos) -> admin_pb2.SessionState:
    """One client process."""
    made = admin_pb2.SessionState(
        session=seen.name,
        client=seen.client,
        pid=seen.pid,
        host=seen.host,
        labels=dict(seen.labels),
        connected=seen.voice is not None,
        leases=len(seen.leases),
        waiters=seen.waiters,
    )
    fill_duration(made.since, now - seen.since)
    return made
