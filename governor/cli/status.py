"""`governor status`: the resources as they are now."""

from typing import TYPE_CHECKING, Final

import click

from governor.cli.exits import CommandError, Exit
from governor.cli.names import meant
from governor.cli.options import TEXT, Settings, address_option, examples, output_option, with_settings
from governor.cli.output import say, say_json, terminal_width
from governor.wording import SECOND, printable, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from governor.v1.governor_pb2 import Resource

HEADER: Final = ("NAME", "KIND", "CAPACITY", "IN USE", "AVAILABLE", "WAITERS", "OLDEST", "LEASES")
NOTE: Final = "NOTE"


@click.command(
    epilog=examples(
        "governor status",
        "governor status thumbnails orders-db",
        "governor status -o json | jq '.resources[] | select(.waiters > 0) | .name'",
    )
)
@click.argument("names", metavar="[NAME]...", nargs=-1, type=TEXT)
@address_option
@output_option
@with_settings
def status(settings: Settings, *, names: tuple[str, ...]) -> None:
    """Show resources: how much there is, what is lent, who waits.

    All of them, unless a NAME chooses. AVAILABLE is the largest ask that would be granted now. OLDEST is how
    long the first in line has waited. A NOTE says "draining" of a resource that is no longer declared and goes
    with its last lease, and how many members of a pool are quarantined. Unless the output is a terminal, each
    resource is one line.

    JSON: {"resources": [...]} in the order of the config, each with name, kind, capacity, in_use, available,
    leases, waiters, oldest_wait_seconds, draining, members, max_waiters, max_wait_seconds and lease_seconds.
    capacity and available are null where unlimited, oldest_wait_seconds is null where nobody waits; members
    is {free, lent, quarantined} of a pool, else null.
    """
    from governor.cli.connection import connect
    from governor.v1.governor_pb2 import ListResourcesRequest
    from governor.v1.governor_pb2_grpc import GovernorStub

    with connect(settings.where()) as daemon:
        stub = GovernorStub(daemon.channel)
        resources = _named(names, daemon.ask(stub.ListResources, ListResourcesRequest()).resources)
    if settings.json:
        say_json({"resources": [_record(resource) for resource in resources]})
    elif resources:
        from governor.cli.table import lay_out

        table = [HEADER, *(_row(resource) for resource in resources)]
        notes = [NOTE, *(_note(resource) for resource in resources)]
        if any(notes[1:]):
            table = [(*row, note) for row, note in zip(table, notes, strict=True)]
        left = {HEADER.index("NAME"), HEADER.index("KIND"), len(HEADER)}
        head, *rows = lay_out(table[0], table[1:], left=left, width=terminal_width())
        say([click.style(head, bold=True), *rows])
    else:
        say(["no resources: the daemon's config declares none"])


def _named(names: "Sequence[str]", resources: "Sequence[Resource]") -> "Sequence[Resource]":
    """Those of the names, or all; raises CommandError for a name that none has."""
    known = {resource.name for resource in resources}
    for name in names:
        if name not in known:
            raise CommandError(Exit.USAGE, f"{printable(name)}: no such resource{meant(name, resources)}")
    return [resource for resource in resources if not names or resource.name in names]


def _note(resource: "Resource") -> str:
    """What the numbers do not say."""
    notes = ["draining"] if resource.draining else []
    if quarantined := resource.members.quarantined:
        notes.append(f"{quarantined} quarantined")
    return ", ".join(notes)


def _row(resource: "Resource") -> tuple[str, ...]:
    return (
        printable(resource.name),
        printable(resource.kind),
        str(resource.capacity) if resource.HasField("capacity") else "unlimited",
        str(resource.in_use),
        str(resource.available) if resource.HasField("available") else "unlimited",
        str(resource.waiters),
        span(resource.oldest_wait.ToNanoseconds()) if resource.HasField("oldest_wait") else "-",
        str(resource.leases),
    )


def _record(resource: "Resource") -> dict[str, object]:
    oldest = resource.oldest_wait.ToNanoseconds() / SECOND if resource.HasField("oldest_wait") else None
    return {
        "name": resource.name,
        "kind": resource.kind,
        "capacity": resource.capacity if resource.HasField("capacity") else None,
        "in_use": resource.in_use,
        "available": resource.available if resource.HasField("available") else None,
        "leases": resource.leases,
        "waiters": resource.waiters,
        "oldest_wait_seconds": oldest,
        "draining": resource.draining,
        "members": _members(resource),
        "max_waiters": resource.max_waiters,
        "max_wait_seconds": resource.max_wait.ToNanoseconds() / SECOND,
        "lease_seconds": resource.lease.ToNanoseconds() / SECOND,
    }


def _members(resource: "Resource") -> dict[str, int] | None:
    if not resource.HasField("members"):
        return None
    members = resource.members
    return {"free": members.free, "lent": members.lent, "quarantined": members.quarantined}
