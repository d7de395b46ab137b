"""Leases, waiters and sessions as operators see them: as columns for people, as records for programs.

It knows words and units. It must never know who asked for them, or where they are shown.
"""

from typing import TYPE_CHECKING

from governor.cli.lengths import seconds
from governor.cli.table import Column
from governor.wording import printable, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from google.protobuf.duration_pb2 import Duration

    from governor.v1.admin_pb2 import LeaseState, SessionState, WaiterState
    from governor.v1.governor_pb2 import Claim, Grant


def of_leases(leases: "Sequence[LeaseState]") -> "Sequence[Column]":
    """The columns of a table of leases."""
    return (
        Column("LEASE", [str(lease.id) for lease in leases]),
        Column("CLIENT", [_word(lease.client) for lease in leases], left=True, elastic=True),
        Column("CLAIMS", [claims(lease.grants) for lease in leases], left=True, elastic=True),
        Column("AGE", [span(lease.age.ToNanoseconds(), passed=True) for lease in leases]),
        Column("LEFT", [_length(lease, "remaining") for lease in leases]),
        Column("PID", [_number(lease.pid) for lease in leases], rank=1),
        Column("HOST", [_word(lease.host) for lease in leases], left=True, rank=2),
        Column("MEMBERS", [printable(", ".join(_members(lease))) for lease in leases], left=True, rank=3, sparse=True),
        Column("RENEWALS", [str(lease.renewals) for lease in leases], rank=4),
        Column("LABELS", [_labels(lease.labels) for lease in leases], left=True, rank=5, sparse=True),
        Column("WAITED", [_length(lease, "waited") for lease in leases], rank=6),
        Column("SESSION", [_word(lease.session) for lease in leases], left=True, rank=7),
        Column("NOTE", ["holder gone" if lease.orphaned else "" for lease in leases], left=True, sparse=True),
    )


def of_waiters(waiters: "Sequence[WaiterState]") -> "Sequence[Column]":
    """The columns of a table of waiters."""
    return (
        Column("PLACE", [str(waiter.place) for waiter in waiters]),
        Column("CLIENT", [_word(waiter.client) for waiter in waiters], left=True, elastic=True),
        Column("CLAIMS", [claims(waiter.claims) for waiter in waiters], left=True, elastic=True),
        Column("WAITED", [span(waiter.waited.ToNanoseconds(), passed=True) for waiter in waiters]),
        Column("EXPECTED", [_expected(waiter) for waiter in waiters]),
        Column("GIVES UP", [_length(waiter, "remaining") for waiter in waiters]),
        Column("PID", [_number(waiter.pid) for waiter in waiters], rank=1),
        Column("HOST", [_word(waiter.host) for waiter in waiters], left=True, rank=2),
        Column("LABELS", [_labels(waiter.labels) for waiter in waiters], left=True, rank=4, sparse=True),
        Column("CALLS", [str(waiter.tickets) if waiter.tickets > 1 else "" for waiter in waiters], rank=3, sparse=True),
        Column("SESSION", [_word(waiter.session) for waiter in waiters], left=True, rank=5),
    )


def of_sessions(sessions: "Sequence[SessionState]") -> "Sequence[Column]":
    """The columns of a table of sessions."""
    return (
        Column("SESSION", [_word(session.session) for session in sessions], left=True),
        Column("CLIENT", [_word(session.client) for session in sessions], left=True, elastic=True),
        Column("PID", [_number(session.pid) for session in sessions]),
        Column("HOST", [_word(session.host) for session in sessions], left=True, elastic=True),
        Column("STATE", ["connected" if session.connected else "away" for session in sessions], left=True),
        Column("SINCE", [span(session.since.ToNanoseconds(), passed=True) for session in sessions]),
        Column("LEASES", [str(session.leases) for session in sessions]),
        Column("WAITERS", [str(session.waiters) for session in sessions]),
        Column("LABELS", [_labels(session.labels) for session in sessions], left=True, rank=1, sparse=True),
    )


def lease_record(lease: "LeaseState") -> dict[str, object]:
    """One for programs."""
    return {
        "lease": lease.id,
        "client": lease.client,
        "session": lease.session or None,
        "pid": lease.pid or None,
        "host": lease.host or None,
        "labels": dict(lease.labels),
        "grants": [
            {
                "resource": grant.resource,
                "key": grant.key,
                "permits": grant.permits,
                "members": [
                    {"id": member.id, "attributes": dict(member.attributes), "generation": member.generation}
                    for member in grant.members
                ],
            }
            for grant in lease.grants
        ],
        "age_seconds": seconds(lease.age),
        "remaining_seconds": seconds(lease.remaining) if lease.HasField("remaining") else None,
        "renewals": lease.renewals,
        "waited_seconds": seconds(lease.waited),
        "orphaned": lease.orphaned,
    }


def waiter_record(waiter: "WaiterState") -> dict[str, object]:
    """One for programs."""
    return {
        "place": waiter.place,
        "client": waiter.client,
        "session": waiter.session or None,
        "pid": waiter.pid or None,
        "host": waiter.host or None,
        "labels": dict(waiter.labels),
        "claims": [{"resource": claim.resource, "key": claim.key, "permits": claim.permits} for claim in waiter.claims],
        "waited_seconds": seconds(waiter.waited),
        "remaining_seconds": seconds(waiter.remaining) if waiter.HasField("remaining") else None,
        "expected_seconds": seconds(waiter.expected) if waiter.HasField("expected") else None,
        "paused": list(waiter.paused),
        "calls": waiter.tickets,
    }


def session_record(session: "SessionState") -> dict[str, object]:
    """One for programs."""
    return {
        "session": session.session,
        "client": session.client,
        "pid": session.pid or None,
        "host": session.host or None,
        "labels": dict(session.labels),
        "connected": session.connected,
        "since_seconds": seconds(session.since),
        "leases": session.leases,
        "waiters": session.waiters,
    }


def claims(each: "Iterable[Claim | Grant]") -> str:
    """As they are asked for on a command line: ``thumbnails, orders-db=2``; a key stands in brackets."""
    words = []
    for claim in each:
        key = f"[{claim.key}]" if claim.key else ""
        words.append(f"{claim.resource}{key}" + (f"={claim.permits}" if claim.permits != 1 else ""))
    return printable(", ".join(words))


def _members(lease: "LeaseState") -> "Iterable[str]":
    return (member.id for grant in lease.grants for member in grant.members)


def _labels(labels: "Mapping[str, str]") -> str:
    return printable(" ".join(f"{key}={value}" for key, value in sorted(labels.items())))


def _word(text: str) -> str:
    return printable(text) or "-"


def _number(number: int) -> str:
    return str(number) if number else "-"


def _expected(waiter: "WaiterState") -> str:
    """Nobody can tell how long a pause takes, so nothing is foretold while there is one."""
    return "paused" if waiter.paused else _length(waiter, "expected")


def _length(message: "LeaseState | WaiterState", field: str) -> str:
    if not message.HasField(field):  # type: ignore[arg-type]
        return "-"
    length: Duration = getattr(message, field)
    return span(length.ToNanoseconds())
