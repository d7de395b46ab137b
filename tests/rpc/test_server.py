"""Addresses, the services beside ours, and the end; in each failure the daemon that was there first is untouched."""

import asyncio
import os
import socket
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from governor.address import Address, TcpAddress, UnixAddress
from governor.core.engine import Engine
from governor.driver import Driver
from governor.lock import BindError
from governor.rpc import GrpcServer, serve
from governor.testing.clock import FakeClock
from governor.v1 import governor_pb2 as pb
from governor.v1.governor_pb2_grpc import GovernorStub
from tests.rpc.conftest import World, ask
from tests.rpc.refusals import refused, status_of
from tests.rpc.wire import Wire

LOOPBACK = "127.0.0.1"
Health = health_pb2.HealthCheckResponse
HealthRequest = health_pb2.HealthCheckRequest
Question = reflection_pb2.ServerReflectionRequest
Answer = reflection_pb2.ServerReflectionResponse


async def second(*listen: Address) -> GrpcServer:
    """Another daemon's server."""
    clock = FakeClock()
    return await serve(Driver(Engine(), clock), clock, listen)


async def refusal_of(start: Awaitable[GrpcServer]) -> str:
    """The one line of a server that does not come up."""
    with pytest.raises(BindError) as caught:
        await start
    line = str(caught.value)
    assert line
    assert "\n" not in line
    return line


async def serves(target: str) -> bool:
    """Whether somebody answers there."""
    async with aio.insecure_channel(target) as channel:
        return await status_of(GovernorStub(channel).ListResources(pb.ListResourcesRequest(), timeout=20)) is OK


def names(folder: Path) -> list[str]:
    """What a folder holds."""
    return sorted(path.name for path in folder.iterdir())


OK = grpc.StatusCode.OK


# --- binding ----------------------------------------------------------------------------------------------------


async def test_what_must_come_before_the_first_ask_comes_when_all_is_bound(governor: World, folder: Path) -> None:
    """Such as the ids of leases: nobody can have asked by then, nobody can if it fails, and it never comes in vain."""
    path, came = folder / "other.sock", list[bool]()

    async def first() -> None:
        came.append(path.exists())

    async def fails() -> None:
        raise OSError(5, "Input/output error")

    async def start(bound: Callable[[], Awaitable[None]], *more: Address) -> GrpcServer:
        clock = FakeClock()
        return await serve(Driver(Engine(), clock), clock, (UnixAddress(path), *more), bound=bound)

    with pytest.raises(OSError, match="Input/output"):
        await start(fails)
    await refusal_of(start(first, governor.server.addresses[1]))
    assert (path.exists(), came) == (False, [])
    server = await start(first)
    assert came == [False]
    assert await serves(f"unix:{path}")
    await server.stop(0)


async def test_a_chosen_port_is_told(governor: World) -> None:
    """Port 0 is the kernel's choice, and the address says which."""
    unix, tcp = governor.server.addresses

    assert unix == UnixAddress(governor.path)
    assert isinstance(tcp, TcpAddress)
    assert tcp.port > 0
    assert await serves(str(tcp))


async def test_a_port_in_use(governor: World) -> None:
    """A second server does not share it, as grpc would by default."""
    line = await refusal_of(second(governor.server.addresses[1]))

    assert line.startswith(f"{governor.server.addresses[1]}: is in use")
    assert await serves(str(governor.server.addresses[1]))


async def test_a_port_of_another_program() -> None:
    """The same for a listener that is no gRPC server."""
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]

        assert "is in use" in await refusal_of(second(TcpAddress(LOOPBACK, port)))


