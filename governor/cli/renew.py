"""`governor renew`: leases kept alive, from the command line."""

import click

from governor.cli.exits import Exit
from governor.cli.options import LEASE, Settings, address_option, examples, output_option, with_settings
from governor.cli.results import Result, leases_argument, results_of, tell


@click.command(epilog=examples("governor renew 17", "governor renew 17 18 --lease 10m"))
@leases_argument
@click.option("--lease", type=LEASE, help="How long each lasts from now. Default: as long as it was granted for.")
@address_option
@output_option
@with_settings
def renew(settings: Settings, *, leases: tuple[int, ...], lease: int | None) -> Exit:
    """Keep leases alive, by their ids: their time counts from now.

    Exits with 1 where a lease had ended or is unknown, which no renewal brings back, or one of several was refused
    the length; with 2 where the only one was.
    The others are renewed all the same.

    JSON: {"results": [...]} in the order asked, each with lease, state (renewed, ended, unknown or refused),
    reason, ended_seconds_ago and remaining_seconds. For a lease that had ended, reason is released, expired,
    revoked, disconnected or spent; what does not apply is null.
    """
    from governor.cli.connection import connect
    from governor.v1.governor_pb2 import RenewRequest
    from governor.v1.governor_pb2_grpc import GovernorStub

    request = RenewRequest(lease_ids=leases)
    if lease is not None:
        request.lease.FromNanoseconds(lease)
    with connect(settings.where()) as daemon:
        stub = GovernorStub(daemon.channel)
        results = results_of(lambda: daemon.ask(stub.Renew, request).results, leases, settings)
    return tell(results, settings, Result.record_of_renewal)
