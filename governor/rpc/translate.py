"""Between the wire and the core: messages into asks, effects into messages.

It knows both languages, and refuses what cannot be said in the core's: text too long, lengths that are no lengths,
ids that never were. It must never refuse for a reason that depends on a resource: those reasons are the engine's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, cast

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from governor.core.effects import Granted, LeaseResult, LeaseState
from governor.core.snapshot import ResourceSnapshot, Snapshot
from governor.core.types import (
    MAX_CLAIMS,
    SECOND,
    Claim,
    Denial,
    LeaseId,
    Member,
    Nanos,
    Outcome,
    Reason,
)
from governor.v1 import governor_pb2 as pb

MAX_NAME_BYTES: Final = 200
MAX_TEXT_BYTES: Final = 256
MAX_LABELS: Final = 16
MAX_LEASE_IDS: Final = 1000

# A UTF-8 character has at most four bytes: a text of fewer characters than this needs no counting.
_SURELY_SHORT: Final = MAX_NAME_BYTES // 4
# What google.protobuf.Duration allows: 10,000 years, and nanoseconds of the same sign.
_MAX_SECONDS: Final = 315_576_000_000

_OUTCOMES: Final = {
    pb.OUTCOME_UNSPECIFIED: Outcome.UNKNOWN,
    pb.OUTCOME_OK: Outcome.OK,
    pb.OUTCOME_BROKEN: Outcome.BROKEN,
    pb.OUTCOME_UNKNOWN: Outcome.UNKNOWN,
}
_STATES: Final = {
    LeaseState.RELEASED: pb.LeaseResult.RELEASED,
    LeaseState.RENEWED: pb.LeaseResult.RENEWED,
    LeaseState.ENDED: pb.LeaseResult.ENDED,
    LeaseState.UNKNOWN: pb.LeaseResult.UNKNOWN,
    LeaseState.REFUSED: pb.LeaseResult.REFUSED,
}


# Not frozen: one is made for each call.
@dataclass(slots=True)
class Ask:
    """What an AcquireRequest says; the fields are those of `Driver.acquire`."""

    claims: tuple[Claim, ...]
    client: str
    wait: Nanos | None
    lease: Nanos | None
    request_id: str
    labels: tuple[tuple[str, str], ...]


class _Malformed(Exception):  # noqa: N818 - it never leaves this file
    """Carries the refusal out of a nested reading."""

    def __init__(self, field: str, expected: str, found: int | None = None) -> None:
        self.denial = Denial(Reason.MALFORMED, field=field, expected=expected, asked=found)


NO_MESSAGE: Final = Denial(Reason.MALFORMED, field="request", expected="one message, and none came")


def _nobody() -> NoReturn:
    raise _Malformed("client", "a name, since a request_id counts among the asks of one client")


# --- in ---------------------------------------------------------------------------------------------------------


def ask(request: pb.AcquireRequest) -> Ask | Denial:
    """The ask, or which field is wrong and what was expected.

    Each look at a field costs as much as a small function, so none is looked at twice, and texts that are surely
    short are not measured.
    """
    try:
        client, request_id, labels = request.client, request.request_id, request.labels
        if len(client) > _SURELY_SHORT:
            _bounded("client", client, MAX_TEXT_BYTES)
        if len(request_id) > _SURELY_SHORT:
            _bounded("request_id", request_id, MAX_TEXT_BYTES)
        if request_id and not client:
            _nobody()
        return Ask(
            _claims(request),
            client,
            _length("wait", request.wait) if request.HasField("wait") else None,
            _length("lease", request.lease) if request.HasField("lease") else None,
            request_id,
            _labels(labels) if labels else (),
        )
    except _Malformed as malformed:
        return malformed.denial


def release(request: pb.ReleaseRequest) -> tuple[tuple[LeaseId, ...], Outcome] | Denial:
    """The leases to give back and how their members were."""
    try:
        return _lease_ids(request.lease_ids), _outcome(request.outcome)
    except _Malformed as malformed:
        return malformed.denial


def renew(request: pb.RenewRequest) -> tuple[tuple[LeaseId, ...], Nanos | None] | Denial:
    """The leases to extend and their new length (None: as long as each was granted for)."""
    try:
        length = _length("lease", request.lease) if request.HasField("lease") else None
        return _lease_ids(request.lease_ids), length
    except _Malformed as malformed:
        return malformed.denial


def undecodable(message: type[Message]) -> Denial:
    """For bytes that are no such message, of which text that is no UTF-8 is one case."""
    expected = f"a {message.DESCRIPTOR.full_name} in protobuf encoding, its text in UTF-8"
    return Denial(Reason.MALFORMED, field="request", expected=expected)


def _claims(request: pb.AcquireRequest) -> tuple[Claim, ...]:
    claims = request.claims
    count = len(claims)
    if count > MAX_CLAIMS:
        raise _Malformed("claims", f"at most {MAX_CLAIMS} claims", count)
    made = []
    # By index: to iterate over a repeated field costs twice as much.
    for index in range(count):
        claim = claims[index]
        resource, key = claim.resource, claim.key
        if len(resource) > _SURELY_SHORT:
            _bounded(f"claims[{index}].resource", resource, MAX_NAME_BYTES)
        if key:
            _bounded(f"claims[{index}].key", key, MAX_TEXT_BYTES)
        made.append(Claim(resource, claim.permits, key))
    return tuple(made)


def _labels(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    if len(labels) > MAX_LABELS:
        raise _Malformed("labels", f"at most {MAX_LABELS} labels", len(labels))
    for name, value in labels.items():
        _bounded("labels", name, MAX_TEXT_BYTES)
        _bounded("labels", value, MAX_TEXT_BYTES)
    # A map has no order on the wire; sorted, the same ask always reads the same.
    return tuple(sorted(labels.items()))


def _lease_ids(ids: Sequence[int]) -> tuple[LeaseId, ...]:
    if not 1 <= len(ids) <= MAX_LEASE_IDS:
        raise _Malformed("lease_ids", f"1 to {MAX_LEASE_IDS} lease ids", len(ids))
    given = tuple(ids)
    if (given[0] if len(given) == 1 else min(given)) <= 0:
        index, wrong = next((index, lease) for index, lease in enumerate(given) if lease <= 0)
        raise _Malformed(f"lease_ids[{index}]", "a lease id, at least 1", wrong)
    return cast("tuple[LeaseId, ...]", given)


def _outcome(number: pb.Outcome.ValueType) -> Outcome:
    outcome = _OUTCOMES.get(number)
    if outcome is None:
        raise _Malformed("outcome", "OUTCOME_OK, OUTCOME_BROKEN or OUTCOME_UNKNOWN", number)
    return outcome


def _bounded(field: str, text: str, most: int) -> None:
    size = len(text) if text.isascii() else len(text.encode())
    if size > most:
        raise _Malformed(field, f"at most {most} bytes of text", size)


def _length(field: str, duration: Duration) -> Nanos:
    """Nanoseconds of a Duration that is one, and not negative."""
    seconds, nanos = duration.seconds, duration.nanos
    if not (0 <= seconds <= _MAX_SECONDS and 0 <= nanos < SECOND):
        expected = f"a duration: 0 to {_MAX_SECONDS} seconds and 0 to {SECOND - 1} nanos"
        raise _Malformed(field, f"{expected}, not {seconds} and {nanos}")
    return seconds * SECOND + nanos


# --- out --------------------------------------------------------------------------------------------------------


def acquired(granted: Granted, *, now: Nanos) -> pb.AcquireResponse:
    """The lease, with what is left of it by ``now``. Built in place: half the cost of nested constructors."""
    response = pb.AcquireResponse()
    lease = response.lease
    lease.id = granted.lease
    for grant in granted.grants:
        made = lease.grants.add()
        made.resource = grant.resource
        made.permits = grant.permits
        if grant.key:
            made.key = grant.key
        if grant.members:
            made.members.extend(map(_member, grant.members))
    if granted.deadline is not None:
        _set(lease.remaining, max(0, granted.deadline - now))
    if granted.waited:
        _set(lease.waited, granted.waited)
    return response


def released(results: Sequence[LeaseResult]) -> pb.ReleaseResponse:
    """What became of each id."""
    response = pb.ReleaseResponse()
    for result in results:
        _result(response.results.add(), result)
    return response


def renewed(results: Sequence[LeaseResult]) -> pb.RenewResponse:
    """What became of each id."""
    response = pb.RenewResponse()
    for result in results:
        _result(response.results.add(), result)
    return response


def _result(made: pb.LeaseResult, result: LeaseResult) -> None:
    made.lease_id = result.lease
    made.state = _STATES[result.state]
    if result.remaining is not None:
        _set(made.remaining, result.remaining)
    if result.ended is not None:
        made.ended.reason = result.ended.reason
        _set(made.ended.ago, result.ended.ago)


def resources(snapshot: Snapshot) -> pb.ListResourcesResponse:
    """All resources, in the snapshot's order."""
    return pb.ListResourcesResponse(resources=map(_resource, snapshot.resources))


def _resource(seen: ResourceSnapshot) -> pb.Resource:
    made = pb.Resource(
        name=seen.name,
        kind=seen.kind,
        capacity=seen.capacity,
        in_use=seen.in_use,
        available=seen.available,
        leases=seen.leases,
        waiters=seen.waiters,
        draining=seen.draining,
        max_waiters=seen.max_waiters,
    )
    _set(made.max_wait, seen.max_wait)
    _set(made.lease, seen.lease)
    if seen.oldest_wait is not None:
        _set(made.oldest_wait, seen.oldest_wait)
    if seen.members is not None:
        counts = seen.members
        made.members.CopyFrom(pb.PoolMembers(free=counts.free, lent=counts.lent, quarantined=counts.quarantined))
    return made


def _member(member: Member) -> pb.Member:
    return pb.Member(id=member.id, attributes=dict(member.attributes), generation=member.generation)


def _set(duration: Duration, length: Nanos) -> None:
    seconds, nanos = divmod(length, SECOND)
    duration.seconds = seconds
    # A length of 0 must still be present on the wire, so this is written even when it is the default.
    duration.nanos = nanos