async def test_one_of_several_addresses_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that stands for two addresses is not half bound, as grpc would be content to do."""
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]

        async def both(*_: object, **__: object) -> list[tuple[object, ...]]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in ("127.0.0.2", LOOPBACK)]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", both)

        assert "is in use" in await refusal_of(second(TcpAddress("several", port)))


@pytest.mark.parametrize(
    ("host", "told"),
    [("192.0.2.1", "is no address of this machine"), ("governor.invalid", "no such host")],
)
async def test_an_address_that_is_not_ours(host: str, told: str) -> None:
    """Of another machine, or of none."""
    assert told in await refusal_of(second(TcpAddress(host, 7411)))


async def test_a_socket_in_use(governor: World) -> None:
    """The lock beside it says by whom; grpc would have taken the path from the living server."""
    before = governor.path.lstat().st_ino

    line = await refusal_of(second(UnixAddress(governor.path)))

    assert line.startswith(f"socket {governor.path} is in use by process {os.getpid()}")
    assert governor.path.lstat().st_ino == before
    assert await status_of(governor.stub.Acquire(ask())) is OK


async def test_a_socket_of_another_program(folder: Path) -> None:
    """It has no lock, but it is alive."""
    path = folder / "other.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()

        assert "another program serves this socket" in await refusal_of(second(UnixAddress(path)))
        assert stat.S_ISSOCK(path.lstat().st_mode)


async def test_a_stale_socket_is_replaced(folder: Path) -> None:
    """A killed daemon leaves its socket behind; the next one needs nobody to clean up."""
    path = folder / "governor.sock"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    stale = path.lstat().st_ino

    server = await second(UnixAddress(path))

    assert await serves(f"unix:{path}")
    assert path.lstat().st_ino != stale
    await server.stop(0)


@pytest.mark.parametrize("kind", ["file", "folder", "symlink"])
async def test_what_is_no_socket_stays(folder: Path, kind: str) -> None:
    """Nothing that somebody put there is removed."""
    path = folder / "governor.sock"
    match kind:
        case "file":
            path.write_text("precious")
        case "folder":
            path.mkdir()
        case _:
            path.symlink_to("elsewhere")
    before = path.lstat()

    assert "no socket stands there" in await refusal_of(second(UnixAddress(path)))
    assert path.lstat().st_ino == before.st_ino


async def test_the_longest_path(folder: Path) -> None:
    """107 bytes can be served, however short the last part is; 108 are refused with both numbers."""
    deep = folder / ("d" * (107 - len(str(folder)) - 3))
    deep.mkdir()
    path = deep / "s"
    assert len(str(path)) == 107

    server = await second(UnixAddress(path))
    assert await serves(f"unix:{path}")
    await server.stop(0)

    line = await refusal_of(second(UnixAddress(deep / "ss")))
    assert "108 bytes" in line
    assert "107" in line


async def test_a_missing_folder(folder: Path) -> None:
    """Above the one that would be made: it says which."""
    line = await refusal_of(second(UnixAddress(folder / "no" / "none" / "governor.sock")))

    assert f"the folder {folder / 'no' / 'none'} does not exist" in line
    assert names(folder) == []


@pytest.mark.parametrize("umask", [0, 0o077])
async def test_a_folder_is_made_for_its_owner_and_group(folder: Path, umask: int) -> None:
    """Of the socket: others do not get as far as that. It stays, and so does the mode that somebody gives it."""
    path = folder / "run" / "governor.sock"
    before = os.umask(umask)
    try:
        server = await second(UnixAddress(path, group=os.getgid()))
    finally:
        os.umask(before)
    made = path.parent.stat()
    assert (stat.S_IMODE(made.st_mode), made.st_gid) == (0o750, os.getgid())
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    await server.stop(0)
    path.parent.chmod(0o700)
    again = await second(UnixAddress(path))
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    await again.stop(0)


async def test_no_folder_is_left_that_could_not_be_given_away(folder: Path) -> None:
    """Else it would be somebody else's at the next start."""
    line = await refusal_of(second(UnixAddress(folder / "run" / "g.sock", group="no-such-group")))

    assert "no-such-group" in line
    assert names(folder) == []


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        (0o700, None),
        (0o750, None),
        (0o755, None),
        (0o770, None),
        (0o777, "every user of this machine may put a socket of his own in the place of unix:{path}, since"),
        (0o757, "every user of this machine may put a socket of his own in the place of unix:{path}, since"),
        (0o1777, "in the place of unix:{path}, while no daemon runs, since"),
    ],
)
async def test_a_folder_that_others_may_write_to_is_warned_of(
    folder: Path, caplog: pytest.LogCaptureFixture, mode: int, told: str | None
) -> None:
    """And served in all the same: what others may do with the socket itself is said by its own mode."""
    (folder / "run").mkdir()
    (folder / "run").chmod(mode)
    path = folder / "run" / "g.sock"
    server = await second(UnixAddress(path))
    assert await serves(f"unix:{path}")
    await server.stop(0)

    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert [told is not None and told.format(path=path) in warning for warning in warnings] == [True] * (
        told is not None
    )


