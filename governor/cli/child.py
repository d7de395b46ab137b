"""The command that `governor run` runs: a process of its own, from its start to its end.

It knows processes and process groups. It must never know why it is run, or why it is to end.
"""

import errno
import os
import shutil
import signal
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from governor.cli.exits import CommandError, Exit
from governor.cli.signals import WAKE
from governor.wording import printable

# Python and we ignore these for ourselves; a program expects to be ended by them.
_OURS_TO_IGNORE: Final = (signal.SIGPIPE, signal.SIGXFSZ, WAKE)
_LOOK_SECONDS: Final = 0.02


@dataclass(slots=True)
class Child:
    """The command. ``grouped``: it leads a process group of its own. ``code``: how it ended; negative is a signal."""

    pid: int
    grouped: bool
    code: int | None = None

    def look(self) -> bool:
        """Take in what has become of it; whether it has been stopped since the last look."""
        stopped = False
        while self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if not pid:
                break
            if os.WIFSTOPPED(status):
                stopped = True
            else:
                self.code = os.waitstatus_to_exitcode(status)
        return stopped and self.code is None

    def hear(self, number: int) -> None:
        """Send it, and nobody else, this signal."""
        if self.code is None:
            os.kill(self.pid, number)

    def end(self, number: int) -> None:
        """Send this signal to all that belongs to it, as far as that can be told from what does not."""
        if self.grouped:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)
        else:
            self.hear(number)

    def end_rest(self, until: float) -> None:
        """After its own end: let the rest of its group end until then (of `time.monotonic`), and kill what has not."""
        if not self.grouped:
            return
        with suppress(ProcessLookupError):
            # They are not our children, so nobody tells us when the last one is gone.
            while time.monotonic() < until:
                os.killpg(self.pid, 0)
                time.sleep(_LOOK_SECONDS)
            os.killpg(self.pid, signal.SIGKILL)


def check(name: str) -> None:
    """Raises CommandError when there is no such command, or none that can be executed: before anybody waits for it."""
    if shutil.which(name) is None:
        raise _failure(name, errno.ENOENT if shutil.which(name, os.F_OK) is None else errno.EACCES)


def start(command: Sequence[str], environment: Mapping[str, str], *, blocked: Collection[int]) -> Child:
    """Run it, with these signals blocked. Raises CommandError.

    At a terminal it stays in our process group, where the shell's job control reaches both: Ctrl-C goes to each
    process of the group once, and whatever is behind a pipe belongs to the same job. Elsewhere it leads a group of its
    own, so that it can be ended with all that it has started.
    """
    grouped = not _has_terminal()
    try:
        return Child(_spawn(command, environment, grouped, blocked), grouped)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise _failure(command[0], error.errno) from error
    # A script that does not say who reads it is for sh, as every shell has it.
    script = shutil.which(command[0]) or command[0]
    try:
        return Child(_spawn(["/bin/sh", script, *command[1:]], environment, grouped, blocked), grouped)
    except OSError as error:
        raise _failure(command[0], error.errno) from error


def _spawn(command: Sequence[str], environment: Mapping[str, str], grouped: bool, blocked: Collection[int]) -> int:  # noqa: FBT001
    return os.posix_spawnp(
        command[0],
        list(command),
        environment,
        setpgroup=0 if grouped else os.getpgrp(),
        setsigmask=blocked,
        setsigdef=_OURS_TO_IGNORE,
    )


def _failure(name: str, code: int | None) -> CommandError:
    if code == errno.ENOENT:
        return CommandError(Exit.NOT_FOUND, f"{printable(name)}: no such command")
    return CommandError(Exit.CANNOT_RUN, f"{printable(name)}: {os.strerror(code or 0)}")


def _has_terminal() -> bool:
    """Whether this process has a terminal that controls it, whatever its files are."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
