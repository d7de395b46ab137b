"""`governor completion`: what makes a shell ask us for the rest of a word."""

import click

from governor.cli.options import examples
from governor.cli.output import say

# Where the shells look, or how they are told.
_HOW = {
    "bash": 'add this line to ~/.bashrc:  eval "$(governor completion bash)"',
    "zsh": 'add this line to ~/.zshrc, after compinit:  eval "$(governor completion zsh)"',
    "fish": "governor completion fish > ~/.config/fish/completions/governor.fish",
}


@click.command(
    epilog=examples(
        'eval "$(governor completion bash)"',
        'eval "$(governor completion zsh)"',
        "governor completion fish > ~/.config/fish/completions/governor.fish",
    )
)
@click.argument("shell", type=click.Choice(list(_HOW)))
def completion(*, shell: str) -> None:
    """Print what makes a shell complete commands and names.

    Commands, options, and the names of what the running daemon has: resources, pool members, leases, clients. A daemon
    that does not answer within a second has none.

    It is a script for the SHELL to read; the examples are what to put into ~/.bashrc or ~/.zshrc (after compinit), and
    where fish looks.
    """
    from governor.cli import shells

    say([f"# {_HOW[shell]}", shells.script(shell)])
