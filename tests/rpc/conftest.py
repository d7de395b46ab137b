"""A whole server in the test's own loop: real engine, real sockets, a clock that moves by hand."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from grpc import aio

from governor.access import Client
from governor.address import Address, TcpAddress, UnixAddress
from governor.bounds import Bound, Bounds
from governor.certificates import Certificates
from governor.core.engine import Engine
from governor.core.kinds.pool import MemberSpec, PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec
from governor.core.resource import ResourceSpec
from governor.core.types import SECOND, LeaseId, Nanos
from governor.driver import Driver
from governor.rpc import GrpcServer, serve
from governor.rpc.admin import Desk
from governor.rpc.guard import Guard, Refused
from governor.sessions import Sessions
from governor.testing.clock import FakeClock
from governor.v1 import governor_pb2 as pb
from governor.v1.governor_pb2_grpc import GovernorStub
from tests.rpc.wire import Wire

if TYPE_CHECKING:
    from governor.v1.governor_pb2_grpc import GovernorAsyncStub
    from tests.rpc.operators import Operated

MAX_WAITERS = 2000


async def until(condition: Callable[[], bool]) -> None:
    """Returns when it holds. What happens in grpc's own threads has no event to wait for."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def declared(name: str, limit: LimitSpec) -> ResourceSpec:
    """A resource with bounds that are out of the way."""
    return ResourceSpec(
        name,
        limit,
        lease=30 * SECOND,
        max_lease=3600 * SECOND,
        on_disconnect=2 * SECOND,
        max_wait=30 * SECOND,
        max_waiters=MAX_WAITERS,
    )


RESOURCES: tuple[ResourceSpec, ...] = (
    declared("sem", SemaphoreSpec(2)),
    declared("pool", PoolSpec((MemberSpec("primary", (("endpoint", "db1:5432"),)), MemberSpec("spare")))),
    declared("rate", RateLimitSpec((Window(1, SECOND, 1),))),
    declared("open", SemaphoreSpec(None)),
)


def ask(resource: str = "sem", permits: int = 1) -> pb.AcquireRequest:
    """An ask with one claim."""
    return pb.AcquireRequest(claims=[pb.Claim(resource=resource, permits=permits)])


@dataclass
class World:
    """What a test moves and looks at."""

    clock: FakeClock
    driver: Driver
    server: GrpcServer
    path: Path
    stub: "GovernorAsyncStub"
    channel: aio.Channel
    guard: Guard
    reached: Counter[Bound] = field(default_factory=Counter)
    wires: list[Wire] = field(default_factory=list)

    async def wire(self) -> Wire:
        """A connection of frames; closed at the end of the test, whatever becomes of it."""
        self.wires.append(await Wire.connect(self.path))
        return self.wires[-1]

    def in_use(self, resource: str = "sem") -> int:
        """Permits lent now."""
        return next(seen.in_use for seen in self.driver.snapshot().resources if seen.name == resource)

    @property
    def sessions(self) -> Sessions:
        """Those that are remembered."""
        return self.server.sessions

    @property
    def streams(self) -> int:
        """How many sessions have a client that can be told something."""
        return len(self.server._sessions._streams)

    @property
    def waiters(self) -> int:
        """How many asks wait."""
        return self.driver.snapshot().waiters

    async def until_waiting(self, waiters: int) -> None:
        """Returns when exactly so many asks wait."""
        await until(lambda: self.waiters == waiters)

    async def until_hung_up(self) -> None:
        """Returns when every session has heard of the end of its stream.

        Before that the clock must not move: what a stream had left behind would have its grace from a later instant.
        """
        await until(lambda: not self.streams)

    async def until_free(self) -> None:
        """Returns when nothing is lent and nobody waits; the clock stands, so no expiry helps."""
        await until(lambda: not self.in_use() and not self.waiters)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a path short enough for sockets, whatever the test is called."""
    with tempfile.TemporaryDirectory(prefix="gov") as path:
        yield Path(path)


@asynccontextmanager
async def world(
    folder: Path,
    *resources: ResourceSpec,
    restart_grace: Nanos = 0,
    desk: Callable[[Driver], Desk] | None = None,
    clients: Sequence[Client] | None = None,
    certificates: Certificates | None = None,
    bounds: Bounds | None = None,
    refused: Refused | None = None,
    clock: FakeClock | None = None,
) -> AsyncIterator[World]:
    """A daemon's inside with ``resources``, on a unix socket and on TCP; with a ``desk``, operators are served.

    ``clients``: who may ask; None is everybody. ``bounds``: what they may take of it; None is as without a word of it.
    ``certificates``: TLS is spoken at a third address. ``refused`` is told of what they may not do.
    """
    clock = clock or FakeClock()
    driver = Driver(Engine(), clock)
    driver.reserve_ids(LeaseId(10_000_000))
    driver.reconfigure(resources)
    path = folder / "governor.sock"
    listen: tuple[Address, ...] = (UnixAddress(path), TcpAddress("127.0.0.1", 0))
    if certificates is not None:
        listen += (TcpAddress("127.0.0.1", 0, tls=True),)
    made_desk = None if desk is None else desk(driver)
    guard = Guard(driver, clients) if refused is None else Guard(driver, clients, refused)
    reached = Counter[Bound]()
    server = await serve(
        driver,
        clock,
        listen,
        restart_grace=restart_grace,
        desk=made_desk,
        guard=guard,
        bounds=bounds or Bounds(),
        reached=lambda bound: reached.update((bound,)),
        certificates=certificates,
    )
    server.set_serving(True)
    try:
        async with aio.insecure_channel(f"unix:{path}") as channel:
            made = World(clock, driver, server, path, GovernorStub(channel), channel, guard, reached)
            try:
                yield made
            finally:
                await asyncio.gather(*(wire.close() for wire in made.wires))
    finally:
        driver.close()
        await server.stop(0)


@pytest.fixture
async def governor(folder: Path) -> AsyncIterator[World]:
    """A semaphore of 2, a pool of two members, a rate limit of 1/s, an unlimited semaphore."""
    async with world(folder, *RESOURCES) as made:
        yield made


@pytest.fixture
async def operators(folder: Path) -> "AsyncIterator[Operated]":
    """The same, and operators."""
    from tests.rpc.operators import operated  # noqa: PLC0415 - it is made of what is here

    async with operated(folder) as made:
        yield made
