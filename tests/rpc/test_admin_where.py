"""Where operators are served, and what is said to those who call elsewhere."""

import asyncio
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from governor.address import TcpAddress, UnixAddress
from governor.lock import BindError
from governor.rpc.admin import ADMIN, Where, where
from governor.v1 import admin_pb2 as pb
from governor.v1 import governor_pb2
from governor.v1.admin_pb2_grpc import AdminStub
from governor.v1.governor_pb2_grpc import GovernorStub
from tests.rpc.conftest import RESOURCES, world
from tests.rpc.operators import operated
from tests.rpc.refusals import refused, status_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

Health = health_pb2.HealthCheckResponse
Request = health_pb2.HealthCheckRequest
Question = reflection_pb2.ServerReflectionRequest
Answer = reflection_pb2.ServerReflectionResponse

GOVERNOR = "governor.v1.Governor"


def test_the_config_has_the_first_word() -> None:
    """What it names is where it is, whatever else there is."""
    own = (UnixAddress(Path("/x")), TcpAddress("127.0.0.1", 1))

    assert where(own, (UnixAddress(Path("/y")),), Path("/state")) == Where(own)


def test_sockets_are_shared() -> None:
    """Whoever made one has said who may use it."""
    assert where((), (TcpAddress("::", 1), UnixAddress(Path("/y"))), Path("/state")) == Where()


def test_without_a_socket_one_is_made_in_the_state_folder() -> None:
    """For the daemon's own user, whatever the folder lets through; a relative folder starts where the daemon does."""
    listen = (TcpAddress("127.0.0.1", 7411),)

    assert where((), listen, Path("/state")) == Where(
        (UnixAddress(Path("/state/admin.sock"), mode=0o600),), implied=True
    )
    assert where((), listen, Path("state")) == Where(
        (UnixAddress(Path.cwd() / "state/admin.sock", mode=0o600),), implied=True
    )


def test_a_state_folder_may_be_too_deep_for_a_socket() -> None:
    """Then it is said what to set; the path of the socket is counted, in bytes."""
    listen = (TcpAddress("127.0.0.1", 7411),)
    fits = Path("/" + "ö" * 47 + "a")

    assert where((), listen, fits).own[0] == UnixAddress(fits / "admin.sock", mode=0o600)
    too_deep = where((), listen, Path(f"{fits}a"))
    assert too_deep.own == ()
    assert "name a unix socket under admin in governor's config" in too_deep.why_not
    assert "107 bytes" in too_deep.why_not


async def test_a_port_is_no_place_for_operators(folder: Path) -> None:
    """Who calls Admin there is told where it is, and how to know that; over the socket it answers."""
    async with operated(folder) as made:
        start = (await made.admin.GetInfo(pb.GetInfoRequest())).start
        place, port = made.world.server.addresses
        async with aio.insecure_channel(str(port)) as channel:
            admin = AdminStub(channel)
            calls: list[Awaitable[object]] = [
                admin.GetInfo(pb.GetInfoRequest()),
                admin.Revoke(pb.RevokeRequest(client="x")),
                admin.Reload(pb.ReloadRequest()),
                admin.Diff(iter([pb.DiffRequest()])),
                _first(admin.ListLeases(pb.ListLeasesRequest())),
                _first(admin.Watch(pb.WatchRequest())),
            ]
            for call in calls:
                said = await refused(call)

                assert (said.code, said.reason) == (grpc.StatusCode.PERMISSION_DENIED, "ADMIN_ELSEWHERE")
                assert dict(said.info.metadata) == {"admin": str(place), "start": start}
                assert f"operators are served at {place} alone; call it there" in said.message
            listed = await GovernorStub(channel).ListResources(governor_pb2.ListResourcesRequest())
            assert listed.resources
        assert made.acts == []
        assert made.reloads == []


async def test_addresses_of_its_own_serve_nothing_else(folder: Path) -> None:
    """But the list of resources; and it is neither at the port nor at the socket of everybody else."""
    own = Where((UnixAddress(folder / "admin.sock", mode=0o600), TcpAddress("127.0.0.1", 0)))
    async with operated(folder, where=own) as made:
        socket_, port = made.world.server.admin
        assert isinstance(port, TcpAddress)
        assert port.port
        assert (folder / "admin.sock").stat().st_mode & 0o777 == 0o600
        for place in (socket_, port):
            async with aio.insecure_channel(str(place)) as channel:
                info = await AdminStub(channel).GetInfo(pb.GetInfoRequest())
                assert list(info.admin_addresses) == [str(socket_), str(port)]
                assert list(info.addresses) == [str(address) for address in made.world.server.addresses]
                governor = GovernorStub(channel)
                assert (await governor.ListResources(governor_pb2.ListResourcesRequest())).resources
                asked = governor.Acquire(governor_pb2.AcquireRequest())
                assert await status_of(asked) is grpc.StatusCode.UNIMPLEMENTED
        for place in made.world.server.addresses:
            async with aio.insecure_channel(str(place)) as channel:
                said = await refused(AdminStub(channel).GetInfo(pb.GetInfoRequest()))
                assert said.info.metadata["admin"] == str(socket_)


