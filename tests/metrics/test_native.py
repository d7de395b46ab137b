"""The page in protobuf, and the native histograms on it."""

from math import inf
from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.core.effects import LeaseEnded
from governor.core.types import MILLISECOND, SECOND, EndReason, Grant, LeaseId, Nanos
from governor.metrics import Metrics
from governor.metrics.histogram import FIRST, LAGS, LAST, TIMES, WAITS, WRITES, Histogram, native_bound
from tests.metrics.messages import PROTOBUF, native, readings
from tests.metrics.reading import kinds, metrics_of, read, resource
from tests.metrics.test_page import busy

# As Prometheus asks that scrapes native histograms, and as one does that does not.
NATIVE: Final = f"{PROTOBUF},application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
LATER: Final = f"application/openmetrics-text;version=1.0.0;q=0.6,{PROTOBUF};q=0.5,text/plain;version=0.0.4;q=0.4"
CONTENT_TYPE: Final = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"

DURATIONS: Final = st.one_of(
    st.integers(0, 10**15),
    st.integers(0, 10**7),
    st.sampled_from([bound + more for bound in WAITS for more in (-1, 0, 1) if bound + more >= 0]),
    st.sampled_from([native_bound(index) + more for index in range(FIRST - 2, LAST + 2) for more in (-1, 0, 1)]),
)


def body(metrics: Metrics) -> bytes:
    """The page in protobuf."""
    return b"".join(metrics.page(NATIVE).chunks)


def held(*lengths: Nanos) -> list[LeaseEnded]:
    """Leases that were held for so long."""
    grants = (Grant("jobs", 1),)
    return [LeaseEnded(LeaseId(1), EndReason.RELEASED, grants, "", length, 0) for length in lengths]


