"""A command that says which lease it has and which signals it hears, and ends when it is told to by SIGTERM.

With the word `stubborn` it does not even then.
"""

import os
import signal
import sys


def say(text: str) -> None:
    """One line, in one piece."""
    os.write(1, f"{text}\n".encode())


def told(number: int, _: object) -> None:
    """Say so."""
    say(f"told {signal.Signals(number).name}")
    if number == signal.SIGTERM and "stubborn" not in sys.argv:
        sys.exit(3)


if __name__ == "__main__":
    for each in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH", "CONT"):
        signal.signal(getattr(signal, f"SIG{each}"), told)
    say(f"lease {os.environ['GOVERNOR_LEASE_ID']}, process {os.getpid()}")
    while True:
        signal.pause()
