"""Notify: what a service manager such as systemd is told of this daemon, by the protocol of sd_notify(3).

It knows one datagram socket and the words of the protocol. It must never know what they are said for; without a
manager, everything here does nothing.

A manager that is not there or does not listen must harm nobody: nothing here blocks and nothing here raises.
"""

import asyncio
import contextlib
import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from governor.clock import LoopClock
from governor.core.types import SECOND, Nanos

_US: Final = 1000  # nanoseconds


class Notifier:
    """The way to the manager that ``environ`` names, if any."""

    def __init__(self, environ: Mapping[str, str], pid: int) -> None:
        """``pid``: of this process; a watchdog that is meant for another is none of ours."""
        self._socket = _connected(environ.get("NOTIFY_SOCKET", ""))
        self._every = _watchdog(environ, pid)
        self._timer: asyncio.TimerHandle | None = None

    def ready(self, status: str) -> None:
        """The start, or a reload, is over; from the start on, the event loop itself says that it runs."""
        self._say(f"READY=1\nSTATUS={status}")
        if self._timer is None:
            self._watch()

    def reloading(self) -> None:
        """A reload begins; `ready` ends it, however it went."""
        self._say(f"RELOADING=1\nMONOTONIC_USEC={LoopClock.now() // _US}")

    def stopping(self, status: str, within: Nanos) -> None:
        """The end begins, and may take so long. Without this a manager would kill a daemon that drains."""
        self._say(f"STOPPING=1\nSTATUS={status}\nEXTEND_TIMEOUT_USEC={within // _US}")

    def close(self) -> None:
        """Say nothing more; safe twice."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _watch(self) -> None:
        """A sign of life from the loop itself, at half of the time after which the manager takes it for dead."""
        if self._every and self._socket is not None:
            self._say("WATCHDOG=1")
            self._timer = asyncio.get_running_loop().call_later(self._every / SECOND, self._watch)

    def _say(self, words: str) -> None:
        if self._socket is not None:
            # A full or vanished socket: the manager draws its own conclusions.
            with contextlib.suppress(OSError):
                self._socket.send(words.encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _connected(address: str) -> socket.socket | None:
    # An @ stands for the zero byte of a socket that has no file; vsock and others are for virtual machines.
    if not address.startswith(("/", "@")):
        return None
    its = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        its.connect(address.replace("@", "\0", 1) if address.startswith("@") else address)
    except OSError:
        its.close()
        return None
    return its


def _watchdog(environ: Mapping[str, str], pid: int) -> Nanos:
    """How often to give a sign of life; 0 is not at all."""
    usec, meant = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not usec.isdecimal() or (meant and meant != str(pid)):
        return 0
    return int(usec) * _US // 2
