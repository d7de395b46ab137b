"""Between the wire and the core: messages into asks, effects into messages.

It knows both languages, and refuses what cannot be said in the core's: text too long, lengths that are no lengths,
ids that never were. It must never refuse for a reason that depends on a resource: those reasons are the engine's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from governor.config import ConfigState
from governor.config.override import overriding
from governor.core.effects import Granted, LeaseResult, LeaseState
from governor.core.snapshot import ResourceSnapshot, Snapshot
from governor.core.types import SECOND, Claim, Denial, Grant, LeaseId, Member, Nanos, Outcome, Reason, Standing
from governor.rpc.fields import MAX_TEXT_BYTES, SURELY_SHORT, Malformed, bounded, length_of, outcome_of, terms_of
from governor.v1 import governor_pb2 as pb

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

MAX_LEASE_IDS: Final = 1000

_STATES: Final = {
    LeaseState.RELEASED: pb.LeaseResult.RELEASED,
    LeaseState.RENEWED: pb.LeaseResult.RENEWED,
    LeaseState.REVOKED: pb.LeaseResult.REVOKED,
    LeaseState.ENDED: pb.LeaseResult.ENDED,
    LeaseState.UNKNOWN: pb.LeaseResult.UNKNOWN,
    LeaseState.REFUSED: pb.LeaseResult.REFUSED,
}


# Not frozen: one is made for each call.
@dataclass(slots=True)
class Ask:
    """What an AcquireRequest says; the fields are those of `Driver.ask`."""

    claims: tuple[Claim, ...]
    client: str
    wait: Nanos | None
    lease: Nanos | None
    request_id: str
    labels: tuple[tuple[str, str], ...]


NAMELESS: Final = Denial(
    Reason.MALFORMED, field="client", expected="a name, since a request_id counts among the asks of one client"
)
NO_MESSAGE: Final = Denial(Reason.MALFORMED, field="request", expected="one message, and none came")


# --- in ---------------------------------------------------------------------------------------------------------


def ask(request: pb.AcquireRequest) -> Ask | Denial:
    """The ask, or which field is wrong and what was expected.

    Each look at a field costs as much as a small function, so none is looked at twice, and texts that are surely
    short are not measured.
    """
    try:
        client, request_id = request.client, request.request_id
        if len(client) > SURELY_SHORT:
            bounded("client", client, MAX_TEXT_BYTES)
        if len(request_id) > SURELY_SHORT:
            bounded("request_id", request_id, MAX_TEXT_BYTES)
        claims, wait, lease, labels = terms_of(request)
        return Ask(claims, client, wait, lease, request_id, labels)
    except Malformed as malformed:
        return malformed.denial


def release(request: pb.ReleaseRequest) -> tuple[tuple[LeaseId, ...], Outcome] | Denial:
    """The leases to give back and how their members were."""
    try:
        return lease_ids(request.lease_ids), outcome_of(request.outcome)
    except Malformed as malformed:
        return malformed.denial


def renew(request: pb.RenewRequest) -> tuple[tuple[LeaseId, ...], Nanos | None] | Denial:
    """The leases to extend and their new length (None: as long as each was granted for)."""
    try:
        length = length_of("lease", request.lease) if request.HasField("lease") else None
        return lease_ids(request.lease_ids), length
    except Malformed as malformed:
        return malformed.denial


def undecodable(message: type[Message]) -> Denial:
    """For bytes that are no such message, of which text that is no UTF-8 is one case."""
    expected = f"a {message.DESCRIPTOR.full_name} in protobuf encoding, its text in UTF-8"
    return Denial(Reason.MALFORMED, field="request", expected=expected)


def lease_ids(ids: Sequence[int]) -> tuple[LeaseId, ...]:
    """Those that a call names; raises `Malformed`."""
    if not 1 <= len(ids) <= MAX_LEASE_IDS:
        raise Malformed("lease_ids", f"1 to {MAX_LEASE_IDS} lease ids", len(ids))
    given = tuple(ids)
    if (given[0] if len(given) == 1 else min(given)) <= 0:
        index, wrong = next((index, lease) for index, lease in enumerate(given) if lease <= 0)
        raise Malformed(f"lease_ids[{index}]", "a lease id, at least 1", wrong)
    return cast("tuple[LeaseId, ...]", given)


# --- out --------------------------------------------------------------------------------------------------------


def acquired(granted: Granted, *, now: Nanos) -> pb.AcquireResponse:
    """The lease, with what is left of it by ``now``. Built in place: half the cost of nested constructors."""
    response = pb.AcquireResponse()
    deadline = granted.deadline
    fill_lease(response.lease, granted, None if deadline is None else max(0, deadline - now))
    return response


def fill_lease(lease: pb.Lease, granted: Granted, remaining: Nanos | None) -> None:
    """Say what was granted; ``remaining`` is None if nothing was lent."""
    lease.id = granted.lease
    fill_grants(lease.grants, granted.grants)
    if remaining is not None:
        fill_duration(lease.remaining, remaining)
    if granted.waited:
        fill_duration(lease.waited, granted.waited)


def fill_grants(repeated: "RepeatedCompositeFieldContainer[pb.Grant]", grants: Sequence[Grant]) -> None:
    """Say what each claim got."""
    for grant in grants:
        made = repeated.add()
        made.resource = grant.resource
        made.permits = grant.permits
        if grant.key:
            made.key = grant.key
        if grant.members:
            made.members.extend(map(_member, grant.members))


def released(results: Sequence[LeaseResult]) -> pb.ReleaseResponse:
    """What became of each id."""
    response = pb.ReleaseResponse()
    for result in results:
        fill_result(response.results.add(), result)
    return response


def renewed(results: Sequence[LeaseResult]) -> pb.RenewResponse:
    """What became of each id."""
    response = pb.RenewResponse()
    for result in results:
        fill_result(response.results.add(), result)
    return response


def fill_result(made: pb.LeaseResult, result: LeaseResult) -> None:
    """Say what became of a lease."""
    made.lease_id = result.lease
    made.state = _STATES[result.state]
    if result.remaining is not None:
        fill_duration(made.remaining, result.remaining)
    if result.ended is not None:
        made.ended.reason = result.ended.reason
        fill_duration(made.ended.ago, result.ended.ago)


def resources(snapshot: Snapshot, now: Nanos, config: pb.ConfigState | None) -> pb.ListResourcesResponse:
    """All resources, in the snapshot's order, which is of ``now``; and which ``config`` is in force."""
    seen = [resource(each, now) for each in snapshot.resources]
    return pb.ListResourcesResponse(
        resources=seen, config=config, draining=snapshot.draining, leases=snapshot.leases, waiters=snapshot.waiters
    )


