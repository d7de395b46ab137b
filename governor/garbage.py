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


@contextmanager
def kept() -> Iterator[None]:
    """What is made meanwhile is no garbage, and is never looked at: neither now nor when the next thing is made."""
    gc.collect()
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
