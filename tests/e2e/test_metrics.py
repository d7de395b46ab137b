"""The metrics page of a real daemon."""

import subprocess
from collections.abc import Callable

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from governor.v1 import governor_pb2 as pb
from tests.e2e.client import Client, ask
from tests.e2e.conftest import Connect, Start
from tests.e2e.process import BOUND, Daemon, Metrics, until

YAML = """
defaults: {lease: 1h}
semaphores: {jobs: {permits: 2}}
pools: {db: {size: 2}}
rate_limits: {api: {rate: 1/h, burst: 3}}
"""

# By name, as dashboards and alerts know them: what is true of each resource, and of the daemon.
OF_RESOURCES = {
    "governor_permits_limit": {"jobs", "db", "api"},
    "governor_permits_in_use": {"jobs", "db"},
    "governor_permits_over_limit": {"jobs", "db"},
    "governor_waiters": {"jobs", "db", "api"},
    "governor_waiters_limit": {"jobs", "db", "api"},
    "governor_oldest_waiter_seconds": {"jobs", "db", "api"},
    "governor_leases": {"jobs", "db"},
    "governor_pool_members": {"db"},
    "governor_rate_limit_available": {"api"},
    "governor_acquires_total": {"jobs", "db", "api"},
    "governor_acquire_wait_seconds_count": {"jobs", "db", "api"},
    "governor_hold_seconds_count": {"jobs", "db"},
    "governor_lease_ends_total": {"jobs", "db"},
    "governor_lease_expiry_lag_seconds_count": {"jobs", "db"},
    "governor_lease_margin_seconds_count": {"jobs", "db"},
}
OF_THE_DAEMON = {
    "governor_lease_renewals_total",
    "governor_draining",
    "governor_event_loop_lag_seconds_count",
    "governor_config_last_reload_successful",
    "governor_config_last_reload_success_timestamp_seconds",
    "governor_config_info",
    "governor_build_info",
}


# Of whoever has asked for anything.
OF_CLIENTS = {
    "governor_client_leases",
    "governor_client_acquires_total",
    "governor_client_wait_seconds_total",
    "governor_client_lease_ends_total",
    "governor_client_hold_seconds_total",
}

# What is not 0 from the start on.
OF_THE_START = ("governor_config_", "governor_build_", "governor_event_loop_", "governor_store_", "governor_pauses_")


def test_everything_is_there_before_it_is_used(start: Start) -> None:
    """An alert on the rate of something needs to see its first increase: every series begins at 0."""
    daemon = start(YAML)
    metrics = daemon.metrics()

    names = {name for name, _ in metrics}
    for name, resources in OF_RESOURCES.items():
        shown = {dict(labels)["resource"] for sample, labels in metrics if sample == name}
        assert shown == resources, name
    assert names >= OF_THE_DAEMON
    busy = {
        name: value
        for (name, _), value in metrics.items()
        if value and name.startswith("governor_") and not name.startswith(OF_THE_START)
    }
    assert busy.keys() == {
        "governor_permits_limit",
        "governor_pool_members",
        "governor_rate_limit_available",
        "governor_waiters_limit",
    }
    # What a daemon is made of is no garbage, and looking through all of it would be a quarter of its start.
    assert metrics["python_gc_collections_total", frozenset({("generation", "2")})] == 0


