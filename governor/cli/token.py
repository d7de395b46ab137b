"""`governor token`: makes tokens, and the digests that a config has of them."""

import os
import sys
from contextlib import suppress
from pathlib import Path

import click

from governor import token as tokens
from governor.cli.exits import CommandError, Exit
from governor.cli.options import Settings, examples, output_option, with_settings
from governor.cli.output import say, say_json


@click.group(
    epilog=examples("governor token new --file orders.token", "governor token hash orders.token"),
    no_args_is_help=True,
)
def token() -> None:
    """Make tokens, by which the daemon knows its clients.

    A client has the token in a file, which GOVERNOR_TOKEN_FILE names. The config has its digest, under clients.
    """


@token.command(epilog=examples("governor token new --file /etc/orders/governor.token"))
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path),
    required=True,
    help="Where to write the token: a new file, which only its owner can read.",
)
@output_option
@with_settings
def new(settings: Settings, path: Path) -> None:
    """Make a token, write it to a file, and print its digest.

    JSON: {"file", "digest"}.
    """
    made = tokens.new()
    try:
        # Never over a file that is there: it may be the token that a program uses.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise CommandError(Exit.USAGE, f"{path}: it is there already; name a new file") from None
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{made}\n")
    except OSError:
        with suppress(OSError):
            path.unlink()
        raise
    _tell(settings, tokens.digest(made), {"file": str(path)})


@token.command(name="hash", epilog=examples("governor token hash orders.token", "governor token hash < orders.token"))
@click.argument("path", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@output_option
@with_settings
def hash_(settings: Settings, path: Path | None) -> None:
    """Read a token from a file, or else from stdin, and print its digest.

    JSON: {"digest"}.
    """
    if path is None and sys.stdin.isatty():
        click.echo("Type the token, which is not hidden, and Enter:", err=True)
    elif path is not None and not path.exists():
        # What is named may be a token itself, so it is not shown.
        raise CommandError(Exit.USAGE, "there is no such file; a token itself is no argument, as others could read it")
    try:
        text = sys.stdin.readline() if path is None else tokens.read(path)
    except tokens.TokenError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    try:
        made = tokens.digest(tokens.strong(text))
    except tokens.TokenError as error:
        raise CommandError(Exit.USAGE, f"the token {'on stdin' if path is None else f'in {path}'}: {error}") from None
    _tell(settings, made, {})


def _tell(settings: Settings, digest: str, more: dict[str, str]) -> None:
    if settings.json:
        say_json({**more, "digest": digest})
    else:
        say([digest])
