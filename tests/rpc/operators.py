"""Operators of a server in the test's own loop: what they are told is made up, what they do is real."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from google.protobuf.duration_pb2 import Duration
from grpc import aio

from governor.access import Client
from governor.certificates import Certificates
from governor.chronicle import Chronicle, Entry
from governor.config import Config, ConfigState, Reloaded, parse
from governor.core.resource import ResourceSpec
from governor.core.types import SECOND, Claim, Denial
from governor.driver import Driver
from governor.refusals import Refusals
from governor.rpc.admin import About, Desk, Where
from governor.rpc.watch import Watch
from governor.testing.clock import FakeClock
from governor.v1.admin_pb2_grpc import AdminStub
from tests.rpc.conftest import RESOURCES, World, world

if TYPE_CHECKING:
    from governor.v1.admin_pb2_grpc import AdminAsyncStub

CONFIG = ConfigState("/etc/governor/governor.yaml", "0" * 64, since=1_795_989_183 * SECOND + 5)
ABOUT = About(
    host="here",
    started_at=1_795_989_180 * SECOND,
    http="http://127.0.0.1:7412",
    state_folder="/var/lib/governor",
    durability="process",
    state_problem="",
    audit_problem="the audit file cannot be written",
    revoked=3,
    expired=4,
    tracing="http://127.0.0.1:4317, all asks",
)
EMPTY = "{}"
# Who says that he gives an order.
JOE = (("governor-actor", "joe@desk, 3rd floor"),)
MINUTE = Duration(seconds=60)


def read(data: bytes, source: str, in_force: Config | None = None) -> Config:
    """As if the daemon had been started at /etc/governor, with a secret in its environment."""
    only = None if in_force is None else in_force.variables
    return parse(data, source, Path("/etc/governor"), {"SECRET": "hunter2", "DIGITS": "12345678", "HOME": "/h"}, only)


@dataclass
class Operated:
    """A server with operators. ``acts``: what was put on record of them, as what, which, details and who."""

    world: World
    admin: "AdminAsyncStub"
    acts: list[tuple[str, tuple[str, ...], str, str]] = field(default_factory=list)
    reloads: list[str] = field(default_factory=list)
    # Why, of each act.
    reasons: list[str] = field(default_factory=list)


@asynccontextmanager
async def operated(
    folder: Path,
    *resources: ResourceSpec,
    where: Where | None = None,
    reload: Callable[[], Reloaded] | None = None,
    running: str = EMPTY,
    clients: Sequence[Client] | None = None,
    certificates: Certificates | None = None,
) -> AsyncIterator[Operated]:
    """``running``: the config that the daemon is started with, as far as it is not about resources."""
    acts: list[tuple[str, tuple[str, ...], str, str]] = []
    reloads: list[str] = []
    reasons: list[str] = []
    config = read(running.encode(), "running")

    async def reloaded(actor: str) -> Reloaded:
        reloads.append(actor)
        return Reloaded(CONFIG) if reload is None else reload()

    clock = FakeClock()
    refusals: list[Refusals] = []

    def desk(driver: Driver) -> Desk:
        chronicle = Chronicle(driver, lambda: 0)
        refusals.append(Refusals(clock, chronicle.refused))

        def note(entry: Entry) -> None:
            acts.append((entry.what, entry.resources, entry.detail, entry.actor))
            reasons.append(entry.reason)

        chronicle.act_listeners.append(note)
        return Desk(
            where=where or Where(),
            about=lambda: ABOUT,
            config=lambda: CONFIG,
            reload=reloaded,
            read=lambda data, source: read(data, source, config),
            running=lambda: (config, config),
            act=chronicle.act,
            watch=Watch(chronicle, driver).watch,
        )

    def refused(denial: Denial, claims: Sequence[Claim], origin: str) -> None:
        refusals[0].refused(denial, claims, origin)

    async with world(
        folder,
        *(resources or RESOURCES),
        desk=desk,
        clients=clients,
        certificates=certificates,
        refused=refused,
        clock=clock,
    ) as made:
        target = str(made.server.admin[0]) if made.server.admin else f"unix:{made.path}"
        async with aio.insecure_channel(target) as channel:
            yield Operated(made, AdminStub(channel), acts, reloads, reasons)
