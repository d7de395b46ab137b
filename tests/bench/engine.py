"""What one step of the engine costs, in CPU time of pure Python.

It knows the engine and its events. It must never know a socket.

Each figure is the best of many short repetitions: whatever else the machine does only adds to the others. Where two
figures are compared, their repetitions take turns, so that a machine that becomes slower slows both. The collector
runs as it does by default.
"""

import gc
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Final

from governor.core.effects import Effect, Granted
from governor.core.engine import Engine
from governor.core.events import Acquire, Reconfigure, Release, Renew, ReserveIds, Wake
from governor.core.kinds.pool import MemberSpec, Order, PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec
from governor.core.resource import ResourceSpec
from governor.core.types import MILLISECOND, SECOND, Claim, LeaseId, Nanos, TicketId
from governor.metrics import Metrics
from tests.bench.figures import Figure, Report

_HOUR: Final[Nanos] = 3600 * SECOND
_PAIR: Final = 5.0  # us, of which making the two events is a part
_SLOWER: Final = 1.3
_LIVE: Final = 1_000_000
_WAITERS: Final = 100_000
_DUE: Final = 20_000
_REPETITIONS: Final = 25

# One repetition of something: so many times.
Repetition = Callable[[int], None]


class Bench:
    """An engine, the instant it is at, and the tickets that were used."""

    def __init__(self, lease: Nanos = 30 * SECOND, **limits: LimitSpec) -> None:
        self.engine = Engine()
        self.now: Nanos = 0
        self.tickets: Iterator[TicketId] = map(TicketId, count(1))
        specs = [
            ResourceSpec(name, limit, lease, 24 * _HOUR, None, 24 * _HOUR, 2**31) for name, limit in limits.items()
        ]
        self.engine.handle(ReserveIds(LeaseId(2**60)), now=0)
        self.engine.handle(Reconfigure(tuple(specs)), now=0)

    def acquire(self, resource: str, lease: Nanos | None = None) -> list[Effect]:
        """Ask for one permit, a microsecond later."""
        self.now += 1000
        return self.engine.handle(Acquire(next(self.tickets), (Claim(resource, 1),), lease=lease), now=self.now)

    def pairs(self, *resources: str) -> Repetition:
        """An acquire and its release; the claims are those that a caller has at hand."""
        handle = self.engine.handle
        claims = tuple([Claim(resource, 1) for resource in resources])

        def repeat(times: int) -> None:
            now, tickets = self.now, self.tickets
            for _ in range(times):
                now += 5000
                granted = handle(Acquire(next(tickets), claims), now=now)[0]
                assert isinstance(granted, Granted)
                handle(Release((granted.lease,)), now=now + 2000)
            self.now = now

        return repeat


def run(report: Report) -> None:
    """Measure all of it."""
    report.section("engine (CPU time of pure Python)")
    _pairs(report)
    _kinds(report)
    _moves(report)
    _expiry(report)
    _observing(report)


def _pairs(report: Report) -> None:
    alone = Bench(free=SemaphoreSpec(10), lent=SemaphoreSpec(None))
    for _ in range(100):
        alone.acquire("lent", _HOUR)
    crowded = Bench(free=SemaphoreSpec(10), busy=SemaphoreSpec(1))
    for _ in range(_WAITERS + 1):
        crowded.acquire("busy", _HOUR)
    full = Bench(free=SemaphoreSpec(10), lent=SemaphoreSpec(None))
    memory, pause = _resident(), _LongestPause()
    with pause:
        for _ in range(_LIVE):
            full.acquire("lent", _HOUR)
    memory = _resident() - memory
    gc.collect()
    best = _best(alone.pairs("free"), full.pairs("free"), crowded.pairs("free"))
    report.add(Figure("acquire and release", best[0], "us", at_most=_PAIR, note="100 live leases"))
    report.add(Figure("the same with 1,000,000 live leases", best[1] / best[0], "times", at_most=_SLOWER))
    report.add(Figure("the same with 100,000 waiters elsewhere", best[2] / best[0], "times", at_most=_SLOWER))
    report.add(Figure("memory of a live lease", memory / _LIVE, "bytes"))
    report.add(Figure("longest pause of the collector up to 1,000,000 leases", pause.seconds * 1e3, "ms"))


