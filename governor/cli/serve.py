"""`governor serve`: the daemon, in the foreground."""

import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import click

from governor import grpc_core
from governor.cli.dying import leave
from governor.cli.exits import Exit
from governor.cli.options import examples

# What cannot be read is told by whoever reads it, with the exit code of a config or a state with which nothing starts.
PATH = click.Path(path_type=Path, readable=False)


@click.command(
    epilog=examples(
        "governor serve",
        "governor serve --config /etc/governor/governor.yaml",
        "governor serve --config governor.yaml --state ./state",
    ),
    # Only to say how a file is named: it stands bare after many other daemons.
    context_settings={"allow_extra_args": True},
)
@click.option(
    "--config",
    type=PATH,
    metavar="FILE",
    help="The YAML. Default: a built-in one, to try things out: it listens on this machine only and declares one "
    "resource of each kind.",
)
@click.option("--state", type=PATH, metavar="DIR", help="The state folder. Default: as the config says.")
@click.option(
    "--log-format",
    type=click.Choice(("auto", "text", "json")),
    default="auto",
    envvar="GOVERNOR_LOG_FORMAT",
    show_envvar=True,
    help="How the log looks on stderr. auto, the default: text at a terminal, JSON, one object a line, elsewhere.",
)
@click.pass_context
def serve(ctx: click.Context, *, config: Path | None, state: Path | None, log_format: str) -> NoReturn:
    """Run the daemon until Ctrl-C or SIGTERM.

    The first signal drains: nothing is granted any more, leases may be given back, and the daemon ends once
    nothing is held or drain_timeout is over. A second signal ends it at once. The config is read
    anew on SIGHUP, and, unless it says `watch: false`, whenever the file changes.
    """
    if ctx.args:
        file = shlex.quote(ctx.args[0])
        raise click.UsageError(f"unexpected {file}; a config is named with an option: governor serve --config {file}")
    _until_the_daemon_hears()
    from governor.config import DEFAULT, Config, ConfigError, load

    # The folder that it was started in may go; and whoever reads these paths is elsewhere.
    path = config and config.absolute()
    read: Config | ConfigError
    try:
        read = load(path or DEFAULT, os.environ)
    except ConfigError as error:
        read = error
    # Before the daemon, and with it gRPC, is loaded.
    grpc_core.tell(os.environ, trusting=isinstance(read, Config) and read.trusting)
    with _without_certificates():
        from governor import daemon, logs

    leave(daemon.run(read, path, state, logs.LogFormat(log_format)))


@contextmanager
def _without_certificates() -> Iterator[None]:
    """None that the system has are read meanwhile: aiohttp would read them all, for a client that nobody uses."""
    before = os.environ.get("SSL_CERT_FILE")
    os.environ["SSL_CERT_FILE"] = os.devnull
    try:
        yield
    finally:
        if before is None:
            del os.environ["SSL_CERT_FILE"]
        else:
            os.environ["SSL_CERT_FILE"] = before


def _until_the_daemon_hears() -> None:
    """What signals do while the daemon is loaded, which takes longest of all; then it takes them over."""
    # To read the config anew is no wish to end, and it has not even been read.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # Nothing has been taken that had to be given back. An exception instead could come up anywhere inside an import,
    # also where it would be printed and forgotten.
    signal.signal(signal.SIGTERM, lambda _number, _frame: os._exit(Exit.OK))
    signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(Exit.INTERRUPTED))
