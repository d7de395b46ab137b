"""The daemon itself: how it is, what it writes, and what it takes of the machine."""

from deploy.monitoring.dashboards.board import Board
from deploy.monitoring.dashboards.panels import BAD_ABOVE_0, GOOD_IF_1, SHARE, WATCH_IF_1, Lines, Number, Query
from deploy.monitoring.dashboards.quantiles import quantiles

# In seconds: a day, and two weeks.
_ENDS = ((None, "red"), (86_400, "orange"), (1_209_600, "green"))
_LATE = ((None, "green"), (0.1, "red"))


def board() -> Board:
    """Where to look when a daemon is slow, late, or cannot write."""
    made = Board(
        "governor-daemon",
        "daemon",
        "The daemon itself: how it is, what it writes, and what it takes of the machine.",
    )
    made.row("Now", *_now())
    made.row("Work", *_work())
    made.row("State", *_state())
    made.row("Process", *_process())
    made.row("Audit trail", *_audit())
    made.row("Traces", *_traces())
    return made.row("Access", *_access())


def _now() -> tuple[Number, ...]:
    return (
        Number("Version", "What runs.", "string", Query("governor_build_info{@}", "{{version}}"), named=True),
        Number("Runs for", "Since the start of the process.", "s", Query("time() - process_start_time_seconds{@}", "")),
        Number(
            "Config read",
            "How long ago a config was last read and found in order.",
            "s",
            Query("time() - governor_config_last_reload_success_timestamp_seconds{@}", ""),
        ),
        Number(
            "Config in order",
            "Whether the config was in order when it was last read.",
            "bool_yes_no",
            Query("governor_config_last_reload_successful{@}", ""),
            GOOD_IF_1,
            {"0": "refused", "1": "in order"},
        ),
        Number(
            "State can be written",
            "Whether it could when that was last tried.",
            "bool_yes_no",
            Query("governor_store_writable{@}", ""),
            GOOD_IF_1,
            {"0": "no", "1": "yes"},
        ),
        Number(
            "Draining",
            "Whether it refuses new asks and waits for its leases to end.",
            "bool_yes_no",
            Query("governor_daemon_draining{@}", ""),
            WATCH_IF_1,
            {"0": "no", "1": "draining"},
        ),
    )


def _work() -> tuple[Lines, ...]:
    return (
        Lines(
            "Lateness",
            "Half and 99 of 100 wake-ups for what was due came no later than this. An idle daemon wakes for nothing.",
            "s",
            quantiles("governor_event_loop_lag_seconds", [0.5, 0.99], by="instance"),
            colours=_LATE,
        ),
        Lines(
            "Did not run",
            "Of each second, how long it did not run at all while it should have: stopped, frozen or blocked.",
            "percentunit",
            [Query("rate(governor_pauses_seconds_total{@}[$__rate_interval])", "{{instance}}")],
        ),
        Lines(
            "Asks for nothing that is declared",
            "Tickets that claimed no declared resource, in a second, by the reason of the refusal.",
            "ops",
            [Query("sum by (outcome) (rate(governor_stray_acquires_total{@}[$__rate_interval]))", "{{outcome}}")],
            stacked=True,
        ),
        Lines(
            "Releases",
            "Lease ids that were given back, in a second. Ended ones came too late.",
            "ops",
            [Query("sum by (outcome) (rate(governor_lease_releases_total{@}[$__rate_interval]))", "{{outcome}}")],
            stacked=True,
            width=12,
        ),
        Lines(
            "Renewals",
            "Lease ids that were to be renewed by name, in a second; keep-alives of sessions renew as well.",
            "ops",
            [Query("sum by (outcome) (rate(governor_lease_renewals_total{@}[$__rate_interval]))", "{{outcome}}")],
            stacked=True,
            width=12,
        ),
    )


