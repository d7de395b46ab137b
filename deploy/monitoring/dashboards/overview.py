"""All resources and all clients of some daemons, and how the daemons are."""

from deploy.monitoring.dashboards.board import Board
from deploy.monitoring.dashboards.panels import BAD_ABOVE_0, GOOD_IF_1, SHARE, Column, Lines, Number, Query, Table
from deploy.monitoring.dashboards.quantiles import quantiles

_SHORT = 'outcome=~"none_free|wait_over|line_full|hopeless"'


def board() -> Board:
    """What to look at first."""
    made = Board(
        "governor-overview",
        "overview",
        "What is lent, who waits and what is refused, over all resources of the chosen daemons.",
    )
    made.row(
        "Now",
        Number("Daemons", "Daemons that are scraped.", "short", Query("count(governor_build_info{@})", "")),
        Number(
            "Leases",
            "Live leases. One that covers several resources counts under each of them.",
            "short",
            Query("sum(governor_leases{@})", ""),
        ),
        Number("Waiting", "Asks that stand in line now.", "short", Query("sum(governor_waiters{@})", "")),
        Number(
            "Longest wait",
            "How long the one that waits longest has waited so far.",
            "s",
            Query("max(governor_oldest_waiter_seconds{@})", ""),
            ((None, "green"), (10, "orange"), (30, "red")),
        ),
        Number(
            "Short",
            "Of all asks, those that were refused because there were not enough permits in time.",
            "percentunit",
            Query(
                f"sum(rate(governor_acquires_total{{@,{_SHORT}}}[$__rate_interval]))"
                " / sum(rate(governor_acquires_total{@}[$__rate_interval]))",
                "",
            ),
            ((None, "green"), (0.01, "orange"), (0.1, "red")),
        ),
        Number(
            "Config refused",
            "Daemons whose config was refused when it was last read; the one before is in force.",
            "short",
            Query(
                "count(governor_config_last_reload_successful{@}) - sum(governor_config_last_reload_successful{@})", ""
            ),
            BAD_ABOVE_0,
        ),
    )
    made.row("Resources", _resources())
    made.row(
        "Use and waits",
        Lines(
            "Share in use",
            "Permits lent, of all there are. At 1 whoever comes next has to wait.",
            "percentunit",
            [
                Query(
                    "sum by (resource) (governor_permits_in_use{@})"
                    " / (sum by (resource) (governor_permits_limit{@}) > 0)",
                    "{{resource}}",
                )
            ],
            colours=SHARE,
            link="resource",
        ),
        Lines(
            "Waiting",
            "Asks that stand in line, by resource.",
            "short",
            [Query("sum by (resource) (governor_waiters{@})", "{{resource}}")],
            link="resource",
        ),
        Lines(
            "Longest wait",
            "How long the first in line has waited so far, by resource.",
            "s",
            [Query("max by (resource) (governor_oldest_waiter_seconds{@})", "{{resource}}")],
            link="resource",
        ),
        Lines(
            "Asks by what became of them",
            "Tickets that ended, in a second. What is granted is well; abandoned ones gave up by themselves.",
            "ops",
            [Query("sum by (outcome) (rate(governor_acquires_total{@}[$__rate_interval]))", "{{outcome}}")],
            stacked=True,
        ),
        Lines(
            "Wait of those who were granted",
            "99 of 100 waited no longer than this, by resource; 0 did not have to wait.",
            "s",
            quantiles("governor_acquire_wait_seconds", [0.99], by="resource", where='@,outcome="granted"'),
            link="resource",
        ),
        Lines(
            "What rate limits have left",
            "Permits that could be had at once, of the most that can be. At 0 whoever comes next has to wait.",
            "percentunit",
            [
                Query(
                    "sum by (resource) (governor_rate_limit_available{@})"
                    ' / (sum by (resource) (governor_permits_limit{@,kind="rate_limit"}) > 0)',
                    "{{resource}}",
                )
            ],
            most=1,
            link="resource",
        ),
    )
    made.row("Clients", *_clients())
    return made.row("Daemons", *_daemons())


def _resources() -> Table:
    return Table(
        "Resources",
        "Every resource as it is now. A click on its name shows it alone.",
        ["resource", "kind"],
        [
            Column("Limit", "short", "sum by (resource, kind) (governor_permits_limit{@})"),
            Column("In use", "short", "sum by (resource, kind) (governor_permits_in_use{@})"),
            Column(
                "Share",
                "percentunit",
                "sum by (resource, kind) (governor_permits_in_use{@})"
                " / (sum by (resource, kind) (governor_permits_limit{@}) > 0)",
                SHARE,
            ),
            Column("Waiting", "short", "sum by (resource, kind) (governor_waiters{@})"),
            Column("Longest wait", "s", "max by (resource, kind) (governor_oldest_waiter_seconds{@})"),
            Column(
                "Granted",
                "ops",
                'sum by (resource, kind) (rate(governor_acquires_total{@,outcome="granted"}[$__rate_interval]))',
            ),
            Column(
                "Short",
                "ops",
                f"sum by (resource, kind) (rate(governor_acquires_total{{@,{_SHORT}}}[$__rate_interval]))",
                BAD_ABOVE_0,
            ),
            Column(
                "Expired",
                "ops",
                'sum by (resource, kind) (rate(governor_lease_ends_total{@,reason="expired"}[$__rate_interval]))',
                BAD_ABOVE_0,
            ),
        ],
        link="resource",
    )


def _clients() -> tuple[Lines, ...]:
    return (
        Lines(
            "Leases of the ten that hold most",
            "By client. All clients beyond max_client_series are `other`.",
            "short",
            [Query("topk(10, sum by (client) (governor_client_leases{@}))", "{{client}}")],
            link="client",
        ),
        Lines(
            "Asks of the ten that ask most",
            "Tickets that ended, in a second, by client.",
            "ops",
            [
                Query(
                    "topk(10, sum by (client) (rate(governor_client_acquires_total{@}[$__rate_interval])))",
                    "{{client}}",
                )
            ],
            link="client",
        ),
        Lines(
            "Leases that expired",
            "In a second, by client: whoever is here does not give back what it takes, or renews it too late.",
            "ops",
            [
                Query(
                    "topk(10, sum by (client)"
                    ' (rate(governor_client_lease_ends_total{@,reason="expired"}[$__rate_interval])))',
                    "{{client}}",
                )
            ],
            link="client",
        ),
    )


def _daemons() -> tuple[Lines, ...]:
    return (
        Lines(
            "CPU",
            "Of one CPU; a daemon uses no more than one.",
            "percentunit",
            [Query("rate(process_cpu_seconds_total{@}[$__rate_interval])", "{{instance}}")],
            colours=SHARE,
        ),
        Lines(
            "Lateness",
            "99 of 100 wake-ups for what was due came no later than this.",
            "s",
            quantiles("governor_event_loop_lag_seconds", [0.99], by="instance"),
            colours=((None, "green"), (0.1, "red")),
        ),
        Lines(
            "State can be written",
            "1 if so. At 0, nothing is granted unless on_store_error is continue.",
            "bool_yes_no",
            [Query("governor_store_writable{@}", "{{instance}}")],
            colours=GOOD_IF_1,
            most=1,
        ),
    )
