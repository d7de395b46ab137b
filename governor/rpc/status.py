"""How a refusal reads on the wire: its gRPC status, one sentence for people, google.rpc details for programs.

It knows the one table from reasons to answers. It must never know which call was refused, or decide to refuse one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode

from governor.core.types import MILLISECOND, SECOND, Denial, EndReason, LeaseId, Nanos, Reason
from governor.wording import count, printable, rounded_up, span

DOMAIN: Final = "governor"
DETAILS_KEY: Final = "grpc-status-details-bin"
# Understood by the retry policy of gRPC clients: not before so many milliseconds.
PUSHBACK_KEY: Final = "grpc-retry-pushback-ms"

# Names come from clients; a sentence, and the headers it travels in, stay short whatever they sent.
_MAX_SHOWN: Final = 200
_MAX_PUSHBACK_MS: Final = 2**31 - 1


@dataclass(slots=True, frozen=True)
class Row:
    """One reason's answer. ``sentence`` is what was wrong, where, what to do; its words are those of `_words`.

    ``retry``: when to come back if the refusal itself does not know; None is not to promise anything.
    ``field``: which field of the ask is wrong, for a reason that is always about the same one.
    """

    code: StatusCode
    sentence: str
    retry: Nanos | None = None
    field: str = ""


TABLE: Final[dict[Reason, Row]] = {
    Reason.MALFORMED: Row(StatusCode.INVALID_ARGUMENT, "{field}{of}: expected {expected}{found}"),
    Reason.REQUEST_ID_REUSED: Row(
        StatusCode.INVALID_ARGUMENT,
        "{field}: this client used it before, for another ask; give each ask an id of its own",
        field="request_id",
    ),
    Reason.UNKNOWN_RESOURCE: Row(
        StatusCode.NOT_FOUND,
        "{where}: no such resource; correct the name, or declare it in governor's config",
    ),
    Reason.UNKNOWN_LEASE: Row(
        StatusCode.NOT_FOUND,
        "{lease}: no such lease; it was never granted, was granted before a restart, or ended too long ago",
    ),
    Reason.ABOVE_CAPACITY: Row(
        StatusCode.OUT_OF_RANGE,
        "{where}: {asked} asked, but it only ever has {limit}; ask for fewer or raise its capacity",
    ),
    Reason.NONE_FREE: Row(
        StatusCode.RESOURCE_EXHAUSTED,
        "{where}: not enough permits are free, and {no_wait}; try again {when}, or {longer}",
    ),
    Reason.WAIT_OVER: Row(
        StatusCode.RESOURCE_EXHAUSTED,
        "{where}: no permits came within a wait of {waited}; try again {when}, or {longer}",
    ),
    Reason.LINE_FULL: Row(
        StatusCode.RESOURCE_EXHAUSTED,
        "{where}: its line is full{at_most}; try again {when}, or raise its max_waiters",
    ),
    Reason.HOPELESS: Row(
        StatusCode.RESOURCE_EXHAUSTED,
        "{where}: the permits come only after this ask's wait would be over; try again {when}, or {longer}",
    ),
    Reason.LEASE_ENDED: Row(
        StatusCode.FAILED_PRECONDITION,
        "{lease}: {ended}",
    ),
    Reason.PAUSED: Row(
        StatusCode.UNAVAILABLE,
        "{where}: paused by an operator, and grants nothing; try again {when}, or ask for it to be resumed",
        retry=5 * SECOND,
    ),
    Reason.DRAINING: Row(
        StatusCode.UNAVAILABLE,
        "{where}: draining: it is about to end, so nobody waits in line any more; try again {when}, or when it is back",
        retry=SECOND,
    ),
    Reason.STATE_UNWRITABLE: Row(
        StatusCode.UNAVAILABLE,
        "{where}: its state cannot be written, so it grants nothing; see its log, and try again {when}",
        retry=SECOND,
    ),
    Reason.UNAUTHENTICATED: Row(
        StatusCode.UNAUTHENTICATED, "{where}: it is not known who is asking; send credentials with the call"
    ),
    Reason.PERMISSION_DENIED: Row(
        StatusCode.PERMISSION_DENIED,
        "{where}: this caller may not do that; ask governor's operator for leave",
    ),
}

_NOT_YOURS: Final = "what it held is no longer yours: acquire again"
_ENDED: Final[dict[EndReason, str]] = {
    EndReason.RELEASED: f"released {{ago}} ago; {_NOT_YOURS}",
    EndReason.EXPIRED: f"expired {{ago}} ago; {_NOT_YOURS}",
    EndReason.REVOKED: f"revoked by an operator {{ago}} ago; {_NOT_YOURS}",
    EndReason.DISCONNECTED: f"ended {{ago}} ago because its holder was gone; {_NOT_YOURS}",
    EndReason.SPENT: "spent when it was granted, {ago} ago; there is nothing to renew or to give back",
}


@dataclass(slots=True, frozen=True)
class Refusal:
    """What `context.abort` takes: the code, the sentence, the trailing metadata."""

    code: StatusCode
    message: str
    metadata: tuple[tuple[str, str | bytes], ...]


# Not a reason of the core: it is our own mistake, and says no more than that, for what went wrong is in the log.
FAULT: Final = Refusal(
    StatusCode.INTERNAL,
    "governor: a fault of its own, which its log tells; the call may or may not have been carried out",
    (),
)


def refusal(denial: Denial, *, lease: LeaseId | None = None, waited: Nanos = 0) -> Refusal:
    """The answer to whoever was refused; ``lease`` is the one it is about, ``waited`` the time spent in line."""
    row = TABLE[denial.reason]
    retry = retry_after(denial)
    message = sentence(denial, lease=lease, waited=waited)
    status = status_pb2.Status(code=row.code.value[0], message=message)
    for detail in _details(row, denial, message, retry, lease):
        status.details.add().Pack(detail)
    metadata: tuple[tuple[str, str | bytes], ...] = ((DETAILS_KEY, status.SerializeToString()),)
    if retry is not None:
        metadata += ((PUSHBACK_KEY, str(min(_MAX_PUSHBACK_MS, rounded_up(retry, MILLISECOND)))),)
    return Refusal(row.code, message, metadata)


def sentence(denial: Denial, *, lease: LeaseId | None = None, waited: Nanos = 0) -> str:
    """A refusal for people: what was wrong, where, what to do."""
    row = TABLE[denial.reason]
    return row.sentence.format_map(_words(row, denial, retry_after(denial), lease, waited))


def retry_after(denial: Denial) -> Nanos | None:
    """When to come back; None is not to promise anything."""
    return TABLE[denial.reason].retry if denial.retry_after is None else denial.retry_after


def _words(row: Row, denial: Denial, retry: Nanos | None, lease: LeaseId | None, waited: Nanos) -> dict[str, str]:
    ended = denial.ended
    return {
        "where": shown(denial.resource) or DOMAIN,
        "field": denial.field or row.field,
        "of": f" for {shown(denial.resource)}" if denial.resource else "",
        "expected": denial.expected + ("" if denial.longest is None else f" of {span(denial.longest)}"),
        "found": "" if denial.asked is None else f", not {denial.asked}",
        "asked": "" if denial.asked is None else count(denial.asked, "permit"),
        "limit": str(denial.limit),
        "at_most": "" if denial.limit is None else f", with {count(denial.limit, 'ask')}",
        "when": "later" if retry is None else f"in {span(retry)}",
        "waited": span(waited, passed=True),
        "no_wait": "this ask does not wait" if denial.longest is None else "its max_wait lets nobody wait",
        "longer": _longer(row, denial),
        "lease": "lease" if lease is None else f"lease {lease}",
        "ended": "" if ended is None else _ENDED[ended.reason].format(ago=span(ended.ago, passed=True)),
    }


def _longer(row: Row, denial: Denial) -> str:
    """What helps whoever waited too little."""
    if denial.longest is None:
        return "wait in line" if row is TABLE[Reason.NONE_FREE] else "wait longer"
    return f"raise its max_wait of {span(denial.longest)}" if denial.longest else "raise its max_wait"


def _details(row: Row, denial: Denial, message: str, retry: Nanos | None, lease: LeaseId | None) -> Iterator[Message]:
    name = shown(denial.resource)
    facts = {
        "resource": name,
        "field": denial.field or row.field,
        "asked": denial.asked,
        "limit": denial.limit,
        "lease": lease,
    }
    if denial.ended is not None:
        facts |= {"ended": denial.ended.reason.value, "ended_ago_ms": denial.ended.ago // MILLISECOND}
    yield error_details_pb2.ErrorInfo(
        reason=denial.reason.name,
        domain=DOMAIN,
        metadata={key: str(fact) for key, fact in facts.items() if fact is not None and fact != ""},
    )
    subject = name if lease is None else str(lease)
    match row.code:
        case StatusCode.INVALID_ARGUMENT:
            violation = {"field": denial.field or row.field, "description": message}
            yield error_details_pb2.BadRequest(field_violations=[violation])
        case StatusCode.RESOURCE_EXHAUSTED | StatusCode.OUT_OF_RANGE:
            yield error_details_pb2.QuotaFailure(violations=[{"subject": subject, "description": message}])
        case StatusCode.NOT_FOUND:
            kind = "governor.v1.Resource" if lease is None else "governor.v1.Lease"
            yield error_details_pb2.ResourceInfo(resource_type=kind, resource_name=subject, description=message)
        case StatusCode.FAILED_PRECONDITION:
            violation = {"type": denial.reason.name, "subject": subject, "description": message}
            yield error_details_pb2.PreconditionFailure(violations=[violation])
        case _:
            pass
    if retry is not None:
        seconds, nanos = divmod(retry, SECOND)
        yield error_details_pb2.RetryInfo(retry_delay=Duration(seconds=seconds, nanos=nanos))


def shown(name: str) -> str:
    """A client's text as it may stand in a sentence: clipped, and with nothing in it that moves a terminal."""
    clipped = name if len(name) <= _MAX_SHOWN else f"{name[:_MAX_SHOWN]}…"
    return printable(clipped)
