"""The matrix once more, by the ways in: a socket, a port, TLS with every kind of certificate, and where operators are.

What there is to be called is asked of the running server, by reflection and by what is registered there.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import Message
from grpc import aio
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from governor.access import Client, Verb, digest_of
from governor.address import TcpAddress, UnixAddress
from governor.rpc.admin import Where
from governor.tls import Tls
from governor.v1 import admin_pb2
from governor.v1 import governor_pb2 as pb
from governor.v1.admin_pb2_grpc import AdminStub
from governor.v1.governor_pb2_grpc import GovernorStub
from tests.certificates import Authority, Pair, certificates_of
from tests.rpc.conftest import ask
from tests.rpc.operators import Operated, operated
from tests.rpc.peer import hello
from tests.rpc.test_access_matrix import ALL, DENIED, OK, ROWS, UNKNOWN, Row, call

NOT_THERE: Final = grpc.StatusCode.UNIMPLEMENTED
NO_WAY_IN: Final = grpc.StatusCode.UNAVAILABLE
LIST: Final = reflection_pb2.ServerReflectionRequest(list_services="")

# What is beside the two services, and is for everybody.
COMPANIONS: Final[dict[str, Message]] = {
    "/grpc.health.v1.Health/Check": health_pb2.HealthCheckRequest(),
    "/grpc.health.v1.Health/Watch": health_pb2.HealthCheckRequest(),
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": LIST,
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": LIST,
}
# Not at the addresses of operators, who need no more than to see what there is.
ONLY_CLIENTS: Final = frozenset(name for name in ROWS if name.startswith("Governor/")) - {"Governor/ListResources"}
UNANSWERED: Final = "/grpc.health.v1.Health/List"


def _client(name: str, *verbs: Verb) -> Client:
    return Client(name, (digest_of(f"{name}'s token".encode()),), frozenset(verbs), sans=(f"{name}.internal",))


CLIENTS: Final = (
    _client("acquirer", Verb.ACQUIRE),
    _client("reader", Verb.READ),
    _client("admin", Verb.ADMIN),
    _client("owner", Verb.ACQUIRE, Verb.READ),
    _client("all", *ALL),
)
NAMES: Final = tuple(client.name for client in CLIENTS)


class Certified:
    """Whom the daemon and its clients trust, and what each has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ours, self.clients = Authority(folder), Authority(folder, "clients")
        self.daemon = self.ours.certify("daemon", "127.0.0.1")
        self.tls = Tls(self.daemon.cert, self.daemon.key, self.clients.cert)
        names = {name: self.clients.certify(name, f"{name}.internal") for name in NAMES}
        self.of: dict[str, Pair | None] = {
            **names,
            "stranger": self.clients.certify("stranger", "stranger.internal"),
            "two": self.clients.certify("two", "admin.internal", "all.internal"),
            "old": self.clients.certify("old", "admin.internal", since=-3, until=-1),
            "early": self.clients.certify("early", "admin.internal", since=1, until=2),
            "forged": Authority(folder, "forger").certify("forged", "admin.internal"),
            "none": None,
        }

    def channel(self, port: TcpAddress, shown: Pair | None) -> aio.Channel:
        """To a daemon that is trusted, as whoever has this."""
        key, cert = (None, None) if shown is None else (shown.key.read_bytes(), shown.cert.read_bytes())
        trusting = grpc.ssl_channel_credentials(self.ours.cert.read_bytes(), key, cert)
        # Else one that failed would be answered for others, by the connection that they share.
        return aio.secure_channel(port.bare, trusting, options=(("grpc.use_local_subchannel_pool", 1),))


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    """Made once: keys take time."""
    return Certified(tmp_path_factory.mktemp("certificates"))


