"""Whose message is done when: so much in a turn of the event loop, no message for longer than a slice, large ones few.

Turns of the loop are counted, and time goes on only where a message takes some.
"""

import asyncio
from itertools import pairwise

import pytest

from governor.core.types import Nanos
from governor.rpc.turns import EACH, IN_ONE_TURN, LARGE_AT_ONCE, RESTS, SHARE, SLICE, Turns

LARGE = IN_ONE_TURN + 1


class Loop:
    """Counts the turns of the event loop, and notes what is done in which."""

    def __init__(self) -> None:
        self.turn = 0
        self.time: Nanos = 0
        self.turns = Turns(lambda: self.time)
        # Of each bit that was done: the turn, whose it was, its size and how long it took.
        self.done: list[tuple[int, int, int, Nanos]] = []
        self.under_way: set[int] = set()
        self._loop = asyncio.get_running_loop()
        self._ends = False
        self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        self.turn += 1
        if not self._ends:
            self._loop.call_soon(self._tick)

    def end(self) -> None:
        """Count no more."""
        self._ends = True

    async def do(self, number: int, size: int = 0, *bits: Nanos) -> None:
        """A message, as a stream does it; one of bits that take so long."""
        if not self.turns.may(size):
            await self.turns.wait(size)
        self.under_way.add(number)
        try:
            for length in bits or (0,):
                self.time += length
                self.done.append((self.turn, number, size, length))
                if self.turns.over():
                    await self.turns.pause()
        finally:
            self.under_way.discard(number)
            self.turns.done(size)

    async def pass_by(self, number: int) -> None:
        """So many turns."""
        until = self.turn + number
        while self.turn < until:  # noqa: ASYNC110 - turns are what is waited for
            await asyncio.sleep(0)

    @property
    def order(self) -> list[int]:
        """Whose bits were done, one after the other."""
        return [number for _, number, *_ in self.done]

    def turns_of(self, number: int) -> list[int]:
        """Those in which bits of this message were done."""
        return sorted({turn for turn, each, *_ in self.done if each == number})

    def longest(self) -> Nanos:
        """For how long messages were done in any turn."""
        lengths: dict[int, Nanos] = {}
        for turn, _, _, length in self.done:
            lengths[turn] = lengths.get(turn, 0) + length
        return max(lengths.values())


async def test_one_turn_does_so_much_and_nobody_overtakes() -> None:
    """However many come at once; who comes later stands behind."""
    loop = Loop()
    sizes = [IN_ONE_TURN, 1, 5000, 5000, 100, 0, 3000, *([1000] * 40)]
    await asyncio.gather(*(loop.do(number, size) for number, size in enumerate(sizes)))
    loop.end()

    assert loop.order == list(range(len(sizes)))
    for turn in {turn for turn, *_ in loop.done}:
        *before, _ = [size + EACH for each, _, size, _ in loop.done if each == turn]
        assert sum(before) < IN_ONE_TURN


