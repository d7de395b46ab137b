"""`governor watch`: what happens, as it happens."""

import click

from governor.cli import complete
from governor.cli.exits import CommandError, Exit
from governor.cli.options import NAME, Settings, address_option, examples, output_option, with_settings


@click.command(
    epilog=examples(
        "governor watch",
        "governor watch orders-db --what granted --what released",
        "governor watch --client importer --follow -o json | jq -r .what",
    )
)
@click.argument("resources", metavar="[RES]...", nargs=-1, type=NAME, shell_complete=complete.resources)
@click.option(
    "--client",
    "clients",
    type=NAME,
    metavar="NAME",
    multiple=True,
    shell_complete=complete.clients,
    help="Only what is of this client. Repeatable.",
)
@click.option("--what", type=NAME, metavar="WHAT", multiple=True, help="Only this, such as granted. Repeatable.")
@click.option("--follow", is_flag=True, help="Go on when the daemon is back from a restart, instead of ending.")
@address_option
@output_option
@with_settings
def watch(
    settings: Settings,
    *,
    resources: tuple[str, ...],
    clients: tuple[str, ...],
    what: tuple[str, ...],
    follow: bool,
) -> Exit:
    """Print what happens, as it happens.

    All of it, or what is about one of RES and is of one of the clients. One line for each: when, what, of which
    resources, whose, which lease, and the rest in words.

    WHAT is one of queued, granted, refused and given_up, of asks; released, expired, revoked, disconnected, orphaned,
    renewed and refunded, of leases; reloaded, reload_refused, paused, resumed, draining, overridden, override_over,
    recycled, quarantined, restored and revocation, of what operators do; started, frozen (all leases end as much
    later) and stopping, of the daemon. Whoever reads too slowly misses some, and is told how many.

    Until Ctrl-C. When the daemon ends the exit code is 3, unless --follow waits for the next one.

    JSON: one object on each line, with at (RFC 3339 in UTC), what, resources, client, session, pid, host, lease,
    claims, reason, waited_seconds, held_seconds, remaining_seconds, detail, actor, actor_client, times and missed; what
    does not apply is null. session, pid and host are of who has asked, where something is granted on a session. times
    is of what a client may not do: how many refusals alike are told of in one. The first is "watching": whatever
    happens from then on is told.
    """
    from governor.cli import events
    from governor.cli.following import follow_on, once
    from governor.cli.hints import guessing_what
    from governor.v1.admin_pb2 import WatchRequest

    request = WatchRequest(resources=resources, clients=clients, what=what)
    tell = events.json_line if settings.json else events.line
    where = settings.where()
    with guessing_what(what):
        if follow:
            follow_on(where, request, tell)
        once(where, request, tell)
    raise CommandError(Exit.CANNOT_REACH, f"the daemon at {where.address} has ended; --follow waits for the next one")
