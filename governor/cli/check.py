"""`governor check` and `governor schema`: a config looked at without a daemon."""

import os
from collections import Counter
from pathlib import Path

import click

from governor.cli.exits import CommandError, Exit
from governor.cli.options import Settings, examples, output_option, with_settings
from governor.cli.output import say, say_json, terminal_width
from governor.wording import SECOND, counted, folded, printable


@click.command(
    epilog=examples(
        "governor check governor.yaml",
        "helm template . | yq '.data.governor' | governor check -",
        "governor check governor.yaml -o json | jq -r '.problems[].message'",
    )
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True, readable=False))
@output_option
@with_settings
def check(settings: Settings, *, file: Path) -> Exit:
    """Read a config and say all that is wrong with it.

    It is read as `serve` would read it, with the environment of this command. FILE may be - for stdin.

    JSON: {"ok", "resources": {kind: number}, "warnings": [...], "problems": [...]}, each warning a sentence,
    each problem with file, line, path and message.
    """
    from governor.address import UnixAddress
    from governor.certificates import doubts
    from governor.clock import unix_nanos
    from governor.config import ConfigError, load, loads
    from governor.folders import open_to_others

    try:
        piped = str(file) == "-"
        config = loads(_stdin(), source="<stdin>", environ=os.environ) if piped else load(file, os.environ)
    except ConfigError as error:
        if not settings.json:
            raise CommandError(Exit.BAD_CONFIG, str(error), bare=True) from error
        problems = [
            {"file": problem.file, "line": problem.line, "path": problem.path, "message": problem.message}
            for problem in error.problems
        ]
        say_json({"ok": False, "resources": {}, "warnings": [], "problems": problems})
        return Exit.BAD_CONFIG
    sockets = [address.path for address in (*config.listen, *config.admin) if isinstance(address, UnixAddress)]
    tls = [] if config.tls is None else doubts(config.tls, unix_nanos() / SECOND)
    warnings = [*config.warnings, *filter(None, map(open_to_others, sockets)), *tls]
    kinds = [resource.kind for resource in config.resources]
    if settings.json:
        say_json({"ok": True, "resources": Counter(kinds), "warnings": warnings, "problems": []})
    else:
        source = printable(config.source)
        lines = (f"{source}: OK, {counted(kinds)}", *(f"{source}: warning: {each}" for each in warnings))
        say(part for line in lines for part in folded(line, terminal_width()))
    return Exit.OK


def _stdin() -> str:
    """All of it, or enough to see that it is too much; bytes that are no text are left for the reader to refuse."""
    from governor.config.document import MAX_BYTES

    with open(0, "rb", closefd=False) as stdin:
        return stdin.read(MAX_BYTES + 1).decode("utf-8", "surrogateescape")


@click.command(epilog=examples("governor schema > governor.schema.json"))
def schema() -> None:
    """Print the JSON Schema of the config.

    With it editors complete and check the YAML, if the first line of that names the file:
    # yaml-language-server: $schema=governor.schema.json
    """
    from governor.config import json_schema

    say_json(json_schema())
