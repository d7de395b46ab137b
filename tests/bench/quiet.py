"""How much of the machine others used while something was measured.

It knows processor time, of the machine and of those that belong to the measurement. It must never know what is
measured: which rounds count is decided by what others did, never by how a round turned out.
"""

import os
import resource
from pathlib import Path
from typing import Final, Self

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_STOLEN: Final = 8  # columns of /proc/stat, the name being one; those behind count a guest's time twice
_IDLE: Final = (4, 5)


class Quiet:
    """A stretch of time: seconds of processor time that each of ``pids`` ``used``, and all ``others`` together.

    Others are whoever is neither of them nor this process nor a child of it that has ended meanwhile.
    """

    def __init__(self, *pids: int) -> None:
        self._pids = pids
        self._before: list[float] = []
        self.used: list[float] = []
        self.others = 0.0

    def __enter__(self) -> Self:
        self._before = self._times()
        return self

    def __exit__(self, *_: object) -> None:
        machine, own, *self.used = [now - then for now, then in zip(self._times(), self._before, strict=True)]
        self.others = max(0.0, machine - own - sum(self.used))

    def _times(self) -> list[float]:
        """Of the machine, of this process and its ended children, of each process."""
        columns = Path("/proc/stat").read_text().splitlines()[0].split()
        machine = sum([int(columns[at]) for at in range(1, _STOLEN + 1) if at not in _IDLE]) / _TICKS
        usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        own = sum([each.ru_utime + each.ru_stime for each in usage])
        return [machine, own, *[cpu(pid) for pid in self._pids]]


def cpu(pid: int) -> float:
    """Seconds of processor time that all threads of a process have used so far."""
    columns = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(columns[11]) + int(columns[12])) / _TICKS