def _kinds(report: Report) -> None:
    three = Bench(a=SemaphoreSpec(10), b=SemaphoreSpec(10), c=SemaphoreSpec(10))
    report.add(Figure("acquire and release of three semaphores at once", *_us(three.pairs("a", "b", "c"))))
    members = tuple(MemberSpec(f"member-{number}") for number in range(100))
    for order in Order:
        pool = Bench(pool=PoolSpec(members, order=order))
        report.add(Figure(f"acquire and release of a pool of 100, {order}", *_us(pool.pairs("pool"))))
    rate = Bench(limit=RateLimitSpec((Window(10**6, SECOND, 10**6), Window(10**9, _HOUR, 10**9))))

    def spend(times: int) -> None:
        for _ in range(times):
            rate.acquire("limit")

    report.add(Figure("acquire of a rate limit with two windows", *_us(spend)))


def _moves(report: Report) -> None:
    bench = Bench(free=SemaphoreSpec(10), busy=SemaphoreSpec(1))
    handle = bench.engine.handle
    lease = _granted(bench.acquire("free"))
    renewal = Renew((lease,))

    def renew(times: int) -> None:
        for _ in range(times):
            bench.now += 1000
            handle(renewal, now=bench.now)

    report.add(Figure("renewal", *_us(renew)))
    held = _granted(bench.acquire("busy"))
    refused = Acquire(TicketId(0), (Claim("busy", 1),), wait=0)

    def refuse(times: int) -> None:
        for _ in range(times):
            handle(refused, now=bench.now)

    report.add(Figure("refusal of an ask that does not wait", *_us(refuse)))
    for _ in range(100):
        bench.acquire("busy")

    def hand_over(times: int) -> None:
        nonlocal held
        for _ in range(times):
            bench.acquire("busy")
            held = _granted(handle(Release((held,)), now=bench.now))

    report.add(Figure("an ask joins a line of 100, and a release grants its head", *_us(hand_over)))


def _expiry(report: Report) -> None:
    totals, steps = [], []
    for _ in range(3):
        bench = Bench(lent=SemaphoreSpec(None))
        for number in range(_DUE):
            due = _HOUR + number * MILLISECOND // _DUE
            bench.acquire("lent", due - bench.now - 1000)
        longest = total = 0
        while (deadline := bench.engine.next_deadline()) is not None:
            # As a timer of the event loop does, which counts in milliseconds.
            began = time.process_time_ns()
            bench.engine.handle(Wake(), now=-(-deadline // MILLISECOND) * MILLISECOND)
            step = time.process_time_ns() - began
            longest, total = max(longest, step), total + step
        totals.append(total)
        steps.append(longest)
    report.add(Figure("expiry of 20,000 leases due in one millisecond", min(totals) / 1e6, "ms"))
    report.add(Figure("  of which the longest step", min(steps) / 1e6, "ms"))


def _observing(report: Report) -> None:
    bench = Bench(free=SemaphoreSpec(10))
    metrics = Metrics(lambda: bench.engine.snapshot(now=bench.now), version="bench")
    granted = bench.acquire("free")
    released = bench.engine.handle(Release((_granted(granted),)), now=bench.now)

    def observe(times: int) -> None:
        for _ in range(times):
            metrics.observe(granted)
            metrics.observe(released)

    report.add(Figure("metrics of an acquire and its release", *_us(observe)))


def _best(*repetitions: Repetition, times: int = 4000) -> list[float]:
    """The cost of each in microseconds, the best of many repetitions that take turns."""
    best = [float("inf")] * len(repetitions)
    for repeat in repetitions:
        repeat(times)  # until all that is remembered of ended leases is full
    for _ in range(_REPETITIONS):
        for index, repeat in enumerate(repetitions):
            began = time.process_time_ns()
            repeat(times)
            best[index] = min(best[index], (time.process_time_ns() - began) / times / 1000)
    return best


def _us(repeat: Repetition) -> tuple[float, str]:
    return _best(repeat)[0], "us"


def _granted(effects: list[Effect]) -> LeaseId:
    """The lease that one of these gave."""
    return next(effect.lease for effect in effects if isinstance(effect, Granted))


def _resident() -> int:
    """Bytes of memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


class _LongestPause:
    """The longest time for which the collector stopped everything."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def __enter__(self) -> None:
        gc.callbacks.append(self._watch)

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._watch)

    def _watch(self, phase: str, _: object) -> None:
        if phase == "start":
            self._began = time.process_time()
        else:
            self.seconds = max(self.seconds, time.process_time() - self._began)
