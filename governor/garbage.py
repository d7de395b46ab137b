"""Garbage: what Python's collector of cycles need not look at.

It knows the collector. It must never know what is made, or why it lives.

Reference counts free nearly all of what comes and goes. Only cycles are left to the collector, which looks for them
among everything that is there. The core makes none, and what is lent may be a million objects that live for hours.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# New objects, then collections of the younger, before a generation is collected; 700, 10, 10 by default.
_THRESHOLDS: Final = (10_000, 20, 10)
# More objects than all modules of the daemon make; and not so many that it matters when they are garbage.
_LOADED: Final = 200_000


def loading() -> None:
    """Modules are loaded from here on: what they make lives to the end, and looking at it is a quarter of a start."""
    gc.set_threshold(_LOADED)


@contextmanager
def kept() -> Iterator[None]:
    """What is made meanwhile is no garbage, and is never looked at: neither now nor when the next thing is made.

    Nor is what was there before. Of a daemon that is mostly its modules, and some 2,000 small things are garbage.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def settle() -> None:
    """All that is there by now lives until the end, and what comes and goes is looked at seldom."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
