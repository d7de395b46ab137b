"""A small disk, which can be filled, and the leave to have one.

It knows how to mount it. It must never know what is kept there.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# To mount is for root, or for whoever is root of a user namespace of his own.
_LEAVES: Final = ((), ("unshare", "--map-root-user", "--mount"))


class NoDiskError(Exception):
    """It cannot be had here; with how to have it."""


@contextmanager
def small_disk(folder: Path, size: str = "16m") -> Iterator[None]:
    """A file system of its own for the state of a scene in this folder, where `leave` asks for nothing.

    Larger than what the daemon lets its log become: that one must not be what fills it.
    """
    state = folder / "state"
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "governor-test", str(state)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(state)], check=True)


def leave() -> tuple[str, ...]:
    """What a command begins with so that it may have a small disk; nothing if it may anyway."""
    problems = []
    for words in _LEAVES:
        problem = _problem(words)
        if not problem:
            return words
        problems.append(problem)
    raise NoDiskError(
        f"a tmpfs cannot be mounted here ({'; '.join(problems)}): be root, in a container with CAP_SYS_ADMIN, or where "
        "users may have namespaces; `mount` and `unshare` are in Debian's packages mount and util-linux"
    )


def _problem(words: tuple[str, ...]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        script = 'mount -t tmpfs -o size=64k governor-test "$0" && umount "$0"'
        try:
            tried = subprocess.run([*words, "sh", "-c", script, folder], capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            return f"there is no `{error.filename}`"
    return tried.stderr.strip() or f"it ended with {tried.returncode}" if tried.returncode else ""
