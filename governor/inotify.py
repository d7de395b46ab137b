"""Inotify: what the kernel says of folders and files, without asking it again and again.

It knows the system calls and the bytes that come of them. It must never know what is watched or why.

By ctypes, since nothing else does it without a price: watchfiles wakes 20 times a second for as long as it watches and
takes 5 MB, others are not kept any more.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# From <sys/inotify.h>.
MODIFY: Final = 0x2
ATTRIB: Final = 0x4
CLOSE_WRITE: Final = 0x8
MOVED_FROM: Final = 0x40
MOVED_TO: Final = 0x80
CREATE: Final = 0x100
DELETE: Final = 0x200
DELETE_SELF: Final = 0x400
MOVE_SELF: Final = 0x800
OVERFLOW: Final = 0x4000
IGNORED: Final = 0x8000
ONLY_FOLDER: Final = 0x0100_0000

_HEADER: Final = struct.Struct("iIII")
# More than the longest event has; what does not fit is read the next time.
_AT_ONCE: Final = 1 << 16


@dataclass(slots=True, frozen=True)
class Event:
    """Something happened to what is watched as ``watch``, or to the entry ``name`` of that folder."""

    watch: int
    mask: int
    name: bytes


class Inotify:
    """One queue of events. All that is asked of it may raise OSError."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "inotify_init1"):
            raise OSError(errno.ENOSYS, "this system has no inotify")
        self.fd = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def watch(self, path: str, mask: int) -> int:
        """The number of this watch: the same again for the same file, for which then this mask holds."""
        return self._checked(self._libc.inotify_add_watch(self.fd, os.fsencode(path), ctypes.c_uint32(mask)))

    def unwatch(self, watch: int) -> None:
        """No more of this one, which may be gone already with what it watched."""
        self._libc.inotify_rm_watch(self.fd, watch)

    def read(self) -> Iterator[Event]:
        """What has happened since; never waits."""
        try:
            data = os.read(self.fd, _AT_ONCE)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            watch, mask, _, length = _HEADER.unpack_from(data, at)
            at += _HEADER.size
            yield Event(watch, mask, data[at : at + length].rstrip(b"\0"))
            at += length

    def close(self) -> None:
        """Everything is unwatched; safe twice."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    @staticmethod
    def _checked(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
