"""Whose message is done when: so many bytes in a turn of the event loop, and large ones alone, with rests."""

import asyncio
from itertools import pairwise

import pytest

from governor.rpc import turns as turns_module
from governor.rpc.turns import EACH, IN_ONE_TURN, Turns

LARGE = IN_ONE_TURN + 1


class Loop:
    """Counts the turns of the event loop, and notes what is done in which."""

    def __init__(self) -> None:
        self.turn = 0
        self.turns = Turns()
        self.done: list[tuple[int, int, int]] = []
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

    async def do(self, number: int, size: int, *, seconds: float = 0.0) -> None:
        """A message, as a stream does it; one that takes so long."""
        if not self.turns.may(size):
            await self.turns.wait(size)
        until = self._loop.time() + seconds
        while self._loop.time() <= until and seconds:
            pass
        self.done.append((self.turn, number, size))
        self.turns.done(size)

    async def pass_by(self, number: int) -> None:
        """So many turns."""
        until = self.turn + number
        while self.turn < until:  # noqa: ASYNC110 - turns are what is waited for
            await asyncio.sleep(0)


async def test_one_turn_does_so_much_and_nobody_overtakes() -> None:
    """However many come at once; who comes later stands behind."""
    loop = Loop()
    sizes = [IN_ONE_TURN, 1, 5000, 5000, 100, 0, 3000, *([1000] * 40)]
    await asyncio.gather(*(loop.do(number, size) for number, size in enumerate(sizes)))
    loop.end()

    assert [number for _, number, _ in loop.done] == list(range(len(sizes)))
    for turn in {turn for turn, _, _ in loop.done}:
        *before, _ = [size + EACH for each, _, size in loop.done if each == turn]
        assert sum(before) < IN_ONE_TURN


async def test_what_is_little_waits_for_nothing() -> None:
    """As much as one turn may do is done in that turn, and in the next one as much again."""
    loop = Loop()
    for _ in range(3):
        for number in range(10):
            assert loop.turns.may(IN_ONE_TURN // 10 - EACH), number
        await loop.pass_by(2)
    loop.end()


async def test_large_ones_are_done_alone_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one rests the next one waits, and what is not large does not."""
    monkeypatch.setattr(turns_module, "RESTS", 1e9)
    loop = Loop()
    large = [asyncio.create_task(loop.do(number, LARGE, seconds=1e-6)) for number in range(3)]
    await loop.pass_by(5)
    await asyncio.gather(*(loop.do(number, 100) for number in range(10, 20)))

    assert [number for _, number, _ in loop.done] == [0, *range(10, 20)]
    for each in large:
        each.cancel()
    loop.end()


async def test_large_ones_come_in_order_each_in_a_turn_of_its_own() -> None:
    """Once the rest is over."""
    loop = Loop()
    async with asyncio.timeout(60):
        await asyncio.gather(*(loop.do(number, LARGE * (number + 1)) for number in range(20)))
        await loop.do(20, LARGE)
    loop.end()

    assert [number for _, number, _ in loop.done] == list(range(21))
    assert all(one < other for (one, _, _), (other, _, _) in pairwise(loop.done[:20]))


@pytest.mark.parametrize("size", [1000, LARGE])
async def test_who_gives_up_holds_up_nobody(size: int) -> None:
    """Whether his turn has come by then or not."""
    loop = Loop()
    for turns in range(4):
        tasks = [asyncio.create_task(loop.do(number, size)) for number in range(30)]
        await loop.pass_by(turns)
        for each in tasks[:25]:
            each.cancel()
        async with asyncio.timeout(60):
            await asyncio.gather(*tasks, return_exceptions=True)
            await loop.do(99, size)
    loop.end()

    assert [number for _, number, _ in loop.done if number >= 25] == [*range(25, 30), 99] * 4
