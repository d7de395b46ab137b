"""How a refusal reads on the wire: its gRPC status, one sentence for people, google.rpc details for programs.

It knows the one table from reasons to answers. It must never know which call was refused, or decide to refuse one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode

from governor import token
from governor.core.effects import LeaseResult, LeaseState
from governor.core.types import MILLISECOND, SECOND, Denial, EndReason, LeaseId, Nanos, Reason
from governor.wording import count, printable, rounded_up, span

DOMAIN: Final = "governor"
DETAILS_KEY: Final = "grpc-status-details-bin"
# Understood by the retry policy of gRPC clients: not before so many milliseconds.
PUSHBACK_KEY: Final = "grpc-retry-pushback-ms"

# Names come from clients; a sentence, and the headers it travels in, stay short whatever they sent.
_MAX_SHOWN: Final = 200
_MAX_PUSHBACK_MS: Final = 2**31 - 1


class Hindrance(StrEnum):
    """Why an operator's call is not carried out, where it is for no reason that an ask can be refused for."""

    ADMIN_ELSEWHERE = "admin_elsewhere"
    ADMIN_NOWHERE = "admin_nowhere"
    UNKNOWN_SESSION = "unknown_session"
    UNKNOWN_MEMBER = "unknown_member"
    NOT_A_POOL = "not_a_pool"
    A_POOL = "a_pool"
    OTHER_KIND = "other_kind"
    REMOVED = "removed"
    BUSY = "busy"


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
        "{where}: draining: {drained}",
        retry=SECOND,
    ),
    Reason.STATE_UNWRITABLE: Row(
        StatusCode.UNAVAILABLE,
        "{where}: {unwritable}, and try again {when}",
        retry=SECOND,
    ),
    Reason.UNAUTHENTICATED: Row(
        StatusCode.UNAUTHENTICATED,
        "{where}: it is not known who is asking; send the token of a client with the call; "
        f"{token.VARIABLE} names the file with it",
    ),
    Reason.PERMISSION_DENIED: Row(
        StatusCode.PERMISSION_DENIED,
        "{where}: {who} may not {expected}; see clients in governor's config",
    ),
    Reason.CLIENT_LIMIT: Row(
        StatusCode.RESOURCE_EXHAUSTED,
        "{where}: {who} may {expected} at most, as clients in governor's config says; try again {when}",
    ),
}

# The words of each are the facts that it is refused with.
HINDRANCES: Final[dict[Hindrance, Row]] = {
    Hindrance.ADMIN_ELSEWHERE: Row(
        StatusCode.PERMISSION_DENIED, "governor.v1.Admin: operators are served at {admin} alone; call it there"
    ),
    Hindrance.ADMIN_NOWHERE: Row(
        StatusCode.PERMISSION_DENIED, "governor.v1.Admin: operators are served nowhere: {reason}"
    ),
    Hindrance.UNKNOWN_SESSION: Row(
        StatusCode.NOT_FOUND, "{session}: no such session; it has ended, or never was: see who is there"
    ),
    Hindrance.UNKNOWN_MEMBER: Row(
        StatusCode.NOT_FOUND, "{resource}: it has no member {member}; see its members, and correct the name"
    ),
    Hindrance.NOT_A_POOL: Row(
        StatusCode.FAILED_PRECONDITION, "{resource}: it has no members, as it is no pool; name a pool"
    ),
    Hindrance.A_POOL: Row(
        StatusCode.FAILED_PRECONDITION,
        "{resource}: a pool has the members that the config declares; quarantine some of them, or change the config",
    ),
    Hindrance.OTHER_KIND: Row(
        StatusCode.FAILED_PRECONDITION, "{resource}: it is of another kind; look at it, and set what it has"
    ),
    Hindrance.REMOVED: Row(
        StatusCode.FAILED_PRECONDITION,
        "{resource}: no longer declared, and gone with its last lease; declare it anew, or revoke its leases",
    ),
    Hindrance.BUSY: Row(
        StatusCode.RESOURCE_EXHAUSTED,
        "governor: {most} {what} already, which is as many as may; try again in 1s",
        retry=SECOND,
    ),
}

# What the subject of a NOT_FOUND is called, by the fact that names it.
_TYPES: Final = {"session": "governor.v1.Session", "member": "governor.v1.Member"}

# Of the whole daemon, and of one resource.
_DRAINED: Final = (
    "it is about to end, so nobody waits in line any more; try again {when}, or when it is back",
    "an operator lets nobody in any more; try again {when}, or ask for it to be resumed",
)
_NOT_YOURS: Final = "what it held is no longer yours: acquire again"
_UNWRITABLE: Final = "its state or its audit file cannot be written, so it grants nothing; see its log"
_IDS_LATER: Final = (
    "starting, or waiting for its disk: it may grant nothing before the ids of leases are on record; wait"
)
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

# Nobody takes what is told, and its place is wanted.
UNREAD: Final = Refusal(
    StatusCode.ABORTED, "governor: nobody read this answer for 20s, so it has ended; call again", ()
)

STOPPING: Final = Refusal(StatusCode.UNAVAILABLE, "governor: stopping; call again when it is back", ())


def refusal(denial: Denial, *, lease: LeaseId | None = None, waited: Nanos = 0) -> Refusal:
    """The answer to whoever was refused; ``lease`` is the one it is about, ``waited`` the time spent in line."""
    row = TABLE[denial.reason]
    retry = retry_after(denial)
    message = sentence(denial, lease=lease, waited=waited)
    return _refusal(row.code, message, _details(row, denial, message, lease), retry)