async def test_one_turn_takes_so_long_and_nobody_overtakes() -> None:
    """However little the messages are; those whose turn it was, too late, come first in the next."""
    loop = Loop()
    await asyncio.gather(*(loop.do(number, 0, SLICE * 2 // 3) for number in range(100)))
    loop.end()

    assert loop.order == list(range(100))
    assert loop.longest() < SHARE + SLICE


async def test_what_is_little_waits_for_nothing() -> None:
    """As much as one turn may do is done in that turn, and in the next one as much again."""
    loop = Loop()
    for _ in range(3):
        for number in range(10):
            assert loop.turns.may(IN_ONE_TURN // 10 - EACH), number
        await loop.pass_by(2)
    loop.end()


async def test_what_takes_long_goes_on_in_later_turns_with_rests_between() -> None:
    """Everybody else has so many turns after each slice but the first; by itself nothing holds it up."""
    loop = Loop()
    await loop.do(1, 0, *[SLICE // 4] * 40)
    loop.end()

    assert loop.longest() == SLICE
    turns = loop.turns_of(1)
    assert len(turns) == 10
    assert all(RESTS <= later - turn <= RESTS + 3 for turn, later in pairwise(turns[1:]))


async def test_those_that_take_long_take_turns_and_what_is_short_passes_them() -> None:
    """One slice of one of them in each turn, whoever has one after the other."""
    loop = Loop()
    long = [asyncio.create_task(loop.do(number, 0, *[SLICE] * 5)) for number in range(3)]
    await loop.pass_by(8)  # by then each of them has begun
    for number in range(10, 30):
        before = loop.turn
        await loop.do(number, 0, SLICE // 10)
        assert loop.turn <= before + 2, "it stood behind one slice at most"
    await asyncio.gather(*long)
    loop.end()

    slices = [number for number in loop.order if number < 10]
    assert sorted(slices) == sorted([0, 1, 2] * 5)
    assert all(one != other for one, other in pairwise(slices))
    assert loop.longest() <= SHARE + 2 * SLICE


@pytest.mark.parametrize("length", [0, SLICE // 2, SLICE])
async def test_of_large_ones_few_are_under_way_and_what_is_not_large_passes_them(length: Nanos) -> None:
    """For what is under way has been opened, and is many times as large; the others begin in order."""
    loop = Loop()
    most = 0
    large = [asyncio.create_task(loop.do(number, LARGE, *[length] * 6)) for number in range(4 * LARGE_AT_ONCE)]
    await loop.do(99, 100)
    while not all(each.done() for each in large):
        most = max(most, len(loop.under_way))
        await asyncio.sleep(0)
    loop.end()

    assert loop.order[0] == 99
    begun = list(dict.fromkeys(loop.order[1:]))
    assert begun == list(range(len(large)))
    assert most <= LARGE_AT_ONCE
    assert loop.longest() <= SLICE + length
    assert length < SLICE or most == LARGE_AT_ONCE


@pytest.mark.parametrize("size", [1000, LARGE])
@pytest.mark.parametrize("length", [0, SLICE // 2, SLICE])
async def test_who_gives_up_holds_up_nobody(size: int, length: Nanos) -> None:
    """Whether his turn has come by then or not, and wherever he is in the midst of it."""
    for turns in range(3 * RESTS):
        loop = Loop()
        tasks = [asyncio.create_task(loop.do(number, size, *[length] * 4)) for number in range(30)]
        await loop.pass_by(turns)
        for each in tasks[:25]:
            each.cancel()
        async with asyncio.timeout(60):
            await asyncio.gather(*tasks, return_exceptions=True)
            await loop.do(99, size, length)
            # As many as ever may begin, each of which takes long.
            await asyncio.gather(*(loop.do(100 + number, LARGE, SLICE, 0) for number in range(LARGE_AT_ONCE)))
        assert {number for number in loop.order if number >= 25} == {
            *range(25, 30),
            99,
            *range(100, 100 + LARGE_AT_ONCE),
        }
        assert loop.turns._large == 0
        assert loop.longest() <= SHARE + 2 * SLICE
        await loop.pass_by(2 * RESTS)
        assert not loop.turns._going
        loop.end()


@pytest.mark.parametrize("size", [1000, LARGE])
async def test_of_who_gives_up_nothing_is_kept(size: int) -> None:
    """However many come and go while those before them take long."""
    loop = Loop()
    before = [asyncio.create_task(loop.do(number, LARGE, *[SLICE] * 20)) for number in range(LARGE_AT_ONCE)]
    await loop.pass_by(2)
    for _ in range(5):
        others = [asyncio.create_task(loop.do(99, size, SLICE, SLICE)) for _ in range(50)]
        await loop.pass_by(5)
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await loop.pass_by(2)
        turns = loop.turns
        assert len(turns._waiting) + len(turns._late) + len(turns._larger) == 0
        assert len(turns._long) <= LARGE_AT_ONCE
    await asyncio.gather(*before)
    loop.end()

    assert loop.turns._large == 0
