"""Calls that come together share a transaction, and one alone is hardly ever held up."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any, cast

import pytest

from governor.rpc.gathering import Gathering

if TYPE_CHECKING:
    from governor.driver import Driver


class HandLoop(asyncio.SelectorEventLoop):
    """Its time goes on only by hand."""

    hand = 0.0

    def time(self) -> float:
        """Seconds."""
        return self.hand


class Record:
    """Stands in for a driver with a journal: counts transactions, and fails when told to."""

    def __init__(self) -> None:
        self.pending = 0
        self.gathering = False
        self.written: list[int] = []
        self.good = True
        self.locked: asyncio.Future[bool] | None = None

    def unrecorded(self) -> bool:
        """As `Driver`."""
        return self.pending > 0

    def commit(self) -> bool | Awaitable[bool]:
        """As `Driver`."""
        if self.locked is not None:
            return self.locked
        if self.pending:
            self.written.append(self.pending)
            self.pending = 0
        return self.good


class Calls:
    """Calls, each of which has something to write."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.gathering = Gathering(cast("Driver", record))

    async def call(self) -> bool:
        """One, from its coming to its answer."""
        self.record.pending += 1
        recorded = self.gathering.commit()
        return recorded if isinstance(recorded, bool) else await recorded

    async def together(self, count: int) -> list[bool]:
        """So many at one instant; and all the time that it takes until they are answered."""
        loop = hand_loop()
        answers = [asyncio.ensure_future(self.call()) for _ in range(count)]
        await turns()
        if not all(answer.done() for answer in answers):
            loop.hand += 0.0011
        return await asyncio.gather(*answers)

    async def crowd(self, count: int) -> None:
        """So many together, for long enough that they are known to be one."""
        for _ in range(100):
            await self.together(count)


def hand_loop() -> HandLoop:
    """The running one."""
    return cast("HandLoop", asyncio.get_running_loop())


async def turns() -> None:
    """All that is ready is done."""
    for _ in range(3):
        await asyncio.sleep(0)


def run(work: Coroutine[Any, Any, None]) -> None:
    """On a loop of its own."""
    loop = HandLoop()
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()


def test_one_call_now_and_then_waits_for_nobody() -> None:
    """Each has a transaction of its own, at once."""

    async def work() -> None:
        record = Record()
        calls = Calls(record)
        for _ in range(1000):
            hand_loop().hand += 0.0006
            before = hand_loop().hand
            assert await calls.together(1) == [True]
            assert hand_loop().hand == before

        assert record.written == [1] * 1000

    run(work())


def test_one_that_is_quick_is_held_up_seldom() -> None:
    """A millisecond in 256 calls, once it is known that nobody else comes."""

    async def work() -> None:
        loop = hand_loop()
        calls = Calls(Record())
        for _ in range(2000):
            await calls.together(1)
        before = loop.hand
        for _ in range(25_600):
            await calls.together(1)

        assert (loop.hand - before) / 0.0011 <= 101

    run(work())


@pytest.mark.parametrize(("count", "size"), [(2, 1), (3, 1), (4, 4), (16, 16), (40, 13)])
def test_enough_share_a_transaction_and_few_do_not(count: int, size: int) -> None:
    """Two or three lose more by waiting for each other than they gain; but for a try now and then."""

    async def work() -> None:
        record = Record()
        calls = Calls(record)
        for _ in range(300):
            await calls.together(count)
        began = len(record.written)
        for _ in range(300):
            await calls.together(count)

        assert count * 300 / (len(record.written) - began) == pytest.approx(size, rel=0.05)

    run(work())


def test_who_is_waited_for_in_vain_is_waited_for_a_millisecond() -> None:
    """Then the others go on without."""

    async def work() -> None:
        loop = hand_loop()
        record = Record()
        calls = Calls(record)
        await calls.crowd(4)
        assert record.written[-1] == 4
        alone = asyncio.ensure_future(calls.call())
        await turns()
        loop.hand += 0.0009
        await turns()

        assert not alone.done()

        loop.hand += 0.0002
        await alone

        assert record.written[-1] == 1

    run(work())


def test_after_a_crowd_one_alone_is_soon_served_at_once_again() -> None:
    """A few are held up, ever fewer."""

    async def work() -> None:
        loop = hand_loop()
        calls = Calls(Record())
        await calls.crowd(16)
        before = loop.hand
        for _ in range(100):
            await calls.together(1)
            loop.hand += 0.1

        assert loop.hand - before <= 100 * 0.1 + 2 * 0.0011

    run(work())


def test_what_cannot_be_written_is_told_to_all_of_a_group() -> None:
    """False, as it is to one alone."""

    async def work() -> None:
        record = Record()
        calls = Calls(record)
        await calls.crowd(4)
        record.good = False

        assert await calls.together(4) == [False] * 4

    run(work())


def test_a_group_waits_for_a_log_that_is_being_moved() -> None:
    """The transaction comes later; so do all answers."""

    async def work() -> None:
        record = Record()
        calls = Calls(record)
        await calls.crowd(4)
        record.locked = hand_loop().create_future()
        both = [asyncio.ensure_future(calls.call()) for _ in range(2)]
        await turns()
        hand_loop().hand += 0.0011
        await turns()

        assert not any(each.done() for each in both)

        record.locked.set_result(True)

        assert await asyncio.gather(*both) == [True, True]

    run(work())


def test_a_call_that_is_cancelled_leaves_its_group_to_the_others() -> None:
    """They are answered as if it had stayed."""

    async def work() -> None:
        loop = hand_loop()
        record = Record()
        calls = Calls(record)
        await calls.crowd(4)
        first, second = asyncio.ensure_future(calls.call()), asyncio.ensure_future(calls.call())
        await turns()

        assert not first.done()

        first.cancel()
        await turns()
        loop.hand += 0.0011

        assert first.cancelled()
        assert await second is True

    run(work())


def test_what_is_on_record_already_needs_no_group() -> None:
    """Nothing to write is nothing to wait for."""

    async def work() -> None:
        record = Record()
        calls = Calls(record)
        await calls.crowd(4)
        before = list(record.written)

        assert calls.gathering.commit() is True
        assert record.written == before

    run(work())
