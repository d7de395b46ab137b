"""`governor resource`: all about one."""

import click

from governor.cli import complete
from governor.cli.options import NAME, Settings, Whole, address_option, examples, output_option, with_settings
from governor.cli.output import say, say_json, terminal_width


@click.command(
    epilog=examples(
        "governor resource orders-db",
        "governor resource orders-db --limit 100",
        "governor resource orders-db -o json | jq '.members[].state'",
    )
)
@click.argument("name", metavar="RES", type=NAME, shell_complete=complete.resources)
@click.option(
    "--limit",
    type=Whole(1, 100_000),
    metavar="N",
    default=10,
    show_default=True,
    help="How many of its leases and of its waiters.",
)
@address_option
@output_option
@with_settings
def resource(settings: Settings, *, name: str, limit: int) -> None:
    """Show all about one resource.

    Its numbers, what an operator has done to it, its settings as they are in force, its members or windows, and the
    first of its leases and of its line.

    JSON: {"resource", "settings", "members": [...], "windows": [...], "leases": [...], "waiters": [...]}. The
    resource is as in `governor status`, leases and waiters are as in the commands of these names. Each member has
    id, state (free, lent, quarantined or removed), attributes, generation, max_leases, lent, lendings, failures,
    quarantined_for_seconds, by_operator, actor, actor_client and reason; each window has rate, burst, available and
    next_seconds.
    """
    from governor.cli import about, entries, hints
    from governor.cli.admin import reached
    from governor.cli.looking import look
    from governor.cli.status import plain, record

    with reached(settings.where()) as admin, hints.guessing(admin, name):
        seen = look(admin, name, limit)
    if settings.json:
        say_json(
            {
                "resource": record(seen.resource),
                "settings": plain(seen.answer.settings),
                "members": [about.member_record(member) for member in seen.answer.members],
                "windows": [about.window_record(window) for window in seen.answer.windows],
                "leases": [entries.lease_record(lease) for lease in seen.leases],
                "waiters": [entries.waiter_record(waiter) for waiter in seen.waiters],
            }
        )
        return
    head, *rest = about.lines(seen, width=terminal_width())
    say([click.style(head, bold=True), *rest])