@dataclass
class Doors:
    """A server, and a way to it for each kind of caller."""

    world: Operated
    stack: AsyncExitStack
    certified: Certified

    async def by(self, door: str, shown: Pair | None = None) -> aio.Channel:
        """``shown``: where TLS is spoken."""
        unix, port, tls = self.world.world.server.addresses
        assert isinstance(tls, TcpAddress)
        match door:
            case "unix":
                made = aio.insecure_channel(str(unix))
            case "port":
                made = aio.insecure_channel(str(port))
            case "operators":
                made = aio.insecure_channel(str(self.world.world.server.admin[0]))
            case "operators' port":
                made = aio.insecure_channel(str(self.world.world.server.admin[1]))
            case _:
                made = self.certified.channel(tls, shown)
        return await self.stack.enter_async_context(made)

    async def lease(self) -> int:
        """One more of the owner's, whoever asks for it."""
        asked = (
            ask("open")
            if self.world.world.guard.policy
            else pb.AcquireRequest(client="owner", claims=ask("open").claims)
        )
        said = (("authorization", "Bearer owner's token"),)
        return (await self.world.world.stub.Acquire(asked, metadata=said)).lease.id

    async def found(self, channel: aio.Channel, token: str = "") -> dict[str, grpc.StatusCode]:
        """What becomes of each call over it."""
        found = {}
        for method, row in ROWS.items():
            found[method] = await call(channel, method, row.request(await self.lease()), token)
        for method, request in COMPANIONS.items():
            found[method] = await call(channel, method, request, token)
        assert await call(channel, UNANSWERED, health_pb2.HealthCheckRequest(), token) is NOT_THERE
        return found


@asynccontextmanager
async def doors(folder: Path, certified: Certified, *, known: bool = True, apart: bool = False) -> AsyncIterator[Doors]:
    """``known``: whether it knows its clients. ``apart``: whether operators have addresses of their own."""
    own = (UnixAddress(folder / "admin.sock", 0o600), TcpAddress("127.0.0.1", 0)) if apart else ()
    clients = CLIENTS if known else None
    certificates = certificates_of(certified.tls)
    async with (
        operated(folder, clients=clients, where=Where(own), certificates=certificates) as world,
        AsyncExitStack() as stack,
    ):
        yield Doors(world, stack, certified)


def expected(caller: str | None, *, admin: grpc.StatusCode | None = None) -> dict[str, grpc.StatusCode]:
    """What DESIGN.md, Access, says of one whom that client is; None: of nobody. ``admin``: of all of Admin."""
    outcomes = {method: _of(row, caller) for method, row in ROWS.items()}
    if admin is not None:
        outcomes |= {method: admin for method in ROWS if method.startswith("Admin/")}
    return outcomes | dict.fromkeys(COMPANIONS, OK)


def _of(row: Row, caller: str | None) -> grpc.StatusCode:
    client = next((each for each in CLIENTS if each.name == caller), None)
    if client is None:
        return UNKNOWN
    if row.scope == "lease":
        mine = caller == "owner" or Verb.ADMIN in client.verbs
        return OK if mine else DENIED
    return OK if row.verb in client.verbs or (row.verb is Verb.READ and Verb.ADMIN in client.verbs) else DENIED


# --- what there is to be called ---------------------------------------------------------------------------------


async def test_every_call_that_the_server_answers_has_a_row(folder: Path, certified: Certified) -> None:
    """Of every service that it lists itself, and of whatever is registered and not listed."""
    async with doors(folder, certified) as made:
        channel = await made.by("unix")
        listed = await _listed(channel)
        registered = {
            method for place in made.world.world.server._places for method in place._server._arrivals.handlers
        }

    rows = {f"/governor.v1.{method}" for method in ROWS} | set(COMPANIONS)
    assert registered == rows
    # The newer name of reflection has no descriptor of its own; and the descriptor of health has more than is answered.
    assert listed - {UNANSWERED} == {each for each in rows if "/grpc.reflection.v1." not in each}


async def _listed(channel: aio.Channel) -> set[str]:
    made: aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    )(timeout=20)

    async def asked(question: reflection_pb2.ServerReflectionRequest) -> reflection_pb2.ServerReflectionResponse:
        await made.write(question.SerializeToString())
        answer: object = await made.read()
        assert isinstance(answer, bytes)
        return reflection_pb2.ServerReflectionResponse.FromString(answer)

    methods = set()
    for service in (await asked(LIST)).list_services_response.service:
        answer = await asked(reflection_pb2.ServerReflectionRequest(file_containing_symbol=service.name))
        for raw in answer.file_descriptor_response.file_descriptor_proto:
            file = FileDescriptorProto.FromString(raw)
            for each in file.service:
                if f"{file.package}.{each.name}" == service.name:
                    methods |= {f"/{service.name}/{method.name}" for method in each.method}
    made.cancel()
    return methods


