"""Turns: whose message is done in this turn of the event loop, and whose in a later one.

It knows how long messages are, and how long each has been done. It must never know what is in them.

A message may be of 256 KiB, which takes seconds if each of its bytes asks for much, and a call of somebody else needs
a dozen turns of the loop. So one turn does no more than some milliseconds of messages, in the order in which they came,
and none of them for longer than a slice. What is left of it is done in later turns: one slice of one such message in
each, all of them by turns, with rests between in which everybody else has the loop. A large message is not even opened
before it may be begun: open, it may be thirty times as large.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from governor.core.types import MILLISECOND, Nanos

# For how long one message is done, before others have their turn.
SLICE: Final[Nanos] = 2 * MILLISECOND
# For how long new ones are begun in one turn.
SHARE: Final[Nanos] = 2 * MILLISECOND
# Bytes that are begun in one turn, and what each message counts for beside its own: more than a turn brings of programs
# that work. One that is larger by itself is large.
IN_ONE_TURN: Final = 8192
EACH: Final = 64
# How many large ones are under way at once.
LARGE_AT_ONCE: Final = 4
# How many turns of the loop come between two slices of those that take more than one. Turns and not a time: in each,
# everybody else goes on by a step, however long that takes, and if there is nobody they are over at once.
RESTS: Final = 12

_Turn = asyncio.Future[None]
# In the order in which they came. Whoever gives up leaves at once: the others may take long, and he come back at once.
_Waiting = OrderedDict[_Turn, None]


class Turns:
    """Those of one server. Whoever `may`, or has waited, does his message at once, and then says that it is `done`.

    While he does it he asks now and then whether his slice is `over`; then he must `pause`.
    """

    def __init__(self, now: Callable[[], Nanos]) -> None:
        self._now = now
        # Of the message that is just being done: until when, and whether that is its first slice.
        self._until: Nanos = 0
        self._first = True
        # Of this turn of the loop: the bytes that are left, and until when messages are begun; None: none has been.
        self._left = IN_ONE_TURN
        self._over: Nanos | None = None
        self._waiting: deque[tuple[int, _Turn]] = deque()
        # Those whose turn it was, and whose time was over before they could begin.
        self._late: list[tuple[int, _Turn]] = []
        # Those that have had a slice, and large ones that may begin; whether the next slice is on its way to anybody.
        self._long: _Waiting = OrderedDict()
        self._going = False
        # How many large ones are under way, and who waits until there are fewer.
        self._large = 0
        self._larger: _Waiting = OrderedDict()

    def may(self, size: int) -> bool:
        """Whether a message of so many bytes may be done now."""
        left = self._left
        if left <= 0 or self._waiting or size > IN_ONE_TURN or not self._begin():
            return False
        if left == IN_ONE_TURN:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._left = left - size - EACH
        return True

    async def wait(self, size: int) -> None:
        """Until one of so many bytes may be."""
        if size > IN_ONE_TURN:
            await self._wait_large()
            return
        turn = _turn()
        self._waiting.append((size, turn))
        await turn
        while not self._begin():
            turn = _turn()
            self._late.append((size, turn))
            await turn

    def over(self) -> bool:
        """Whether it is for others now."""
        return self._now() >= self._until

    async def pause(self) -> None:
        """Until the message that is being done may be done for another while."""
        if not self._first:
            self._rest()
        await self._next_slice()

    def done(self, size: int) -> None:
        """One of so many bytes has been, or will not be."""
        if size > IN_ONE_TURN:
            self._less_large()
        if not self._first:
            self._rest()

    # --- the first slice of each --------------------------------------------------------------------------------

    def _begin(self) -> bool:
        """One may be, if there is time left in this turn."""
        now = self._now()
        if self._over is None:
            self._over = now + SHARE
        elif now >= self._over:
            return False
        self._until = now + SLICE
        self._first = True
        return True

    def _next_turn(self) -> None:
        self._left, self._over, waiting = IN_ONE_TURN, None, self._waiting
        waiting.extendleft(reversed(self._late))
        self._late.clear()
        while waiting and self._left > 0:
            size, turn = waiting.popleft()
            if not turn.done():
                self._left -= size + EACH
                turn.set_result(None)
        if self._left != IN_ONE_TURN:
            asyncio.get_running_loop().call_soon(self._next_turn)

    # --- large ones ---------------------------------------------------------------------------------------------

    async def _wait_large(self) -> None:
        if self._large < LARGE_AT_ONCE:
            self._large += 1
        else:
            turn = _turn()
            self._larger[turn] = None
            try:
                await turn
            except asyncio.CancelledError:
                if not _left(self._larger, turn):
                    self._less_large()
                raise
        try:
            await self._next_slice()
        except asyncio.CancelledError:
            self._less_large()
            raise

    def _less_large(self) -> None:
        """One of those that are under way is not any more."""
        if not _give(self._larger):
            self._large -= 1

    # --- all other slices ---------------------------------------------------------------------------------------

    async def _next_slice(self) -> None:
        turn = _turn()
        self._long[turn] = None
        if not self._going:
            self._going = True
            asyncio.get_running_loop().call_soon(self._next_long)
        try:
            await turn
        except asyncio.CancelledError:
            self._first = True  # whose slice was the last is not known here, and has been seen to
            if not _left(self._long, turn):
                self._next_long()
            raise
        self._until = self._now() + SLICE
        self._first = False

    def _rest(self, turns: int = RESTS) -> None:
        """The next slice is so many turns away."""
        if turns:
            asyncio.get_running_loop().call_soon(self._rest, turns - 1)
        else:
            self._next_long()

    def _next_long(self) -> None:
        self._going = _give(self._long)


def _turn() -> _Turn:
    return asyncio.get_running_loop().create_future()


def _give(waiting: _Waiting) -> bool:
    """It is the turn of the first who waits; whether there is anybody."""
    while waiting:
        turn, _ = waiting.popitem(last=False)
        if not turn.done():  # he has given up, and does not know yet
            turn.set_result(None)
            return True
    return False


def _left(waiting: _Waiting, turn: _Turn) -> bool:
    """He has given up. False: his turn was given to him, and nobody takes it."""
    waiting.pop(turn, None)
    return turn.cancelled()
