"""What root may do and others may not, put aside for a while.

It knows the two capabilities by which root reads what is closed to others. It must never know what is closed.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, as bits of the first word.
_EVERYTHING: Final = (1 << 1) | (1 << 2)
_VERSION: Final = 0x20080522
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


@contextmanager
def shut_away(path: Path) -> Iterator[None]:
    """Closed to everybody, also to root."""
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        with as_others_are():
            yield
    finally:
        path.chmod(mode)


@contextmanager
def as_others_are() -> Iterator[None]:
    """In this thread alone: a mode is obeyed as by any user, and what root owns is still its own."""
    # The version and this thread; then effective, permitted and inheritable, in two words each.
    header, words = (ctypes.c_uint32 * 2)(_VERSION, 0), (ctypes.c_uint32 * 6)()
    _call("capget", header, words)
    before = words[0]
    words[0] = before & ~_EVERYTHING
    _call("capset", header, words)
    try:
        yield
    finally:
        words[0] = before
        _call("capset", header, words)


def _call(name: str, header: "ctypes.Array[ctypes.c_uint32]", words: "ctypes.Array[ctypes.c_uint32]") -> None:
    if getattr(_LIBC, name)(header, words) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
