"""Processes: which one this is, so that another on the same machine can tell when it has died.

It knows what Linux says of a process. It must never know whose it is, or what follows from its end. In one sentence:
what is called dead can never run again.
"""

import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
# Of /proc/PID/stat, counted from behind the name, which may have anything in it.
_STARTED: Final = 19


@dataclass(slots=True, frozen=True)
class Process:
    """One process. A pid means something within one boot and one namespace, and only as long as nobody else has it.

    ``started`` tells it from others that had its pid: in ticks since the boot, as in /proc/PID/stat.
    """

    boot: str
    namespace: int
    pid: int
    started: int


@cache
def boot() -> str:
    """Which boot of the machine its monotonic clock counts from; empty when that cannot be known."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def this() -> Process | None:
    """The process that asks; None when that cannot be told."""
    pid = os.getpid()
    try:
        return Process(boot(), _namespace(), pid, _started(pid)) if boot() else None
    except (OSError, ValueError, IndexError):
        return None


def watch(process: Process) -> int | None:
    """A descriptor that can be read from when this process is dead, and not before; its user closes it.

    None when there is none to be had: it runs elsewhere, its pid is somebody else's by now, or the system is too old.
    """
    if sys.platform != "linux":
        return None
    try:
        if not boot() or (process.boot, process.namespace) != (boot(), _namespace()):
            return None
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError, OverflowError):
        return None
    try:
        # Looked at afterwards: what the descriptor stands for cannot become another process any more.
        if _started(process.pid) == process.started:
            return descriptor
    except (OSError, ValueError, IndexError):
        pass
    os.close(descriptor)
    return None


def _namespace() -> int:
    return (_PROC / "self/ns/pid").stat().st_ino


def _started(pid: int) -> int:
    text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    return int(text.rpartition(")")[2].split()[_STARTED])
