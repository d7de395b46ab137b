"""`governor acquire`: one ask, from the command line."""

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from governor.cli import claims, complete
from governor.cli.exits import CommandError
from governor.cli.lengths import seconds
from governor.cli.options import (
    DURATION,
    LEASE,
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
from governor.wording import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from governor.cli.connection import Connection
    from governor.client import Lease as Borrowed
    from governor.v1.governor_pb2 import AcquireRequest, Lease


@click.command(
    epilog=examples(
        "governor acquire thumbnails",
        "governor acquire thumbnails --permits 2 --wait 5m --lease 30s",
        "governor acquire orders-db=1 payments-api=20 --wait 250ms",
        "governor acquire thumbnails -o json | jq .lease",
    )
)
@click.argument("resources", metavar="RES[=N]...", nargs=-1, required=True, shell_complete=complete.resources)
@click.option("--permits", type=Whole(1, MAX_PERMITS), metavar="N", help="Permits of each RES without =N. Default: 1.")
@click.option(
    "--wait",
    type=DURATION,
    help="How long to stand in line; 0 does not wait. Default: the resource's max_wait.",
)
@click.option("--lease", type=LEASE, help="How long the lease lasts. Default: the resource's lease.")
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
    Ctrl-C leaves the line. At a terminal the place in it is shown meanwhile.

    A number after the last = is the number of permits: one permit of a resource that is itself called shard=3
    is shard=3=1.

    Durations are written with their unit: 250ms, 30s, 5m, 2h.

    JSON: {"lease", "remaining_seconds", "waited_seconds", "grants": [...]}, each grant with resource, permits
    and members, each member with id, attributes and generation. remaining_seconds is null where there is
    nothing to give back.
    """
    asked = claims.parse(resources, permits)
    where = settings.where()

    from governor.cli import granted, hints, place
    from governor.cli.connection import connect
    from governor.v1.governor_pb2 import AcquireRequest

    request = AcquireRequest(client=client, request_id=request_id or "")
    for name, number in asked:
        request.claims.add(resource=name, permits=number)
    if wait is not None:
        request.wait.FromNanoseconds(wait)
    if lease is not None:
        request.lease.FromNanoseconds(lease)

    def tell(lease: "Lease") -> None:
        if settings.json:
            say_json(granted.record(lease))
        else:
            say(granted.lines(lease, where))

    with connect(where) as daemon:
        # Only a session is told its place in line, and only one call can be repeated under an id.
        by_session = place.shown() and not request.request_id
        try:
            (_in_sight if by_session else _in_one_call)(daemon, request, tell)
        except CommandError as error:
            raise hints.hinted(error, where, resources, asked) from None


def _in_one_call(daemon: "Connection", request: "AcquireRequest", tell: "Callable[[Lease], None]") -> None:
    """Ask, wait in line without a word, and tell what was granted."""
    from governor.tracing import of_environment
    from governor.v1.governor_pb2 import ReleaseRequest
    from governor.v1.governor_pb2_grpc import GovernorStub

    within = of_environment(os.environ)
    metadata = () if within is None else tuple(zip(("traceparent", "tracestate"), within, strict=True))
    stub = GovernorStub(daemon.channel)
    # No deadline of our own: the daemon knows when the wait is over, ours or the resource's max_wait.
    lease = daemon.ask(stub.Acquire, request, patient=True, metadata=metadata).lease
    try:
        tell(lease)
    except (OSError, KeyboardInterrupt):
        # Nobody has seen the id, so nobody else can give it back: it would stay lent for its whole lease.
        with suppress(CommandError):
            daemon.ask(stub.Release, ReleaseRequest(lease_ids=[lease.id]))
        raise


def _in_sight(daemon: "Connection", request: "AcquireRequest", tell: "Callable[[Lease], None]") -> None:
    """The same on a session, and show the place in line meanwhile.

    Until the lease has been told it is the session's, and goes back with it however this ends.
    """
    from governor.cli import borrow, hints, place
    from governor.client import GovernorError

    names = [claim.resource for claim in request.claims]
    wait = request.wait.ToNanoseconds() if request.HasField("wait") else None
    with borrow.client(daemon.where, request.client) as gov:
        try:
            with place.line(names, hints.about_wait(daemon.where, names, wait)) as on_queued:
                lease = gov.acquire(
                    {claim.resource: claim.permits for claim in request.claims},
                    wait=None if wait is None else wait / SECOND,
                    lease=seconds(request.lease) if request.HasField("lease") else None,
                    on_queued=on_queued,
                )
        except GovernorError as error:
            raise borrow.failure(error, daemon.where) from error
        tell(_as_in_one_call(daemon, lease))
        lease.detach()


def _as_in_one_call(daemon: "Connection", lease: "Borrowed") -> "Lease":
    """What a call would have answered, with the whole of its time to go."""
    from governor.v1.governor_pb2 import Lease, RenewRequest
    from governor.v1.governor_pb2_grpc import GovernorStub

    answer = Lease(id=lease.id)
    for name, permits in lease.claims.items():
        members = [member for member in lease.members if member.resource == name]
        grant = answer.grants.add(resource=name, permits=permits)
        for member in members:
            grant.members.add(id=member.id, attributes=member.attributes, generation=member.generation)
    if lease.remaining is not None:
        renewed = daemon.ask(GovernorStub(daemon.channel).Renew, RenewRequest(lease_ids=[lease.id]))
        answer.remaining.CopyFrom(renewed.results[0].remaining)
    if lease.waited:
        answer.waited.FromNanoseconds(round(lease.waited * SECOND))
    return answer