# --- who comes by which way -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("door", "shown", "admin"),
    [("unix", None, OK), ("port", None, DENIED), ("tls", "stranger", DENIED), ("tls", "admin", DENIED)],
)
async def test_where_nobody_is_asked_operators_come_by_the_socket(
    folder: Path, certified: Certified, door: str, shown: str | None, admin: grpc.StatusCode
) -> None:
    """Whatever certificate somebody has: that of a port says nothing without clients."""
    async with doors(folder, certified, known=False) as made:
        channel = await made.by(door, certified.of[shown] if shown else None)
        found = await made.found(channel)

    assert found == {method: admin if method.startswith("Admin/") else OK for method in (*ROWS, *COMPANIONS)}


@pytest.mark.parametrize("door", ["unix", "port"])
@pytest.mark.parametrize("caller", ["", "wrong", *NAMES])
async def test_a_token_counts_the_same_at_each_address(
    folder: Path, certified: Certified, door: str, caller: str
) -> None:
    """Who says nothing of himself to Admin at a port is told where its socket is, which is another refusal."""
    elsewhere = DENIED if door == "port" and not caller else None
    async with doors(folder, certified) as made:
        found = await made.found(await made.by(door), caller)

    assert found == expected(caller, admin=elsewhere)


@pytest.mark.parametrize("caller", [*NAMES, "stranger", "two"])
async def test_a_certificate_is_as_good_as_a_token(folder: Path, certified: Certified, caller: str) -> None:
    """By its names; a name that nobody has, or names of two, is nobody."""
    nobody_of = caller in {"stranger", "two"}
    async with doors(folder, certified) as made:
        found = await made.found(await made.by("tls", certified.of[caller]))

    assert found == expected(None if nobody_of else caller)


@pytest.mark.parametrize("token", ["wrong", "reader", "admin"])
async def test_a_token_has_the_first_word(folder: Path, certified: Certified, token: str) -> None:
    """Also if it is wrong, or may do less than the certificate."""
    async with doors(folder, certified) as made:
        found = await made.found(await made.by("tls", certified.of["all"]), token)

    assert found == expected(token)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("shown", ["none", "old", "early", "forged"])
async def test_without_a_certificate_that_counts_there_is_no_way_in(
    folder: Path, certified: Certified, shown: str, *, known: bool
) -> None:
    """Not to health either, and not with the token of an admin."""
    async with doors(folder, certified, known=known) as made:
        channel = await made.by("tls", certified.of[shown])
        found = await asyncio.gather(
            *(call(channel, method, row.request(1), "admin") for method, row in ROWS.items()),
            *(call(channel, method, request, "admin") for method, request in COMPANIONS.items()),
        )
        assert set(found) == {NO_WAY_IN}
        assert not made.world.acts
        assert not made.world.world.driver.live_leases


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("caller", ["", "wrong", "acquirer", "reader", "admin"])
@pytest.mark.parametrize("door", ["operators", "operators' port"])
async def test_addresses_of_operators_ask_who_comes_by_a_port(
    folder: Path, certified: Certified, door: str, caller: str, *, known: bool
) -> None:
    """And nobody who comes by the socket: its mode has said who may. Of what is for clients they see the list there."""
    async with doors(folder, certified, known=known, apart=True) as made:
        found = await made.found(await made.by(door), caller)

    asked = known and door != "operators"
    admin = expected(caller) if asked else dict.fromkeys(ROWS, OK)
    assert found == {
        method: NOT_THERE if method in ONLY_CLIENTS else admin[method] if method in ROWS else OK
        for method in (*ROWS, *COMPANIONS)
    }


# --- what changes while they are there --------------------------------------------------------------------------


async def test_a_name_that_is_taken_away_is_gone_from_connections_that_are_there(
    folder: Path, certified: Certified
) -> None:
    """A certificate proves who one is for as long as the config says so; a session ends with it."""
    async with doors(folder, certified) as made:
        channel = await made.by("tls", certified.of["all"])
        assert (await made.found(channel)) == expected("all")
        session: aio.StreamStreamCall[bytes, bytes] = channel.stream_stream("/governor.v1.Governor/Session")(timeout=20)
        await session.write(pb.SessionRequest(hello=hello()).SerializeToString())
        assert await session.read() is not aio.EOF
        made.world.world.guard.declare([each for each in CLIENTS if each.name != "all"])
        while True:
            try:
                if await session.read() is aio.EOF:
                    break
            except aio.AioRpcError:
                break

        assert await session.code() is UNKNOWN
        assert (await made.found(channel)) == expected(None)


