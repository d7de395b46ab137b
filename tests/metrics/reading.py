"""Reads a metrics page as a scraper does, and makes snapshots to show on one."""

from collections.abc import Iterable, Iterator

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.resource import ResourceSpec
from governor.core.snapshot import MemberCounts, ResourceSnapshot, Snapshot
from governor.core.types import SECOND, Nanos, Standing
from governor.metrics import Metrics

OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"


class Readings(dict[tuple[str, frozenset[tuple[str, str]]], float]):
    """The samples of a page: ``readings.of("governor_leases", resource="a")``."""

    def of(self, name: str, **labels: str) -> float:
        """The one sample with this name and at least these labels."""
        found = self.all(name, **labels)
        assert len(found) == 1, f"{name}{labels} was found {len(found)} times"
        return found[0]

    def all(self, name: str, **labels: str) -> list[float]:
        """All samples with this name and at least these labels."""
        return [value for (other, pairs), value in self.items() if other == name and labels.items() <= set(pairs)]

    def labels(self, name: str, label: str) -> set[str]:
        """All values that a label has on samples with this name."""
        return {dict(pairs)[label] for (other, pairs) in self if other == name}


def text(metrics: Metrics, accept: str = "") -> str:
    """The page as it is sent."""
    return b"".join(metrics.page(accept).chunks).decode()


def read(metrics: Metrics, accept: str = "") -> Readings:
    """The page, read by prometheus_client; no series may be there twice."""
    page = text(metrics, accept)
    parse = openmetrics_families if accept else text_families
    readings = Readings()
    for family in parse(page):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in readings, f"{key} is there twice"
            readings[key] = sample.value
    return readings


def resource(
    name: str,
    kind: str = "semaphore",
    *,
    capacity: int | None = 8,
    in_use: int = 0,
    over_limit: int = 0,
    available: int | None = 8,
    leases: int = 0,
    waiters: int = 0,
    oldest_wait: Nanos | None = None,
    members: MemberCounts | None = None,
    removed: bool = False,
) -> ResourceSnapshot:
    """A resource as a snapshot shows it; idle unless told otherwise."""
    spec = ResourceSpec(name, SemaphoreSpec(8), 30 * SECOND, 30 * SECOND, None, 30 * SECOND, 1000)
    return ResourceSnapshot(
        name=name,
        kind=kind,
        lends=kind != "rate_limit",
        capacity=capacity,
        in_use=in_use,
        over_limit=over_limit,
        available=available,
        leases=leases,
        waiters=waiters,
        oldest_wait=oldest_wait,
        members=members,
        removed=removed,
        standing=Standing.OPEN,
        override=None,
        spec=spec,
        declared=spec,
        lease=30 * SECOND,
        max_wait=30 * SECOND,
        max_waiters=1000,
    )


def snapshot(*resources: ResourceSnapshot, draining: bool = False) -> Snapshot:
    """A snapshot of just these."""
    return Snapshot(resources, leases=0, waiters=0, draining=draining, at=0)


def metrics_of(*resources: ResourceSnapshot) -> Metrics:
    """Metrics of just these."""
    return Metrics(lambda: snapshot(*resources), version="1.2.3")


def lines_of(page: str, name: str) -> Iterator[str]:
    """The lines of a page that are samples with this name."""
    return (line for line in page.split("\n") if line.startswith((f"{name}{{", f"{name} ")))


def kinds() -> Iterable[ResourceSnapshot]:
    """One resource of each kind."""
    yield resource("jobs")
    yield resource("db", "pool", members=MemberCounts(free=3, lent=2, quarantined=1))
    yield resource("api", "rate_limit", capacity=20, available=7)
