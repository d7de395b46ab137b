"""`governor revoke`: leases ended by an operator."""

import select
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from governor.cli import complete
from governor.cli.exits import CommandError, Exit
from governor.cli.options import (
    NAME,
    Settings,
    Whole,
    address_option,
    examples,
    output_option,
    reason_option,
    with_settings,
)
from governor.cli.output import say, say_json, terminal_width
from governor.cli.results import Result, results_of, tell
from governor.wording import count, printable

if TYPE_CHECKING:
    from governor.cli.admin import Admin
    from governor.v1.admin_pb2 import LeaseState, RevokeRequest
    from governor.v1.governor_pb2 import LeaseResult

# Of one call.
_MOST: Final = 1000
# How many are shown before they end.
_SHOWN: Final = 10


@click.command(
    epilog=examples(
        "governor revoke 17",
        "governor revoke --client importer",
        "governor revoke --session 3f9c02aa --yes",
        "governor leases -o json | jq '.leases[].lease' | xargs governor revoke",
    )
)
@click.argument("leases", metavar="[LEASE]...", nargs=-1, type=Whole(1, 2**63 - 1), shell_complete=complete.leases)
@click.option("--client", type=NAME, metavar="NAME", help="All leases of this client.", shell_complete=complete.clients)
@click.option("--session", type=NAME, metavar="ID", help="All leases of this session, as `governor sessions` has it.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask at a terminal, where more than one would end.")
@reason_option
@address_option
@output_option
@with_settings
def revoke(
    settings: Settings,
    *,
    leases: tuple[int, ...],
    client: str | None,
    session: str | None,
    yes: bool,
    reason: str,
) -> Exit:
    """End leases now, whoever holds them.

    By their ids, or all of a client or of a session. Their holders are told, and what they lent is lent on at once:
    a holder that has not heard it yet may still be at work. Whether what it does then still counts is for whatever
    it works on to say, by the lease id, which only ever rises.

    Exits with 1 where one of the leases had ended before or is unknown, where there was none, or when the answer to the
    question was no. The others are revoked all the same.

    JSON: {"revoked", "results": [...]}: how many have ended by this, and for each LEASE in the order asked lease,
    state (revoked, ended or unknown), reason and ended_seconds_ago, as of `governor release`.
    """
    if sum((bool(leases), client is not None, session is not None)) != 1:
        raise click.UsageError("name leases by their ids, or a --client, or a --session: one of these")
    from governor.cli.admin import reached
    from governor.v1.admin_pb2 import RevokeRequest

    with reached(settings.where()) as admin:
        if leases:
            ids = list(dict.fromkeys(leases))
            if len(ids) > 1 and not yes:
                _confirm(f"end {count(len(ids), 'lease')}", ())
            each = list(_by_id(admin, ids, reason, settings))
            if not settings.json:
                return tell(each, settings, Result.record)
            revoked = sum(result.state == "revoked" for result in each)
            say_json({"revoked": revoked, "results": [result.record() for result in each]})
            return Exit.OK if revoked == len(each) else Exit.NOTHING_CHANGED
        request = RevokeRequest(client=client or "", session=session or "", reason=reason)
        whose = f"client {printable(client)}" if client else f"session {printable(session or '')}"
        if not yes and _asks():
            held = _held(admin, request)
            if len(held) > 1:
                _confirm(f"end {count(len(held), 'lease')} of {whose}", held)
        number = admin.ask(lambda stub: stub.Revoke, request).revoked
    if settings.json:
        say_json({"revoked": number, "results": []})
    else:
        say([f"{whose}: revoked {count(number, 'lease')}" if number else f"{whose}: holds nothing"])
    return Exit.OK if number else Exit.NOTHING_CHANGED


def _by_id(admin: "Admin", ids: Sequence[int], reason: str, settings: Settings) -> Iterator[Result]:
    from governor.v1.admin_pb2 import RevokeRequest

    for start in range(0, len(ids), _MOST):
        part = ids[start : start + _MOST]

        def ask(part: Sequence[int] = part) -> "Sequence[LeaseResult]":
            return admin.ask(lambda stub: stub.Revoke, RevokeRequest(lease_ids=part, reason=reason)).results

        yield from results_of(ask, part, settings)


def _held(admin: "Admin", request: "RevokeRequest") -> "Sequence[LeaseState]":
    from governor.v1.admin_pb2 import ListLeasesRequest

    wanted = ListLeasesRequest(client=request.client, session=request.session)
    return [lease for part in admin.listed(lambda stub: stub.ListLeases, wanted) for lease in part.leases]


def _asks() -> bool:
    """Whether somebody is there who can be asked."""
    return sys.stdin is not None and sys.stdin.isatty()


def _confirm(what: str, held: "Sequence[LeaseState]") -> None:
    """Returns if whoever is there says yes, or nobody is."""
    if not _asks():
        return
    if held:
        from governor.cli import entries
        from governor.cli.table import arrange

        lines = list(arrange(entries.of_leases(held[:_SHOWN]), width=terminal_width()))
        if len(held) > _SHOWN:
            lines.append(f"and {len(held) - _SHOWN} more")
        click.echo("\n".join(lines), err=True)
    click.echo(f"governor: {what}? [y/N] ", nl=False, err=True)
    # A Ctrl-C just before the read would be noticed after it only.
    while not select.select([sys.stdin], [], [], 0.2)[0]:
        pass
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise CommandError(Exit.NOTHING_CHANGED, "nothing was revoked")
