"""What the status page is shown, as plain JSON: numbers, and names that clients and operators chose.

It knows the fields that the page reads. It must never know how they get there.

Instants are of the daemon's clock, in milliseconds; those in seconds are of the wall clock. Nobody is asked who they
are here, so what may be a secret stays out: attributes of pool members, labels, request ids, ids of sessions.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from governor.belongings import Belongings
from governor.core.snapshot import LeaseView, MemberView, ResourceSnapshot, WaiterView, WindowView
from governor.core.types import MILLISECOND, SECOND, Nanos, Said
from governor.http.document import PAGE_HASH
from governor.http.sight import Head
from governor.session import Session
from governor.units import Rate, format_rate
from governor.wording import said

Json = str | int | float | None | Sequence["Json"] | Mapping[str, "Json"]
Shown = dict[str, Json]

_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False)


def encode(value: Json) -> bytes:
    """As one line of ASCII, whatever is in it."""
    return _ENCODER.encode(value).encode("ascii")


def head(of: Head, *, draining: bool) -> Shown:
    """The daemon and its config."""
    config = of.config
    return {
        "page": PAGE_HASH,
        "version": of.version,
        "pid": of.pid,
        "host": of.host,
        "started": of.started_at / SECOND,
        "state_problem": of.state_problem,
        "not_ready": of.not_ready,
        "draining": draining,
        "config": {
            "source": config.source,
            "hash": config.hash,
            "since": config.since / SECOND,
            "problems": config.problems,
            "refused_at": None if config.refused_at is None else config.refused_at / SECOND,
        },
    }


def resource(of: ResourceSnapshot, now: Nanos) -> Shown:
    """One row. It does not change while time alone goes on, but for what time gives back."""
    return {
        "name": of.name,
        "kind": of.kind,
        "lends": of.lends,
        "capacity": of.capacity,
        "in_use": of.in_use,
        "over": of.over_limit,
        "available": of.available,
        "leases": of.leases,
        "waiters": of.waiters,
        "max_waiters": of.max_waiters,
        "lease": of.lease // MILLISECOND,
        "max_wait": of.max_wait // MILLISECOND,
        "since": None if of.oldest_wait is None else _instant(now - of.oldest_wait),
        "standing": of.standing.value,
        "why": _why(of.said),
        "removed": of.removed,
        "override": None if of.override is None else _instant(of.override.until),
        "override_why": "" if of.override is None else _why(of.override.said),
        "quarantined": 0 if of.members is None else of.members.quarantined,
    }


def lease(of: LeaseView, resource: str, holder: Belongings | None) -> Shown:
    """Who holds what of one resource, and until when."""
    grants = [grant for grant in of.grants if grant.resource == resource]
    return {
        "id": of.id,
        **_process(of.client, holder),
        "permits": sum(grant.permits for grant in grants),
        "members": list(dict.fromkeys(member.id for grant in grants for member in grant.members)),
        "since": _instant(of.granted_at),
        "ends": _instant(of.deadline),
        "renewals": of.renewals,
        "orphaned": of.orphaned,
    }


def waiter(of: WaiterView, resource: str, others: Sequence[str], asker: Session | None) -> Shown:
    """Who waits for one resource, and for which ``others`` besides."""
    return {
        **_process(of.client, asker),
        "permits": sum(claim.permits for claim in of.claims if claim.resource == resource),
        "others": others,
        "since": _instant(of.since),
        "until": _instant(of.until),
    }


def member(of: MemberView) -> Shown:
    """One member of a pool."""
    return {
        "id": of.id,
        "state": f"{of.state.value} by an operator" if of.by_operator else of.state.value,
        "why": _why(of.said),
        "lent": of.lent,
        "max": of.max_leases,
        "generation": of.generation,
        "until": None if of.until is None else _instant(of.until),
    }


def window(of: WindowView) -> Shown:
    """One window of a rate limit."""
    return {
        "rate": format_rate(Rate(of.permits, of.period)),
        "burst": of.burst,
        "available": of.available,
        "next": None if of.next_at is None else _instant(of.next_at),
    }


def _process(client: str, session: Belongings | None) -> Shown:
    pid, host = (0, "") if session is None else (session.pid, session.host)
    return {"client": client, "pid": pid, "host": host}


def _why(ordered: Said) -> str:
    return said(ordered.actor, ordered.reason, ordered.client)


def _instant(at: Nanos) -> int:
    return at // MILLISECOND
