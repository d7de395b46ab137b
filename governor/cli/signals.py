"""Signals, heard one after the other instead of interrupting.

It knows what came and whether the terminal sent it. It must never know what becomes of it. In one sentence: whatever
arrives while they are heard is told once, and nothing is lost between two looks.
"""

import os
import signal
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

# What somebody may want the command to hear.
PASSED_ON: Final = frozenset(
    {
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGWINCH,
        signal.SIGTSTP,
        signal.SIGCONT,
    }
)
# What ends a program that does nothing about it, and is meant to.
ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
# From one of our own threads: there is something to look at.
WAKE: Final = signal.SIGRTMIN

_HEARD: Final = PASSED_ON | {signal.SIGCHLD, WAKE}
# si_code of what the kernel sends on its own: Ctrl-C, Ctrl-Z and the like, a terminal that changes or is gone.
_SI_KERNEL: Final = 0x80


class Signalled(Exception):  # noqa: N818 - it says what happened, as KeyboardInterrupt does
    """A signal ends the process before there is a command to pass it on to."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.strsignal(number))
        self.number = number


@dataclass(slots=True, frozen=True)
class Heard:
    """One signal. ``from_terminal``: it went to every process of the terminal's foreground group at once."""

    number: int
    from_terminal: bool

    @property
    def ends(self) -> bool:
        """Whether it ends a program that does nothing about it; not if whoever started us has it ignored (nohup)."""
        return self.number in ENDING and signal.getsignal(self.number) is not signal.SIG_IGN


class Signals:
    """While entered, no signal interrupts this thread or those that it starts: they are heard by `next` alone."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        # What was blocked before: a command that is started must find it so.
        self.before: set[int] = set()

    def __enter__(self) -> Self:
        # A wake-up may come when nobody hears any more, and must not end the process then.
        signal.signal(WAKE, signal.SIG_IGN)
        # If whoever started us ignored it, the kernel would forget how a command ended.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.before = set(signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)

    def next(self, *, until: float | None = None) -> Heard | None:
        """The next one; None when ``until`` (of `time.monotonic`) comes before it."""
        if until is None:
            info = signal.sigwaitinfo(_HEARD)
        else:
            timed = signal.sigtimedwait(_HEARD, max(0.0, until - time.monotonic()))
            if timed is None:
                return None
            info = timed
        return Heard(info.si_signo, info.si_code == _SI_KERNEL)

    def wake(self) -> None:
        """Have `next` return; from any thread, at any time."""
        signal.pthread_kill(self._thread, WAKE)

    def suspend(self) -> None:
        """Stop, as after Ctrl-Z; returns once the process goes on. Nothing happens where nobody could have it go on."""
        while signal.sigtimedwait({signal.SIGTSTP}, 0) is not None:
            pass  # it would stop us a second time
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
