"""The page that a scraper reads: which families there are, and where the value of each comes from.

It knows which sample shows which number. It must never know where it is served. Everything on one page was
true at one instant: gauges are the numbers of a snapshot and cannot drift, counters are copies made with it.

What a resource cannot have is left out rather than shown as 0: a rate limit lends nothing, so it has no
leases, and only a pool has members.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from governor.core.effects import LeaseState
from governor.core.snapshot import ResourceSnapshot, Snapshot
from governor.core.types import SECOND, EndReason, Nanos, Reason, Standing
from governor.metrics import families
from governor.metrics.clients import ClientTally
from governor.metrics.tally import ABANDONED, GRANTED, REPEATED, Counted, Histogram, Tally
from governor.metrics.text import Family, Format, histogram, labels, sample

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
)
_ENDS: Final = (EndReason.RELEASED, EndReason.EXPIRED, EndReason.DISCONNECTED)
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
class DaemonFacts:
    """What has happened to the daemon itself: how long it was paused, how its writing went."""

    paused: Nanos
    writes: Histogram
    write_errors: int
    writable: bool
    audit_dropped: int
    audit_write_errors: int


@dataclass(slots=True, frozen=True)
class Facts:
    """Everything on one page, as it was at one instant."""

    snapshot: Snapshot
    tallies: Counted
    loop_lag: Histogram
    daemon: DaemonFacts
    config: ConfigFacts
    version: str


@dataclass(slots=True, frozen=True)
class _Row:
    """One resource, with its labels as they are written."""

    labels: str
    now: ResourceSnapshot
    tally: Tally


def lines(facts: Facts, form: Format) -> Iterator[str]:
    """The page, line by line."""
    rows = [
        _Row(labels(resource=now.name, kind=now.kind), now, facts.tallies.by_resource[now.name])
        for now in facts.snapshot.resources
    ]
    yield from _about_the_daemon(facts, form)
    for family, value in _GAUGES:
        yield family.header(form)
        for row in rows:
            if (number := value(row)) is not None:
                yield sample(family.name, row.labels, number)
    yield families.POOL_MEMBERS.header(form)
    for row in rows:
        if (members := row.now.members) is not None:
            counts = (("free", members.free), ("lent", members.lent), ("quarantined", members.quarantined))
            for state, count in counts:
                yield sample(families.POOL_MEMBERS.name, f'{row.labels},state="{state}"', count)
    yield from _tickets(rows, form)
    yield from _leases(rows, form)
    yield from _clients(facts.tallies.clients, form)


def _about_the_daemon(facts: Facts, form: Format) -> Iterator[str]:
    yield families.BUILD_INFO.header(form)
    yield sample(families.BUILD_INFO.name, labels(version=facts.version), 1)
    config = facts.config
    yield families.CONFIG_INFO.header(form)
    if config.hash:
        yield sample(families.CONFIG_INFO.name, labels(hash=config.hash), 1)
    yield families.CONFIG_LAST_RELOAD_SUCCESSFUL.header(form)
    if config.last_successful is not None:
        yield sample(families.CONFIG_LAST_RELOAD_SUCCESSFUL.name, "", int(config.last_successful))
    yield families.CONFIG_LAST_RELOAD_SUCCESS_TIMESTAMP.header(form)
    if config.loaded_at is not None:
        yield sample(families.CONFIG_LAST_RELOAD_SUCCESS_TIMESTAMP.name, "", config.loaded_at)
    yield families.DAEMON_DRAINING.header(form)
    yield sample(families.DAEMON_DRAINING.name, "", int(facts.snapshot.draining))
    yield families.EVENT_LOOP_LAG.header(form)
    yield from histogram(families.EVENT_LOOP_LAG.name, "", facts.loop_lag)
    daemon = facts.daemon
    numbers: tuple[tuple[Family, float], ...] = (
        (families.PAUSES, daemon.paused / SECOND),
        (families.STORE_ERRORS, daemon.write_errors),
        (families.STORE_WRITABLE, int(daemon.writable)),
        (families.AUDIT_DROPPED, daemon.audit_dropped),
        (families.AUDIT_WRITE_ERRORS, daemon.audit_write_errors),
    )
    for family, number in numbers:
        yield family.header(form)
        yield sample(family.name, "", number)
    yield families.STORE_WRITE.header(form)
    yield from histogram(families.STORE_WRITE.name, "", daemon.writes)
    tallies = facts.tallies
    yield from _by("outcome", families.STRAY_ACQUIRES, _STRAYS, [("", tallies.strays)], form)
    yield from _by("outcome", families.LEASE_RELEASES, _RELEASES, [("", tallies.releases)], form)
    yield from _by("outcome", families.LEASE_RENEWALS, _RENEWALS, [("", tallies.renewals)], form)


def _tickets(rows: list[_Row], form: Format) -> Iterator[str]:
    tickets = [(row.labels, row.tally.tickets) for row in rows]
    yield from _by("outcome", families.ACQUIRES, _OUTCOMES, tickets, form)
    yield families.ACQUIRE_WAIT.header(form)
    for row in rows:
        for outcome, counts in row.tally.waits.items():
            yield from histogram(families.ACQUIRE_WAIT.name, f'{row.labels},outcome="{outcome}"', counts)


def _leases(rows: list[_Row], form: Format) -> Iterator[str]:
    lending = [row for row in rows if row.now.lends]
    ends = [(row.labels, row.tally.ends) for row in lending]
    yield from _by("reason", families.LEASE_ENDS, _ENDS, ends, form)
    for family, counts in _LEASE_HISTOGRAMS:
        yield family.header(form)
        for row in lending:
            yield from histogram(family.name, row.labels, counts(row.tally))


def _clients(clients: Mapping[str, ClientTally], form: Format) -> Iterator[str]:
    rows = [(labels(client=name), tally) for name, tally in clients.items()]
    for family, value in _OF_CLIENTS:
        yield family.header(form)
        for pairs, tally in rows:
            yield sample(family.name, pairs, value(tally))
    acquires = [(pairs, {GRANTED: tally.granted} | tally.outcomes) for pairs, tally in rows]
    yield from _by("outcome", families.CLIENT_ACQUIRES, (GRANTED, ABANDONED), acquires, form)
    ends = [(pairs, {EndReason.RELEASED: tally.released} | tally.ends) for pairs, tally in rows]
    yield from _by("reason", families.CLIENT_LEASE_ENDS, _ENDS, ends, form)


def _by(
    label: str,
    family: Family,
    always: Sequence[str],
    counts: Iterable[tuple[str, Mapping[str, int]]],
    form: Format,
) -> Iterator[str]:
    """Counts by a closed set of words: those in ``always``, and of the others those that have happened."""
    yield family.header(form)
    for pairs, by_word in counts:
        before = f"{pairs}," if pairs else ""
        for word in always:
            yield sample(family.name, f'{before}{label}="{word}"', by_word.get(word, 0))
        for word, count in by_word.items():
            if count and word not in always:
                yield sample(family.name, f'{before}{label}="{word}"', count)


def _unlimited(number: int | None) -> float:
    return inf if number is None else number


# Of every resource that has it: None is shown as nothing.
_GAUGES: Final[tuple[tuple[Family, Callable[[_Row], float | None]], ...]] = (
    (families.PERMITS_LIMIT, lambda row: _unlimited(row.now.capacity)),
    (families.PERMITS_IN_USE, lambda row: row.now.in_use if row.now.lends else None),
    (families.PERMITS_OVER_LIMIT, lambda row: row.now.over_limit if row.now.lends else None),
    (families.RATE_LIMIT_AVAILABLE, lambda row: None if row.now.lends else _unlimited(row.now.available)),
    (families.LEASES, lambda row: row.now.leases if row.now.lends else None),
    (families.WAITERS, lambda row: row.now.waiters),
    (families.WAITERS_LIMIT, lambda row: row.now.max_waiters),
    (families.OLDEST_WAITER, lambda row: (row.now.oldest_wait or 0) / SECOND),
    (families.PAUSED, lambda row: int(row.now.standing is Standing.PAUSED)),
    (families.DRAINING, lambda row: int(row.now.standing is Standing.DRAINING)),
    (families.OVERRIDDEN, lambda row: int(row.now.override is not None)),
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
