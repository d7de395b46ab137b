"""`governor status`: the resources as they are now."""

from typing import TYPE_CHECKING, Final

import click

from governor.cli import complete
from governor.cli.exits import CommandError, Exit
from governor.cli.lengths import seconds
from governor.cli.names import meant
from governor.cli.options import NAME, Settings, address_option, examples, output_option, with_settings
from governor.cli.output import say, say_json, terminal_width
from governor.wording import printable, span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from governor.v1.governor_pb2 import ListResourcesResponse, Resource

# How many names are told to whoever has named one that is not there.
_SHOWN: Final = 8


@click.command(
    epilog=examples(
        "governor status",
        "governor status thumbnails orders-db",
        "governor status -o json | jq '.resources[] | select(.waiters > 0) | .name'",
    )
)
@click.argument("names", metavar="[RES]...", nargs=-1, type=NAME, shell_complete=complete.resources)
@address_option
@output_option
@with_settings
def status(settings: Settings, *, names: tuple[str, ...]) -> None:
    """Show resources: how much there is, what is lent, who waits.

    All of them, unless a RES chooses; and below, which config is in force since when, and what is wrong with a newer
    one that was refused. AVAILABLE is the largest ask that would be granted now. OLDEST is how long the first in
    line has waited. Unless the output is a terminal, each resource is one line.

    A NOTE says "removed" of a resource that is no longer declared and goes with its last lease; "paused" or "draining"
    as an operator has ordered; how many permits are lent over a limit that has shrunk; "permits=12 for 9m59s" where
    `governor set` holds for as long; and how many members of a pool are quarantined.

    JSON: {"resources": [...], "config", "draining"}, resources in the order of the config, each with name, kind,
    capacity, in_use, available, leases, waiters, oldest_wait_seconds, paused, draining, removed, over_limit, actor,
    actor_client, reason, override, members, max_waiters, max_wait_seconds and lease_seconds. capacity and available are
    null where unlimited, oldest_wait_seconds is null where nobody waits; members is {free, lent, quarantined} of a
    pool, else null; override is {settings, declared, remaining_seconds, actor, actor_client, reason} or null. actor and
    reason are who has ordered it, as far as he said, and why; actor_client is as which client of the config he is
    known; those of the resource itself are of a pause or a drain. config is {source, hash, since, problems,
    refused_at}: source is null of the built-in one, refused_at unless a newer one was refused. draining is true of a
    daemon that is about to end.
    """
    from governor.cli.admin import reached

    with reached(settings.where()) as admin:
        answer = admin.resources()
    resources = _named(names, answer.resources)
    if settings.json:
        from governor.cli import config

        state = config.record(answer.config) if answer.HasField("config") else None
        records = [record(resource) for resource in resources]
        say_json({"resources": records, "config": state, "draining": answer.draining})
    else:
        say([*_table(resources), *_below(answer)])


def _table(resources: "Sequence[Resource]") -> "Iterator[str]":
    if not resources:
        yield "no resources: the daemon's config declares none"
        return
    from governor.cli.marks import marks
    from governor.cli.table import Column, arrange

    columns = (
        Column("NAME", [printable(each.name) for each in resources], left=True, whole=True),
        Column("KIND", [printable(each.kind) for each in resources], left=True),
        Column("CAPACITY", [str(each.capacity) if each.HasField("capacity") else "unlimited" for each in resources]),
        Column("IN USE", [str(each.in_use) for each in resources]),
        Column("AVAILABLE", [str(each.available) if each.HasField("available") else "unlimited" for each in resources]),
        Column("WAITERS", [str(each.waiters) for each in resources]),
        Column("OLDEST", [_oldest(each) for each in resources]),
        Column("LEASES", [str(each.leases) for each in resources]),
        Column("NOTE", [", ".join(marks(each)) for each in resources], left=True, sparse=True, below=True),
    )
    head, *rest = arrange(columns, width=terminal_width())
    yield click.style(head, bold=True)
    yield from rest


def _below(answer: "ListResourcesResponse") -> "Iterator[str]":
    """What concerns all of them."""
    if answer.HasField("config"):
        from governor.cli import config

        yield ""
        yield from config.lines(answer.config, terminal_width())
    if answer.draining:
        yield click.style("the daemon drains: it refuses new asks, and is about to end", fg="yellow")


def _named(names: "Sequence[str]", resources: "Sequence[Resource]") -> "Sequence[Resource]":
    """Those of the names, or all; raises CommandError for a name that none has."""
    known = [resource.name for resource in resources]
    for name in names:
        if name not in known:
            hint = meant(name, resources) or _known(known)
            raise CommandError(Exit.USAGE, f"{printable(name)}: no such resource{hint}")
    return [resource for resource in resources if not names or resource.name in names]


def _known(names: "Sequence[str]") -> str:
    """What there is instead."""
    if not names:
        return "; the daemon's config declares none"
    more = f" and {len(names) - _SHOWN} more, which governor status lists" if len(names) > _SHOWN else ""
    return f"; there are {', '.join(map(printable, names[:_SHOWN]))}{more}"


def _oldest(resource: "Resource") -> str:
    return span(resource.oldest_wait.ToNanoseconds()) if resource.HasField("oldest_wait") else "-"


def record(resource: "Resource") -> dict[str, object]:
    """A resource for programs."""
    oldest = seconds(resource.oldest_wait) if resource.HasField("oldest_wait") else None
    return {
        "name": resource.name,
        "kind": resource.kind,
        "capacity": resource.capacity if resource.HasField("capacity") else None,
        "in_use": resource.in_use,
        "available": resource.available if resource.HasField("available") else None,
        "leases": resource.leases,
        "waiters": resource.waiters,
        "oldest_wait_seconds": oldest,
        "paused": resource.paused,
        "draining": resource.draining,
        "removed": resource.removed,
        "over_limit": resource.over_limit,
        "actor": resource.actor or None,
        "actor_client": resource.actor_client or None,
        "reason": resource.reason or None,
        "override": override_record(resource),
        "members": _members(resource),
        "max_waiters": resource.max_waiters,
        "max_wait_seconds": seconds(resource.max_wait),
        "lease_seconds": seconds(resource.lease),
    }


def override_record(resource: "Resource") -> dict[str, object] | None:
    """What an operator has set for a while, if anything."""
    if not resource.HasField("override"):
        return None
    return {
        "settings": plain(resource.override.settings),
        "declared": plain(resource.override.declared),
        "remaining_seconds": seconds(resource.override.remaining),
        "actor": resource.override.actor or None,
        "actor_client": resource.override.actor_client or None,
        "reason": resource.override.reason or None,
    }


def plain(settings: "Mapping[str, str]") -> dict[str, int | str]:
    """Settings for programs, as they would stand in a config: what is a number there is one here."""

    def number(name: str, value: str) -> bool:
        return name != "members" and value.isascii() and value.isdecimal()  # a member may be called 7

    return {name: int(value) if number(name, value) else value for name, value in settings.items()}


def _members(resource: "Resource") -> dict[str, int] | None:
    if not resource.HasField("members"):
        return None
    members = resource.members
    return {"free": members.free, "lent": members.lent, "quarantined": members.quarantined}
