"""`governor reload`: the config read anew."""

from typing import TYPE_CHECKING

import click

from governor.cli.exits import Exit
from governor.cli.options import Settings, address_option, examples, output_option, with_settings
from governor.cli.output import complain, say, say_json, terminal_width
from governor.wording import count, folded, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from governor.v1.admin_pb2 import ReloadResponse


@click.command(epilog=examples("governor reload", "governor diff governor.yaml; governor reload --wait"))
@click.option("--wait", is_flag=True, help="Wait for the answer however long it takes, and not only 10 s.")
@address_option
@output_option
@with_settings
def reload(settings: Settings, *, wait: bool) -> Exit:
    """Have the daemon read its config anew.

    All of the file takes effect, or nothing: then each problem is said on a line of its own, the exit code is 78, and
    what was in force stays so. Also without --wait the answer says what came of it.

    The daemon watches its file as well. What it would do with another one: governor diff FILE.

    JSON: {"ok", "problems", "added", "changed", "removed", "at_next_start", "config"}: names of resources, names of
    keys that wait for the next start, and config as in `governor status`.
    """
    from governor.cli import config
    from governor.cli.admin import reached
    from governor.v1.admin_pb2 import ReloadRequest

    with reached(settings.where()) as admin:
        answer = admin.ask(lambda stub: stub.Reload, ReloadRequest(), patient=wait)
    if settings.json:
        say_json(
            {
                "ok": not answer.problems,
                "problems": list(answer.problems),
                "added": list(answer.added),
                "changed": list(answer.changed),
                "removed": list(answer.removed),
                "at_next_start": list(answer.at_next_start),
                "config": config.record(answer.config),
            }
        )
    elif answer.problems:
        for problem in answer.problems:
            complain(printable(problem))
        complain(f"governor: {count(len(answer.problems), 'problem')}: nothing was changed")
    else:
        say(_lines(answer))
    return Exit.BAD_CONFIG if answer.problems else Exit.OK


def _lines(answer: "ReloadResponse") -> "Iterator[str]":
    from governor.cli import config

    for word, names in (("added", answer.added), ("changed", answer.changed), ("removed", answer.removed)):
        if names:
            yield printable(f"{word}: {', '.join(names)}")
    if not (answer.added or answer.changed or answer.removed):
        yield "no resource to change: what the file says of them is in force already"
    if answer.at_next_start:
        yield printable(f"at the next start only: {', '.join(answer.at_next_start)}")
    yield from folded(config.line(answer.config), terminal_width())
