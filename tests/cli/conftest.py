"""A daemon that says what a test tells it to, on a real socket, and a way to run `governor` against it."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import grpc
import pytest
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2
from grpc_health.v1.health import HealthServicer
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from governor.cli.main import main
from governor.v1 import governor_pb2 as pb
from governor.v1.admin_pb2_grpc import add_AdminServicer_to_server
from governor.v1.governor_pb2_grpc import GovernorServicer, add_GovernorServicer_to_server
from tests.cli.daemon import Daemon, serving
from tests.cli.desk import BOUND, Desk, Refusal


@dataclass(slots=True, frozen=True)
class Ended:
    """How a run of `governor` ended."""

    exit: int
    out: str
    err: str


Run = Callable[..., Ended]
Answer = TypeVar("Answer", bound=Message)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `governor` with these arguments, in this process, without the GOVERNOR_ADDRESS of the outside.

    It is 80 columns wide, wherever the tests themselves are run: a worker's output may be a terminal.
    """
    monkeypatch.delenv("GOVERNOR_ADDRESS", raising=False)
    monkeypatch.setenv("COLUMNS", "80")

    def governor(*arguments: str) -> Ended:
        monkeypatch.setattr("sys.argv", ["governor", *arguments])
        capsys.readouterr()
        ending = main()
        said = capsys.readouterr()
        return Ended(int(ending), said.out, said.err)

    return governor


class Script(GovernorServicer):
    """What the daemon is to answer next, and what it was asked."""

    def __init__(self) -> None:
        self.acquired: pb.AcquireResponse | Refusal = pb.AcquireResponse()
        self.released: pb.ReleaseResponse | Refusal | None = None
        self.resources: list[pb.Resource] = []
        self.config: pb.ConfigState | None = None
        self.draining = False
        # In the place of the resources.
        self.listed: Refusal | None = None
        self.asked: list[Message] = []
        # How many seconds the caller gave for each of them.
        self.limits: list[float] = []
        # For a call that is to wait: how the test sees it arrive, lets it be answered, and sees it end.
        self.hold = threading.Event()
        self.hold.set()
        self.arrived = threading.Event()
        self.left = threading.Event()

    def Acquire(self, request: pb.AcquireRequest, context: grpc.ServicerContext) -> pb.AcquireResponse:  # noqa: N802
        """What the test granted or refused."""
        self._note(request, context)
        return self._answer(self.acquired, context)

    def Release(self, request: pb.ReleaseRequest, context: grpc.ServicerContext) -> pb.ReleaseResponse:  # noqa: N802
        """All released, unless the test says otherwise."""
        self._note(request, context)
        if self.released is None:
            state = pb.LeaseResult.RELEASED
            return pb.ReleaseResponse(
                results=[pb.LeaseResult(lease_id=lease, state=state) for lease in request.lease_ids]
            )
        return self._answer(self.released, context)

    def Renew(self, request: pb.RenewRequest, context: grpc.ServicerContext) -> pb.RenewResponse:  # noqa: N802
        """No command renews."""
        raise NotImplementedError

    def ListResources(  # noqa: N802 - the name is gRPC's
        self, request: pb.ListResourcesRequest, context: grpc.ServicerContext
    ) -> pb.ListResourcesResponse:
        """The resources of the test."""
        self._note(request, context)
        if self.listed is not None:
            self.listed.abort(context)
        return pb.ListResourcesResponse(resources=self.resources, config=self.config, draining=self.draining)

    def Session(  # noqa: N802 - the name is gRPC's
        self, request_iterator: Iterator[pb.SessionRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.SessionResponse]:
        """No command that is tested with it has a session."""
        raise NotImplementedError

    def _note(self, request: Message, context: grpc.ServicerContext) -> None:
        self.asked.append(request)
        self.limits.append(context.time_remaining())
        context.add_callback(self.left.set)
        self.arrived.set()
        self.hold.wait(BOUND)

    @staticmethod
    def _answer(answer: Answer | Refusal, context: grpc.ServicerContext) -> Answer:
        if isinstance(answer, Refusal):
            answer.abort(context)
        return answer


@dataclass(slots=True, frozen=True)
class Fake:
    """The daemon of a test: where it is, its script and what its health says."""

    address: str
    tcp: str
    script: Script
    health: HealthServicer
    desk: Desk


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Fake]:
    """Listens on a unix socket and on loopback, and is serving as far as its health says."""
    with ThreadPoolExecutor(max_workers=8) as threads:
        server = grpc.server(threads)
        script, health, desk = Script(), HealthServicer(), Desk()
        add_AdminServicer_to_server(desk, server)
        add_GovernorServicer_to_server(script, server)
        add_HealthServicer_to_server(health, server)
        health.set("", health_pb2.HealthCheckResponse.SERVING)
        address = f"unix:{tmp_path}/governor.sock"
        server.add_insecure_port(address)
        tcp = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        try:
            yield Fake(address, tcp, script, health, desk)
        finally:
            script.hold.set()
            desk.closed.set()
            server.stop(None).wait()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon for all tests that leave it as they found it."""
    with serving(tmp_path_factory.mktemp("daemon")) as daemon:
        yield daemon


@pytest.fixture
def daemon(shared: Daemon, monkeypatch: pytest.MonkeyPatch, run: Run) -> Daemon:
    """The shared one, which the environment names."""
    monkeypatch.setenv("GOVERNOR_ADDRESS", shared.address)
    return shared


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Iterator[Daemon]:
    """A daemon that the test may treat as it likes."""
    with serving(tmp_path) as daemon:
        monkeypatch.setenv("GOVERNOR_ADDRESS", daemon.address)
        yield daemon


def lease_of(run: Run, *arguments: str) -> int:
    """The id of a lease that is granted: if nothing is said of its length, for longer than any test takes."""
    length = () if "--lease" in arguments else ("--lease", "1h")
    ended = run("acquire", *arguments, *length, "-o", "json")
    assert ended.exit == 0, ended.err
    lease = json.loads(ended.out)["lease"]
    assert isinstance(lease, int)
    return lease
