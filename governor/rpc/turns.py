"""Turns: whose message is done in this turn of the event loop, and whose in a later one.

It knows how long messages are, and how long one took. It must never know what is in them.

A message is done whole, and may be of 256 KiB, which takes up to a fifth of a second. Without this, each stream that
has one would do it in the same turn, and a call of somebody else, which needs a dozen turns, would wait for all of them
each time. So what one turn does has a bound, in the order in which messages came; and a large one is done alone, with
a rest after it in which everybody else has the event loop.
"""

import asyncio
from collections import deque
from typing import Final

# Bytes that are done in one turn, and what each message counts for beside its own: some milliseconds at most, and more
# than a turn brings of programs that work.
IN_ONE_TURN: Final = 8192
EACH: Final = 64
# How many times as long as a large one took none of them is done.
RESTS: Final = 1


class Turns:
    """Those of one server. Whoever `may`, or has waited, does his message at once, and then says that it is `done`."""

    def __init__(self) -> None:
        self._left = IN_ONE_TURN
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        # Large ones, and since when one of them is being done; they rest while there is none.
        self._large: deque[asyncio.Future[None]] = deque()
        self._busy = False
        self._began = 0.0

    def may(self, size: int) -> bool:
        """Whether a message of so many bytes may be done now."""
        left = self._left
        if left <= 0 or self._waiting or size > IN_ONE_TURN:
            return False
        if left == IN_ONE_TURN:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._left = left - size - EACH
        return True

    async def wait(self, size: int) -> None:
        """Until one of so many bytes may be."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        if size <= IN_ONE_TURN:
            self._waiting.append((size, turn))
            await turn
            return
        self._large.append(turn)
        if not self._busy:
            self._next_large()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was given, and nobody takes it
                self._next_large()
            raise
        self._began = loop.time()

    def done(self, size: int) -> None:
        """One of so many bytes has been."""
        if size > IN_ONE_TURN:
            loop = asyncio.get_running_loop()
            loop.call_later((loop.time() - self._began) * RESTS, self._next_large)

    def _next_turn(self) -> None:
        self._left, waiting = IN_ONE_TURN, self._waiting
        while waiting and self._left > 0:
            size, turn = waiting.popleft()
            if not turn.done():
                self._left -= size + EACH
                turn.set_result(None)
        if self._left != IN_ONE_TURN:
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_large(self) -> None:
        while self._large:
            turn = self._large.popleft()
            if not turn.done():
                self._busy = True
                turn.set_result(None)
                return
        self._busy = False
