"""A lease as `governor acquire` tells it, to people and to programs.

It knows words. It must never know how the lease was had.
"""

import shlex
from typing import TYPE_CHECKING

from governor.cli.lengths import seconds
from governor.wording import count, printable, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from governor.cli.options import Where
    from governor.v1.governor_pb2 import Grant, Lease, Member


def lines(lease: "Lease", where: "Where") -> "Iterator[str]":
    """For people; the last one says how to give it back."""
    waited = lease.waited.ToNanoseconds()
    after = f", after waiting {span(waited)}" if waited else ""
    yield f"lease {lease.id}{after}"
    for grant in lease.grants:
        yield f"  {printable(grant.resource)}: {count(grant.permits, 'permit')}"
        for member in grant.members:
            yield f"    {_member(member)}"
    if not lease.HasField("remaining"):
        yield "spent: there is nothing to give back"
        return
    there = f"--address {shlex.quote(str(where.address))} " if where.source == "--address" else ""
    left = span(lease.remaining.ToNanoseconds())
    yield f"ends in {left}; to give it back: governor {there}release {lease.id}"


def record(lease: "Lease") -> dict[str, object]:
    """For programs."""
    remaining = seconds(lease.remaining) if lease.HasField("remaining") else None
    return {
        "lease": lease.id,
        "remaining_seconds": remaining,
        "waited_seconds": seconds(lease.waited),
        "grants": [_grant(grant) for grant in lease.grants],
    }


def _member(member: "Member") -> str:
    attributes = "".join(f"  {key}={value}" for key, value in sorted(member.attributes.items()))
    return printable(f"{member.id} (generation {member.generation}){attributes}")


def _grant(grant: "Grant") -> dict[str, object]:
    return {
        "resource": grant.resource,
        "permits": grant.permits,
        "members": [
            {"id": member.id, "attributes": dict(member.attributes), "generation": member.generation}
            for member in grant.members
        ],
    }
