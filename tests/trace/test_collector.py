"""Where spans are sent is said in variables, too; no secret that is in one of these gets anywhere else."""

import logging
from collections.abc import Mapping
from typing import Final

import pytest

from governor.trace.collector import exporter
from governor.tracing import Tracing, TracingError

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
