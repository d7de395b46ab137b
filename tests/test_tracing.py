"""What is said of tracing where it begins: where spans go, and of how many asks."""

from collections.abc import Mapping
from typing import Final

import pytest

from governor.tracing import ENDPOINTS, Tracing, told

SECRET: Final = "hunter2"  # noqa: S105 - nobody's
SPECIAL, GENERAL = ENDPOINTS


@pytest.mark.parametrize(
    ("endpoint", "environ", "where"),
    [
        ("http://127.0.0.1:4317", {SPECIAL: "http://other:1"}, "http://127.0.0.1:4317"),
        ("", {}, "http://localhost:4317"),
        ("", {SPECIAL: "", GENERAL: "https://otel:4317"}, "https://otel:4317"),
        ("", {SPECIAL: "otel:4317", GENERAL: "https://other:1"}, "otel:4317"),
        ("", {GENERAL: "unix:///run/otel@1.sock"}, "unix:///run/otel@1.sock"),
    ],
)
def test_it_is_said_where(endpoint: str, environ: Mapping[str, str], where: str) -> None:
    """As the config says, or else the variable that the exporter takes, or its own default."""
    assert told(Tracing(endpoint), environ) == f"{where}, all asks"


@pytest.mark.parametrize(
    "endpoint",
    [f"http://me:{SECRET}@otel:4317", f"http://otel:4317/{SECRET}", f"otel:4317?key={SECRET}", f"unix:/x#{SECRET}"],
)
def test_what_may_be_a_secret_is_not_said(endpoint: str) -> None:
    """Neither a user nor anything behind the port."""
    assert SECRET not in told(Tracing(), {GENERAL: endpoint})


@pytest.mark.parametrize(
    ("ratio", "sampler", "share"),
    [
        (None, "", "all asks"),
        (None, "parentbased_always_on", "all asks"),
        (None, "traceidratio", "as OTEL_TRACES_SAMPLER says"),
        (1.0, "traceidratio", "all asks"),
        (0.25, "", "25% of the asks that come without a trace"),
        (0.001, "always_on", "0.1% of the asks that come without a trace"),
        (0.0, "", "0% of the asks that come without a trace"),
    ],
)
def test_it_is_said_of_how_many(ratio: float | None, sampler: str, share: str) -> None:
    """As the config says, or else the variable."""
    assert told(Tracing("http://otel:1", ratio), {"OTEL_TRACES_SAMPLER": sampler}) == f"http://otel:1, {share}"
