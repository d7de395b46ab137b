"""The page that a scraper reads: which families there are, and where the value of each comes from.

It knows which sample shows which number. It must never know where it is served. Everything on one page was
true at one instant: gauges are the numbers of a snapshot and cannot drift, counters are copies made with it.

What a resource cannot have is left out rather than shown as 0: a rate limit lends nothing, so it has no
leases, and only a pool has members.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import AnyStr, Final, Generic, Protocol

from governor.bounds import Bound
from governor.core.effects import LeaseState
from governor.core.snapshot import ResourceSnapshot, Snapshot
from governor.core.types import SECOND, EndReason, Nanos, Reason, Standing
from governor.metrics import families
from governor.metrics.clients import ClientTally
from governor.metrics.histogram import Histogram
from governor.metrics.tally import ABANDONED, GRANTED, REPEATED, Counted, Tally
from governor.metrics.text import Family

# Shown from the start, at 0: an alert on the rate of an outcome needs to see its first increase. All others
# need a mistake or a rare state, and appear with their first ticket.
_OUTCOMES: Final = (
    GRANTED,
    REPEATED,
    ABANDONED,
    Reason.NONE_FREE.value,
    Reason.WAIT_OVER.value,
    Reason.LINE_FULL.value,
    Reason.HOPELESS.value,
    Reason.ABOVE_CAPACITY.value,
    Reason.DRAINING.value,
    Reason.PAUSED.value,
)
_ENDS: Final = (EndReason.RELEASED, EndReason.EXPIRED, EndReason.DISCONNECTED)
_CALLERS: Final = (Reason.UNAUTHENTICATED, Reason.PERMISSION_DENIED, Reason.CLIENT_LIMIT)
_SPANS: Final = ("queue_full", "refused", "ending", "too_many_holds")
_STRAYS: Final = (Reason.UNKNOWN_RESOURCE.value, Reason.MALFORMED.value)
_RELEASES: Final = (LeaseState.RELEASED, LeaseState.ENDED, LeaseState.UNKNOWN)
_RENEWALS: Final = (LeaseState.RENEWED, LeaseState.ENDED, LeaseState.UNKNOWN, LeaseState.REFUSED)


@dataclass(slots=True, frozen=True)
class ConfigFacts:
    """How reading the config went; ``hash`` and ``loaded_at`` (Unix time) are of the one in force, if any."""

    hash: str = ""
    loaded_at: float | None = None
    last_successful: bool | None = None


@dataclass(slots=True, frozen=True)
class CertificateFacts:
    """From when and until when the certificate counts that is shown, in seconds of Unix time; None without TLS.

    ``in_order``: whether its files were when they were last read.
    """

    span: tuple[float, float] | None = None
    in_order: bool = True


@dataclass(slots=True, frozen=True)
class DaemonFacts:
    """What has happened to the daemon itself: how long it was frozen, how its writing went."""

    frozen: Nanos
    writes: Histogram
    write_errors: int
    writable: bool
    audit_dropped: int
    audit_write_errors: int
    callers_refused: Mapping[str, int]
    bounds_reached: Mapping[str, int]
    certificate: CertificateFacts
    spans_exported: int
    spans_dropped: Mapping[str, int]


@dataclass(slots=True, frozen=True, weakref_slot=True, eq=False)
class Facts:
    """Everything on one page, as it was at one instant."""

    snapshot: Snapshot
    tallies: Counted
    loop_lag: Histogram
    daemon: DaemonFacts
    config: ConfigFacts
    version: str


class Pen(Protocol[AnyStr]):
    """Writes families in one format; what it makes of labels goes back to it as it is."""

    def labels(self, **values: str) -> AnyStr:
        """Label pairs."""
        ...

    def also(self, labels: AnyStr, name: str, value: str) -> AnyStr:
        """One pair more, with a value from a closed set of words."""
        ...

    def none(self) -> AnyStr:
        """No labels."""
        ...

    def family(self, family: Family, samples: Iterable[tuple[AnyStr, float | Histogram]]) -> Iterator[AnyStr]:
        """A family, a little at a time."""
        ...


@dataclass(slots=True, frozen=True)
class _Row(Generic[AnyStr]):
    """One resource, with its labels as they are written."""

    labels: AnyStr
    now: ResourceSnapshot
    tally: Tally


def written(facts: Facts, pen: Pen[AnyStr]) -> Iterator[AnyStr]:
    """The page, a little at a time."""
    yield from _about_the_daemon(facts, pen)
    rows = [
        _Row(pen.labels(resource=now.name, kind=now.kind), now, facts.tallies.by_resource[now.name])
        for now in facts.snapshot.resources
    ]
    for family, value in _GAUGES:
        yield from pen.family(family, ((row.labels, number) for row in rows if (number := value(row.now)) is not None))
    members = (
        (pen.also(row.labels, "state", state), count)
        for row in rows
        if (counts := row.now.members) is not None
        for state, count in (("free", counts.free), ("lent", counts.lent), ("quarantined", counts.quarantined))
    )
    yield from pen.family(families.POOL_MEMBERS, members)
    yield from _tickets(rows, pen)
    yield from _leases(rows, pen)
    yield from _clients(facts.tallies.clients, pen)


def _about_the_daemon(facts: Facts, pen: Pen[AnyStr]) -> Iterator[AnyStr]:
    config, daemon = facts.config, facts.daemon
    hashes = [(pen.labels(hash=config.hash), 1)] if config.hash else []
    span = daemon.certificate.span
    yield from pen.family(families.BUILD_INFO, [(pen.labels(version=facts.version), 1)])
    yield from pen.family(families.CONFIG_INFO, hashes)
    values: tuple[tuple[Family, float | Histogram | None], ...] = (
        (
            families.CONFIG_LAST_RELOAD_SUCCESSFUL,
            None if config.last_successful is None else int(config.last_successful),
        ),
        (families.CONFIG_LAST_RELOAD_SUCCESS_TIMESTAMP, config.loaded_at),
        (families.DAEMON_DRAINING, int(facts.snapshot.draining)),
        (families.EVENT_LOOP_LAG, facts.loop_lag),
        (families.FREEZES, daemon.frozen / SECOND),
        (families.STORE_ERRORS, daemon.write_errors),
        (families.STORE_WRITABLE, int(daemon.writable)),
        (families.AUDIT_DROPPED, daemon.audit_dropped),
        (families.AUDIT_WRITE_ERRORS, daemon.audit_write_errors),
        (families.STORE_WRITE, daemon.writes),
        (families.CERTIFICATE_IN_ORDER, None if span is None else int(daemon.certificate.in_order)),
        (families.CERTIFICATE_NOT_BEFORE, None if span is None else span[0]),
        (families.CERTIFICATE_NOT_AFTER, None if span is None else span[1]),
        (families.SPANS_EXPORTED, daemon.spans_exported),
    )
    nothing = pen.none()
    for family, value in values:
        yield from pen.family(family, [] if value is None else [(nothing, value)])
    tallies = facts.tallies
    yield from _by(pen, "reason", families.CALLERS_REFUSED, _CALLERS, [(nothing, daemon.callers_refused)])
    yield from _by(pen, "bound", families.BOUNDS_REACHED, tuple(Bound), [(nothing, daemon.bounds_reached)])
    yield from _by(pen, "reason", families.SPANS_DROPPED, _SPANS, [(nothing, daemon.spans_dropped)])
    yield from _by(pen, "outcome", families.STRAY_ACQUIRES, _STRAYS, [(nothing, tallies.strays)])
    yield from _by(pen, "outcome", families.LEASE_RELEASES, _RELEASES, [(nothing, tallies.releases)])
    yield from _by(pen, "outcome", families.LEASE_RENEWALS, _RENEWALS, [(nothing, tallies.renewals)])


def _tickets(rows: list[_Row[AnyStr]], pen: Pen[AnyStr]) -> Iterator[AnyStr]:
    tickets = ((row.labels, row.tally.tickets) for row in rows)
    yield from _by(pen, "outcome", families.ACQUIRES, _OUTCOMES, tickets)
    waits = (
        (pen.also(row.labels, "outcome", outcome), counts)
        for row in rows
        for outcome, counts in row.tally.waits.items()
    )
    yield from pen.family(families.ACQUIRE_WAIT, waits)


def _leases(rows: list[_Row[AnyStr]], pen: Pen[AnyStr]) -> Iterator[AnyStr]:
    lending = [row for row in rows if row.now.lends]
    yield from _by(pen, "reason", families.LEASE_ENDS, _ENDS, ((row.labels, row.tally.ends) for row in lending))
    for family, counts in _LEASE_HISTOGRAMS:
        yield from pen.family(family, ((row.labels, counts(row.tally)) for row in lending))


def _clients(clients: Mapping[str, ClientTally], pen: Pen[AnyStr]) -> Iterator[AnyStr]:
    rows = [(pen.labels(client=name), tally) for name, tally in clients.items()]
    for family, value in _OF_CLIENTS:
        yield from pen.family(family, ((labels, value(tally)) for labels, tally in rows))
    acquires = ((labels, {GRANTED: tally.granted} | tally.outcomes) for labels, tally in rows)
    yield from _by(pen, "outcome", families.CLIENT_ACQUIRES, (GRANTED, ABANDONED), acquires)
    ends = ((labels, {EndReason.RELEASED: tally.released} | tally.ends) for labels, tally in rows)
    yield from _by(pen, "reason", families.CLIENT_LEASE_ENDS, _ENDS, ends)


def _by(
    pen: Pen[AnyStr],
    label: str,
    family: Family,
    always: Sequence[str],
    counts: Iterable[tuple[AnyStr, Mapping[str, int]]],
) -> Iterator[AnyStr]:
    """Counts by a closed set of words: those in ``always``, and of the others those that have happened."""

    def samples() -> Iterator[tuple[AnyStr, int]]:
        for labels, by_word in counts:
            for word in always:
                yield pen.also(labels, label, word), by_word.get(word, 0)
            for word, count in by_word.items():
                if count and word not in always:
                    yield pen.also(labels, label, word), count

    yield from pen.family(family, samples())


def _unlimited(number: int | None) -> float:
    return inf if number is None else number


# Of every resource that has it: None is shown as nothing.
_GAUGES: Final[tuple[tuple[Family, Callable[[ResourceSnapshot], float | None]], ...]] = (
    (families.PERMITS_LIMIT, lambda now: _unlimited(now.capacity)),
    (families.PERMITS_IN_USE, lambda now: now.in_use if now.lends else None),
    (families.PERMITS_OVER_LIMIT, lambda now: now.over_limit if now.lends else None),
    (families.RATE_LIMIT_AVAILABLE, lambda now: None if now.lends else _unlimited(now.available)),
    (families.LEASES, lambda now: now.leases if now.lends else None),
    (families.WAITERS, lambda now: now.waiters),
    (families.WAITERS_LIMIT, lambda now: now.max_waiters),
    (families.OLDEST_WAITER, lambda now: (now.oldest_wait or 0) / SECOND),
    (families.PAUSED, lambda now: int(now.standing is Standing.PAUSED)),
    (families.DRAINING, lambda now: int(now.standing is Standing.DRAINING)),
    (families.OVERRIDDEN, lambda now: int(now.override is not None)),
)
_OF_CLIENTS: Final[tuple[tuple[Family, Callable[[ClientTally], float]], ...]] = (
    (families.CLIENT_LEASES, lambda tally: tally.leases),
    (families.CLIENT_WAIT, lambda tally: tally.waited / SECOND),
    (families.CLIENT_HOLD, lambda tally: tally.held / SECOND),
)
_LEASE_HISTOGRAMS: Final[tuple[tuple[Family, Callable[[Tally], Histogram]], ...]] = (
    (families.HOLD, lambda tally: tally.hold),
    (families.LEASE_MARGIN, lambda tally: tally.margin),
    (families.LEASE_EXPIRY_LAG, lambda tally: tally.lag),
)
