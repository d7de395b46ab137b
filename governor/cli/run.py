"""`governor run`: a command that has permits for as long as it runs.

It knows how an ask, a command and their signals are put together. It must never know how any of them works.
"""

import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

import click

from governor.cli import claims, complete
from governor.cli.exits import CommandError, Exit
from governor.cli.options import DURATION, LABEL, LEASE, TEXT, Settings, Whole, address_option, examples, with_settings
from governor.cli.output import complain
from governor.core.types import MAX_PERMITS
from governor.wording import SECOND, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from governor.cli.place import OnQueued
    from governor.cli.signals import Signals
    from governor.client import Lease

LEASE_ID: Final = "GOVERNOR_LEASE_ID"
MEMBERS: Final = "GOVERNOR_MEMBERS"

_COMMAND: Final = "governor.command"

_AS_IN: Final = "as in governor run thumbnails -- make"


class BeforeTwoDashes(click.Command):
    """Its own words end at the first ``--``; what follows is somebody else's, whatever it looks like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The words after it are kept for the command."""
        if "--" in args:
            dashes = args.index("--")
            args, ctx.meta[_COMMAND] = args[:dashes], args[dashes + 1 :]
        return super().parse_args(ctx, args)


@click.command(
    cls=BeforeTwoDashes,
    epilog=examples(
        "governor run thumbnails -- make thumbnails",
        "governor run nightly-report --wait 0 -- /usr/local/bin/report --all",
        "governor run orders-db=1 payments-api=20 --wait 5m -- ./import.sh",
        'governor run orders-db -- sh -c \'echo "$GOVERNOR_MEMBERS" | jq -r ".[0].id"\'',
    ),
)
@click.argument("resources", metavar="RES[=N]... -- CMD [ARG]...", nargs=-1, shell_complete=complete.resources)
@click.option("--permits", type=Whole(1, MAX_PERMITS), metavar="N", help="Permits of each RES without =N. Default: 1.")
@click.option(
    "--wait",
    type=DURATION,
    help="How long to stand in line; 0 does not wait. Default: the resource's max_wait.",
)
@click.option(
    "--lease",
    type=LEASE,
    help="How long the lease lasts when it is not kept alive. Default: the resource's lease.",
)
@click.option(
    "--label", "labels", type=LABEL, multiple=True, metavar="K=V", help="A free word, kept with the lease. Repeatable."
)
@click.option(
    "--kill-after",
    type=DURATION,
    default="10s",
    show_default=True,
    help="How long CMD has from SIGTERM to SIGKILL, when the lease is lost.",
)
@click.option("--client", type=TEXT, default="governor-run", show_default=True, metavar="NAME", help="Who asks.")
@address_option
@with_settings
def run(
    settings: Settings,
    *,
    resources: tuple[str, ...],
    permits: int | None,
    wait: int | None,
    lease: int | None,
    labels: tuple[tuple[str, str], ...],
    kill_after: int,
    client: str,
) -> int:
    """Run a command that has permits for as long as it runs.

    CMD is begun when they are granted, and they are given back when it has ended. Several resources are granted
    all together or not at all. With --wait, it waits in line also while the daemon restarts. While CMD runs the
    lease is kept alive. If it is lost all the same, nothing covers what CMD does: it is sent SIGTERM, and SIGKILL
    after --kill-after.

    In its environment CMD finds the id of its lease as GOVERNOR_LEASE_ID, a number that only ever rises, and the
    pool members that it was lent as GOVERNOR_MEMBERS, in JSON: [{"resource", "id", "attributes", "generation"}].

    Signals that are sent to governor are passed on to CMD. At a terminal both are one job, in which Ctrl-C, Ctrl-Z
    and fg do what they always do. A CMD that goes on after Ctrl-C keeps its permits, also after a second one. Without
    a terminal CMD leads a process group of its own, all of which is ended when the lease is lost.

    Exits as CMD did, and dies of a signal that it died of (128+n to a shell). Otherwise with 79 when the lease was
    lost, 126 or 127 when CMD cannot be run, and as `governor acquire` does when nothing was granted.
    """
    command: list[str] = click.get_current_context().meta.get(_COMMAND, [])
    if not command:
        raise click.UsageError(f"there is no command to run: write it after --, {_AS_IN}")
    if not resources:
        raise click.UsageError(f"there is nothing to acquire: write it before --, {_AS_IN}")
    asked = claims.parse(resources, permits)
    where = settings.where()

    if not hasattr(signal, "sigtimedwait"):
        raise CommandError(
            Exit.CANNOT_RUN,
            f"run: {sys.platform} lacks sigtimedwait, by which signals are heard here; run it on Linux, "
            "or hold the lease in a program, by governor.Client",
        )

    from governor.cli import borrow, child, hints
    from governor.cli.dying import die_of
    from governor.cli.reach import reach
    from governor.cli.signals import Signalled, Signals
    from governor.client import GovernorError

    # What cannot be run must not wait in line for hours first.
    child.check(command[0])
    reach(where)
    with Signals() as signals, borrow.client(where, client, patient=wait is not None) as gov:

        def ask(on_queued: "OnQueued | None") -> "Lease":
            return gov.acquire(
                dict(asked),
                wait=_seconds(wait),
                lease=_seconds(lease),
                labels=dict(labels),
                on_loss=lambda _: signals.wake(),
                on_queued=on_queued,
            )

        try:
            names = [name for name, _ in asked]
            granted = _wait(names, ask, signals, hints.about_wait(where, names, wait))
            code = _hold(granted, command, signals, kill_after / SECOND)
        except Signalled as ending:
            code = -ending.number
        except GovernorError as error:
            raise hints.hinted(borrow.failure(error, where), where, resources, asked) from error
    return code if code >= 0 else die_of(-code)


def _wait(
    names: "Sequence[str]",
    ask: "Callable[[OnQueued | None], Lease]",
    signals: "Signals",
    notice: "Callable[[], str] | None",
) -> "Lease":
    """Stand in line, and show where if somebody looks."""
    from governor.cli import place
    from governor.cli.supervise import meanwhile

    with place.line(names, notice) as on_queued:
        return meanwhile(lambda: ask(on_queued), signals)


def _hold(lease: "Lease", command: "Sequence[str]", signals: "Signals", kill_after: float) -> int:
    """Run the command while the lease is held, and give it back; how the command ended, negative for a signal."""
    from governor.cli import child
    from governor.cli.supervise import supervise

    def lose() -> None:
        complain(f"governor: {_loss(lease)}; ending the command")

    try:
        if lease.lost:
            raise CommandError(Exit.LEASE_LOST, f"{_loss(lease)}; the command was not begun")
        started = child.start(command, {**os.environ, **_told(lease)}, blocked=signals.before)
        lost = supervise(started, lease, signals, kill_after=kill_after, on_loss=lose)
    finally:
        lease.release()
    assert started.code is not None
    return Exit.LEASE_LOST if lost else started.code


def _told(lease: "Lease") -> dict[str, str]:
    """What the command finds in its environment."""
    members = [
        {
            "resource": member.resource,
            "id": member.id,
            "attributes": dict(member.attributes),
            "generation": member.generation,
        }
        for member in lease.members
    ]
    return {LEASE_ID: str(lease.id), MEMBERS: json.dumps(members, ensure_ascii=False)}


def _loss(lease: "Lease") -> str:
    """Why it is lost."""
    from governor.client import LeaseLost

    try:
        lease.check()
    except LeaseLost as error:
        return printable(str(error))
    return f"lease {lease.id} is lost"


def _seconds(length: int | None) -> float | None:
    return None if length is None else length / SECOND
