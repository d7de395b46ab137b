"""`governor leases`, `governor waiters` and `governor sessions`: who holds, who waits, who is there."""

from typing import TYPE_CHECKING, TypeVar

import click

from governor.cli import complete
from governor.cli.options import NAME, Settings, Whole, address_option, examples, output_option, with_settings
from governor.cli.output import say, say_json, say_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from governor.cli.table import Column

T = TypeVar("T")

_RESOURCE = click.argument("resource", metavar="[RES]", required=False, type=NAME, shell_complete=complete.resources)
_CLIENT = click.option(
    "--client",
    type=NAME,
    metavar="NAME",
    shell_complete=complete.clients,
    help="Only those of this client.",
)
_SESSION = click.option("--session", type=NAME, metavar="ID", help="Only those of this session.")
_LIMIT = click.option("--limit", type=Whole(0, 2**31 - 1), metavar="N", default=0, help="At most so many. 0: all.")


def _options(command: "Callable[..., None]") -> "Callable[..., None]":
    for option in (with_settings, output_option, address_option, _LIMIT, _SESSION, _CLIENT, _RESOURCE):
        command = option(command)
    return command


@click.command(
    epilog=examples(
        "governor leases",
        "governor leases orders-db --client importer",
        "governor leases -o json | jq '.leases[] | select(.age_seconds > 3600)'",
    )
)
@_options
def leases(settings: Settings, *, resource: str | None, client: str | None, session: str | None, limit: int) -> None:
    """Show who holds what.

    All leases, or those that cover RES, by rising id. LEFT is the time until the lease ends unless it is renewed. A
    NOTE says that its holder is gone: unless it comes back in that time, the lease ends as disconnected. A terminal
    that is wide enough shows more columns, and -o json all there is. What a rate limit has granted is spent, not
    held, so it is not listed.

    JSON: {"leases": [...]}, each with lease, client, session, pid, host, labels, grants, age_seconds,
    remaining_seconds, renewals, waited_seconds and orphaned; each grant with resource, key, permits and members,
    as `governor acquire` has them. session, pid and host are null of a lease that is of no session.
    """
    from governor.cli import entries, hints
    from governor.cli.admin import reached
    from governor.v1.admin_pb2 import ListLeasesRequest

    request = ListLeasesRequest(resource=resource or "", client=client or "", session=session or "", limit=limit)
    with reached(settings.where()) as admin, hints.guessing(admin, resource or ""):
        found = [lease for part in admin.listed(lambda stub: stub.ListLeases, request) for lease in part.leases]
    nothing = _nothing("nothing is lent", "of", resource, client, session)
    _show(settings, "leases", found, entries.lease_record, entries.of_leases, nothing)


@click.command(
    epilog=examples(
        "governor waiters",
        "governor waiters orders-db",
        "governor waiters orders-db -o json | jq '.waiters[0].expected_seconds'",
    )
)
@_options
def waiters(settings: Settings, *, resource: str | None, client: str | None, session: str | None, limit: int) -> None:
    """Show who waits for what.

    All, or the line of RES, first in line first. WAITED is how long already, EXPECTED how long it is likely to take
    yet, if that is known, or "paused" until what it asks for is resumed, and GIVES UP when the wait is over. CALLS is
    how many calls wait at one place, for one ask that was repeated.

    JSON: {"waiters": [...]}, each with place, client, session, pid, host, labels, claims, waited_seconds,
    remaining_seconds, expected_seconds, paused and calls; each claim with resource, key and permits; paused names which
    of what it asks for is. What is not known is null.
    """
    from governor.cli import entries, hints
    from governor.cli.admin import reached
    from governor.v1.admin_pb2 import ListWaitersRequest

    request = ListWaitersRequest(resource=resource or "", client=client or "", session=session or "", limit=limit)
    with reached(settings.where()) as admin, hints.guessing(admin, resource or ""):
        found = [waiter for part in admin.listed(lambda stub: stub.ListWaiters, request) for waiter in part.waiters]
    nothing = _nothing("nobody waits", "for", resource, client, session)
    _show(settings, "waiters", found, entries.waiter_record, entries.of_waiters, nothing)


@click.command(epilog=examples("governor sessions", "governor sessions --client importer"))
@_CLIENT
@address_option
@output_option
@with_settings
def sessions(settings: Settings, *, client: str | None) -> None:
    """Show the client processes that are there.

    And those that are away but may come back for their leases. SINCE is how long it has been so. Programs that use
    plain calls instead of a session are not listed; what they hold is in `governor leases`.

    JSON: {"sessions": [...]}, each with session, client, pid, host, labels, connected, since_seconds, leases and
    waiters.
    """
    from governor.cli import entries
    from governor.cli.admin import reached
    from governor.v1.admin_pb2 import ListSessionsRequest

    with reached(settings.where()) as admin:
        request = ListSessionsRequest(client=client or "")
        found = [each for part in admin.listed(lambda stub: stub.ListSessions, request) for each in part.sessions]
    nothing = _nothing("no session is there", "", None, client, None)
    _show(settings, "sessions", found, entries.session_record, entries.of_sessions, nothing)


def _show(
    settings: Settings,
    key: str,
    found: "Sequence[T]",
    record: "Callable[[T], Mapping[str, object]]",
    table: "Callable[[Sequence[T]], Sequence[Column]]",
    nothing: str,
) -> None:
    """For programs under ``key``, for people as a table, or as a sentence where there is nothing."""
    if settings.json:
        say_json({key: [record(each) for each in found]})
    elif found:
        say_table(table(found))
    else:
        say([nothing])


def _nothing(what: str, of: str, resource: str | None, client: str | None, session: str | None) -> str:
    """Why there is no table: of which there is nothing."""
    from governor.wording import printable

    which: Sequence[str] = [
        f"{word} {printable(name)}"
        for word, name in ((of, resource), ("by client", client), ("in session", session))
        if name
    ]
    return " ".join((what, *which))