async def test_where_there_is_no_place_it_is_said_what_to_do(folder: Path) -> None:
    """Whoever calls has no other way to learn of it."""
    nowhere = where((), (TcpAddress("127.0.0.1", 0),), folder / ("x" * 200))
    async with (
        operated(folder, where=nowhere) as made,
        aio.insecure_channel(str(made.world.server.addresses[1])) as channel,
    ):
        said = await refused(AdminStub(channel).GetInfo(pb.GetInfoRequest()))

    assert (said.code, said.reason) == (grpc.StatusCode.PERMISSION_DENIED, "ADMIN_NOWHERE")
    assert "name a unix socket under admin in governor's config" in said.message


async def test_it_is_listed_where_it_is(folder: Path) -> None:
    """By reflection and by health, with both kinds of place; and it is well while the daemon drains."""
    async with operated(folder) as made:
        shared = f"unix:{made.world.path}"
        assert await _services(shared) >= {ADMIN, GOVERNOR}
        made.world.server.set_serving(False)
        assert await _health(shared, ADMIN) == "SERVING"
        assert await _health(shared, GOVERNOR) == await _health(shared, "") == "NOT_SERVING"
    async with operated(folder, where=Where((UnixAddress(folder / "admin.sock"),))) as made:
        apart = f"unix:{folder / 'admin.sock'}"
        assert ADMIN not in await _services(f"unix:{made.world.path}")
        assert await _health(f"unix:{made.world.path}", ADMIN) == "NOT_FOUND"
        listed = await _services(apart)
        assert ADMIN in listed
        assert GOVERNOR not in listed
        made.world.server.set_serving(False)
        assert await _health(apart, ADMIN) == "SERVING"
        assert await _health(apart, "") == "NOT_SERVING", "as at the addresses of everybody else"
        made.world.server.set_serving(True)
        assert await _health(apart, "") == "SERVING"
        assert await _health(apart, GOVERNOR) == "NOT_FOUND"


async def test_all_addresses_are_had_or_none(folder: Path) -> None:
    """One that is taken leaves no socket and no port behind, of neither server."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        own = Where((UnixAddress(folder / "admin.sock"), TcpAddress("127.0.0.1", taken.getsockname()[1])))
        with pytest.raises(BindError, match="in use by another program"):
            async with operated(folder, where=own):
                pass
    assert _left(folder) == []
    (folder / "governor.sock").write_text("no socket")
    with pytest.raises(BindError, match="no socket stands there"):
        async with operated(folder, where=Where(own.own[:1])):
            pass
    assert _left(folder) == ["governor.sock"]
    (folder / "governor.sock").unlink()
    async with operated(folder, where=Where(own.own[:1])) as made:
        assert (await made.admin.GetInfo(pb.GetInfoRequest())).pid


async def test_what_nobody_has_asked_for_fails_no_start(folder: Path) -> None:
    """A state folder may be where no socket can be: that is said, and everybody else is served."""
    (folder / "admin.sock").write_text("no socket")
    implied = where((), (), folder)
    async with operated(folder, where=implied) as made:
        assert made.world.server.admin == ()
        assert "name a unix socket under admin in governor's config: " in made.world.server.why_not
        assert "something that is no socket stands there" in made.world.server.why_not
        said = await refused(AdminStub(made.world.channel).GetInfo(pb.GetInfoRequest()))
        assert said.reason == "ADMIN_NOWHERE"
        assert (await made.world.stub.ListResources(governor_pb2.ListResourcesRequest())).resources
    with pytest.raises(BindError, match="no socket stands there"):
        async with operated(folder, where=Where(implied.own)):
            pass


async def test_without_a_desk_there_is_no_such_service(folder: Path) -> None:
    """As in a server that nobody operates."""
    async with world(folder, *RESOURCES) as made:
        info = AdminStub(made.channel).GetInfo(pb.GetInfoRequest())
        assert await status_of(info) is grpc.StatusCode.UNIMPLEMENTED
        assert ADMIN not in await _services(f"unix:{made.path}")


def _left(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.suffix != ".lock"]


async def _first(stream: "aio.UnaryStreamCall[Any, Any] | aio.StreamStreamCall[Any, Any]") -> object:
    async with asyncio.timeout(60):
        return await stream.read()


async def _services(target: str) -> set[str]:
    async with aio.insecure_channel(target) as channel:
        method = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        ask = channel.stream_stream(method, Question.SerializeToString, Answer.FromString)
        answer = await _first(ask(iter([Question(list_services="")])))
    assert isinstance(answer, Answer)
    return {service.name for service in answer.list_services_response.service}


async def _health(target: str, service: str) -> str:
    async with aio.insecure_channel(target) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check", Request.SerializeToString, Health.FromString)
        try:
            answer = await check(Request(service=service))
        except aio.AioRpcError as error:
            return error.code().name
    return Health.ServingStatus.Name(answer.status)
