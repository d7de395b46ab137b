"""The matrix: every call of both services by every kind of caller.

The calls come from the services' own descriptors: one that is added fails here until it has a row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import pytest
from google.protobuf.message import Message
from grpc import aio

from governor.access import Client, Verb, digest_of
from governor.v1 import admin_pb2
from governor.v1 import governor_pb2 as pb
from tests.rpc.conftest import ask
from tests.rpc.operators import MINUTE, Operated, operated
from tests.rpc.peer import hello

SERVICES: Final = (pb.DESCRIPTOR.services_by_name["Governor"], admin_pb2.DESCRIPTOR.services_by_name["Admin"])
OK: Final = grpc.StatusCode.OK
UNKNOWN: Final = grpc.StatusCode.UNAUTHENTICATED
DENIED: Final = grpc.StatusCode.PERMISSION_DENIED
ALL: Final = frozenset(Verb)


@dataclass(frozen=True)
class Row:
    """``verb``: what a call needs. ``request``, about a lease of the owner. ``scope``: what its resources decide."""

    verb: Verb
    request: Callable[[int], Message]
    scope: str


def _about_lease(request: type[pb.ReleaseRequest | pb.RenewRequest]) -> Callable[[int], Message]:
    return lambda lease: request(lease_ids=[lease])


def _always(request: Message) -> Callable[[int], Message]:
    return lambda _lease: request


def _hello(_lease: int) -> Message:
    return pb.SessionRequest(hello=hello())


ROWS: Final = {
    "Governor/Acquire": Row(Verb.ACQUIRE, _always(ask("open")), "resource"),
    "Governor/Release": Row(Verb.ACQUIRE, _about_lease(pb.ReleaseRequest), "lease"),
    "Governor/Renew": Row(Verb.ACQUIRE, _about_lease(pb.RenewRequest), "lease"),
    "Governor/ListResources": Row(Verb.READ, _always(pb.ListResourcesRequest()), "filtered"),
    "Governor/Session": Row(Verb.ACQUIRE, _hello, "filtered"),
    "Admin/GetInfo": Row(Verb.READ, _always(admin_pb2.GetInfoRequest()), "filtered"),
    "Admin/GetResource": Row(Verb.READ, _always(admin_pb2.GetResourceRequest(resource="sem")), "resource"),
    "Admin/ListLeases": Row(Verb.ADMIN, _always(admin_pb2.ListLeasesRequest()), "all"),
    "Admin/ListWaiters": Row(Verb.ADMIN, _always(admin_pb2.ListWaitersRequest()), "all"),
    "Admin/ListSessions": Row(Verb.ADMIN, _always(admin_pb2.ListSessionsRequest()), "all"),
    "Admin/Watch": Row(Verb.ADMIN, _always(admin_pb2.WatchRequest()), "all"),
    "Admin/Revoke": Row(Verb.ADMIN, lambda lease: admin_pb2.RevokeRequest(lease_ids=[lease]), "all"),
    "Admin/PauseResource": Row(Verb.ADMIN, _always(admin_pb2.PauseResourceRequest(resource="pool")), "resource"),
    "Admin/ResumeResource": Row(Verb.ADMIN, _always(admin_pb2.ResumeResourceRequest(resource="pool")), "resource"),
    "Admin/DrainResource": Row(Verb.ADMIN, _always(admin_pb2.DrainResourceRequest(resource="pool")), "resource"),
    "Admin/SetOverride": Row(
        Verb.ADMIN,
        _always(admin_pb2.SetOverrideRequest(resource="sem", settings={"permits": "5"}, length=MINUTE)),
        "resource",
    ),
    "Admin/ClearOverride": Row(Verb.ADMIN, _always(admin_pb2.ClearOverrideRequest(resource="sem")), "resource"),
    "Admin/RecycleMembers": Row(Verb.ADMIN, _always(admin_pb2.RecycleMembersRequest(resource="pool")), "resource"),
    "Admin/QuarantineMember": Row(
        Verb.ADMIN, _always(admin_pb2.QuarantineMemberRequest(resource="pool", member="spare")), "resource"
    ),
    "Admin/RestoreMember": Row(
        Verb.ADMIN, _always(admin_pb2.RestoreMemberRequest(resource="pool", member="spare")), "resource"
    ),
    "Admin/Reload": Row(Verb.ADMIN, _always(admin_pb2.ReloadRequest()), "all"),
    "Admin/Diff": Row(Verb.ADMIN, _always(admin_pb2.DiffRequest(yaml=b"{}")), "all"),
}


def _client(name: str, *verbs: Verb, resources: tuple[str, ...] = ("*",)) -> Client:
    return Client(name, (digest_of(f"{name}'s token".encode()),), frozenset(verbs), resources)


def token(name: str) -> tuple[tuple[str, str], ...]:
    """What a caller of this name says."""
    return (("authorization", f"Bearer {name}'s token"),) if name else ()


CLIENTS: Final = (
    _client("owner", Verb.ACQUIRE, Verb.READ),
    _client("other", Verb.ACQUIRE, Verb.READ),
    _client("admin", Verb.ADMIN),
    _client("not-acquire", *(ALL - {Verb.ACQUIRE, Verb.ADMIN})),
    _client("not-read", Verb.ACQUIRE),
    _client("not-admin", Verb.ACQUIRE, Verb.READ),
    _client("elsewhere", *ALL, resources=("else-*", "e*")),
)


def outcome(row: Row, caller: str) -> grpc.StatusCode:
    """What the rules in DESIGN.md, Access, say."""
    if caller in {"", "wrong", "revoked"}:
        return UNKNOWN
    client = next(each for each in CLIENTS if each.name == caller)
    if row.scope == "lease":
        return OK if caller in {"owner", "admin"} else DENIED
    may = row.verb in client.verbs or (row.verb is Verb.READ and Verb.ADMIN in client.verbs)
    return OK if may and (caller != "elsewhere" or row.scope == "filtered") else DENIED


# What grpc.aio says of a call that was answered while its client was still sending: it does not tell the answer then.
_ANSWERED_EARLY: Final = "Internal error from Core"


async def call(channel: aio.Channel, method: str, request: Message, caller: str) -> grpc.StatusCode:
    """How a call ended; one that goes on when it has said something is well.

    One that is answered before it was heard is made again, since it has changed nothing.
    """
    while (code := await _call(channel, method, request, caller)) is None:
        pass
    return code


async def _call(channel: aio.Channel, method: str, request: Message, caller: str) -> grpc.StatusCode | None:
    path = method if method.startswith("/") else f"/governor.v1.{method}"
    made: aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(path)(timeout=20, metadata=token(caller))
    try:
        await made.write(request.SerializeToString())
        # The end of what a session says is the end of it.
        if method != "Governor/Session":
            await made.done_writing()
        if await made.read() is not aio.EOF:
            return OK
    except aio.AioRpcError as error:
        return None if error.details() == _ANSWERED_EARLY else error.code()
    finally:
        made.cancel()
    return await made.code()


async def lease_of_owner(world: Operated) -> int:
    """One more."""
    granted = await world.world.stub.Acquire(ask("open"), metadata=token("owner"))
    return granted.lease.id


def test_every_call_has_a_row() -> None:
    """A call that nobody has thought about here is a call that anybody may make."""
    methods = {f"{service.name}/{method.name}" for service in SERVICES for method in service.methods}
    assert methods == set(ROWS)


@pytest.mark.parametrize("caller", ["", "wrong", "revoked", *(client.name for client in CLIENTS)])
async def test_every_call_by_every_kind_of_caller(folder: Path, caller: str) -> None:
    """Let in or refused, by what the caller is known to be; at the socket where both services are."""
    async with operated(folder, clients=(*CLIENTS, _client("revoked", *ALL))) as world:
        world.world.guard.declare(CLIENTS)
        found, expected = {}, {}
        for method, row in ROWS.items():
            lease = await lease_of_owner(world)
            found[method] = await call(world.world.channel, method, row.request(lease), caller)
            expected[method] = outcome(row, caller)

    assert found == expected


@pytest.mark.parametrize("method", sorted(ROWS))
async def test_without_clients_nobody_is_asked(folder: Path, method: str) -> None:
    """Nor does a token do any harm."""
    async with operated(folder) as world:
        lease = (await world.world.stub.Acquire(ask("open"))).lease.id
        for caller in ("", "wrong"):
            code = await call(world.world.channel, method, ROWS[method].request(lease), caller)
            ended = caller == "wrong" and method in {"Governor/Release", "Admin/Revoke"}
            assert code is (grpc.StatusCode.FAILED_PRECONDITION if ended else OK)


@pytest.mark.parametrize("caller", ["", "wrong", "owner"])
async def test_whoever_is_refused_has_changed_nothing(folder: Path, caller: str) -> None:
    """Not a lease, not a limit, not a line of any record."""
    async with operated(folder, clients=CLIENTS) as world:
        lease = await lease_of_owner(world)
        before = world.world.driver.snapshot().resources
        for method, row in ROWS.items():
            if outcome(row, caller) is not OK:
                await call(world.world.channel, method, row.request(lease), caller)

        assert world.world.driver.snapshot().resources == before
        assert not world.acts
        assert not world.reloads


@pytest.mark.parametrize("method", [method for method in ROWS if not method.startswith("Governor/S")])
async def test_bytes_that_are_no_message_let_nobody_in(folder: Path, method: str) -> None:
    """What a caller may do is decided also about what cannot be read."""
    async with operated(folder, clients=CLIENTS) as world:
        for caller, code in (("wrong", UNKNOWN), ("admin", grpc.StatusCode.INVALID_ARGUMENT)):
            multi: aio.UnaryUnaryMultiCallable[bytes, bytes] = world.world.channel.unary_unary(f"/governor.v1.{method}")
            made = multi(b"\xff\xff", metadata=token(caller))
            assert await made.code() is code