async def test_a_folder_that_is_none(folder: Path) -> None:
    """A file in its place."""
    (folder / "file").write_text("")

    assert "is no folder" in await refusal_of(second(UnixAddress(folder / "file" / "governor.sock")))


async def test_odd_paths(folder: Path) -> None:
    """A path is a path, also where a URI would mean something else."""
    odd = folder / "a b%20#ü?"
    odd.mkdir()

    server = await second(UnixAddress(odd / "g.sock"))

    wire = await Wire.connect(odd / "g.sock")
    assert await wire.answer(wire.call("ListResources", b"")) == b""
    await wire.close()
    await server.stop(0)
    assert names(odd) == ["g.sock.lock"]


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
async def test_the_mode_of_a_socket(folder: Path, mode: int) -> None:
    """It is the config's, whatever the umask is; and the umask is as it was."""
    before = os.umask(0o027)
    try:
        server = await second(UnixAddress(folder / "g.sock", mode))
        after = os.umask(0o027)
    finally:
        os.umask(before)

    assert stat.S_IMODE((folder / "g.sock").lstat().st_mode) == mode
    assert after == 0o027
    await server.stop(0)


async def test_an_owner_that_does_not_exist(folder: Path) -> None:
    """Nothing of the attempt is left."""
    line = await refusal_of(second(UnixAddress(folder / "g.sock", owner="nobody-of-that-name")))

    assert "nobody-of-that-name" in line
    assert names(folder) == ["g.sock.lock"]


async def test_all_addresses_or_none(governor: World, folder: Path) -> None:
    """When the last one cannot be had, the ones before are free again."""
    path = folder / "second.sock"
    with socket.create_server((LOOPBACK, 0)) as free:
        port = free.getsockname()[1]
    listen = (UnixAddress(path), TcpAddress(LOOPBACK, port))

    await refusal_of(second(*listen, governor.server.addresses[1]))

    assert not path.exists()
    server = await second(*listen)
    assert await serves(f"unix:{path}")
    await server.stop(0)


async def test_a_replaced_socket_is_left_alone(governor: World) -> None:
    """At the end only what is still ours is removed."""
    governor.path.unlink()
    governor.path.write_text("somebody else's by now")

    await governor.server.stop(0)

    assert governor.path.read_text() == "somebody else's by now"


async def test_a_stopped_server_leaves_its_addresses(governor: World) -> None:
    """Its successor may start the moment that it is gone; the lock file stays, since only a held lock counts."""
    listen = governor.server.addresses

    await governor.server.stop(0)
    assert not governor.path.exists()

    server = await second(*listen)
    assert await serves(f"unix:{governor.path}")
    await server.stop(0)


# --- health and reflection --------------------------------------------------------------------------------------


def check(channel: aio.Channel, service: str = "") -> "aio.UnaryUnaryCall[HealthRequest, Health]":
    """A health check."""
    method: aio.UnaryUnaryMultiCallable[HealthRequest, Health] = channel.unary_unary(
        "/grpc.health.v1.Health/Check", HealthRequest.SerializeToString, Health.FromString
    )
    return method(HealthRequest(service=service))


def watch(channel: aio.Channel, service: str = "") -> "aio.UnaryStreamCall[HealthRequest, Health]":
    """A stream of health."""
    method: aio.UnaryStreamMultiCallable[HealthRequest, Health] = channel.unary_stream(
        "/grpc.health.v1.Health/Watch", HealthRequest.SerializeToString, Health.FromString
    )
    return method(HealthRequest(service=service))


def reflect(channel: aio.Channel, version: str = "v1") -> "aio.StreamStreamCall[Question, Answer]":
    """A reflection stream."""
    method: aio.StreamStreamMultiCallable[Question, Answer] = channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        Question.SerializeToString,
        Answer.FromString,
    )
    return method()


async def test_health_follows_the_daemon(governor: World) -> None:
    """For the server as a whole and for Governor; others are unknown."""

    async def told() -> list[int]:
        return [(await check(governor.channel, service)).status for service in ("", "governor.v1.Governor")]

    assert await told() == [Health.SERVING] * 2
    governor.server.set_serving(False)
    assert await told() == [Health.NOT_SERVING] * 2
    assert await status_of(check(governor.channel, "other")) is grpc.StatusCode.NOT_FOUND


