"""A daemon that stands ready, as `spare`, and answers a while before it has written what it answers: it can forget."""

import asyncio
import sys
from pathlib import Path
from typing import Final

from tests.faults.spare import begin, wait

# Seconds.
_LATE: Final = 1.0


def be_hasty() -> None:
    """From now on. Lease ids are put on record in time, or it would not even start."""
    from governor.journal import Done, Journal  # noqa: PLC0415 - after `spare` has seen to how gRPC is loaded

    write = Journal._write

    def hasty(self: Journal, *, beat: bool = False) -> Done:
        if beat or self._changes._reserved is not None:
            return write(self, beat=beat)
        asyncio.get_running_loop().call_later(_LATE, write, self)
        return True

    Journal._write = hasty  # type: ignore[method-assign]


if __name__ == "__main__":
    wait(Path(sys.argv[1]))
    be_hasty()
    begin(sys.argv[2:])
