"""Gathering: calls that come at the same time share a transaction.

It knows how many calls it was worth to wait for. It must never know what is written. In one sentence: many are
answered sooner by it, and one alone is held up a millisecond in 256 calls.

A transaction costs the loop ten microseconds with warm caches and five times that between other work, however much
is in it. So under load it is worth a wait of a millisecond to share one. But gRPC hands over one call after the other,
and a busy server has hardly ever two of them before it at once: sixty callers look like one that is quick. So when
calls come hard upon each other, now and then one waits, to see whether others come meanwhile. While enough do, all
wait; while they do not, it is tried ever less often. (That a commit should wait for others only as long as it pays:
Helland et al., "Group Commit Timers and High Volume Transaction Systems", 1987.)
"""

import asyncio
from collections.abc import Awaitable
from typing import Final

from governor.driver import Driver

# How long the first of a group waits for the others, in seconds, and how many there are at most.
_LONGEST: Final = 0.001
_MOST: Final = 16
# So many at least make a crowd: fewer lose more by waiting than they gain.
_CROWD: Final = 4
# Who comes so soon after another, in seconds, may be one of a crowd; how many of them go on before it is tried again:
# the first after a crowd, and twice as many each time that there was none.
_SOON: Final = _LONGEST / 2
_FEWEST_BETWEEN: Final = 8
_MOST_BETWEEN: Final = 256


class Gathering:
    """Of the calls of one daemon, the group that is to be told once it is on record."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._group: list[asyncio.Future[bool]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._crowded = False
        self._last_alone = 0.0
        self._between = self._left = _MOST_BETWEEN // 4

    def commit(self) -> bool | Awaitable[bool]:
        """As `Driver.commit`, for the call that is being answered."""
        if not self._driver.unrecorded():
            return self._driver.commit()
        loop = asyncio.get_running_loop()
        if not self._group:
            if not self._crowded:
                last, self._last_alone = self._last_alone, loop.time()
                self._left -= self._last_alone - last < _SOON
                if self._left > 0:
                    return self._driver.commit()
            self._timer = loop.call_later(_LONGEST, self._close)
            self._driver.gathering = True
        waiter: asyncio.Future[bool] = loop.create_future()
        self._group.append(waiter)
        if len(self._group) == _MOST:
            self._close()
        return waiter

    def _close(self) -> None:
        assert self._timer is not None
        self._timer.cancel()
        self._driver.gathering = False
        group, self._group = self._group, []
        self._crowded = len(group) >= _CROWD
        self._between = self._left = _FEWEST_BETWEEN if self._crowded else min(self._between * 2, _MOST_BETWEEN)
        done = self._driver.commit()
        if isinstance(done, bool):
            _tell(group, good=done)
        else:
            # The log is just being moved into the file.
            asyncio.ensure_future(done).add_done_callback(lambda future: _tell(group, good=future.result()))


def _tell(group: list[asyncio.Future[bool]], *, good: bool) -> None:
    for waiter in group:
        if not waiter.done():  # its call may have been cancelled
            waiter.set_result(good)