async def test_a_watch_sees_each_change(governor: World) -> None:
    """At once the state, then what it becomes; an unknown service is no error here."""
    known, unknown = watch(governor.channel), watch(governor.channel, "other")

    assert await known.read() == Health(status=Health.SERVING)
    assert await unknown.read() == Health(status=Health.SERVICE_UNKNOWN)
    governor.server.set_serving(False)
    assert await known.read() == Health(status=Health.NOT_SERVING)
    governor.server.set_serving(True)
    assert await known.read() == Health(status=Health.SERVING)
    known.cancel()
    unknown.cancel()


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_reflection_lists_and_describes(governor: World, version: str) -> None:
    """Under the name that new clients ask for and under the one that old clients do."""
    stream = reflect(governor.channel, version)
    await stream.write(Question(list_services=""))
    listed = await stream.read()
    await stream.write(Question(file_containing_symbol="governor.v1.Governor"))
    described = await stream.read()
    await stream.done_writing()

    assert isinstance(listed, Answer)
    assert isinstance(described, Answer)
    assert {service.name for service in listed.list_services_response.service} == {
        "governor.v1.Governor",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    assert any(b"AcquireRequest" in file for file in described.file_descriptor_response.file_descriptor_proto)
    assert await stream.code() is OK


@pytest.mark.parametrize(
    "method",
    [
        "grpc.health.v1.Health/Check",
        "grpc.health.v1.Health/Watch",
        "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ],
)
@pytest.mark.parametrize("raw", [b"\x0a", b"\xff" * 9, b"\x0a\x02\xff\xfe"])
async def test_what_they_cannot_decode(
    governor: World, method: str, raw: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Cut off, garbage, or text that is no UTF-8: refused as our own calls are, and anybody can send it: no log."""
    call: aio.StreamUnaryMultiCallable[bytes, bytes] = governor.channel.stream_unary(f"/{method}")

    said = await refused(call(iter([raw]), timeout=20))

    assert (said.code, said.info.metadata["field"]) == (grpc.StatusCode.INVALID_ARGUMENT, "request")
    assert await status_of(check(governor.channel)) is OK
    assert caplog.records == []


async def test_a_question_that_cannot_be_decoded_after_one_that_could(
    governor: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The first is answered, the second ends the stream."""
    method: aio.StreamStreamMultiCallable[bytes, bytes] = governor.channel.stream_stream(
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
    )
    stream = method(timeout=20)
    await stream.write(Question(list_services="").SerializeToString())
    assert isinstance(await stream.read(), bytes)
    await stream.write(b"\xff")

    assert await stream.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caplog.records == []


# --- the end ----------------------------------------------------------------------------------------------------


async def test_open_streams_do_not_hold_up_a_stop(governor: World) -> None:
    """Watches and reflection streams end themselves; the grace is for calls that still have something to say."""
    watched, reflected = watch(governor.channel), reflect(governor.channel)
    assert await watched.read() == Health(status=Health.SERVING)
    await reflected.write(Question(list_services=""))
    assert isinstance(await reflected.read(), Answer)

    async with asyncio.timeout(60):
        await governor.server.stop(3600)

    assert await watched.read() == Health(status=Health.NOT_SERVING)
    assert await watched.code() is grpc.StatusCode.UNAVAILABLE
    assert await reflected.code() is OK


async def test_a_stop_gives_running_calls_their_grace(governor: World) -> None:
    """An ask in line when the server stops may still be answered; a new one may not come."""
    lease = (await governor.stub.Acquire(ask(permits=2))).lease
    waiter = asyncio.ensure_future(governor.stub.Acquire(ask()))
    await governor.until_waiting(1)

    stop = asyncio.ensure_future(governor.server.stop(3600))
    await asyncio.sleep(0)
    governor.driver.release((governor.driver.last_id,))

    assert (await waiter).lease.id > lease.id
    async with asyncio.timeout(60):
        await stop


async def test_a_second_stop_is_nothing(governor: World) -> None:
    """Nor does it remove what a successor put there."""
    await governor.server.stop(0)
    successor = await second(UnixAddress(governor.path))

    await governor.server.stop(0)

    assert await serves(f"unix:{governor.path}")
    await successor.stop(0)