class TestFormat:
    """Who gets it, and what is on it."""

    @pytest.mark.parametrize(
        ("accept", "content_type"),
        [
            (NATIVE, CONTENT_TYPE),
            (PROTOBUF, CONTENT_TYPE),
            (NATIVE.upper(), CONTENT_TYPE),
            (PROTOBUF + ";q=0.7, text/plain;q=0.5", CONTENT_TYPE),
            (LATER, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
            (PROTOBUF + ";q=0", "text/plain; version=0.0.4; charset=utf-8"),
            (PROTOBUF + ";q=0.5, text/plain;q=0.5", "text/plain; version=0.0.4; charset=utf-8"),
            ("application/vnd.google.protobuf", "text/plain; version=0.0.4; charset=utf-8"),
            (PROTOBUF.replace("delimited", "text"), "text/plain; version=0.0.4; charset=utf-8"),
            (f"{PROTOBUF};q=much,text/plain;q=1", "text/plain; version=0.0.4; charset=utf-8"),
        ],
    )
    def test_it_is_for_whoever_likes_it_best(self, accept: str, content_type: str) -> None:
        """Of those who can read it as we write it."""
        assert metrics_of().page(accept).content_type == content_type

    def test_it_says_the_same_as_the_text(self) -> None:
        """Every sample, under the same labels, of our own families and of the process."""
        metrics = busy()
        text, proto = read(metrics), readings(body(metrics))

        assert {key for key in text if not key[0].endswith("_created")} == set(proto)
        ours = {key: value for key, value in text.items() if key[0].startswith("governor_")}
        assert ours == {key: value for key, value in proto.items() if key[0].startswith("governor_")}

    def test_the_text_stays_as_it_was_when_durations_are_counted_more_finely(self) -> None:
        """Whoever reads text has the same buckets with the same counts, before and after."""
        metrics = busy()
        before = {key: value for key, value in read(metrics).items() if key[0].startswith("governor_")}
        body(metrics)

        assert {key: value for key, value in read(metrics).items() if key[0].startswith("governor_")} == before

    def test_a_long_family_comes_in_parts(self) -> None:
        """However many resources there are, no message is long in the making; each sample is there once."""
        metrics = metrics_of(*(resource(f"r{n}") for n in range(300)))
        chunks = list(metrics.page(NATIVE).chunks)

        assert max(map(len, chunks)) < 20_000
        assert len(readings(b"".join(chunks)).all("governor_hold_seconds_count")) == 300

    def test_unlimited_is_infinite(self) -> None:
        """As in the text."""
        page = readings(body(metrics_of(resource("jobs", capacity=None, available=None))))

        assert page.of("governor_permits_limit", resource="jobs") == inf

    def test_a_first_page_is_native_as_well(self) -> None:
        """A histogram of nothing has no buckets, and is one all the same."""
        count, zero, buckets = native(body(metrics_of(resource("jobs"))), "governor_hold_seconds")

        assert (count, zero, {index: each for index, each in buckets.items() if each}) == (0, 0, {})
        assert readings(body(metrics_of(*kinds())))


class TestBuckets:
    """What is in which."""

    @pytest.mark.parametrize("index", range(FIRST - 1, LAST + 1))
    def test_bounds_are_powers_of_the_square_root_of_two(self, index: int) -> None:
        """To the nanosecond: the square of one in seconds is a power of two."""
        bound = native_bound(index)

        assert bound**2 <= 2**index * SECOND**2 < (bound + 1) ** 2

    @given(st.lists(DURATIONS, max_size=40))
    def test_each_duration_is_in_the_bucket_that_it_belongs_to(self, lengths: list[Nanos]) -> None:
        """Above the bound before, and not above its own."""
        metrics = metrics_of(resource("jobs"))
        body(metrics)
        metrics.observe(held(*lengths))
        count, zero, buckets = native(body(metrics), "governor_hold_seconds")

        assert count == len(lengths)
        assert zero == sum(length <= native_bound(FIRST - 1) for length in lengths)
        for index in range(FIRST, LAST + 1):
            within = sum(native_bound(index - 1) < length <= native_bound(index) for length in lengths)
            assert buckets.get(index, 0) == within, index
        assert buckets.get(LAST + 1, 0) == sum(length > native_bound(LAST) for length in lengths)

    @pytest.mark.parametrize("told", [TIMES, WAITS, LAGS, WRITES], ids=["times", "waits", "lags", "writes"])
    @given(before=st.lists(DURATIONS, max_size=20), after=st.lists(DURATIONS, max_size=20))
    def test_what_was_counted_before_is_not_lost(
        self, told: tuple[Nanos, ...], before: list[Nanos], after: list[Nanos]
    ) -> None:
        """As coarse as it was, it is in a native bucket near by; the told buckets are exact throughout."""
        histogram, plain = Histogram(told), Histogram(told)
        for length in before:
            histogram.add(length)
            plain.add(length)
        first = histogram.native()
        histogram.refine()
        histogram.refine()
        assert histogram.native() == first
        for length in after:
            histogram.add(length)
            plain.add(length)

        zero, buckets = histogram.native()
        assert zero + sum(buckets.values()) == sum(plain.counts)
        assert zero >= first[0]
        assert all(buckets[index] >= count for index, count in first[1].items())
        for bound in told:
            within = sum(
                count for each, count in zip(histogram.bounds, histogram.counts, strict=False) if each <= bound
            )
            assert within == sum(length <= bound for length in (*before, *after))

    def test_a_quantile_is_right_to_a_fifth(self) -> None:
        """The middle of the bucket that it falls into, of random durations."""
        random = Random(7)
        lengths = sorted(int(random.lognormvariate(0, 1.5) * 100 * MILLISECOND) for _ in range(2000))
        metrics = metrics_of(resource("jobs"))
        body(metrics)
        metrics.observe(held(*lengths))
        count, zero, buckets = native(body(metrics), "governor_hold_seconds")
        rank, index = count // 2 - zero, min(buckets)
        while rank > buckets[index]:
            rank -= buckets[index]
            index += 1
        middle = 2 ** ((index - 0.5) / 2)

        assert middle == pytest.approx(lengths[count // 2] / SECOND, rel=0.2)
