"""Whatever stands where OpenTelemetry would be: asks go on, and what is wrong is said once."""

import sys
from types import ModuleType

import pytest
from opentelemetry import trace

from governor.client import spans, tracing
from governor.client.tracing import asking

CLAIMS = (("many", 1),)


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has looked at it yet, and nobody will have."""
    monkeypatch.delitem(sys.modules, "governor.client.spans")
    monkeypatch.delattr("governor.client.spans")
    monkeypatch.setattr(tracing, "_unusable", type(tracing._unusable)())


def test_one_that_must_not_be_loaded_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is what a program writes in its place; that is no fault."""
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)

    assert asking(CLAIMS) is None


@pytest.mark.parametrize("name", ["Link", "ProxyTracerProvider", "get_tracer_provider"])
def test_one_that_lacks_something_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """Such as one of long ago."""
    old = ModuleType("opentelemetry.trace")
    old.__dict__.update({key: value for key, value in vars(trace).items() if key != name}, _TRACER_PROVIDER=object())
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", old)

    assert [asking(CLAIMS) for _ in range(3)] == [None] * 3
    assert caplog.messages == ["OpenTelemetry is there and cannot be used; asks go on without spans"]
    assert "governor.client.spans" not in sys.modules


def test_a_provider_that_cannot_be_had_is_no_reason_to_fail_an_ask(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as one that a variable names, and that is not installed."""

    def refuse() -> None:
        raise RuntimeError("no such provider")

    monkeypatch.setattr(spans, "get_tracer_provider", refuse)
    monkeypatch.setitem(sys.modules, "governor.client.spans", spans)

    assert spans.begin(CLAIMS) is None
    assert caplog.messages == ["a span could not be made or ended; the ask goes on without it"]
