"""A command that says which lease it has and which signals it hears, and ends when it is told to by SIGTERM.

With the word `stubborn` it does not even then; with `hangs-up`, also when its terminal goes away.
"""

import os
import signal
import sys
from contextlib import suppress

HEARD = {
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
    signal.SIGCONT,
}


def say(text: str) -> None:
    """One line, in one piece, if there is still anybody to read it."""
    with suppress(OSError):
        os.write(1, f"{text}\n".encode())


def main(*words: str) -> int:
    """The exit code."""
    ends = {signal.SIGTERM: "stubborn" not in words, signal.SIGHUP: "hangs-up" in words}
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    say(f"lease {os.environ['GOVERNOR_LEASE_ID']}, process {os.getpid()}")
    while True:
        number = signal.Signals(signal.sigwait(HEARD))
        say(f"told {number.name}")
        if ends.get(number):
            return 3


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
