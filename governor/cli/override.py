"""`governor set`: another limit than the config declares, for a while."""

from typing import Final

import click

from governor.cli import complete
from governor.cli.exits import CommandError
from governor.cli.options import (
    NAME,
    WHILE,
    Label,
    Settings,
    address_option,
    examples,
    output_option,
    reason_option,
    with_settings,
)
from governor.cli.output import say, say_json
from governor.wording import printable, span

SETTING = Label("setting", "NAME=VALUE, such as permits=12")

# How the daemon calls what is set: a field of the message.
_FIELD: Final = "settings."


@click.command(
    "set",
    epilog=examples(
        "governor set thumbnails permits=12 --for 10m",
        "governor set payments-api rate=50/s burst=10 --for 1h",
        "governor set thumbnails --default",
    ),
)
@click.argument("name", metavar="RES", type=NAME, shell_complete=complete.resources)
@click.argument("limits", metavar="[NAME=VALUE]...", nargs=-1, type=SETTING)
@click.option("--for", "length", type=WHILE, help="Then what the config declares is back by itself.")
@click.option("--default", "clear", is_flag=True, help="End it now.")
@reason_option
@address_option
@output_option
@with_settings
def override(
    settings: Settings,
    *,
    name: str,
    limits: tuple[tuple[str, str], ...],
    length: int | None,
    clear: bool,
    reason: str,
) -> None:
    """Set another limit than the config's, for a while.

    As the config writes it: permits of a semaphore, rate and burst or windows of a rate limit. The rest stays as
    declared. A second one takes the place of the first. It survives restarts and reloads, and is marked in
    `governor status` and on the status page. Growing serves whoever waits at once; shrinking takes nothing back.

    What is to last belongs in the config.

    JSON: {"resource", "override", "changed"}: the resource as in `governor status`; what is set, as
    there, or null; and false if nothing was to be ended.
    """
    if clear and (limits or length is not None):
        raise click.UsageError("--default ends what was set: it stands alone after RES")
    if not clear and not limits:
        raise click.UsageError("say what to set, such as permits=12 --for 10m; --default ends what was set")
    if limits and length is None:
        raise click.UsageError("say for how long, such as --for 10m; what is to last belongs in the config")
    names = [key for key, _ in limits]
    if twice := next((key for key in names if names.count(key) > 1), None):
        raise click.UsageError(f"{twice} is set twice")
    from governor.cli import hints
    from governor.cli.admin import reached
    from governor.cli.marks import beside_declared
    from governor.cli.status import override_record, record
    from governor.v1.admin_pb2 import ClearOverrideRequest, SetOverrideRequest

    with reached(settings.where()) as admin, hints.guessing(admin, name):
        if length is None:
            answer = admin.ask(lambda stub: stub.ClearOverride, ClearOverrideRequest(resource=name, reason=reason))
        else:
            request = SetOverrideRequest(resource=name, settings=dict(limits), reason=reason)
            request.length.FromNanoseconds(length)
            try:
                answer = admin.ask(lambda stub: stub.SetOverride, request)
            except CommandError as error:
                if not error.sentence.startswith(_FIELD):
                    raise
                # As it was typed, and not by the field of the message.
                raise error.but(f"{printable(name)}: {error.sentence.removeprefix(_FIELD)}") from None
    resource = answer.resource
    if settings.json:
        say_json({"resource": record(resource), "override": override_record(resource), "changed": answer.changed})
    elif resource.HasField("override"):
        left = span(resource.override.remaining.ToNanoseconds())
        over = (
            f"; {resource.over_limit} lent beyond it must return before the next grant" if resource.over_limit else ""
        )
        say([f"{printable(name)}: {beside_declared(resource.override)} for {left}{over}"])
    else:
        already = "" if answer.changed else " already"
        say([printable(f"{name}: as the config declares it{already}")])
