"""How shells ask for the rest of a word, and how they are answered.

It knows their manners. It must never know which words there are.
"""

import os
import re
from typing import TYPE_CHECKING, Final

from click.shell_completion import (
    BashComplete,
    add_completion_class,
    get_completion_class,
    shell_complete,
    split_arg_string,
)

from governor.cli.main import COMPLETION

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from click.shell_completion import CompletionItem

    from governor.cli.options import Settings

SHELLS: Final = ("bash", "zsh", "fish")

_BASH: Final = """\
%(complete_func)s() {
    local IFS=$'\\n' line
    COMPREPLY=()
    while IFS= read -r line; do
        case "$line" in
            dir,*) compopt -o dirnames ;;
            file,*) compopt -o default ;;
            plain,*) COMPREPLY+=("${line#plain,}") ;;
        esac
    done < <(env GOVERNOR_LINE="${COMP_LINE:0:COMP_POINT}" %(complete_var)s=bash_complete "$1" 2>/dev/null)
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""
# What bash begins a new word after, whatever shells take for one.
_BREAKS: Final = re.compile(r".*[:=]")
# Whoever has opened a quote will close it.
_QUOTED: Final = re.compile(r"""(?:^|\s)(['"])(?:(?!\1).)*\Z""")
_PLAIN: Final = re.compile(r"[^\w@%+=:,./-]")


class Bash(BashComplete):
    """Takes the line as it was typed: bash cuts unix:/path and a=b into pieces, and would leave spaces unquoted."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, and the one at it."""
        line = os.environ.get("GOVERNOR_LINE", "")
        words = split_arg_string(line)[1:]
        # A blank ends a word, unless it is a part of it.
        begun = words and (not line[-1].isspace() or words[-1][-1:].isspace())
        return words, words.pop() if begun else ""

    def format_completion(self, item: "CompletionItem") -> str:
        """What follows where bash believes that the word begins, as it must be typed."""
        _, incomplete = self.get_completion_args()
        begun = _BREAKS.match(incomplete)
        value = str(item.value).removeprefix(begun.group()) if begun else str(item.value)
        if _QUOTED.search(os.environ.get("GOVERNOR_LINE", "")):
            return f"{item.type},{value}"
        return f"{item.type},{_PLAIN.sub(lambda found: chr(92) + found.group(), value)}"


add_completion_class(Bash)


def script(shell: str) -> str:
    """What the shell is to read."""
    from governor.cli.commands import governor

    kind = get_completion_class(shell)
    assert kind is not None
    return kind(governor, {}, "governor", COMPLETION).source()


def answer(instruction: str, settings: "Settings") -> int:
    """Tell a shell what it asked for; the exit code."""
    from governor.cli.commands import governor

    context: MutableMapping[str, object] = {"obj": settings}
    return shell_complete(governor, context, "governor", COMPLETION, instruction)
