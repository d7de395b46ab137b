"""Faults that nobody awaits: what the event loop does with them.

It knows the log. It must never know whose fault it was.
"""

import asyncio
import errno
import logging
from math import inf
from typing import Any, Final

_log: Final = logging.getLogger("governor")

# How often it is said that file descriptors are used up.
_FULL_TOLD_S: Final = 60.0


class Faults:
    """What the event loop does with a fault that nobody awaits: it is logged, each time or once in a while."""

    def __init__(self) -> None:
        self._told = -inf

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """As asyncio calls it."""
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}):
            loop.default_exception_handler(context)
        elif loop.time() >= self._told + _FULL_TOLD_S:
            # asyncio tries to accept a hundred times a second then, and has a traceback for each.
            self._told = loop.time()
            _log.error("out of file descriptors (%s): some connections wait; raise the limit (nofile)", error.strerror)
