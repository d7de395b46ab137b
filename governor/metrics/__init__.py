"""Metrics: counters from effects, gauges from a snapshot at scrape time.

It knows the engine's effects and snapshots, and what it is told of the loop and the config. It must never
decide anything. Its size is bounded by the config: there are series for each declared resource and each of a
closed set of outcomes, and for so many clients by name as the config says, whatever names they choose.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, exposition
from prometheus_client.openmetrics import exposition as openmetrics

from governor.bounds import Bound
from governor.clock import LoopClock
from governor.core.effects import Effect
from governor.core.snapshot import Snapshot
from governor.core.types import Claim, EndReason, Grant, Nanos, Reason
from governor.metrics.histogram import LAGS, WRITES, Exemplar, Histogram
from governor.metrics.page import CertificateFacts, ConfigFacts, DaemonFacts, Facts, written
from governor.metrics.protobuf import ProtobufPen, of_registry
from governor.metrics.tally import Tallies
from governor.metrics.text import Format, TextPen, chunks, negotiate

__all__ = ["Facts", "Metrics", "Page"]


@dataclass(slots=True, frozen=True)
class Page:
    """What a scraper is answered. Each chunk is made when it is asked for, in well under a millisecond."""

    content_type: str
    chunks: Iterator[bytes]


class Metrics:
    """What has been counted since the start, and the page that shows it beside the present state."""

    def __init__(
        self, snapshot: Callable[[], Snapshot], *, version: str, now: Callable[[], Nanos] = LoopClock.now
    ) -> None:
        """``snapshot`` is asked at once, after each reload and at each scrape: what exists and how it is."""
        self._snapshot = snapshot
        self._now = now
        self._version = version
        self._tallies = Tallies(snapshot)
        self._loop_lag = Histogram(LAGS)
        self._frozen: Nanos = 0
        self._writes = Histogram(WRITES)
        self._write_errors = 0
        self._writable = True
        self._audit_dropped = self._audit_write_errors = 0
        self._callers_refused: Counter[str] = Counter()
        self._bounds_reached: Counter[str] = Counter()
        self._certificate = CertificateFacts()
        self._spans_exported = 0
        self._spans_dropped: Counter[str] = Counter()
        self._config = ConfigFacts()
        # The process, its garbage collector and its Python, as every Prometheus client in Python shows them.
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        GCCollector(registry=self._process)
        PlatformCollector(registry=self._process)

    def observe(self, effects: Sequence[Effect]) -> None:
        """Count the effects of one step of the engine."""
        self._tallies.observe(effects)

    def restored(self, clients: Iterable[str]) -> None:
        """Leases live on from before the start: each client's name, once for each."""
        self._tallies.clients.restored(clients)

    def show_clients(self, limit: int) -> None:
        """From now on, series for so many clients by name, and one for all others."""
        self._tallies.clients.limit(limit, self._now())

    def loop_lag(self, late: Nanos) -> None:
        """The engine was woken this much later than it asked to be; a hair too early is in time."""
        self._loop_lag.add(max(0, late))

    def frozen(self, length: Nanos) -> None:
        """Nothing at all ran for so long."""
        self._frozen += length

    def store_written(self, took: Nanos) -> None:
        """Changes were put on record within so long."""
        self._writes.add(took)

    def store_failed(self) -> None:
        """Changes could not be put on record."""
        self._write_errors += 1

    def store_writable(self, writable: bool) -> None:  # noqa: FBT001 - the one thing it says
        """Whether they can be, as far as is known."""
        self._writable = writable

    def audit_dropped(self, lines: int) -> None:
        """So many lines did not get into the audit file."""
        self._audit_dropped += lines

    def audit_failed(self) -> None:
        """The audit file could not be written, begun anew or opened anew; from the one thread that does."""
        self._audit_write_errors += 1

    def caller_refused(self, reason: Reason) -> None:
        """A caller may not do what it wants, or is not known."""
        self._callers_refused[reason] += 1

    def bound_reached(self, bound: Bound) -> None:
        """A client was refused or cut off for taking too much of the daemon itself."""
        self._bounds_reached[bound] += 1

    def certificate_read(self, span: tuple[float, float] | None) -> None:
        """From when and until when the certificate counts that is shown from now on, in seconds of Unix time.

        None: its files were read and are not in order. From whatever thread.
        """
        self._certificate = CertificateFacts(span or self._certificate.span, in_order=span is not None)

    def exemplify(self, named: Iterable[Claim | Grant], outcome: str | None, exemplar: Exemplar) -> None:
        """The span of a wait that was counted just now, by its outcome, or of a hold, which has none."""
        self._tallies.exemplify(named, outcome, exemplar)

    def spans_exported(self, spans: int) -> None:
        """So many were; from the one thread that does."""
        self._spans_exported += spans

    def spans_dropped(self, reason: str, spans: int) -> None:
        """So many were not, for one reason; of each reason from one thread."""
        self._spans_dropped[reason] += spans

    def config_loaded(self, digest: str, at_unix_seconds: float) -> None:
        """The config with this hash is in force since then."""
        self._config = ConfigFacts(digest, at_unix_seconds, last_successful=True)

    def config_failed(self) -> None:
        """A config was refused; what was in force before stays so."""
        self._config = replace(self._config, last_successful=False)

    def lost(self, reason: EndReason) -> int:
        """How many leases ended so since the start; of those that were given back, none."""
        return self._tallies.lost[reason]

    def facts(self) -> Facts:
        """All that a page shows, as of now: the one part of a page that is made in one go."""
        snapshot = self._snapshot()
        self._tallies.follow(snapshot)
        self._tallies.clients.tend(self._now())
        daemon = DaemonFacts(
            self._frozen,
            self._writes.copy(),
            self._write_errors,
            self._writable,
            self._audit_dropped,
            self._audit_write_errors,
            self._callers_refused.copy(),
            self._bounds_reached.copy(),
            self._certificate,
            self._spans_exported,
            self._spans_dropped.copy(),
        )
        return Facts(snapshot, self._tallies.copy(), self._loop_lag.copy(), daemon, self._config, self._version)

    def page(self, accept: str = "", facts: Facts | None = None) -> Page:
        """The page of ``facts``, or as of now, in the format that an ``Accept`` header asks for."""
        form = negotiate(accept)
        if form is Format.PROTOBUF:
            self._refine()
            facts = facts or self.facts()
            return Page(form.value, chain(written(facts, ProtobufPen()), of_registry(self._process)))
        facts = facts or self.facts()
        return Page(form.value, chain(chunks(written(facts, TextPen(form))), self._about_the_process(form)))

    def _refine(self) -> None:
        """Somebody reads native histograms, so from now on it pays to count for them."""
        self._tallies.refine()
        self._loop_lag.refine()
        self._writes.refine()

    def _about_the_process(self, form: Format) -> Iterator[bytes]:
        """The last chunk: it ends with the end mark that OpenMetrics wants."""
        write = openmetrics.generate_latest if form is Format.OPENMETRICS else exposition.generate_latest
        yield write(self._process)
