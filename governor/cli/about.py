"""All about one resource, as lines for people and as a record for programs.

It knows words and the order in which one wants to know. It must never know how the answers were had.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from governor.cli import entries
from governor.cli.lengths import seconds
from governor.cli.marks import beside_declared, marks, said
from governor.cli.table import Column, arrange
from governor.wording import count, folded, printable, span
from governor.wording import said as said_of

if TYPE_CHECKING:
    from governor.v1.admin_pb2 import GetResourceResponse, LeaseState, MemberState, WaiterState, WindowState
    from governor.v1.governor_pb2 import Resource


@dataclass(slots=True, frozen=True)
class About:
    """One resource, and the first of its leases and of its line."""

    answer: "GetResourceResponse"
    leases: "Sequence[LeaseState]"
    waiters: "Sequence[WaiterState]"

    @property
    def resource(self) -> "Resource":
        """Its numbers."""
        return self.answer.resource


def lines(about: About, *, width: int | None) -> Iterator[str]:
    """For people."""
    resource = about.resource
    yield f"{printable(resource.name)}: {printable(resource.kind)}, {', '.join(marks(resource)) or 'open'}"
    yield f"  {numbers(resource)}"
    if resource.HasField("override"):
        left = span(resource.override.remaining.ToNanoseconds())
        yield f"  override: {beside_declared(resource.override)}, for {left} yet{said(resource.override)}"
    settings = printable(", ".join(f"{name}: {value}" for name, value in sorted(about.answer.settings.items())))
    if settings:
        yield from folded(f"  in force: {settings}", width)
    yield from _section("members", of_members(about.answer.members), len(about.answer.members), width)
    yield from _section("windows", of_windows(about.answer.windows), len(about.answer.windows), width)
    yield from _section("leases", entries.of_leases(about.leases), len(about.leases), width, resource.leases)
    yield from _section("waiters", entries.of_waiters(about.waiters), len(about.waiters), width, resource.waiters)


def numbers(resource: "Resource") -> str:
    """What is lent, what is to be had, who waits."""
    capacity = str(resource.capacity) if resource.HasField("capacity") else "unlimited"
    available = str(resource.available) if resource.HasField("available") else "unlimited"
    words = [f"{resource.in_use} of {capacity} in use", f"{available} available", count(resource.leases, "lease")]
    waiting = f"{resource.waiters} waiting"
    if resource.HasField("oldest_wait"):
        waiting += f", the first for {span(resource.oldest_wait.ToNanoseconds(), passed=True)}"
    return ", ".join((*words, waiting))


def of_members(members: "Sequence[MemberState]") -> "Sequence[Column]":
    """The columns of a table of members."""
    return (
        Column("MEMBER", [printable(member.id) for member in members], left=True, elastic=True),
        Column("STATE", [state(member) for member in members], left=True),
        Column("LENT", [f"{member.lent}/{member.max_leases}" for member in members]),
        Column("GENERATION", [str(member.generation) for member in members], rank=2),
        Column("FAILURES", [str(member.failures) if member.failures else "" for member in members], sparse=True),
        Column("LENDINGS", [str(member.lendings) for member in members], rank=3),
        Column("ATTRIBUTES", [_attributes(member) for member in members], left=True, rank=1, elastic=True, sparse=True),
    )


def state(member: "MemberState") -> str:
    """What it is in, and until when."""
    word = member.State.Name(member.state).lower()
    if member.state != member.QUARANTINED:
        return word
    who = printable(said_of(member.actor, "", member.actor_client)) or "by an operator"
    by = f" {who}" if member.by_operator else ""
    until = (
        f"{span(member.quarantined_for.ToNanoseconds())} yet"
        if member.HasField("quarantined_for")
        else "until restored"
    )
    why = f": {printable(member.reason)}" if member.reason else ""
    return f"{word}{by}, {until}{why}"


def of_windows(windows: "Sequence[WindowState]") -> "Sequence[Column]":
    """The columns of a table of windows."""
    next_one = [span(window.next.ToNanoseconds()) if window.HasField("next") else "-" for window in windows]
    return (
        Column("RATE", [printable(window.rate) for window in windows], left=True),
        Column("BURST", [str(window.burst) for window in windows]),
        Column("AVAILABLE", [str(window.available) for window in windows]),
        Column("NEXT IN", next_one),
    )


def member_record(member: "MemberState") -> dict[str, object]:
    """One for programs."""
    limited = member.HasField("quarantined_for")
    return {
        "id": member.id,
        "state": member.State.Name(member.state).lower(),
        "attributes": dict(member.attributes),
        "generation": member.generation,
        "max_leases": member.max_leases,
        "lent": member.lent,
        "lendings": member.lendings,
        "failures": member.failures,
        "quarantined_for_seconds": seconds(member.quarantined_for) if limited else None,
        "by_operator": member.by_operator,
        "actor": member.actor or None,
        "actor_client": member.actor_client or None,
        "reason": member.reason or None,
    }


def window_record(window: "WindowState") -> dict[str, object]:
    """One for programs."""
    return {
        "rate": window.rate,
        "burst": window.burst,
        "available": window.available,
        "next_seconds": seconds(window.next) if window.HasField("next") else None,
    }


def _attributes(member: "MemberState") -> str:
    return printable(" ".join(f"{key}={value}" for key, value in sorted(member.attributes.items())))


def _section(
    title: str, columns: Sequence[Column], shown: int, width: int | None, total: int | None = None
) -> Iterator[str]:
    """A table with a title, unless there is nothing in it."""
    if not shown:
        return
    yield ""
    yield title if total is None or total <= shown else f"{title} (the first {shown} of {total})"
    room = None if width is None else width - 2
    yield from (f"  {line}" for line in arrange(columns, width=room))
