"""The end of a process, and its forks: what every client in it must hear of.

It knows all links of this process. It must never know what one of them says.
"""

import atexit
import os
import sys
import threading
import time
import weakref
from typing import Final, Protocol

# How long a program that ends waits for its last releases to leave, in seconds.
FAREWELL: Final = 0.5


class Leaving(Protocol):
    """A link, as far as its process ends or forks."""

    def leave(self) -> threading.Thread | None:
        """Give everything back and hang up, soon; the thread that ends when that is done."""
        ...

    def forked(self) -> None:
        """This is the child of a fork now."""
        ...


links: "weakref.WeakSet[Leaving]" = weakref.WeakSet()


def _after_fork() -> None:
    for link in list(links):
        link.forked()


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def bid_farewell() -> None:
    """Have all of them leave at once: a program with many clients ends as soon as one with one, daemon or not."""
    until = time.monotonic() + FAREWELL
    for thread in [link.leave() for link in list(links)]:
        if thread is not None:
            thread.join(max(0.0, until - time.monotonic()))


_children: set[int] = set()


def as_a_child_too() -> None:
    """Have a child of multiprocessing give back what it gave back last: it ends without what `atexit` would run."""
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or os.getpid() in _children:
        return
    from multiprocessing.util import Finalize  # noqa: PLC0415 - only where it has been imported anyway

    _children.add(os.getpid())
    Finalize(None, bid_farewell, exitpriority=-1)
