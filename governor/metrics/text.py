"""The text of a metrics page, in the two text formats that scrapers ask for, and which format one asks for.

It knows how a family and its samples are written. It must never know what is measured.

prometheus_client could write this, too, but takes 6 to 10 µs for a sample, on the thread that serves the
leases: with 1,000 resources over half a second for each scrape. Here the labels of a resource are written
once, and a sample takes a twentieth of that. The tests read pages with prometheus_client's own parsers.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from math import isinf
from typing import Final, Literal

from prometheus_client import exposition
from prometheus_client.openmetrics import exposition as openmetrics

from governor.core.types import SECOND, Nanos
from governor.metrics import protobuf
from governor.metrics.histogram import Exemplar, Histogram

_PROTOBUF: Final = "application/vnd.google.protobuf"
_LINES: Final = 500  # in a chunk: well under a millisecond of work


class Format(StrEnum):
    """A format; the value is its content type. All scrapers read TEXT, newer ones prefer OpenMetrics.

    Those that want native histograms prefer protobuf.
    """

    TEXT = exposition.CONTENT_TYPE_PLAIN_0_0_4
    OPENMETRICS = openmetrics.CONTENT_TYPE_LATEST
    PROTOBUF = protobuf.CONTENT_TYPE


def negotiate(accept: str) -> Format:
    """The format to answer an ``Accept`` header with.

    Protobuf for whoever likes it better than all else, OpenMetrics for whoever names it, text for all others.
    prometheus_client's own choice is not used: it raises on a version that is not all numbers, and claims to
    answer in whatever version it was asked for.
    """
    liked: dict[str, float] = {}
    for accepted in accept.split(","):
        media, *parameters = (part.strip().lower() for part in accepted.split(";"))
        if media != _PROTOBUF or {"proto=io.prometheus.client.metricfamily", "encoding=delimited"} <= set(parameters):
            liked[media] = max(liked.get(media, 0), _how_much(parameters))
    proto = liked.pop(_PROTOBUF, 0)
    if proto > max(liked.values(), default=0):
        return Format.PROTOBUF
    return Format.OPENMETRICS if liked.get("application/openmetrics-text", 0) else Format.TEXT


def _how_much(parameters: list[str]) -> float:
    """From 0 to 1; what cannot be read is as if nothing had been said."""
    said = next((parameter[2:] for parameter in parameters if parameter.startswith("q=")), "1")
    return float(said) if re.fullmatch(r"[01](\.\d{0,3})?", said) else 1.0


@dataclass(slots=True, frozen=True)
class Family:
    """A named group of samples. The name of a counter ends in ``_total``, that of an info in ``_info``."""

    name: str
    type: Literal["counter", "gauge", "histogram", "info"]
    labels: tuple[str, ...]
    help: str

    def header(self, form: Format) -> str:
        """The lines above its samples: OpenMetrics takes the suffix off the name."""
        name, kind = self.name, self.type
        if form is Format.OPENMETRICS:
            name = name.removesuffix("_total").removesuffix("_info")
        elif kind == "info":
            kind = "gauge"
        return f"# HELP {name} {self.help}\n# TYPE {name} {kind}\n"


class TextPen:
    """Writes a page as text; labels are written as they stand between the braces."""

    def __init__(self, form: Format) -> None:
        self._form = form

    def labels(self, **values: str) -> str:
        """Label pairs."""
        return ",".join([f'{name}="{_escape(value)}"' for name, value in values.items()])

    def also(self, labels: str, name: str, value: str) -> str:
        """One pair more, whose value needs no escaping."""
        return f'{labels},{name}="{value}"' if labels else f'{name}="{value}"'

    def none(self) -> str:
        """No labels."""
        return ""

    def family(self, family: Family, samples: Iterable[tuple[str, float | Histogram]]) -> Iterator[str]:
        """Its lines."""
        yield family.header(self._form)
        name = family.name
        for labels, value in samples:
            if isinstance(value, Histogram):
                yield from histogram(name, labels, value, exemplars=self._form is Format.OPENMETRICS)
            else:
                yield sample(name, labels, value)


def sample(name: str, pairs: str, value: float) -> str:
    """One line."""
    return f"{name}{{{pairs}}} {number(value)}\n" if pairs else f"{name} {number(value)}\n"


def histogram(name: str, pairs: str, counts: Histogram, *, exemplars: bool = False) -> Iterator[str]:
    """The lines of one histogram, in seconds; with those ``exemplars`` that it has, if so."""
    below = 0
    before_le = f"{name}_bucket{{{pairs}{',' if pairs else ''}le="
    shown = counts.exemplars if exemplars else None
    told = 0
    for le, count in zip(_le(counts.told, counts.bounds), counts.counts, strict=True):
        below += count
        if le:
            beside = "" if shown is None or told not in shown else _exemplar(shown[told])
            told += 1
            yield f'{before_le}"{le}"}} {below}{beside}\n'
    yield sample(f"{name}_sum", pairs, counts.total / SECOND)
    yield sample(f"{name}_count", pairs, below)


def chunks(lines: Iterable[str]) -> Iterator[bytes]:
    """The lines as bytes, some hundreds at a time, each made only when it is asked for."""
    chunk: list[str] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) >= _LINES:
            yield "".join(chunk).encode()
            chunk.clear()
    yield "".join(chunk).encode()


def number(value: float) -> str:
    """A value as both formats write it."""
    return ("+Inf" if value > 0 else "-Inf") if isinf(value) else repr(value)


def _exemplar(shown: Exemplar) -> str:
    ids = f'trace_id="{shown.trace_id}",span_id="{shown.span_id}"'
    return f" # {{{ids}}} {number(shown.value / SECOND)} {shown.at / SECOND:.3f}"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


@cache
def _le(told: tuple[Nanos, ...], bounds: tuple[Nanos, ...]) -> tuple[str, ...]:
    """The label of each bucket that is told; floats in either format, so that both make the same series."""
    return (*(repr(bound / SECOND) if bound in told else "" for bound in bounds), "+Inf")
