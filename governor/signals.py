"""Signals, heard one at a time and in the event loop.

It knows how a signal gets into the loop, and that one which comes late must not undo a clean end. It must never know
what a signal means.

They stay blocked, and a thread takes them with ``sigwait``. Handlers would leave a gap: to take one away, as asyncio
does when its loop is closed, puts back the default for a moment, which is to be killed; and in a flood of signals they
run within one another until the stack is full.
"""

import asyncio
import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from signal import Signals
from threading import Event, Thread


def hold(numbers: Collection[Signals]) -> None:
    """Keep these for whoever hears them, in this thread and all that it begins; nobody is killed by them any more."""
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    for number in numbers:
        # What is ignored is not kept either.
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def heard(handlers: Mapping[Signals, Callable[[Signals], None]]) -> Iterator[None]:
    """Each signal calls its handler in the running loop; afterwards nobody hears it. All must be on `hold`."""
    loop = asyncio.get_running_loop()
    over = Event()

    def hear() -> None:
        while True:
            number = Signals(signal.sigwait(handlers))
            if over.is_set():
                return
            loop.call_soon_threadsafe(handlers[number], number)

    thread = Thread(target=hear, name="governor-signals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        assert thread.ident is not None
        signal.pthread_kill(thread.ident, next(iter(handlers)))
        thread.join()
