"""A terminal with a shell at it, as a person would use it."""

import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import termios
import time
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fcntl import ioctl
from typing import Final

from tests.cli.process import BOUND, COMMAND, ROOT

# The shell is what opens the terminal, so that it is the one that controls the shell's session.
_AT_TERMINAL: Final = ["sh", "-c", 'exec bash --norc --noediting -i <"$0" >"$0" 2>&1']
CTRL_C, CTRL_Z, CTRL_BACKSLASH = "\x03", "\x1a", "\x1c"


class Terminal:
    """What was written to it, and a keyboard."""

    def __init__(self, ours: int, shell: "subprocess.Popen[bytes]") -> None:
        self._ours = ours
        self._shell = shell
        # A read may end within a letter.
        self._letters = getincrementaldecoder("utf-8")()
        self.written = ""
        self._seen = 0

    def type(self, keys: str) -> None:
        """Press these keys."""
        os.write(self._ours, keys.encode())

    def shows(self, pattern: str) -> re.Match[str]:
        """Wait until it shows this, after what was waited for last."""
        end = time.monotonic() + BOUND
        while (found := re.compile(pattern).search(self.written, self._seen)) is None:
            assert select.select([self._ours], [], [], max(0, end - time.monotonic()))[0], self.written
            self.written += self._letters.decode(os.read(self._ours, 4096))
        self._seen = found.end()
        return found

    def until(self, pattern: str) -> str:
        """Wait until it shows this; what it showed before that, after what was waited for last."""
        before, found = self._seen, self.shows(pattern)
        return self.written[before : found.start()]

    def hang_up(self) -> None:
        """The window is closed: its shell ends, and the terminal is no more."""
        self._shell.send_signal(signal.SIGHUP)
        self._shell.wait(BOUND)


@contextmanager
def terminal(environment: Mapping[str, str], *, width: int = 100) -> Iterator[Terminal]:
    """A shell with job control at a terminal of so many columns; whatever it runs ends with it."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    name = os.ttyname(theirs)
    settings = {**os.environ, "PS1": "$ ", "TERM": "xterm", **environment}
    with subprocess.Popen([*_AT_TERMINAL, name], cwd=ROOT, env=settings, start_new_session=True) as shell:
        try:
            screen = Terminal(ours, shell)
            screen.shows(r"\$ ")
            # No function: in a pipe that would be another shell, which is in the way of job control.
            screen.type(f"alias governor={shlex.quote(shlex.join(COMMAND))}\n")
            screen.shows(r"\n\$ ")
            yield screen
        finally:
            # Without its controlling process, a terminal hangs up on all that it controls.
            shell.send_signal(signal.SIGKILL)
            shell.wait(BOUND)
            os.close(theirs)
            os.close(ours)