def resource(seen: ResourceSnapshot, now: Nanos) -> pb.Resource:
    """One of them."""
    made = pb.Resource(
        name=seen.name,
        kind=seen.kind,
        capacity=seen.capacity,
        in_use=seen.in_use,
        available=seen.available,
        leases=seen.leases,
        waiters=seen.waiters,
        draining=seen.removed or seen.standing is Standing.DRAINING,
        max_waiters=seen.max_waiters,
        paused=seen.standing is Standing.PAUSED,
        actor=seen.said.actor,
        actor_client=seen.said.client,
        reason=seen.said.reason,
        removed=seen.removed,
        over_limit=seen.over_limit,
    )
    fill_duration(made.max_wait, seen.max_wait)
    fill_duration(made.lease, seen.lease)
    if seen.oldest_wait is not None:
        fill_duration(made.oldest_wait, seen.oldest_wait)
    if seen.members is not None:
        counts = seen.members
        made.members.CopyFrom(pb.PoolMembers(free=counts.free, lent=counts.lent, quarantined=counts.quarantined))
    if seen.override is not None:
        settings, declared = overriding(seen.declared.limit, seen.override.limit)
        made.override.settings.update(settings)
        made.override.declared.update(declared)
        said = seen.override.said
        made.override.actor, made.override.reason, made.override.actor_client = said.actor, said.reason, said.client
        fill_duration(made.override.remaining, max(0, seen.override.until - now))
    return made


def config_state(state: ConfigState) -> pb.ConfigState:
    """Which config is in force."""
    made = pb.ConfigState(source=state.source, hash=state.hash, problems=state.problems)
    fill_instant(made.since, state.since)
    if state.refused_at is not None:
        fill_instant(made.refused_at, state.refused_at)
    return made


def fill_instant(timestamp: Timestamp, at: Nanos) -> None:
    """Say when, by the wall clock."""
    timestamp.seconds, timestamp.nanos = divmod(at, SECOND)


def _member(member: Member) -> pb.Member:
    return pb.Member(id=member.id, attributes=dict(member.attributes), generation=member.generation)


def fill_duration(duration: Duration, length: Nanos) -> None:
    """Say how long."""
    seconds, nanos = divmod(length, SECOND)
    duration.seconds = seconds
    # A length of 0 must still be present on the wire, so this is written even when it is the default.
    duration.nanos = nanos
