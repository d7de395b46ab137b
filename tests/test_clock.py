"""The clocks: the machine's, and the one that tests move."""

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import governor
from governor.clock import LoopClock, unix_nanos
from governor.core.types import MILLISECOND, SECOND, Nanos
from governor.testing.clock import FakeClock


class TestLoopClock:
    """The machine's monotonic clock."""

    def test_now_never_falls(self) -> None:
        """However often it is asked."""

        async def ask() -> list[Nanos]:
            clock = LoopClock()
            return [clock.now() for _ in range(10_000)]

        seen = asyncio.run(ask())

        assert seen == sorted(seen)

    def test_now_counts_nanoseconds(self) -> None:
        """It is the clock that the whole machine shares, and no coarser."""

        async def ask() -> tuple[Nanos, Nanos, Nanos]:
            return time.monotonic_ns(), LoopClock().now(), time.monotonic_ns()

        before, now, after = asyncio.run(ask())

        assert before <= now <= after

    @pytest.mark.parametrize("ahead", [-SECOND, 0, 300_000, 5 * MILLISECOND, 12_345_678])
    def test_a_call_comes_at_its_instant(self, ahead: Nanos) -> None:
        """Or a little later; earlier by less than the millisecond that some loops count in."""

        async def call() -> Nanos:
            clock = LoopClock()
            came: asyncio.Future[Nanos] = asyncio.get_running_loop().create_future()
            when = clock.now() + ahead
            clock.call_at(when, lambda: came.set_result(clock.now()))
            async with asyncio.timeout(60):
                return await came - when

        assert asyncio.run(call()) > -MILLISECOND

    def test_a_call_never_comes_within_call_at(self) -> None:
        """Even one that is due long since waits for the loop: whoever sets a timer is in the middle of a step."""

        async def call() -> list[str]:
            order: list[str] = []
            called = asyncio.Event()
            LoopClock().call_at(0, called.set)
            order.append("called" if called.is_set() else "set")
            async with asyncio.timeout(60):
                await called.wait()
            return order

        assert asyncio.run(call()) == ["set"]

    def test_a_cancelled_call_never_comes(self) -> None:
        """Cancelling is safe also afterwards, and twice."""

        async def call() -> list[str]:
            clock, order = LoopClock(), list[str]()
            cancelled = clock.call_at(clock.now() + MILLISECOND, lambda: order.append("cancelled"))
            cancelled.cancel()
            later = asyncio.Event()
            kept = clock.call_at(clock.now() + 5 * MILLISECOND, later.set)
            async with asyncio.timeout(60):
                await later.wait()
            kept.cancel()
            kept.cancel()
            return order

        assert asyncio.run(call()) == []

    def test_a_call_may_be_years_ahead(self) -> None:
        """The longest lease that can be declared makes no trouble."""

        async def call() -> None:
            clock = LoopClock()
            clock.call_at(clock.now() + 10 * 366 * 24 * 3600 * SECOND, lambda: None).cancel()
            clock.call_at(clock.now() + 10 * 366 * 24 * 3600 * SECOND, lambda: pytest.fail("years have passed"))
            for _ in range(3):
                await asyncio.sleep(0)

        asyncio.run(call())


def test_unix_nanos_is_the_wall_clock() -> None:
    """Nanoseconds since 1970, for people to read."""
    before = time.time_ns()
    now = unix_nanos()

    assert before <= now <= time.time_ns()


class TestFakeClock:
    """The clock that every other test trusts."""

    def test_calls_come_in_order_each_at_its_instant(self) -> None:
        """Also those that a call sets on the way."""
        clock = FakeClock(time=100)
        came: list[tuple[str, Nanos]] = []

        def note(name: str) -> Callable[[], None]:
            return lambda: came.append((name, clock.now()))

        def set_one_more() -> None:
            clock.call_at(125, note("set on the way"))

        clock.call_at(130, note("c"))
        clock.call_at(110, note("a"))
        clock.call_at(110, note("b"))
        clock.call_at(120, set_one_more)
        clock.call_at(131, note("too late"))
        clock.advance(30)

        assert came == [("a", 110), ("b", 110), ("set on the way", 125), ("c", 130)]
        assert (clock.now(), clock.pending) == (130, 1)

    def test_a_cancelled_call_is_not_pending(self) -> None:
        """And does not come."""
        clock = FakeClock()
        clock.call_at(1, lambda: pytest.fail("it came")).cancel()

        assert clock.pending == 0
        clock.advance(1)


def test_nobody_else_in_the_daemon_reads_a_clock() -> None:
    """So time is an argument everywhere, and a test that moves it moves it for all."""
    root = Path(governor.__file__).parent
    others = {"client", "cli"}  # programs of their own
    reads = re.compile(r"\btime\.(?:time|monotonic|perf_counter)|\bdatetime\.(?:now|utcnow|today)\b")
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if path.relative_to(root).parts[0] not in others and reads.search(path.read_text())
    }

    assert found == {"clock.py"}
