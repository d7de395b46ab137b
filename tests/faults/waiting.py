"""Waiting: for threads, by a program that is ended by a signal.

It knows how Python hears of one. It must never know what the threads do.
"""

import threading
from collections.abc import Iterable
from typing import Final

_LOOK_SECONDS: Final = 0.2


def join(threads: Iterable[threading.Thread]) -> None:
    """Until all of them have ended.

    The kernel may give a signal to any thread, and what Python does about it the main thread does: one that waits for
    a lock, with no end to it, is not woken by a signal that another thread was given, and never hears of it.
    """
    for thread in threads:
        while thread.is_alive():
            thread.join(_LOOK_SECONDS)
