"""A real daemon that traces, a real collector, and what becomes of either without the other."""

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from signal import SIGTERM
from typing import Final

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from governor.v1 import governor_pb2 as pb
from governor.v1.admin_pb2 import GetInfoRequest
from governor.v1.admin_pb2_grpc import AdminStub
from tests.e2e.client import ask
from tests.e2e.conftest import HEAD, Connect, Start
from tests.e2e.process import BOUND, Daemon, serve_to_the_end, until
from tests.trace.collector import Collector, collecting, values

RESOURCES: Final = """
semaphores:
  db: {permits: 1}
  many: {permits: unlimited}
"""
TRACE: Final = "0af7651916cd43dd8448eb211c80319c"
CALLER: Final = "b7ad6b7169203331"
FOLLOWING: Final = (("traceparent", f"00-{TRACE}-{CALLER}-01"),)

# A daemon that says in the end what it has loaded.
_TELLS: Final = """
import atexit, json, pathlib, sys
from governor.cli.main import main
atexit.register(lambda: pathlib.Path({file!r}).write_text(json.dumps(sorted(sys.modules))))
sys.exit(main())
"""


# Asked for before a daemon is, so that it is still there when that ends.
@pytest.fixture
def collector() -> Iterator[Collector]:
    """One that takes all that comes."""
    with collecting() as made:
        yield made


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address at which nobody listens, and nobody else can."""
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def tells(file: Path) -> tuple[str, ...]:
    """Such a daemon."""
    return (sys.executable, "-c", _TELLS.format(file=str(file)), "serve")


def said(span: Span, name: str) -> object:
    """An attribute of ours."""
    return values(span.attributes)[f"governor.{name}"]


def exported(daemon: Daemon) -> float:
    """How many spans the collector has taken."""
    return daemon.metric("governor_spans_exported_total")


def dropped(daemon: Daemon, reason: str) -> float:
    """How many did not get there."""
    return daemon.metric("governor_spans_dropped_total", reason=reason)


def test_an_ask_is_followed_from_its_caller_to_the_end_of_its_lease(
    collector: Collector, start: Start, connect: Connect
) -> None:
    """All that a backend needs to draw it comes by OTLP, and metrics point at it."""
    daemon = start(f"tracing: http://{collector.address}\n{RESOURCES}")
    daemon.said(rf"INFO    tracing to http://{collector.address}, all asks$")
    client = connect(daemon)
    info = AdminStub(client.channel).GetInfo(GetInfoRequest(), timeout=BOUND)
    assert info.tracing == f"http://{collector.address}, all asks"
    first = client.acquire("db")
    waiting = client.stub.Acquire.future(ask("db", client="web"), metadata=FOLLOWING, timeout=BOUND)
    until(lambda: client.resource("db").waiters == 1, "one waits")
    client.release(first.id)
    lease = waiting.result(BOUND).lease
    client.release(lease.id)
    asks, holds = collector.named("acquire db", 2), collector.named("hold db", 2)
    made = next(span for span in asks if said(span, "client") == "web")
    hold = next(span for span in holds if said(span, "client") == "web")

    assert made.trace_id.hex() == hold.trace_id.hex() == TRACE
    assert made.parent_span_id.hex() == hold.parent_span_id.hex() == CALLER
    assert (made.kind, hold.kind) == (Span.SPAN_KIND_SERVER, Span.SPAN_KIND_INTERNAL)
    assert [link.span_id for link in hold.links] == [made.span_id]
    assert (said(made, "outcome"), said(made, "lease"), said(hold, "lease")) == ("granted", lease.id, lease.id)
    assert said(hold, "ended") == "released"
    assert made.start_time_unix_nano < made.end_time_unix_nano <= hold.end_time_unix_nano
    assert made.end_time_unix_nano - made.start_time_unix_nano == round(float(str(said(made, "wait_seconds"))) * 1e9)
    assert collector.resources[0].items() >= {"service.name": "governor", "process.pid": daemon.pid}.items()
    until(lambda: exported(daemon) >= 4, "all are counted")
    page = daemon.page("/metrics", {"Accept": "application/openmetrics-text; version=1.0.0"})[1]
    shown = f'{{trace_id="{TRACE}",span_id="{made.span_id.hex()}"}}'
    (line,) = [line for line in page.splitlines() if shown in line]
    assert line.startswith('governor_acquire_wait_seconds_bucket{resource="db",kind="semaphore",outcome="granted",le=')
    assert f'span_id="{hold.span_id.hex()}"' in page
    assert TRACE not in daemon.page("/metrics")[1]


def test_the_end_exports_what_is_there_and_ends_what_is_held(
    collector: Collector, start: Start, connect: Connect
) -> None:
    """Whoever waits is refused, and what outlives the daemon is said to."""
    daemon = start(f"tracing: {{endpoint: 'http://{collector.address}'}}\n{RESOURCES}", drain="0s")
    client = connect(daemon)
    daemon.expect("WARNING 1 lease is still held")
    client.acquire("db")
    waiting = client.wait_in_line(ask("db"))
    collector.named("acquire db")  # there is a connection by now
    daemon.signal(SIGTERM)
    assert waiting.refusal() is not None
    assert daemon.exit_code() == 0

    assert {said(span, "outcome") for span in collector.named("acquire db", 2)} == {"granted", "draining"}
    (hold,) = collector.named("hold db")
    assert said(hold, "ended") == "stopping"


def test_a_collector_that_is_away_harms_nobody(start: Start, connect: Connect, nowhere: str) -> None:
    """Spans are lost and counted, which the log says once; neither a grant nor the end is held up."""
    daemon = start(f"tracing: {{endpoint: 'http://{nowhere}', timeout: 200ms}}\n{RESOURCES}")
    daemon.expect(r"WARNING traces: spans cannot be exported: .*; until they can, they are dropped")
    client = connect(daemon)
    for _ in range(20):
        client.release(client.acquire("many").id)
    until(lambda: dropped(daemon, "refused") >= 40, "all are counted")

    assert exported(daemon) == 0
    assert daemon.end() == 0
    assert daemon.log.count("spans cannot be exported") == 1


def test_a_collector_that_is_back_is_sent_spans_again(collector: Collector, start: Start, connect: Connect) -> None:
    """What it did not take is lost, and counted; the log says when it is over."""
    collector.refusing.set()
    daemon = start(f"tracing: http://{collector.address}\n{RESOURCES}")
    daemon.expect(r"WARNING traces: spans cannot be exported: .*not now; until they can, they are dropped")
    client = connect(daemon)
    client.release(client.acquire("many").id)
    until(lambda: dropped(daemon, "refused") >= 2, "both are counted")
    collector.refusing.clear()
    client.release(client.acquire("many").id)
    daemon.said("INFO    traces: spans are exported again")


def test_the_variables_of_opentelemetry_are_enough(
    collector: Collector, start: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a word in the config; whoever asks within a trace is followed, whatever the sampler says of others."""
    for name, value in {
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.address}",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=blue",
        "OTEL_SERVICE_NAME": "permits",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test,host.name=db7",
        "OTEL_TRACES_SAMPLER": "parentbased_always_off",
    }.items():
        monkeypatch.setenv(name, value)
    daemon = start(RESOURCES)
    client = connect(daemon)
    client.release(client.acquire("many", client="nobody follows").id)
    client.release(client.stub.Acquire(ask("many", client="web"), metadata=FOLLOWING, timeout=BOUND).lease.id)
    collector.named("acquire many")
    daemon.end()

    assert {said(span, "client") for span in collector.named("acquire many")} == {"web"}
    resource = collector.resources[0]
    assert (resource["service.name"], resource["host.name"]) == ("permits", "db7")
    assert resource["deployment.environment.name"] == "test"
    assert collector.headers["x-tenant"] == "blue"