def code_of(reason: Reason) -> str:
    """The name of the status that a refusal is answered with."""
    return TABLE[reason].code.name


def failed(result: LeaseResult) -> Refusal | None:
    """The answer to a call that was about one lease; None if that is as it was to be."""
    match result.state:
        case LeaseState.RELEASED | LeaseState.RENEWED | LeaseState.REVOKED:
            return None
        case LeaseState.UNKNOWN:
            denial = Denial(Reason.UNKNOWN_LEASE)
        case LeaseState.ENDED:
            denial = Denial(Reason.LEASE_ENDED, ended=result.ended)
        case LeaseState.REFUSED:
            denial = result.denial or Denial(Reason.MALFORMED, field="lease", expected="an allowed length")
        case _:
            assert_never(result.state)
    return refusal(denial, lease=result.lease)


def hindered(hindrance: Hindrance, **facts: object) -> Refusal:
    """The answer to one whose call cannot be carried out; ``facts`` are the words of the row."""
    row = HINDRANCES[hindrance]
    said = {name: shown(str(fact)) for name, fact in facts.items()}
    message = row.sentence.format_map(said)
    return _refusal(row.code, message, _hindrance(row, hindrance, message, said), row.retry)


def _refusal(code: StatusCode, message: str, details: Iterator[Message], retry: Nanos | None) -> Refusal:
    status = status_pb2.Status(code=code.value[0], message=message)
    for detail in details:
        status.details.add().Pack(detail)
    metadata: tuple[tuple[str, str | bytes], ...] = ()
    if retry is not None:
        seconds, nanos = divmod(retry, SECOND)
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=Duration(seconds=seconds, nanos=nanos)))
        metadata = ((PUSHBACK_KEY, str(min(_MAX_PUSHBACK_MS, rounded_up(retry, MILLISECOND)))),)
    return Refusal(code, message, ((DETAILS_KEY, status.SerializeToString()), *metadata))


def sentence(denial: Denial, *, lease: LeaseId | None = None, waited: Nanos = 0) -> str:
    """A refusal for people: what was wrong, where, what to do."""
    row = TABLE[denial.reason]
    return row.sentence.format_map(_words(row, denial, retry_after(denial), lease, waited))


def retry_after(denial: Denial) -> Nanos | None:
    """When to come back; None is not to promise anything."""
    return TABLE[denial.reason].retry if denial.retry_after is None else denial.retry_after


def _words(row: Row, denial: Denial, retry: Nanos | None, lease: LeaseId | None, waited: Nanos) -> dict[str, str]:
    ended = denial.ended
    when = "later" if retry is None else f"in {span(retry)}"
    return {
        "where": shown(denial.resource) or DOMAIN,
        "who": f'client "{shown(denial.client)}"' if denial.client else "this client",
        "field": denial.field or row.field,
        "of": f" for {shown(denial.resource)}" if denial.resource else "",
        "expected": denial.expected + ("" if denial.longest is None else f" of {span(denial.longest)}"),
        "found": "" if denial.asked is None else f", not {denial.asked}",
        "asked": "" if denial.asked is None else count(denial.asked, "permit"),
        "limit": str(denial.limit),
        "at_most": "" if denial.limit is None else f", with {count(denial.limit, 'ask')}",
        "when": when,
        "waited": span(waited, passed=True),
        "unwritable": _IDS_LATER if denial.expected else _UNWRITABLE,
        "no_wait": "this ask does not wait" if denial.longest is None else "its max_wait lets nobody wait",
        "longer": _longer(row, denial),
        "drained": _DRAINED[bool(denial.resource)].format(when=when),
        "lease": "lease" if lease is None else f"lease {lease}",
        "ended": "" if ended is None else _ENDED[ended.reason].format(ago=span(ended.ago, passed=True)),
    }


def _longer(row: Row, denial: Denial) -> str:
    """What helps whoever waited too little."""
    if denial.longest is None:
        return "wait in line" if row is TABLE[Reason.NONE_FREE] else "wait longer"
    return f"raise its max_wait of {span(denial.longest)}" if denial.longest else "raise its max_wait"


def _hindrance(row: Row, why: Hindrance, message: str, said: Mapping[str, str]) -> Iterator[Message]:
    yield error_details_pb2.ErrorInfo(reason=why.name, domain=DOMAIN, metadata=said)
    match row.code:
        case StatusCode.NOT_FOUND:
            name, kind = next((name, kind) for name, kind in _TYPES.items() if name in said)
            yield error_details_pb2.ResourceInfo(resource_type=kind, resource_name=said[name], description=message)
        case StatusCode.FAILED_PRECONDITION:
            violation = {"type": why.name, "subject": said["resource"], "description": message}
            yield error_details_pb2.PreconditionFailure(violations=[violation])
        case StatusCode.RESOURCE_EXHAUSTED:
            yield error_details_pb2.QuotaFailure(violations=[{"subject": DOMAIN, "description": message}])
        case _:
            pass


def _details(row: Row, denial: Denial, message: str, lease: LeaseId | None) -> Iterator[Message]:
    name = shown(denial.resource)
    facts = {
        "resource": name,
        "field": denial.field or row.field,
        "asked": denial.asked,
        "limit": denial.limit,
        "lease": lease,
        "client": denial.client,
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


def shown(name: str) -> str:
    """A client's text as it may stand in a sentence: clipped, and with nothing in it that moves a terminal."""
    clipped = name if len(name) <= _MAX_SHOWN else f"{name[:_MAX_SHOWN]}…"
    return printable(clipped)
