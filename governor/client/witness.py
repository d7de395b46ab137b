"""Witness: whether the daemon that welcomed us last has died, by the word of the kernel.

It knows one process at a time, if that runs on this machine. It must never know what follows from its death.
"""

import contextlib
import os
import select

from governor.process import Process, watch


class Witness:
    """Has a poll say so: what is ready by then is `descriptor`, which is -1 while nothing can be known."""

    def __init__(self) -> None:
        self.descriptor = -1
        self._process: Process | None = None

    def follow(self, process: Process | None, poll: select.poll) -> None:
        """From now on it is about this process, if that can be. The same one as before may be dead by now."""
        if process == self._process and self.descriptor >= 0:
            return
        self.leave(poll)
        descriptor = None if process is None else watch(process)
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
            self.descriptor, self._process = descriptor, process

    def leave(self, poll: "select.poll | None" = None) -> None:
        """It is about nobody any more; safe twice, and without a poll in a forked child."""
        if self.descriptor < 0:
            return
        if poll is not None:
            with contextlib.suppress(KeyError):
                poll.unregister(self.descriptor)
        os.close(self.descriptor)
        self.descriptor, self._process = -1, None
