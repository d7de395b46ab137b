"""Reads a page in protobuf with protobuf itself, by the message types as Prometheus declares them."""

from collections.abc import Iterator
from typing import Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from tests.metrics.reading import Readings

_TYPES: Final = {
    "double": 1, "uint64": 4, "string": 9, "message": 11, "uint32": 13, "enum": 14, "sint32": 17, "sint64": 18,
}  # fmt: skip

# Each message: its fields by number. `*` is repeated; what is not a type of protobuf's own is one of these.
_MESSAGES: Final[dict[str, dict[int, tuple[str, str]]]] = {
    "LabelPair": {1: ("name", "string"), 2: ("value", "string")},
    "Number": {1: ("value", "double")},
    "Span": {1: ("offset", "sint32"), 2: ("length", "uint32")},
    "Timestamp": {1: ("seconds", "uint64"), 2: ("nanos", "uint64")},
    "Exemplar": {1: ("label", "*LabelPair"), 2: ("value", "double"), 3: ("timestamp", "Timestamp")},
    "Bucket": {1: ("cumulative_count", "uint64"), 2: ("upper_bound", "double"), 3: ("exemplar", "Exemplar")},
    "Histogram": {
        1: ("sample_count", "uint64"), 2: ("sample_sum", "double"), 3: ("bucket", "*Bucket"), 5: ("schema", "sint32"),
        6: ("zero_threshold", "double"), 7: ("zero_count", "uint64"), 12: ("positive_span", "*Span"),
        13: ("positive_delta", "*sint64"),
    },
    "Metric": {
        1: ("label", "*LabelPair"), 2: ("gauge", "Number"), 3: ("counter", "Number"), 5: ("untyped", "Number"),
        7: ("histogram", "Histogram"),
    },
    "MetricFamily": {1: ("name", "string"), 2: ("help", "string"), 3: ("type", "uint32"), 4: ("metric", "*Metric")},
}  # fmt: skip


def _family_class() -> type[Message]:
    file = descriptor_pb2.FileDescriptorProto(name="prometheus.proto", package="p", syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in fields.items():
            bare = kind.removeprefix("*")
            made = message.field.add(name=field, number=number, label=3 if kind.startswith("*") else 1)
            made.type = _TYPES.get(bare, _TYPES["message"])  # type: ignore[assignment]  # a number of the enum
            if bare not in _TYPES:
                made.type_name = f".p.{bare}"
            if kind == "*sint64":
                made.options.packed = True
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.MetricFamily"))


# How it is asked for.
PROTOBUF: Final = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"

_FAMILY: Final = _family_class()


def families(page: bytes) -> Iterator[Message]:
    """Each message, in order."""
    while page:
        length, shift, at = 0, 0, 0
        while True:
            length |= (page[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if page[at - 1] < 0x80:
                break
        family = _FAMILY.FromString(page[at : at + length])
        assert len(page) >= at + length
        yield family
        page = page[at + length :]


def readings(page: bytes) -> Readings:
    """The samples, under the names that they have in the text formats."""
    found = Readings()

    def put(name: str, labels: dict[str, str], value: float) -> None:
        key = (name, frozenset(labels.items()))
        assert key not in found, f"{key} is there twice"
        found[key] = value

    for family in families(page):
        for metric in family.metric:  # type: ignore[attr-defined]  # made at run time
            labels = {pair.name: pair.value for pair in metric.label}
            if metric.HasField("histogram"):
                histogram = metric.histogram
                put(f"{family.name}_sum", labels, histogram.sample_sum)  # type: ignore[attr-defined]
                put(f"{family.name}_count", labels, histogram.sample_count)  # type: ignore[attr-defined]
                buckets = [(repr(bucket.upper_bound), bucket.cumulative_count) for bucket in histogram.bucket]
                for le, count in (*buckets, ("+Inf", histogram.sample_count)):
                    put(f"{family.name}_bucket", {**labels, "le": le}, count)  # type: ignore[attr-defined]
            else:
                (value,) = [
                    getattr(metric, field) for field in ("gauge", "counter", "untyped") if metric.HasField(field)
                ]
                put(family.name, labels, value.value)  # type: ignore[attr-defined]
    return found


def native(page: bytes, name: str) -> tuple[int, int, dict[int, int]]:
    """Of the one histogram with this name: how many there are, how many at zero, and those of each bucket."""
    (histogram,) = [
        metric.histogram
        for family in families(page)
        for metric in family.metric  # type: ignore[attr-defined]
        if family.name == name  # type: ignore[attr-defined]
    ]
    counts, index, count = {}, 0, 0
    deltas = iter(histogram.positive_delta)
    for span in histogram.positive_span:
        index += span.offset
        for _ in range(span.length):
            count += next(deltas)
            counts[index] = count
            index += 1
    assert next(deltas, None) is None
    assert histogram.schema == 1
    assert histogram.HasField("zero_threshold")
    assert histogram.sample_count == histogram.zero_count + sum(counts.values())
    return histogram.sample_count, histogram.zero_count, counts
