"""`governor top`: the resources in a live table."""

import os
import sys

import click

from governor.cli.options import DURATION, Settings, address_option, examples, with_settings
from governor.wording import SECOND


@click.command(epilog=examples("governor top", "governor top --interval 250ms", "ssh -t db7 governor top"))
@click.option("--interval", type=DURATION, default="1s", show_default=True, help="How often to look, from 100ms on.")
@address_option
@with_settings
def top(settings: Settings, *, interval: int) -> int:
    """Watch the resources in a live table, what hurts first.

    First comes what somebody has waited for longest, then what is nearest to full. Enter looks into a resource: its
    leases, its line, its members. s sorts by something else, / filters, h shows all keys, q ends. Nothing can be
    changed from here.

    FULL is how much of the capacity is lent, or spent of a rate limit. While the daemon is away the last that was seen
    stays, with a line that says so; when it is back, it goes on. NO_COLOR is honoured.

    It needs a terminal: for pipes, files and scripts there is `governor status`.
    """
    if settings.json or not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        raise click.UsageError("top draws on a terminal and reads its keys; elsewhere use: governor status -o json")
    if (os.environ.get("TERM") or "dumb") == "dumb":
        raise click.UsageError("TERM says that this terminal cannot be drawn on; use: governor status")
    if interval < SECOND // 10:
        raise click.UsageError("--interval is at least 100ms")
    where = settings.where()

    from governor.cli.live.loop import run

    return run(where, interval)


def _is_terminal(stream: object) -> bool:
    return stream is not None and getattr(stream, "isatty", lambda: False)()
