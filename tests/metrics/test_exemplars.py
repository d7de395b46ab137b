"""Examples of waits and holds: the span of the last in each bucket, where a scraper reads it."""

import re
from typing import Final

import pytest

from governor.core.effects import Granted, LeaseEnded
from governor.core.types import MILLISECOND, SECOND, Claim, EndReason, Grant, LeaseId, Nanos, TicketId
from governor.metrics import Metrics
from governor.metrics.histogram import WAITS, Exemplar, Histogram
from tests.metrics.messages import families
from tests.metrics.reading import OPENMETRICS, metrics_of, read, resource, text

PROTOBUF: Final = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
AT: Final[Nanos] = 1_700_000_000_250_000_000
NAMED: Final = (Claim("jobs", 1),)
# On each bound and beside it, and far beyond the last.
NEAR: Final = sorted({near for bound in WAITS for near in (bound - 1, bound, bound + 1) if near >= 0} | {4000 * SECOND})
_LINE: Final = re.compile(
    r'^(governor_\w+)_bucket\{.*le="([^"]+)"\} (\d+) # \{trace_id="(\w+)",span_id="(\w+)"\} (\S+) (\S+)$'
)


def example(value: Nanos, number: int = 1) -> Exemplar:
    """The span of this number."""
    return Exemplar(value, f"{number:032x}", f"{number:016x}", AT)


def waited(metrics: Metrics, value: Nanos, number: int) -> None:
    """A wait that is counted, and then shown."""
    metrics.observe([Granted(TicketId(1), LeaseId(number), (Grant("jobs", 1),), 1, value, "me")])
    metrics.exemplify(NAMED, "granted", example(value, number))


def held(metrics: Metrics, value: Nanos, number: int) -> None:
    """The same of a hold."""
    metrics.observe([LeaseEnded(LeaseId(number), EndReason.RELEASED, (Grant("jobs", 1),), "me", value, 0)])
    metrics.exemplify(NAMED, None, example(value, number))


def shown(metrics: Metrics) -> list[tuple[str, ...]]:
    """All examples on a page: of which family, beside which bound, of which span and value."""
    found = [_LINE.match(line) for line in text(metrics, OPENMETRICS).splitlines()]
    return [(line[1], line[2], line[4], line[5], line[6], line[7]) for line in found if line is not None]


def test_each_bucket_shows_its_last() -> None:
    """Of waits by their outcome, and of holds."""
    metrics = metrics_of(resource("jobs"))
    waited(metrics, 0, 1)
    waited(metrics, 20 * MILLISECOND, 2)
    waited(metrics, 25 * MILLISECOND, 3)
    held(metrics, 7200 * SECOND, 4)

    assert shown(metrics) == [
        ("governor_acquire_wait_seconds", "0.0", f"{1:032x}", f"{1:016x}", "0.0", "1700000000.250"),
        ("governor_acquire_wait_seconds", "0.03", f"{3:032x}", f"{3:016x}", "0.025", "1700000000.250"),
        ("governor_hold_seconds", "+Inf", f"{4:032x}", f"{4:016x}", "7200.0", "1700000000.250"),
    ]
    assert read(metrics, OPENMETRICS).of("governor_acquire_wait_seconds_count", resource="jobs", outcome="granted") == 3


def test_only_those_who_can_read_them_are_told() -> None:
    """In the older format what stands behind a value is its time."""
    metrics = metrics_of(resource("jobs"))
    before = text(metrics)
    waited(metrics, SECOND, 1)

    assert "trace_id" not in text(metrics)
    assert "#" not in "".join(line for line in before.splitlines() if not line.startswith("#"))


def test_where_nothing_is_traced_nothing_is_kept() -> None:
    """A histogram is what it was before."""
    metrics = metrics_of(resource("jobs"))
    metrics.observe([Granted(TicketId(1), LeaseId(1), (Grant("jobs", 1),), 1, SECOND, "me")])

    assert not shown(metrics)
    assert metrics.facts().tallies.by_resource["jobs"].granted.exemplars is None


def test_those_who_ask_for_native_histograms_have_them_too() -> None:
    """Beside the buckets that people think in, also from then on."""
    metrics = metrics_of(resource("jobs"))
    waited(metrics, 20 * MILLISECOND, 1)
    b"".join(metrics.page(PROTOBUF).chunks)
    waited(metrics, 400 * MILLISECOND, 2)
    told = []
    for family in families(b"".join(metrics.page(PROTOBUF).chunks)):
        if family.name == "governor_acquire_wait_seconds":  # type: ignore[attr-defined]
            (metric,) = family.metric  # type: ignore[attr-defined]
            told = [bucket for bucket in metric.histogram.bucket if bucket.HasField("exemplar")]

    assert [bucket.upper_bound for bucket in told] == [0.03, 1.0]
    example = told[1].exemplar
    assert {pair.name: pair.value for pair in example.label} == {"trace_id": f"{2:032x}", "span_id": f"{2:016x}"}
    assert (example.value, example.timestamp.seconds, example.timestamp.nanos) == (0.4, 1_700_000_000, 250_000_000)
    assert [line[1] for line in shown(metrics)] == ["0.03", "1.0"]


@pytest.mark.parametrize("fine", [False, True])
@pytest.mark.parametrize("value", NEAR)
def test_an_example_stands_beside_the_bucket_that_it_is_counted_in(value: Nanos, fine: bool) -> None:  # noqa: FBT001
    """Whatever it is, on a bound or beside it; the page is legal by prometheus_client's own reading."""
    metrics = metrics_of(resource("jobs"))
    if fine:
        b"".join(metrics.page(PROTOBUF).chunks)
    waited(metrics, value, 1)
    read(metrics, OPENMETRICS)
    ((_, le, *_),) = shown(metrics)
    lines = [line for line in text(metrics, OPENMETRICS).splitlines() if "wait_seconds_bucket" in line]
    counts = {line.partition('le="')[2].partition('"')[0]: line.partition("} ")[2].split()[0] for line in lines}
    order = list(counts)
    index = order.index(le)

    assert counts[le] == "1"
    assert index == 0 or counts[order[index - 1]] == "0"


def test_what_is_gone_is_not_shown() -> None:
    """A resource, and an outcome that nobody counted."""
    metrics = metrics_of(resource("jobs"))
    metrics.exemplify((Claim("gone", 1),), "granted", example(1))
    metrics.exemplify(NAMED, "repeated", example(1))
    metrics.exemplify((), None, example(1))

    assert not shown(metrics)


def test_a_page_shows_what_was_when_it_was_asked_for() -> None:
    """However long it takes to be read."""
    histogram = Histogram(WAITS)
    histogram.exemplify(example(0, 1))
    copy = histogram.copy()
    histogram.exemplify(example(0, 2))

    assert copy.exemplars == {0: example(0, 1)}


def test_spans_that_are_lost_are_counted_by_why() -> None:
    """From the start, so that an alert sees the first."""
    metrics = metrics_of(resource("jobs"))
    assert read(metrics).labels("governor_spans_dropped_total", "reason") == {
        "queue_full",
        "refused",
        "ending",
        "too_many_holds",
    }
    metrics.spans_exported(3)
    metrics.spans_dropped("refused", 2)

    assert read(metrics).of("governor_spans_exported_total") == 3
    assert read(metrics).of("governor_spans_dropped_total", reason="refused") == 2