@pytest.mark.parametrize("section", ["", "tracing: off\n"])
def test_a_daemon_that_does_not_trace_loads_nothing_of_it(
    start: Start, connect: Connect, folder: Path, section: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its callers say of traces, and whatever they ask; nor do variables say more than the config."""
    if section:
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    daemon = start(section + RESOURCES, command=tells(folder / "modules"))
    client = connect(daemon)
    lease = client.stub.Acquire(ask("db"), metadata=FOLLOWING, timeout=BOUND).lease
    client.release(lease.id)
    daemon.page("/metrics", {"Accept": "application/openmetrics-text"})
    assert daemon.end() == 0
    loaded = json.loads((folder / "modules").read_text(encoding="utf-8"))

    assert "governor.rpc.servicer" in loaded
    assert not [name for name in loaded if name.startswith(("opentelemetry", "governor.trace."))]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "abc"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:hunter2@otel:4317"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization: Bearer hunter2"),
    ],
)
def test_what_cannot_be_set_up_is_said_at_the_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """As any config that is wrong, before a lease id is used up, and without a secret."""
    monkeypatch.setenv(name, value)
    config = folder / "governor.yaml"
    config.write_text(HEAD.format(folder=folder, drain="0s") + "tracing: on\n", encoding="utf-8")
    ended = serve_to_the_end(config, folder / "state")

    assert ended.code == 78
    (said,) = [line for line in ended.stderr.splitlines() if line.startswith("governor: ")]
    assert ended.stderr.splitlines()[-1] == said
    assert said.startswith("governor: tracing: ")
    assert "OTEL_" in said
    assert "hunter2" not in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_session_is_followed_too(collector: Collector, start: Start, connect: Connect) -> None:
    """Each ask of its one stream by itself, and each hold."""
    daemon = start(f"tracing: http://{collector.address}\n{RESOURCES}")
    client = connect(daemon)
    hello = pb.Hello(client="web", instance="0123456789abcdef", pid=1, host="here")
    acquires = [pb.SessionAcquire(op=op, claims=[pb.Claim(resource="many", permits=1)]) for op in range(1, 4)]
    traces = [pb.TraceContext(ops=[2], traceparent=FOLLOWING[0][1], tracestate="a=1")]
    said_first = pb.SessionRequest(hello=hello, acquires=acquires, traces=traces)
    first = next(iter(client.stub.Session(iter([said_first]), timeout=BOUND)))
    assert first.welcome.traces
    asks, holds = collector.named("acquire many", 3), collector.named("hold many", 3)

    assert [span.trace_state for span in asks if span.trace_id.hex() == TRACE] == ["a=1"]
    assert len({span.trace_id for span in asks}) == 3
    assert {span.trace_id for span in holds} == {span.trace_id for span in asks}
    assert {(said(span, "ended"), span.status.code) for span in holds} == {("disconnected", Status.STATUS_CODE_ERROR)}
