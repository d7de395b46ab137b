"""`governor acquire`: one ask, from the command line."""

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from governor.cli import claims, hints
from governor.cli.exits import CommandError
from governor.cli.options import (
    DURATION,
    TEXT,
    Settings,
    Whole,
    address_option,
    examples,
    output_option,
    with_settings,
)
from governor.cli.output import say, say_json
from governor.core.types import MAX_PERMITS
from governor.wording import SECOND, count, printable, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from governor.cli.options import Where
    from governor.v1.governor_pb2 import Grant, Lease, Member


@click.command(
    epilog=examples(
        "governor acquire thumbnails",
        "governor acquire thumbnails --permits 2 --wait 5m --lease 30s",
        "governor acquire orders-db=1 payments-api=20 --wait 250ms",
        "governor acquire thumbnails -o json | jq .lease",
    )
)
@click.argument("resources", metavar="RES[=N]...", nargs=-1, required=True)
@click.option("--permits", type=Whole(1, MAX_PERMITS), metavar="N", help="Permits of each RES without =N. Default: 1.")
@click.option(
    "--wait",
    type=DURATION,
    help="How long to stand in line; 0 does not wait. Default: the resource's max_wait.",
)
@click.option("--lease", type=DURATION, help="How long the lease lasts. Default: the resource's lease.")
@click.option(
    "--client",
    type=TEXT,
    default="governor-cli",
    show_default=True,
    metavar="NAME",
    help="Who asks: a --request-id counts among the asks of this NAME.",
)
@click.option(
    "--request-id",
    type=TEXT,
    metavar="ID",
    help="Makes the ask safe to repeat: the same ID from the same client gets the same lease.",
)
@address_option
@output_option
@with_settings
def acquire(
    settings: Settings,
    *,
    resources: tuple[str, ...],
    permits: int | None,
    wait: int | None,
    lease: int | None,
    client: str,
    request_id: str | None,
) -> None:
    """Ask for permits, wait in line for them, and print the lease.

    Several resources are granted all together or not at all. Nobody keeps the lease alive once the command
    has ended: give it back with `governor release` or keep it with `governor renew`, or it ends by itself.
    Ctrl-C leaves the line.

    A number after the last = is the number of permits: one permit of a resource that is itself called shard=3
    is shard=3=1.

    Durations are written with their unit: 250ms, 30s, 5m, 2h.

    JSON: {"lease", "remaining_seconds", "waited_seconds", "grants": [...]}, each grant with resource, permits
    and members, each member with id, attributes and generation. remaining_seconds is null where there is
    nothing to give back.
    """
    asked = claims.parse(resources, permits)

    from governor.cli.connection import connect
    from governor.v1.governor_pb2 import AcquireRequest, ReleaseRequest
    from governor.v1.governor_pb2_grpc import GovernorStub

    request = AcquireRequest(client=client, request_id=request_id or "")
    for name, number in asked:
        request.claims.add(resource=name, permits=number)
    if wait is not None:
        request.wait.FromNanoseconds(wait)
    if lease is not None:
        request.lease.FromNanoseconds(lease)

    where = settings.where()
    with connect(where) as daemon:
        stub = GovernorStub(daemon.channel)
        # No deadline of our own: the daemon knows when the wait is over, ours or the resource's max_wait.
        try:
            granted = daemon.ask(stub.Acquire, request, patient=True).lease
        except CommandError as error:
            raise hints.hinted(error, where, resources, asked) from None
        try:
            if settings.json:
                say_json(_record(granted))
            else:
                say(_lines(granted, where))
        except (OSError, KeyboardInterrupt):
            # Nobody has seen the id, so nobody else can give it back: it would stay lent for its whole lease.
            with suppress(CommandError):
                daemon.ask(stub.Release, ReleaseRequest(lease_ids=[granted.id]))
            raise


def _lines(lease: "Lease", where: "Where") -> "Iterator[str]":
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


def _member(member: "Member") -> str:
    attributes = "".join(f"  {key}={value}" for key, value in sorted(member.attributes.items()))
    return printable(f"{member.id} (generation {member.generation}){attributes}")


def _record(lease: "Lease") -> dict[str, object]:
    remaining = lease.remaining.ToNanoseconds() / SECOND if lease.HasField("remaining") else None
    return {
        "lease": lease.id,
        "remaining_seconds": remaining,
        "waited_seconds": lease.waited.ToNanoseconds() / SECOND,
        "grants": [_grant(grant) for grant in lease.grants],
    }


def _grant(grant: "Grant") -> dict[str, object]:
    return {
        "resource": grant.resource,
        "permits": grant.permits,
        "members": [
            {"id": member.id, "attributes": dict(member.attributes), "generation": member.generation}
            for member in grant.members
        ],
    }
