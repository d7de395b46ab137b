"""`governor serve`: the daemon, in the foreground."""

from pathlib import Path

import click

from governor.cli.options import examples

PATH = click.Path(path_type=Path)


@click.command(
    epilog=examples(
        "governor serve",
        "governor serve --config /etc/governor/governor.yaml",
        "governor serve --config governor.yaml --state ./state",
    )
)
@click.option(
    "--config",
    type=PATH,
    metavar="FILE",
    help="The YAML. Default: built-in settings that declare no resources.",
)
@click.option("--state", type=PATH, metavar="DIR", help="The state folder. Default: as the config says.")
def serve(*, config: Path | None, state: Path | None) -> int:
    """Run the daemon until Ctrl-C or SIGTERM.

    The first signal drains: nothing is granted any more, leases may be given back, and the daemon ends once
    nothing is held or drain_timeout is over. A second signal ends it at once. SIGHUP reads the config anew.
    """
    from governor import daemon

    return daemon.run(config, state)
