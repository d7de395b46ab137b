"""Clock: the only reader of time in the daemon.

It knows the monotonic clock and how to be called at an instant of it. It must never know what for. The wall clock
is read for one thing alone: to tell people when something was.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from governor.core.types import Nanos


class Timer(Protocol):
    """A call that is to come."""

    def cancel(self) -> None:
        """It is not to come; safe also after it came."""
        ...


class Clock(Protocol):
    """Now, and later."""

    def now(self) -> Nanos:
        """Nanoseconds since some fixed instant; never falls."""
        ...

    def call_at(self, when: Nanos, callback: Callable[[], None]) -> Timer:
        """Call back at ``when`` or a little later, from the event loop."""
        ...


class LoopClock:
    """The machine's monotonic clock, with the running event loop to call back."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    # CLOCK_MONOTONIC, in nanoseconds; the function itself, since each call to the daemon reads it twice or more.
    now = staticmethod(time.monotonic_ns)

    def call_at(self, when: Nanos, callback: Callable[[], None]) -> Timer:
        """Call back at ``when``; a loop that counts in milliseconds may be early by less than one."""
        return self._loop.call_later(max(0, when - time.monotonic_ns()) / 1e9, callback)


# The wall clock, for people to read; never for a deadline. The function itself, for what is told of very often.
unix_nanos = time.time_ns
