"""`governor version`: what runs here."""

import platform

import click

import governor
from governor.cli.options import Settings, examples, output_option, with_settings
from governor.cli.output import say, say_json


@click.command(epilog=examples("governor version", "governor version -o json | jq -r .version"))
@output_option
@with_settings
def version(settings: Settings) -> None:
    """Show the versions of governor, Python and gRPC.

    JSON: {"version", "python", "grpc"}.
    """
    # grpc itself would take longer to load than all the rest of this command.
    from importlib import metadata

    grpc = metadata.version("grpcio")
    python = platform.python_version()
    if settings.json:
        say_json({"version": governor.__version__, "python": python, "grpc": grpc})
    else:
        say([f"governor {governor.__version__}", f"python   {python}", f"grpc     {grpc}"])
