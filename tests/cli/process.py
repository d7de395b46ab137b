"""`governor` as a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.nursery import NURSERY

ROOT = Path(__file__).resolve().parent.parent.parent
COMMAND = (sys.executable, "-m", "governor.cli")
# For everything that is waited for; what is right takes far less.
BOUND = 120


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`governor` in the background; it does not outlive the test."""
    with subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(*arguments: str, stdout: int = subprocess.PIPE, **environment: str) -> subprocess.CompletedProcess[str]:
    """`governor`, run to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=BOUND,
        check=False,
        cwd=ROOT,
        env={**_inherited(), **environment},
    )


def forked(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same, where it is not about how the command begins: what it needs is loaded already."""
    return NURSERY.run([*COMMAND, *arguments], BOUND, environ={**_inherited(), **environment})


def _inherited() -> dict[str, str]:
    """What a shell passes on: these two it does not, but whoever runs tests side by side may say them."""
    return {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
