"""The `governor` command itself: what can stand before the name of a command, and which commands there are.

It knows their names. It must never know what they do.
"""

import click

import governor as package
from governor.cli.acquire import acquire
from governor.cli.check import check, schema
from governor.cli.exits import MEANING
from governor.cli.health import health
from governor.cli.options import address_option, output_option, verbatim
from governor.cli.release import release
from governor.cli.renew import renew
from governor.cli.run import run
from governor.cli.serve import serve
from governor.cli.state import state
from governor.cli.status import status
from governor.cli.version import version


class InOrder(click.Group):
    """Its help page lists the commands in the order in which they were added: as they are met."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, unsorted."""
        return list(self.commands)


@click.group(
    cls=InOrder,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=verbatim("Exit codes:", *(f"{code:>3}  {meaning}" for code, meaning in MEANING.items())),
)
@click.version_option(package.__version__, message="governor %(version)s")
@address_option
@output_option
def governor() -> None:
    """Lends out semaphores, connection pools and rate limits, in a fair line and on a lease.

    With -o json an error is {"error": {"code", "reason", "message", "retry_after_seconds"}} on stderr: code is
    the exit code, and what the daemon did not say is null.
    """


for command in (serve, check, schema, status, run, acquire, renew, release, health, state, version):
    governor.add_command(command)
