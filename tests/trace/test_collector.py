"""Where spans are sent is said in variables, too; no secret that is in one of these gets anywhere else."""

import logging
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Final

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult

from governor.core.types import SECOND
from governor.trace.collector import exporter
from governor.tracing import Tracing, TracingError
from tests.abuse.frames import GOAWAY, PREFACE, frame, settings
from tests.abuse.frames import HEADERS as HEADERS_FRAME

SECRET: Final = "hunter2"  # noqa: S105 - nobody's
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
HEADERS: Final = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*ENDPOINTS, *HEADERS):
        monkeypatch.delenv(name, raising=False)


def _refused(environ: Mapping[str, str], caplog: pytest.LogCaptureFixture) -> str:
    """Why; nothing is logged, and what is said has no secret in it."""
    caplog.set_level(0)
    with pytest.raises(TracingError) as error:
        exporter(Tracing(), environ)
    assert SECRET not in str(error.value)
    assert not caplog.records
    return str(error.value)


@pytest.mark.parametrize("name", ENDPOINTS)
@pytest.mark.parametrize(
    "endpoint",
    [f"http://me:{SECRET}@otel:4317", f"https://{SECRET}@otel", f"me:{SECRET}@otel:4317", f"http://me:{SECRET}/#@otel"],
)
def test_a_password_in_an_endpoint_is_refused(name: str, endpoint: str, caplog: pytest.LogCaptureFixture) -> None:
    """As it is in the config: each failure would name it."""
    told = _refused({name: endpoint}, caplog)

    assert told == f"tracing: {name}: there is a user or a password in it; these belong into OTEL_EXPORTER_OTLP_HEADERS"


def test_where_the_config_says_where_no_variable_does() -> None:
    """It is not looked at."""
    exporter(Tracing("http://127.0.0.1:4317"), {ENDPOINTS[0]: f"http://me:{SECRET}@otel:4317"}).shutdown()


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:4317", "unix:///run/otel@1.sock", "127.0.0.1:4317", ""])
def test_any_other_endpoint_is_the_exporters_business(endpoint: str) -> None:
    """A path of a unix socket may have anything in it."""
    exporter(Tracing(), {ENDPOINTS[0]: endpoint}).shutdown()


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize(
    ("headers", "why"),
    [
        (f"Authorization: Bearer {SECRET}", "expected name=value"),
        (f"x-tenant=blue,Bearer {SECRET}", "expected name=value"),
        (f"authorization=Bearer%20{SECRET}%0A{SECRET}", "header 1 of 1 is none that gRPC can send"),
        (f"x-tenant=blue,authorization={SECRET}%C3%A9", "header 2 of 2 is none that gRPC can send"),
        (f"{SECRET}*=1", "header 1 of 1 is none that gRPC can send"),
    ],
)
def test_headers_that_cannot_be_sent_are_refused(
    name: str, headers: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In our own words: the SDK and gRPC repeat them whole, with each export or at once."""
    assert _refused({name: headers}, caplog).startswith(f"tracing: {name}: {why}")


def test_the_more_special_variable_counts(caplog: pytest.LogCaptureFixture) -> None:
    """What the other one says is not sent, and so need not be in order."""
    exporter(Tracing(), {HEADERS[0]: "x-tenant=blue", HEADERS[1]: SECRET}).shutdown()

    assert not caplog.records


def test_afterwards_others_hear_again_what_the_parser_says(caplog: pytest.LogCaptureFixture) -> None:
    """Whether it has complained or not."""
    exporter(Tracing(), {HEADERS[0]: "x-tenant=blue"}).shutdown()
    with pytest.raises(TracingError):
        exporter(Tracing(), {HEADERS[0]: "nonsense"})
    logging.getLogger("opentelemetry.util.re").warning("of somebody else")

    assert caplog.messages == ["of somebody else"]


# --- one that hangs up ------------------------------------------------------------------------------------------


class Rude:
    """Takes connections, and hangs up on each as soon as a call has begun, as one that it has not looked at."""

    def __init__(self, listener: socket.socket) -> None:
        self.begun = 0
        self._listener = listener
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Take no more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, suppress(OSError):
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(60)
        connection.sendall(settings())
        with connection.makefile("rb") as said:
            said.read(len(PREFACE))
            while head := said.read(9):
                said.read(int.from_bytes(head[:3]))
                if head[3] == HEADERS_FRAME:
                    self.begun += 1
                    connection.sendall(frame(GOAWAY, 0, 0, bytes(8)))
                    return


@contextmanager
def rude() -> Iterator[tuple[Rude, str]]:
    """One, and where."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        made = Rude(listener)
        yield made, f"http://127.0.0.1:{listener.getsockname()[1]}"
        made.end()


def test_whoever_hangs_up_is_not_called_again_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """The exporter waits a second before it tries again; gRPC would not, and copy the batch again for each time."""
    caplog.set_level(logging.WARNING)
    provider = TracerProvider(shutdown_on_exit=False)
    span = provider.get_tracer("tests").start_span("one")
    assert isinstance(span, ReadableSpan)
    found: list[SpanExportResult] = []
    with rude() as (collector, endpoint):
        exports = exporter(Tracing(endpoint, timeout=20 * SECOND), {})
        begun: list[int] = []
        told = threading.Event()

        def hear(_record: logging.LogRecord) -> bool:
            begun.append(collector.begun)
            told.set()
            return True

        logger = logging.getLogger("opentelemetry.exporter.otlp.proto.grpc.exporter")
        logger.addFilter(hear)
        thread = threading.Thread(target=lambda: found.append(exports.export([span])))
        try:
            thread.start()
            assert told.wait(60)
            exports.shutdown()
            thread.join(60)
        finally:
            logger.removeFilter(hear)
            exports.shutdown()
    assert begun[0] == 1
    assert found == [SpanExportResult.FAILURE]
