"""The page: what scrapers read on it."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from math import inf

import pytest

from governor.core.effects import (
    Denied,
    Granted,
    LeaseEnded,
    LeaseExtended,
    LeaseResult,
    LeaseState,
    Released,
)
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.resource import Override
from governor.core.snapshot import MemberCounts, Snapshot
from governor.core.types import (
    MILLISECOND,
    SECOND,
    Claim,
    Denial,
    EndReason,
    Grant,
    LeaseId,
    Reason,
    Standing,
    TicketId,
)
from governor.metrics import Metrics, families
from tests.metrics.reading import OPENMETRICS, kinds, lines_of, metrics_of, read, resource, snapshot, text

NAMES = (
    "governor_permits_limit",
    "governor_permits_in_use",
    "governor_permits_over_limit",
    "governor_waiters",
    "governor_oldest_waiter_seconds",
    "governor_acquire_wait_seconds_count",
    "governor_acquires_total",
    "governor_hold_seconds_count",
    "governor_leases",
    "governor_lease_ends_total",
    "governor_lease_renewals_total",
    "governor_lease_expiry_lag_seconds_count",
    "governor_lease_margin_seconds_count",
    "governor_pool_members",
    "governor_rate_limit_available",
    "governor_daemon_draining",
    "governor_draining",
    "governor_paused",
    "governor_overridden",
    "governor_event_loop_lag_seconds_count",
    "governor_build_info",
    "process_resident_memory_bytes",
    "python_gc_collections_total",
    "python_info",
)
NAUGHTY = ("a/b & c", 'say "hi"', "back\\slash", "line\\nbreak", "größe-日本-🦊", "{le=}", "# EOF", "a" * 200)


def busy() -> Metrics:
    """Metrics of one resource of each kind, all with a past."""
    metrics = metrics_of(*kinds(), *(resource(name) for name in NAUGHTY))
    for name in ("jobs", "db", "api", *NAUGHTY):
        claims, grants = (Claim(name, 1),), (Grant(name, 1),)
        metrics.observe([Granted(TicketId(1), LeaseId(1), grants, 1, 20 * MILLISECOND, "client")])
        metrics.observe([Denied(TicketId(2), Denial(Reason.WAIT_OVER), claims, 30 * SECOND)])
        metrics.observe([LeaseExtended(LeaseId(1), grants, 4 * SECOND, 1, "")])
        metrics.observe([LeaseEnded(LeaseId(1), EndReason.EXPIRED, grants, "client", 90 * SECOND, -MILLISECOND)])
        metrics.observe([Released((LeaseResult(LeaseId(1), LeaseState.ENDED),))])
    metrics.observe([Denied(TicketId(3), Denial(Reason.UNKNOWN_RESOURCE), (Claim("guess", 1),))])
    metrics.loop_lag(2 * MILLISECOND)
    metrics.config_loaded("0f" * 32, 1_795_000_000.5)
    metrics.certificate_read((1_790_000_000.0, 1_800_000_000.0))
    return metrics


class TestFormats:
    """Both text formats."""

    def test_promtool_has_nothing_to_say(self, program: Callable[[str], str]) -> None:
        """Not on a page with a past, and not on the very first."""
        for metrics in (busy(), metrics_of(*kinds()), metrics_of()):
            check = subprocess.run(
                [program("promtool"), "check", "metrics"],
                input=text(metrics),
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )

            assert (check.returncode, check.stdout, check.stderr) == (0, "", "")

    def test_both_formats_say_the_same(self) -> None:
        """Every sample of governor's own is in both, under the same labels."""
        metrics = busy()
        plain, open_ = read(metrics), read(metrics, OPENMETRICS)

        assert {key: value for key, value in plain.items() if key[0].startswith("governor_")} == {
            key: value for key, value in open_.items() if key[0].startswith("governor_")
        }

    @pytest.mark.parametrize(
        ("accept", "content_type"),
        [
            ("", "text/plain; version=0.0.4; charset=utf-8"),
            ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
            ("text/html,application/xhtml+xml;q=0.9", "text/plain; version=0.0.4; charset=utf-8"),
            (OPENMETRICS, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
            ("Application/OpenMetrics-Text", "application/openmetrics-text; version=1.0.0; charset=utf-8"),
            ("application/openmetrics-text;q=0, text/plain", "text/plain; version=0.0.4; charset=utf-8"),
            (
                "application/openmetrics-text;version=1.x",
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ),
            (";;,=,", "text/plain; version=0.0.4; charset=utf-8"),
        ],
    )
    def test_the_format_is_the_one_asked_for(self, accept: str, content_type: str) -> None:
        """OpenMetrics for whoever names it, and the old text for everybody else, whatever they send."""
        page = metrics_of().page(accept)
        body = b"".join(page.chunks)

        assert page.content_type == content_type
        assert body.endswith(b"# EOF\n") == content_type.startswith("application/")

    @pytest.mark.parametrize("accept", ["", OPENMETRICS])
    @pytest.mark.parametrize("name", NAUGHTY)
    def test_any_name_that_a_config_allows_survives(self, name: str, accept: str) -> None:
        """Quotes, backslashes and all languages."""
        assert read(metrics_of(resource(name)), accept).of("governor_permits_limit", resource=name) == 8

    def test_a_page_comes_in_chunks(self) -> None:
        """However many resources there are, little is made at once; together it is the page."""
        metrics = metrics_of(*(resource(f"r{n}") for n in range(300)))
        chunks = list(metrics.page().chunks)

        assert len(chunks) > 10
        assert max(chunk.count(b"\n") for chunk in chunks) < 600
        assert b"".join(chunks).count(b"governor_permits_limit{") == 300

    def test_a_page_is_of_one_instant(self) -> None:
        """What happens while it is being sent is on the next."""
        shown = [snapshot(resource("jobs", leases=1))]
        metrics = Metrics(lambda: shown[0], version="1")
        page = metrics.page()
        metrics.observe([Granted(TicketId(1), LeaseId(1), (Grant("jobs", 1),), 1, 0, "")])
        metrics.loop_lag(SECOND)
        metrics.config_failed()
        shown[0] = snapshot(resource("jobs", leases=2), draining=True)
        body = b"".join(page.chunks).decode()

        assert list(lines_of(body, "governor_leases")) == ['governor_leases{resource="jobs",kind="semaphore"} 1']
        assert 'outcome="granted"} 1' not in body
        assert "governor_daemon_draining 0" in body
        assert "governor_event_loop_lag_seconds_count 0" in body
        assert "governor_config_last_reload_successful 0" not in body


class TestNames:
    """Which series there are."""

    @pytest.mark.parametrize("name", NAMES)
    def test_every_name_is_there_before_any_use(self, name: str) -> None:
        """So that dashboards and alerts see the first increase."""
        assert read(metrics_of(*kinds())).all(name)

    def test_an_unused_resource_shows_zeros(self) -> None:
        """For all that happens in the normal course of things."""
        page = read(metrics_of(*kinds()))

        assert page.labels("governor_acquires_total", "outcome") == {
            "granted",
            "repeated",
            "abandoned",
            "none_free",
            "wait_over",
            "line_full",
            "hopeless",
            "above_capacity",
            # What an operator can make of a resource.
            *(standing.value for standing in Standing if standing is not Standing.OPEN),
        }
        assert page.labels("governor_lease_ends_total", "reason") == {"released", "expired", "disconnected"}
        for name in NAMES:
            if name.endswith(("_total", "_count")) and name.startswith("governor_"):
                assert set(page.all(name)) == {0.0}, name

    def test_a_kind_shows_only_what_it_has(self) -> None:
        """A rate limit lends nothing; only a pool has members."""
        page = read(metrics_of(*kinds()))

        for name in (
            "permits_in_use",
            "permits_over_limit",
            "leases",
            "lease_ends_total",
            "hold_seconds_count",
        ):
            assert page.labels(f"governor_{name}", "kind") == {"semaphore", "pool"}
        assert page.labels("governor_rate_limit_available", "kind") == {"rate_limit"}
        assert page.labels("governor_pool_members", "kind") == {"pool"}
        for name in ("permits_limit", "waiters", "acquires_total", "acquire_wait_seconds_count"):
            assert page.labels(f"governor_{name}", "kind") == {"semaphore", "pool", "rate_limit"}

    def test_the_series_of_what_is_removed_vanish(self) -> None:
        """Its gauges and its counters, at the next scrape; what stays keeps its counts."""
        shown = [snapshot(resource("jobs"), resource("db"))]
        metrics = Metrics(lambda: shown[0], version="1")
        for name in ("jobs", "db"):
            metrics.observe([Granted(TicketId(1), LeaseId(1), (Grant(name, 1),), 1, 0, "")])
        shown[0] = snapshot(resource("db"))

        assert "jobs" not in text(metrics)
        assert read(metrics).of("governor_acquires_total", resource="db", outcome="granted") == 1

        shown[0] = snapshot(resource("jobs"), resource("db"))

        assert read(metrics).of("governor_acquires_total", resource="jobs", outcome="granted") == 0

    def test_clients_cannot_make_series(self) -> None:
        """A thousand refused names leave the page as long as it was, and are counted together."""
        metrics = metrics_of(*kinds())
        metrics.observe([Denied(TicketId(0), Denial(Reason.UNKNOWN_RESOURCE), (Claim("guess", 1),))])
        lines = text(metrics).count("\n")
        for n in range(1000):
            claims = (Claim(f"guess-{n}", 1),)
            metrics.observe([Denied(TicketId(n), Denial(Reason.UNKNOWN_RESOURCE), claims)])

        assert text(metrics).count("\n") == lines
        assert "guess" not in text(metrics)
        assert read(metrics).of("governor_stray_acquires_total", outcome="unknown_resource") == 1001

    def test_help_says_something_about_every_family(self) -> None:
        """In one line, ending like a sentence, with the unit when the name has one."""
        helps = [line for line in text(busy()).split("\n") if line.startswith("# HELP governor_")]

        assert len(helps) == len(families.ALL)
        for line in helps:
            _, _, name, said = line.split(" ", 3)
            assert said.endswith("."), name
            assert "seconds" in said or not name.endswith("_seconds"), name
            assert '"' not in said, name
            assert "\\" not in said, name


class TestValues:
    """Where the numbers come from."""

    def test_gauges_are_the_numbers_of_the_snapshot(self) -> None:
        """Permits, leases, waiters and members."""
        page = read(
            metrics_of(
                resource(
                    "jobs",
                    capacity=8,
                    in_use=11,
                    over_limit=3,
                    leases=9,
                    waiters=4,
                    oldest_wait=2500 * MILLISECOND,
                ),
                resource("db", "pool", members=MemberCounts(free=3, lent=2, quarantined=1)),
                resource("api", "rate_limit", capacity=20, available=7),
            )
        )

        assert page.of("governor_permits_limit", resource="jobs", kind="semaphore") == 8
        assert page.of("governor_permits_in_use", resource="jobs") == 11
        assert page.of("governor_permits_over_limit", resource="jobs") == 3
        assert page.of("governor_leases", resource="jobs") == 9
        assert page.of("governor_waiters", resource="jobs") == 4
        assert page.of("governor_waiters_limit", resource="jobs") == 1000
        assert page.of("governor_oldest_waiter_seconds", resource="jobs") == 2.5
        assert page.of("governor_oldest_waiter_seconds", resource="db") == 0
        assert page.of("governor_pool_members", resource="db", state="free") == 3
        assert page.of("governor_pool_members", resource="db", state="lent") == 2
        assert page.of("governor_pool_members", resource="db", state="quarantined") == 1
        assert page.of("governor_permits_limit", resource="api", kind="rate_limit") == 20
        assert page.of("governor_rate_limit_available", resource="api") == 7

    def test_what_an_operator_did_shows_on_the_resource(self) -> None:
        """Paused, draining or overridden; the daemon itself drains under another name."""
        override = Override(SemaphoreSpec(3), SECOND)
        page = read(
            metrics_of(
                resource("open"),
                replace(resource("paused"), standing=Standing.PAUSED),
                replace(resource("draining"), standing=Standing.DRAINING),
                replace(resource("overridden"), override=override),
            )
        )

        for name in ("paused", "draining", "overridden"):
            shown = {
                of: page.of(f"governor_{name}", resource=of) for of in ("open", "paused", "draining", "overridden")
            }
            assert shown == {of: float(of == name) for of in shown}
        assert page.of("governor_daemon_draining") == 0

    def test_unlimited_is_infinite(self) -> None:
        """Not 0, and not absent."""
        page = read(
            metrics_of(
                resource("jobs", capacity=None, available=None),
                resource("api", "rate_limit", capacity=None, available=None),
            )
        )

        assert page.of("governor_permits_limit", resource="jobs") == inf
        assert page.of("governor_rate_limit_available", resource="api") == inf

    def test_waits_are_told_apart_from_none(self) -> None:
        """The bucket at 0 has those who were granted at once; a wait of 20 ms is above 10 and at most 30."""
        metrics = metrics_of(resource("jobs"))
        for waited in (0, 0, 20 * MILLISECOND):
            metrics.observe([Granted(TicketId(1), LeaseId(1), (Grant("jobs", 1),), 1, waited, "")])
        page = read(metrics)

        def bucket(le: str) -> float:
            return page.of("governor_acquire_wait_seconds_bucket", outcome="granted", le=le)

        assert [bucket(le) for le in ("0.0", "0.01", "0.03", "3600.0", "+Inf")] == [2, 2, 3, 3, 3]
        assert page.of("governor_acquire_wait_seconds_sum", outcome="granted") == 0.02
        assert page.of("governor_acquire_wait_seconds_count", outcome="granted") == 3

    def test_the_daemon_tells_of_itself(self) -> None:
        """Its version, its lateness and whether it drains."""
        metrics = Metrics(lambda: Snapshot((), 0, 0, draining=True, at=0), version="1.2.3")
        metrics.loop_lag(2 * MILLISECOND)
        metrics.loop_lag(-MILLISECOND)
        page = read(metrics)

        assert page.of("governor_build_info", version="1.2.3") == 1
        assert page.of("governor_daemon_draining") == 1
        assert page.of("governor_event_loop_lag_seconds_bucket", le="0.001") == 1
        assert page.of("governor_event_loop_lag_seconds_bucket", le="0.003") == 2
        assert page.of("governor_event_loop_lag_seconds_sum") == 0.002

    def test_a_failed_reload_shows_beside_the_config_in_force(self) -> None:
        """Until one succeeds; before any there is nothing to tell."""
        metrics = metrics_of()

        assert not read(metrics).all("governor_config_info")
        assert not read(metrics).all("governor_config_last_reload_successful")

        metrics.config_loaded("aa", 1_795_000_000.25)
        metrics.config_failed()
        page = read(metrics)

        assert page.of("governor_config_last_reload_successful") == 0
        assert page.of("governor_config_info", hash="aa") == 1
        assert page.of("governor_config_last_reload_success_timestamp_seconds") == 1_795_000_000.25

        metrics.config_loaded("bb", 1_795_000_001)
        page = read(metrics)

        assert page.of("governor_config_last_reload_successful") == 1
        assert page.labels("governor_config_info", "hash") == {"bb"}
