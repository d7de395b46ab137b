"""The `governor` command itself: what can stand before the name of a command, and which commands there are.

It knows their names and one sentence about each. It must never know what they do; and it loads none that is not called.
"""

import importlib
from collections.abc import Mapping
from typing import Final, NamedTuple

import click

import governor as package
from governor import tls, token
from governor.address import VARIABLE
from governor.cli.exits import MEANING
from governor.cli.options import address_option, output_option, verbatim
from governor.wording import printable


class Entry(NamedTuple):
    """Where a command is, and what the list of all says of it: the first sentence of its own help page."""

    place: str
    sentence: str


# By what one wants, in the order in which they are met.
SECTIONS: Final[Mapping[str, Mapping[str, Entry]]] = {
    "The daemon": {
        "serve": Entry("serve:serve", "Run the daemon until Ctrl-C or SIGTERM."),
        "check": Entry("check:check", "Read a config and say all that is wrong with it."),
        "diff": Entry("diff:diff", "Say what a config would change, and for whom."),
        "reload": Entry("reload:reload", "Have the daemon read its config anew."),
        "schema": Entry("check:schema", "Print the JSON Schema of the config."),
        "health": Entry("health:health", "Ask whether the daemon serves."),
        "info": Entry("info:info", "Show which daemon it is, and how it fares."),
        "token": Entry("token:token", "Make tokens, by which the daemon knows its clients."),
        "state": Entry("state:state", "Look at what a daemon remembers, and mend it."),
    },
    "Borrow": {
        "run": Entry("run:run", "Run a command that has permits for as long as it runs."),
        "acquire": Entry("acquire:acquire", "Ask for permits, wait in line for them, and print the lease."),
        "renew": Entry("renew:renew", "Keep leases alive, by their ids: their time counts from now."),
        "release": Entry("release:release", "Give leases back, by their ids."),
    },
    "See": {
        "status": Entry("status:status", "Show resources: how much there is, what is lent, who waits."),
        "top": Entry("top:top", "Watch the resources in a live table, what hurts first."),
        "resource": Entry("resource:resource", "Show all about one resource."),
        "leases": Entry("leases:leases", "Show who holds what."),
        "waiters": Entry("leases:waiters", "Show who waits for what."),
        "sessions": Entry("leases:sessions", "Show the client processes that are there."),
        "watch": Entry("watch:watch", "Print what happens, as it happens."),
    },
    "Step in": {
        "pause": Entry("standing:pause", "Grant nothing more of a resource until it is resumed."),
        "drain": Entry("standing:drain", "Refuse all asks for a resource, so that it empties."),
        "resume": Entry("standing:resume", "End a pause or a drain."),
        "set": Entry("override:override", "Set another limit than the config's, for a while."),
        "revoke": Entry("revoke:revoke", "End leases now, whoever holds them."),
        "recycle": Entry("members:recycle", "Have members of a pool opened anew by whoever is lent them next."),
        "quarantine": Entry("members:quarantine", "Keep a member of a pool out, for a while or until restored."),
        "restore": Entry("members:restore", "End the quarantine of a member of a pool."),
    },
    "This command": {
        "completion": Entry("completion:completion", "Print what makes a shell complete commands and names."),
        "version": Entry("version:version", "Show the versions of governor, Python and gRPC."),
    },
}
COMMANDS: Final[Mapping[str, Entry]] = {name: entry for each in SECTIONS.values() for name, entry in each.items()}


_ENVIRONMENT: Final[Mapping[str, str]] = {
    VARIABLE: "the daemon, as --address",
    token.VARIABLE: "the file with the token that says who you are",
    tls.CA_VARIABLE: "the file with whom to trust, at an address of tls://",
    tls.CERT_VARIABLE: "the file with your own certificate",
    tls.KEY_VARIABLE: "the file with its key, unless that is in the same",
}


class Lazily(click.Group):
    """Loads a command when it is called; its help page has them by sections."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order in which they are met."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, if there is one."""
        if (entry := COMMANDS.get(cmd_name)) is None:
            return None
        module, _, attribute = entry.place.partition(":")
        command = getattr(importlib.import_module(f"governor.cli.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called. Raises UsageError."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            from governor.cli.names import near

            raise click.UsageError(f"there is no command {printable(name)!r}{near(name, COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The sections, without loading anything."""
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.sentence) for name, entry in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[click.shell_completion.CompletionItem]":
        """Names that begin so, with their sentences, and without loading anything."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=entry.sentence) for name, entry in COMMANDS.items() if name.startswith(incomplete)
        ]


@click.group(
    cls=Lazily,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\n\n".join(
        (
            verbatim("Exit codes:", *(f"{code:>3}  {meaning}" for code, meaning in MEANING.items())),
            verbatim("Environment:", *(f"{name:<20}  {meaning}" for name, meaning in _ENVIRONMENT.items())),
        )
    ),
)
@click.version_option(package.__version__, message="governor %(version)s")
@address_option
@output_option
def governor() -> None:
    """Lends out semaphores, connection pools and rate limits, in a fair line and on a lease.

    With -o json an error is {"error": {"code", "reason", "message", "retry_after_seconds"}} on stderr: code is
    the exit code, and what the daemon did not say is null.
    """
