"""`governor release`: leases given back, from the command line."""

import click

from governor.cli.exits import Exit
from governor.cli.options import Settings, address_option, examples, output_option, with_settings
from governor.cli.results import Result, leases_argument, results_of, tell


@click.command(epilog=examples("governor release 17", "governor release 17 18 --outcome broken"))
@leases_argument
@click.option(
    "--outcome",
    type=click.Choice(["ok", "broken", "unknown"]),
    default="unknown",
    show_default=True,
    help="How the pool members were; a broken one is set aside for a while.",
)
@address_option
@output_option
@with_settings
def release(settings: Settings, *, leases: tuple[int, ...], outcome: str) -> Exit:
    """Give leases back, by their ids.

    Exits with 1 where a lease had ended before or is unknown: what it protected was not protected to the end.
    The others are released all the same.

    JSON: {"results": [...]} in the order asked, each with lease, state (released, ended or unknown), reason
    and ended_seconds_ago. For a lease that had ended, reason is released, expired, revoked, disconnected or
    spent; else the last two are null.
    """
    from governor.cli.connection import connect
    from governor.v1.governor_pb2 import Outcome, ReleaseRequest
    from governor.v1.governor_pb2_grpc import GovernorStub

    request = ReleaseRequest(lease_ids=leases, outcome=Outcome.Value(f"OUTCOME_{outcome.upper()}"))
    with connect(settings.where()) as daemon:
        stub = GovernorStub(daemon.channel)
        results = results_of(lambda: daemon.ask(stub.Release, request).results, leases, settings)
    return tell(results, settings, Result.record)
