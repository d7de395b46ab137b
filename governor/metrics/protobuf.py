"""A metrics page in protobuf: the one format that has native histograms.

It knows how the messages of io.prometheus.client look as bytes. It must never know what is measured.

They are written by hand, field by field: to build messages first takes several times as long, on the thread that
serves the leases. A family of many samples is several messages of the same name, so that none is long in the making.
"""

import struct
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

from governor.core.types import SECOND, Nanos
from governor.metrics.histogram import FIRST, SCHEMA, Exemplar, Histogram, native_bound

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from governor.metrics.text import Family

CONTENT_TYPE: Final = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"

_TYPES: Final = {"counter": 0, "gauge": 1, "info": 1, "unknown": 3, "histogram": 4}
# In which field of a Metric the value is.
_VALUE: Final = {"counter": 3, "gauge": 2, "info": 2, "unknown": 5}
_SAMPLES: Final = 20  # in a message: a millisecond of work at most
_MORE: Final = 0x80  # in a byte of a varint: another one follows
_DOUBLE: Final = struct.Struct("<d")


class ProtobufPen:
    """Writes a page in protobuf; labels are bytes as they stand in a Metric."""

    def labels(self, **values: str) -> bytes:
        """Label pairs."""
        return b"".join([_pair(name, value) for name, value in values.items()])

    def also(self, labels: bytes, name: str, value: str) -> bytes:
        """One pair more, of a closed set."""
        return labels + _known_pair(name, value)

    def none(self) -> bytes:
        """No labels."""
        return b""

    def family(self, family: "Family", samples: Iterable[tuple[bytes, float | Histogram]]) -> Iterator[bytes]:
        """Its messages; none at all if there is no sample."""
        head = _text(1, family.name) + _text(2, family.help) + _number(3, _TYPES[family.type])
        field = _VALUE.get(family.type, 0)
        metrics: list[bytes] = []
        for labels, value in samples:
            if isinstance(value, Histogram):
                metric = labels + _field(7, _histogram(value))
            else:
                metric = labels + _field(field, _double(1, value))
            metrics.append(_field(4, metric))
            if len(metrics) >= _SAMPLES:
                yield _delimited(head + b"".join(metrics))
                metrics.clear()
        if metrics:
            yield _delimited(head + b"".join(metrics))


def of_registry(registry: "CollectorRegistry") -> Iterator[bytes]:
    """What the collectors of prometheus_client show, which is no histogram."""
    for metric in registry.collect():
        kind = metric.type if metric.type in _VALUE else "unknown"
        name = f"{metric.name}_total" if kind == "counter" else f"{metric.name}_info" if kind == "info" else metric.name
        head = _text(1, name) + _text(2, metric.documentation) + _number(3, _TYPES[kind])
        for sample in metric.samples:
            if sample.name == name:
                pairs = b"".join([_pair(label, value) for label, value in sample.labels.items()])
                head += _field(4, pairs + _field(_VALUE[kind], _double(1, sample.value)))
        yield _delimited(head)


def _histogram(value: Histogram) -> bytes:
    """Told both ways: in buckets that add up, and in native ones."""
    below = 0
    parts = [_double(2, value.total / SECOND), _NATIVE]
    # Beside the buckets that people think in, and those native buckets are told without: a scraper takes them there.
    shown, told = value.exemplars or {}, 0
    for upper, count in zip(_uppers(value.told, value.bounds), value.counts, strict=True):
        below += count
        if upper:
            parts.append(_field(3, _number(1, below) + upper + (_exemplar(shown[told]) if told in shown else b"")))
            told += 1
    zero, native = value.native()
    parts += [_number(1, below), _number(7, zero)]
    if native:
        # One span from the first to the last: what is between them and empty is a byte each.
        first, last = min(native), max(native)
        deltas, before = [], 0
        for index in range(first, last + 1):
            now = native.get(index, 0)
            deltas.append(_varint(_zigzag(now - before)))
            before = now
        parts += [_field(12, _signed(1, first) + _number(2, last - first + 1)), _field(13, b"".join(deltas))]
    else:
        # A span of nothing says that it is native all the same.
        parts.append(_field(12, _signed(1, 0) + _number(2, 0)))
    return b"".join(parts)


def _exemplar(shown: Exemplar) -> bytes:
    """As a field of a bucket."""
    seconds, nanos = divmod(shown.at, SECOND)
    ids = _pair("trace_id", shown.trace_id) + _pair("span_id", shown.span_id)
    return _field(3, ids + _double(2, shown.value / SECOND) + _field(3, _number(1, seconds) + _number(2, nanos)))


# --- protobuf's own ----------------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    if number < _MORE:
        return _BYTES[number]
    parts = bytearray()
    while number >= _MORE:
        parts.append(number & (_MORE - 1) | _MORE)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def _field(number: int, content: bytes) -> bytes:
    return _BYTES[number << 3 | 2] + _varint(len(content)) + content


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _number(number: int, value: int) -> bytes:
    return _BYTES[number << 3] + _varint(value)


def _signed(number: int, value: int) -> bytes:
    return _BYTES[number << 3] + _varint(_zigzag(value))


def _double(number: int, value: float) -> bytes:
    return _BYTES[number << 3 | 1] + _DOUBLE.pack(value)


def _delimited(message: bytes) -> bytes:
    return _varint(len(message)) + message


def _pair(name: str, value: str) -> bytes:
    return _field(1, _text(1, name) + _text(2, value))


@cache
def _known_pair(name: str, value: str) -> bytes:
    """Of the closed sets of words that outcomes and reasons are."""
    return _pair(name, value)


@cache
def _uppers(told: tuple[Nanos, ...], bounds: tuple[Nanos, ...]) -> tuple[bytes, ...]:
    """The end of each bucket that is told, as a field of it."""
    return (*(_double(2, bound / SECOND) if bound in told else b"" for bound in bounds), b"")


_BYTES: Final = tuple(bytes((number,)) for number in range(256))
# What every native histogram says of itself.
_NATIVE: Final = _signed(5, SCHEMA) + _double(6, native_bound(FIRST - 1) / SECOND)