def test_the_figures_are_what_happened(daemon: Daemon, me: Client) -> None:
    """A story, and each of its turns counted once."""
    before = daemon.metrics()
    first, second = me.acquire("jobs"), me.acquire("jobs")
    waiting = me.wait_in_line(ask("jobs"))
    leaving = me.wait_in_line(ask("jobs"))
    with pytest.raises(Exception, match="not enough permits"):
        me.acquire("jobs", wait=0)
    with pytest.raises(Exception, match="no permits came"):
        me.acquire("jobs", wait=0.01)
    for _ in range(2):
        with pytest.raises(Exception, match="only ever has 2"):
            me.acquire("jobs", permits=3)
    during = daemon.metrics()
    leaving.cancel()
    until(lambda: me.counts("jobs") == (2, 1), "it has left")
    me.renew(first.id)
    me.release(first.id)
    third = waiting.lease()
    both = me.acquire("db", "api")
    me.release(both.id, outcome=pb.OUTCOME_BROKEN)
    me.release(second.id, third.id)
    short = me.acquire("jobs", lease=0.02)
    until(lambda: me.counts("jobs") == (0, 0), "it has expired")
    with pytest.raises(Exception, match="expired"):
        me.release(short.id)
    after = daemon.metrics()

    assert _of(during, "governor_permits_in_use", resource="jobs") == 2
    assert _of(during, "governor_waiters", resource="jobs") == 2
    assert _of(during, "governor_leases", resource="jobs") == 2
    assert _of(during, "governor_oldest_waiter_seconds", resource="jobs") > 0
    assert _of(after, "governor_permits_in_use", resource="jobs") == 0
    assert _of(after, "governor_pool_members", resource="db", state="quarantined") == 1
    assert _of(after, "governor_pool_members", resource="db", state="free") == 1
    assert _of(after, "governor_rate_limit_available", resource="api") == 2
    grown = {
        (name, tuple(sorted(value for key, value in labels if key not in {"kind", "le"}))): after[name, labels] - value
        for (name, labels), value in before.items()
        if name.startswith("governor_")
        and name.endswith(("_total", "_count"))
        and not name.startswith(OF_THE_START)
        and after[name, labels] != value
    }
    appeared = {name for name, _ in after.keys() - before.keys()}
    assert grown == {
        ("governor_acquires_total", ("granted", "jobs")): 4,
        ("governor_acquires_total", ("abandoned", "jobs")): 1,
        ("governor_acquires_total", ("jobs", "none_free")): 1,
        ("governor_acquires_total", ("jobs", "wait_over")): 1,
        ("governor_acquires_total", ("above_capacity", "jobs")): 2,
        ("governor_acquires_total", ("db", "granted")): 1,
        ("governor_acquires_total", ("api", "granted")): 1,
        ("governor_acquire_wait_seconds_count", ("granted", "jobs")): 4,
        ("governor_acquire_wait_seconds_count", ("db", "granted")): 1,
        ("governor_acquire_wait_seconds_count", ("api", "granted")): 1,
        ("governor_lease_ends_total", ("jobs", "released")): 3,
        ("governor_lease_ends_total", ("expired", "jobs")): 1,
        ("governor_lease_ends_total", ("db", "released")): 1,
        ("governor_hold_seconds_count", ("jobs",)): 4,
        ("governor_hold_seconds_count", ("db",)): 1,
        ("governor_lease_margin_seconds_count", ("jobs",)): 4,
        ("governor_lease_margin_seconds_count", ("db",)): 1,
        ("governor_lease_expiry_lag_seconds_count", ("jobs",)): 1,
        ("governor_lease_renewals_total", ("renewed",)): 1,
        ("governor_lease_releases_total", ("released",)): 4,
        ("governor_lease_releases_total", ("ended",)): 1,
    }
    assert appeared <= {f"governor_acquire_wait_seconds_{part}" for part in ("bucket", "sum", "count")} | OF_CLIENTS
    assert _of(after, "governor_client_acquires_total", client="unnamed", outcome="granted") == 5
    assert _of(after, "governor_client_leases", client="unnamed") == 0
    assert _of(during, "governor_client_leases", client="unnamed") == 2
    assert _of(after, "governor_client_lease_ends_total", client="unnamed", reason="expired") == 1


def test_promtool_accepts_the_page(daemon: Daemon, program: Callable[[str], str]) -> None:
    """It has nothing to say about it."""
    status, text = daemon.page("/metrics")

    run = subprocess.run(
        [program("promtool"), "check", "metrics"],
        input=text,
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )

    assert status == 200
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_openmetrics_says_the_same(daemon: Daemon) -> None:
    """For scrapers that ask for it: the same samples."""
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}

    text = {sample.name for family in parse_text(daemon.page("/metrics")[1]) for sample in family.samples}
    open_text = {
        sample.name
        for family in parse_openmetrics(daemon.page("/metrics", accept)[1])  # type: ignore[no-untyped-call]
        for sample in family.samples
    }

    assert text == open_text


def test_names_that_need_care_are_legal_everywhere(start: Start, connect: Connect) -> None:
    """What an operator may call a resource, a scraper can read and a client can ask for."""
    names = ["a b", 'quo"te', "back\\slash", "päivä/✓", "x" * 200]
    daemon = start("semaphores:\n" + "".join(f"  '{name}': {{permits: 1}}\n" for name in names))
    me = connect(daemon)

    for name in names:
        lease = me.acquire(name)
        assert daemon.metric("governor_permits_in_use", resource=name) == 1
        assert lease.grants[0].resource == name
        me.release(lease.id)


def _of(metrics: Metrics, name: str, **labels: str) -> float:
    """The one sample with this name and, among others, these labels."""
    (value,) = [
        value for (sample, its), value in metrics.items() if sample == name and labels.items() <= dict(its).items()
    ]
    return value