async def test_another_authority_lets_others_in(folder: Path, tmp_path: Path) -> None:
    """From the next connection on; who is there by the former stays."""
    certified = Certified(tmp_path)
    async with doors(folder, certified) as made:
        before = await made.by("tls", certified.of["reader"])
        assert (await made.found(before)) == expected("reader")
        second = Authority(tmp_path, "second")
        certified.clients.cert.write_bytes(second.cert.read_bytes())
        fresh = second.certify("fresh", "reader.internal")
        assert (await made.found(await made.by("tls", fresh))) == expected("reader")
        late = await made.by("tls", certified.of["reader"])
        read = ROWS["Governor/ListResources"].request(0)

        assert await call(late, "Governor/ListResources", read, "") is NO_WAY_IN
        assert await call(before, "Governor/ListResources", read, "") is OK


@pytest.mark.parametrize(
    ("door", "caller", "shown"),
    [
        ("unix", "reader", False),
        ("tls", "reader", False),
        ("operators' port", "reader", False),
        ("unix", "owner", True),
        ("tls", "all", True),
        ("operators' port", "admin", True),
        ("operators", "", True),
    ],
)
async def test_what_members_are_is_for_who_may_be_lent_them(
    folder: Path, certified: Certified, door: str, caller: str, *, shown: bool
) -> None:
    """Attributes may be passwords: whoever only reads sees which members there are, and how they fare."""
    asked = admin_pb2.GetResourceRequest(resource="pool")
    async with doors(folder, certified, apart=door.startswith("operators")) as made:
        channel = await made.by(door, certified.of[caller] if door == "tls" else None)
        said = (("authorization", f"Bearer {caller}'s token"),) if caller and door != "tls" else None
        told = await AdminStub(channel).GetResource(asked, metadata=said)

    assert [member.id for member in told.members] == ["primary", "spare"]
    assert [dict(member.attributes) for member in told.members] == [{"endpoint": "db1:5432"} if shown else {}, {}]


# --- leases of others -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("caller", ["acquirer", "reader", "owner", "admin"])
@pytest.mark.parametrize("way", ["token", "certificate"])
async def test_a_lease_is_its_owners_whatever_is_done_to_it(
    folder: Path, certified: Certified, way: str, caller: str
) -> None:
    """Renewed, given back, revoked, and asked for by its request id; on sessions, see `test_access`."""
    async with doors(folder, certified) as made:
        channel = await made.by("tls", certified.of[caller]) if way == "certificate" else await made.by("unix")
        said = caller if way == "token" else ""
        named = pb.AcquireRequest(claims=ask("open").claims, client="owner", request_id="once")
        bearer = (("authorization", "Bearer owner's token"),)
        held = (await made.world.world.stub.Acquire(named, metadata=bearer)).lease.id
        driver = made.world.world.driver
        before = driver.snapshot().leases

        async def done(method: str, request: Message) -> bool:
            """Whether it was, of one that others cannot have ended."""
            return await call(channel, method, request, said) is OK

        theirs = {
            "renew": await done("Governor/Renew", pb.RenewRequest(lease_ids=[held])),
            "revoke": await done("Admin/Revoke", admin_pb2.RevokeRequest(lease_ids=[await made.lease()])),
            "release": await done("Governor/Release", pb.ReleaseRequest(lease_ids=[await made.lease()])),
        }
        if caller in {"acquirer", "owner"}:
            metadata = (("authorization", f"Bearer {said}'s token"),) if said else None
            again = await GovernorStub(channel).Acquire(named, metadata=metadata)
            theirs["repeat"] = again.lease.id == held

    may = {
        "acquirer": {"renew": False, "revoke": False, "release": False, "repeat": False},
        "reader": {"renew": False, "revoke": False, "release": False},
        "owner": {"renew": True, "revoke": False, "release": True, "repeat": True},
        "admin": {"renew": True, "revoke": True, "release": True},
    }
    assert theirs == may[caller]
    assert before == 1
