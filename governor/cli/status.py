"""`governor status`: the resources as they are now."""

from typing import TYPE_CHECKING, Final

import click

from governor.cli.options import Settings, address_option, examples, output_option, with_settings
from governor.cli.output import say, say_json, terminal_width
from governor.wording import SECOND, printable, span

if TYPE_CHECKING:
    from governor.v1.governor_pb2 import Resource

HEADER: Final = ("NAME", "KIND", "CAPACITY", "IN USE", "AVAILABLE", "WAITERS", "OLDEST", "LEASES")


@click.command(
    epilog=examples(
        "governor status",
        "governor status -o json | jq '.resources[] | select(.waiters > 0) | .name'",
    )
)
@address_option
@output_option
@with_settings
def status(settings: Settings) -> None:
    """Show every resource: how much there is, what is lent, who waits.

    AVAILABLE is the largest ask that would be granted now; "draining" says that the resource is no longer
    declared and goes with its last lease. OLDEST is how long the first in line has waited. Unless the output
    is a terminal, each resource is one line.

    JSON: {"resources": [...]} in the order of the config, each with name, kind, capacity, in_use, available,
    leases, waiters, oldest_wait_seconds, draining, max_waiters, max_wait_seconds and lease_seconds. capacity
    and available are null where unlimited, oldest_wait_seconds is null where nobody waits.
    """
    from governor.cli.connection import connect
    from governor.v1.governor_pb2 import ListResourcesRequest
    from governor.v1.governor_pb2_grpc import GovernorStub

    with connect(settings.where()) as daemon:
        stub = GovernorStub(daemon.channel)
        resources = daemon.ask(stub.ListResources, ListResourcesRequest()).resources
    if settings.json:
        say_json({"resources": [_record(resource) for resource in resources]})
    elif resources:
        from governor.cli.table import lay_out

        head, *rows = lay_out(HEADER, [_row(resource) for resource in resources], left=2, width=terminal_width())
        say([click.style(head, bold=True), *rows])
    else:
        say(["no resources: the daemon's config declares none"])


def _row(resource: "Resource") -> tuple[str, ...]:
    available = str(resource.available) if resource.HasField("available") else "unlimited"
    return (
        printable(resource.name),
        printable(resource.kind),
        str(resource.capacity) if resource.HasField("capacity") else "unlimited",
        str(resource.in_use),
        "draining" if resource.draining else available,
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
        "max_waiters": resource.max_waiters,
        "max_wait_seconds": resource.max_wait.ToNanoseconds() / SECOND,
        "lease_seconds": resource.lease.ToNanoseconds() / SECOND,
    }
