"""The text of a metrics page, in the two formats that scrapers ask for.

It knows how a family and its samples are written. It must never know what is measured.

prometheus_client could write this, too, but takes 6 to 10 µs for a sample, on the thread that serves the
leases: with 1,000 resources over half a second for each scrape. Here the labels of a resource are written
once, and a sample takes a twentieth of that. The tests read pages with prometheus_client's own parsers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from math import isinf
from typing import Final, Literal

from prometheus_client import exposition
from prometheus_client.openmetrics import exposition as openmetrics

from governor.core.types import SECOND, Nanos
from governor.metrics.tally import Histogram

_LINES: Final = 500  # in a chunk: well under a millisecond of work


class Format(StrEnum):
    """A text format; the value is its content type. All scrapers read TEXT, newer ones prefer OpenMetrics."""

    TEXT = exposition.CONTENT_TYPE_PLAIN_0_0_4
    OPENMETRICS = openmetrics.CONTENT_TYPE_LATEST


def negotiate(accept: str) -> Format:
    """The format to answer an ``Accept`` header with: OpenMetrics for whoever names it, text for all others.

    prometheus_client's own choice is not used: it raises on a version that is not all numbers, and claims to
    answer in whatever version it was asked for.
    """
    for accepted in accept.split(","):
        media, *parameters = (part.strip().lower() for part in accepted.split(";"))
        if media == "application/openmetrics-text" and not {"q=0", "q=0.0"} & set(parameters):
            return Format.OPENMETRICS
    return Format.TEXT


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


def labels(**values: str) -> str:
    """Label pairs as they stand between the braces."""
    return ",".join([f'{name}="{_escape(value)}"' for name, value in values.items()])


def sample(name: str, pairs: str, value: float) -> str:
    """One line."""
    return f"{name}{{{pairs}}} {number(value)}\n" if pairs else f"{name} {number(value)}\n"


def histogram(name: str, pairs: str, counts: Histogram) -> Iterator[str]:
    """The lines of one histogram, in seconds."""
    below = 0
    before_le = f"{name}_bucket{{{pairs}{',' if pairs else ''}le="
    for le, count in zip(_le(counts.bounds), counts.counts, strict=True):
        below += count
        yield f'{before_le}"{le}"}} {below}\n'
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


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


@cache
def _le(bounds: tuple[Nanos, ...]) -> tuple[str, ...]:
    """The label of each bucket; floats in either format, so that both make the same series."""
    return (*(repr(bound / SECOND) for bound in bounds), "+Inf")
