"""`governor pause`, `governor drain` and `governor resume`: whether a resource grants anything."""

from typing import TYPE_CHECKING

import click

from governor.cli import complete
from governor.cli.exits import Exit
from governor.cli.options import (
    DURATION,
    NAME,
    Settings,
    address_option,
    examples,
    output_option,
    reason_option,
    with_settings,
)
from governor.cli.output import say, say_json
from governor.wording import count, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from governor.cli.admin import Admin
    from governor.v1.admin_pb2 import StandingResponse
    from governor.v1.governor_pb2 import Resource

_RESOURCE = click.argument("name", metavar="RES", type=NAME, shell_complete=complete.resources)


@click.command(
    epilog=examples("governor pause payments-api", 'governor pause payments-api --reason "the provider is down"')
)
@_RESOURCE
@reason_option
@address_option
@output_option
@with_settings
def pause(settings: Settings, *, name: str, reason: str) -> None:
    """Grant nothing more of a resource until it is resumed.

    New asks are refused as paused. Whoever waits stays in line, for as long as its wait lasts, and leases go on. A
    pause outlives restarts of the daemon.

    JSON: {"resource", "changed"}: the resource as in `governor status`, and false if it was paused already.
    """
    from governor.v1.admin_pb2 import PauseResourceRequest

    _order(
        settings,
        name,
        "paused",
        lambda admin: admin.ask(lambda s: s.PauseResource, PauseResourceRequest(resource=name, reason=reason)),
    )


@click.command(epilog=examples("governor resume payments-api"))
@_RESOURCE
@reason_option
@address_option
@output_option
@with_settings
def resume(settings: Settings, *, name: str, reason: str) -> None:
    """End a pause or a drain.

    Whoever waits is granted what is free, at once.

    JSON: {"resource", "changed"}: the resource as in `governor status`, and false if it was open already.
    """
    from governor.v1.admin_pb2 import ResumeResourceRequest

    _order(
        settings,
        name,
        "open",
        lambda admin: admin.ask(lambda s: s.ResumeResource, ResumeResourceRequest(resource=name, reason=reason)),
    )


@click.command(
    epilog=examples("governor drain orders-db", "governor drain orders-db --wait --timeout 5m && upgrade-db")
)
@_RESOURCE
@click.option("--wait", is_flag=True, help="Return once nothing of it is held.")
@click.option("--timeout", type=DURATION, help="With --wait: give up after this long, with exit code 124.")
@reason_option
@address_option
@output_option
@with_settings
def drain(settings: Settings, *, name: str, wait: bool, timeout: int | None, reason: str) -> Exit:
    """Refuse all asks for a resource, so that it empties.

    New asks and everybody in line are refused as draining; leases go on, and may be renewed. It stays so, also over
    restarts of the daemon, until `governor resume`, also when --wait has ended or was given up.

    With --wait it is shown at a terminal what is still held. Exits with 124 when --timeout is over before, and with 75
    when somebody has resumed it meanwhile.

    JSON: {"resource", "changed"}: the resource as in `governor status`, with --wait as it is in the end; and false if
    it was draining already.
    """
    from governor.v1.admin_pb2 import DrainResourceRequest

    if timeout is not None and not wait:
        raise click.UsageError("--timeout is how long to --wait: say both")

    def order(admin: "Admin") -> "StandingResponse":
        return admin.ask(lambda stub: stub.DrainResource, DrainResourceRequest(resource=name, reason=reason))

    if not wait:
        _order(settings, name, "draining", order)
        return Exit.OK
    from governor.cli import hints
    from governor.cli.admin import reached
    from governor.cli.emptying import until_empty

    with reached(settings.where()) as admin, hints.guessing(admin, name):
        answer = order(admin)
        last = until_empty(admin, name, timeout)
    if settings.json:
        _say_record(last or answer.resource, changed=answer.changed)
    else:
        say([f"{printable(name)}: drained, nothing of it is held"])
    return Exit.OK


def _order(settings: Settings, name: str, word: str, order: "Callable[[Admin], StandingResponse]") -> None:
    """Give it, and tell what is so now."""
    from governor.cli import hints
    from governor.cli.admin import reached

    with reached(settings.where()) as admin, hints.guessing(admin, name):
        answer = order(admin)
    if settings.json:
        _say_record(answer.resource, changed=answer.changed)
        return
    resource = answer.resource
    rest = f"{count(resource.leases, 'lease')} {'goes' if resource.leases == 1 else 'go'} on"
    waiting = f", {resource.waiters} waiting" if resource.waiters else ""
    already = "" if answer.changed else " already"
    say([f"{printable(resource.name or name)}: {word}{already}; {rest}{waiting}"])


def _say_record(resource: "Resource", *, changed: bool) -> None:
    from governor.cli.status import record

    say_json({"resource": record(resource), "changed": changed})
