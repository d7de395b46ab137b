"""`governor info`: the daemon itself."""

from typing import TYPE_CHECKING

import click

from governor.cli.options import Settings, address_option, examples, output_option, with_settings
from governor.cli.output import say, say_json, terminal_width
from governor.wording import count, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from governor.v1.admin_pb2 import GetInfoResponse


@click.command(epilog=examples("governor info", "governor info -o json | jq -r .config.hash"))
@address_option
@output_option
@with_settings
def info(settings: Settings) -> None:
    """Show which daemon it is, and how it fares.

    JSON: {"version", "pid", "host", "start", "started_at", "addresses", "admin_addresses", "http", "state_folder",
    "durability", "state_problem", "audit_problem", "config", "draining", "resources", "leases", "waiters", "sessions",
    "revoked", "expired", "last_lease_id", "tracing"}. config is as in `governor status`. revoked and expired count
    leases since the start; state_problem says why the state cannot be written, null if it can, and audit_problem why
    nothing is granted on account of the audit file, null if it is no reason; tracing says where spans go and of how
    many asks, null if nothing is traced; instants are RFC 3339 in UTC.
    """
    from governor.cli import config
    from governor.cli.admin import reached
    from governor.v1.admin_pb2 import GetInfoRequest

    with reached(settings.where()) as admin:
        told = admin.ask(lambda stub: stub.GetInfo, GetInfoRequest())
    if not settings.json:
        say(_lines(told))
        return
    say_json(
        {
            "version": told.version,
            "pid": told.pid,
            "host": told.host,
            "start": told.start,
            "started_at": told.started_at.ToJsonString(),
            "addresses": list(told.addresses),
            "admin_addresses": list(told.admin_addresses),
            "http": told.http or None,
            "state_folder": told.state_folder,
            "durability": told.durability,
            "state_problem": told.state_problem or None,
            "audit_problem": told.audit_problem or None,
            "config": config.record(told.config),
            "draining": told.draining,
            "resources": told.resources,
            "leases": told.leases,
            "waiters": told.waiters,
            "sessions": told.sessions,
            "revoked": told.revoked,
            "expired": told.expired,
            "last_lease_id": told.last_lease_id,
            "tracing": told.tracing or None,
        }
    )


def _lines(told: "GetInfoResponse") -> "Iterator[str]":
    from governor.cli import config

    draining = ", draining: it is about to end" if told.draining else ""
    yield printable(f"governor {told.version} on {told.host}, pid {told.pid}{draining}")
    yield f"  started   {config.instant(told.started_at)}"
    yield printable(f"  listens   {', '.join(told.addresses) or 'nowhere'}")
    yield printable(f"  admin     {', '.join(told.admin_addresses) or 'nowhere'}")
    yield printable(f"  pages     {told.http or 'nowhere'}")
    yield printable(f"  state     {told.state_folder}, durability {told.durability}")
    if told.state_problem:
        yield click.style(printable(f"            cannot be written: {told.state_problem}"), fg="red")
    if told.audit_problem:
        yield click.style(printable(f"  audit     nothing is granted: {told.audit_problem}"), fg="red")
    if told.tracing:
        yield printable(f"  traces    to {told.tracing}")
    width = terminal_width()
    first, *rest = config.lines(told.config, None if width is None else width - 12)
    yield f"  config    {first.removeprefix('config ')}"
    yield from (f"            {line}" for line in rest)
    kept = f"{count(told.leases, 'lease')}, {told.waiters} waiting, {count(told.sessions, 'session')}"
    yield f"  now       {count(told.resources, 'resource')}, {kept}"
    yield f"  so far    lease id {told.last_lease_id}; since the start {told.revoked} revoked, {told.expired} expired"
