"""What every command that runs campaigns says of them: its seed, a line of each, what was wrong with it.

It knows how that reads. It must never know what a campaign does.
"""

import os
import random
from collections.abc import Sequence
from pathlib import Path


def first_seed(asked: int | None) -> int:
    """The one that was asked for, else chance; it is in the line of its campaign."""
    return asked if asked is not None else random.randrange(1, 10**6)


def told(line: str, problems: Sequence[str], kept: Path | None = None) -> bool:
    """Prints what became of one campaign, with its first problems and where all of it is kept; whether it has any."""
    print(f"{line}: {f'{len(problems)} WRONG' if problems else 'nothing wrong'}", flush=True)
    for problem in problems[:3]:
        print(f"  {problem[:600]}")
    if kept is not None:
        print(f"  kept in {os.path.relpath(kept)}", flush=True)
    return bool(problems)


def ended(wrong: int) -> int:
    """Prints how many campaigns went wrong; the exit code."""
    print(f"campaigns with something wrong: {wrong}")
    return 1 if wrong else 0