def _state() -> tuple[Lines, ...]:
    return (
        Lines(
            "Writing the state",
            "Half and 99 of 100 writes took no longer than this. Every answer waits for one.",
            "s",
            quantiles("governor_store_write_seconds", [0.5, 0.99], by="instance"),
            colours=_LATE,
        ),
        Lines(
            "Writes",
            "Transactions, in a second. One is for many answers when there is much to do.",
            "wps",
            [Query("rate(governor_store_write_seconds_count{@}[$__rate_interval])", "{{instance}}")],
        ),
        Lines(
            "Failures to write",
            "In a second. While it lasts nothing is granted, unless on_store_error is continue.",
            "wps",
            [Query("rate(governor_store_errors_total{@}[$__rate_interval])", "{{instance}}")],
            colours=BAD_ABOVE_0,
        ),
    )


def _audit() -> tuple[Lines, ...]:
    return (
        Lines(
            "Lines that are missing",
            "In a second: what the audit file did not take in time.",
            "ops",
            [Query("rate(governor_audit_dropped_total{@}[$__rate_interval])", "{{instance}}")],
            colours=BAD_ABOVE_0,
            width=12,
        ),
        Lines(
            "Failures to write the audit file",
            "In a second: to write it, to begin a new one or to open it anew.",
            "wps",
            [Query("rate(governor_audit_write_errors_total{@}[$__rate_interval])", "{{instance}}")],
            colours=BAD_ABOVE_0,
            width=12,
        ),
    )


def _traces() -> tuple[Lines, ...]:
    return (
        Lines(
            "Spans exported",
            "In a second, where the daemon traces: what the collector has taken.",
            "ops",
            [Query("rate(governor_spans_exported_total{@}[$__rate_interval])", "{{instance}}")],
            width=12,
        ),
        Lines(
            "Spans dropped",
            "In a second: what the collector did not take in time, or at all, or what is not traced for want of room.",
            "ops",
            [Query("sum by (reason) (rate(governor_spans_dropped_total{@}[$__rate_interval]))", "{{reason}}")],
            stacked=True,
            width=12,
        ),
    )


def _access() -> tuple[Lines, ...]:
    return (
        Lines(
            "Callers who are refused",
            "In a second, where the config has clients: nobody knows them, they may not, or not so much or so often.",
            "ops",
            [Query("sum by (reason) (rate(governor_callers_refused_total{@}[$__rate_interval]))", "{{reason}}")],
            stacked=True,
            width=12,
        ),
        Lines(
            "Certificate ends in",
            "For how much longer the one of tls:// addresses proves anything. A new one is shown without a restart.",
            "s",
            [Query("governor_tls_certificate_not_after_timestamp_seconds{@} - time()", "{{instance}}")],
            colours=_ENDS,
            width=12,
        ),
    )


def _process() -> tuple[Lines, ...]:
    return (
        Lines(
            "CPU",
            "Of one CPU; a daemon uses no more than one.",
            "percentunit",
            [Query("rate(process_cpu_seconds_total{@}[$__rate_interval])", "{{instance}}")],
            colours=SHARE,
        ),
        Lines(
            "Memory",
            "What is resident.",
            "bytes",
            [Query("process_resident_memory_bytes{@}", "{{instance}}")],
        ),
        Lines(
            "Open files",
            "Connections are files, too; the limit is what the process may open.",
            "short",
            [
                Query("process_open_fds{@}", "{{instance}}"),
                Query("min(process_max_fds{@})", "limit"),
            ],
            limit="limit",
        ),
        Lines(
            "Garbage collection",
            "Runs of Python's collector in a second, by generation.",
            "ops",
            [Query("sum by (generation) (rate(python_gc_collections_total{@}[$__rate_interval]))", "{{generation}}")],
        ),
        Lines(
            "Scrapes",
            "How long it takes to fetch the page of metrics.",
            "s",
            [Query("scrape_duration_seconds{@}", "{{instance}}")],
        ),
        Lines(
            "Series",
            "How many there are on the page: some forty for each resource, and ten for each client.",
            "short",
            [Query("scrape_samples_scraped{@}", "{{instance}}")],
        ),
    )
