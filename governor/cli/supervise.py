"""A command under a lease: it hears what we are told, and ends when the lease does.

It knows the command, its lease and the signals, and in which order what happens to one concerns the others. It must
never know how a lease is had. In one sentence: nothing that was begun under the lease is left to work without it.
"""

import signal
import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from governor.cli.child import Child
from governor.cli.signals import PASSED_ON, Heard, Signalled, Signals

Answer = TypeVar("Answer")


class Watched(Protocol):
    """The lease, as far as it concerns the command."""

    @property
    def lost(self) -> bool:
        """Whether it ended before it was given back."""
        ...


def supervise(
    child: Child, lease: Watched, signals: Signals, *, kill_after: float, on_loss: Callable[[], None]
) -> bool:
    """Returns once the command has ended; whether its lease was lost before that.

    When it is lost, ``on_loss`` is called, the command is sent SIGTERM, and SIGKILL ``kill_after`` seconds later.
    """
    kill_at: float | None = None
    lost = killed = False
    while child.code is None:
        heard = signals.next(until=None if killed else kill_at)
        stopped = child.look()
        if heard is None:
            killed = True
            child.end(signal.SIGKILL)
        elif heard.number in PASSED_ON:
            _pass_on(heard, child)
        if stopped and not child.grouped:
            # Whoever stopped it at the terminal waits for us to stop as well; and when we go on, it does.
            signals.suspend()
            child.hear(signal.SIGCONT)
        if lease.lost and not lost and child.code is None:
            lost = True
            on_loss()
            kill_at = time.monotonic() + kill_after
            child.end(signal.SIGTERM)
            # What is stopped hears nothing else.
            child.end(signal.SIGCONT)
    if kill_at is not None:
        child.end_rest(kill_at)
    return lost or lease.lost


def _pass_on(heard: Heard, child: Child) -> None:
    """The command hears what was sent to us, unless the terminal has told it the same already."""
    if child.grouped or not heard.from_terminal:
        child.hear(heard.number)


def meanwhile(ask: Callable[[], Answer], signals: Signals) -> Answer:
    """What ``ask`` returns or raises; it has a thread of its own, while this one hears signals.

    Raises:
        Signalled: One of them ends us. What was asked for has no answer yet.
    """
    answers: list[Answer | Exception] = []

    def wait() -> None:
        try:
            answers.append(ask())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised where it was asked for
            answers.append(error)
        signals.wake()

    threading.Thread(target=wait, name="governor-acquire", daemon=True).start()
    while not answers:
        heard = signals.next()
        if heard is not None and heard.ends:
            raise Signalled(heard.number)
        if heard is not None and heard.number == signal.SIGTSTP:
            signals.suspend()
    answer = answers[0]
    if isinstance(answer, Exception):
        raise answer
    return answer
