"""One resource: what of it is lent, who waits for how long, and how its leases end."""

from deploy.monitoring.dashboards.board import Board
from deploy.monitoring.dashboards.panels import BAD_ABOVE_0, PLAIN, SHARE, WATCH_IF_1, Lines, Number, Query
from deploy.monitoring.dashboards.quantiles import quantiles


def board() -> Board:
    """Where to look when a resource is used up, or its line stands."""
    made = Board(
        "governor-resource",
        "resource",
        "One resource: what of it is lent, who waits for how long, and how its leases end.",
        chosen="resource",
        known_by="governor_permits_limit",
    )
    made.row("Now", *_now())
    made.row(
        "What is lent",
        Lines(
            "Permits",
            "Lent, and how many there are. A rate limit lends nothing: see what it has left.",
            "short",
            [
                Query("sum(governor_permits_in_use{@})", "in use"),
                Query("sum(governor_permits_limit{@})", "limit"),
                Query("sum(governor_permits_over_limit{@})", "beyond a limit that has shrunk"),
            ],
            limit="limit",
        ),
        Lines(
            "Leases",
            "Live leases that cover it. A rate limit has none.",
            "short",
            [Query("sum(governor_leases{@})", "leases")],
        ),
        Lines(
            "What a rate limit has left",
            "Permits that could be had at once. Only of rate limits.",
            "short",
            [
                Query("sum(governor_rate_limit_available{@})", "available"),
                Query('sum(governor_permits_limit{@,kind="rate_limit"})', "limit"),
            ],
            limit="limit",
        ),
        Lines(
            "Members by state",
            "Free ones have a slot left, lent ones have none, quarantined ones are kept out. Only of pools.",
            "short",
            [Query("sum by (state) (governor_pool_members{@})", "{{state}}")],
            stacked=True,
            width=12,
        ),
        Lines(
            "What an operator did",
            "1 while it is paused, drained, or has another limit than the declared one.",
            "bool_yes_no",
            [
                Query("max(governor_paused{@})", "paused"),
                Query("max(governor_draining{@})", "draining"),
                Query("max(governor_overridden{@})", "overridden"),
            ],
            colours=WATCH_IF_1,
            most=1,
            width=12,
        ),
    )
    made.row("Asks and waits", *_asks())
    return made.row("Leases", *_leases())


def _now() -> tuple[Number, ...]:
    return (
        Number("Limit", "Permits there are.", "short", Query("sum(governor_permits_limit{@})", "")),
        Number(
            "In use",
            "Permits lent, of all there are. A rate limit lends nothing.",
            "percentunit",
            Query("sum(governor_permits_in_use{@}) / sum(governor_permits_limit{@})", ""),
            SHARE,
        ),
        Number("Waiting", "Asks that stand in line now.", "short", Query("sum(governor_waiters{@})", "")),
        Number(
            "Longest wait",
            "How long the first in line has waited so far.",
            "s",
            Query("max(governor_oldest_waiter_seconds{@})", ""),
            ((None, "green"), (10, "orange"), (30, "red")),
        ),
        Number(
            "Paused",
            "Whether an operator has paused it anywhere.",
            "bool_yes_no",
            Query("max(governor_paused{@})", ""),
            WATCH_IF_1,
            {"0": "no", "1": "paused"},
        ),
        Number(
            "Beyond the limit",
            "Permits lent beyond a limit that has shrunk since.",
            "short",
            Query("sum(governor_permits_over_limit{@})", ""),
            BAD_ABOVE_0,
        ),
    )


def _asks() -> tuple[Lines, ...]:
    return (
        Lines(
            "Asks by what became of them",
            "Tickets that ended, in a second.",
            "ops",
            [Query("sum by (outcome) (rate(governor_acquires_total{@}[$__rate_interval]))", "{{outcome}}")],
            stacked=True,
        ),
        Lines(
            "The line",
            "Asks that wait, and how many may.",
            "short",
            [
                Query("sum(governor_waiters{@})", "waiting"),
                Query("sum(governor_waiters_limit{@})", "limit"),
            ],
            limit="limit",
        ),
        Lines(
            "The first in line",
            "How long it has waited so far.",
            "s",
            [Query("max(governor_oldest_waiter_seconds{@})", "first in line")],
        ),
        Lines(
            "Wait of those who were granted",
            "Half, 95 and 99 of 100 waited no longer than this; 0 did not have to wait.",
            "s",
            quantiles("governor_acquire_wait_seconds", [0.5, 0.95, 0.99], where='@,outcome="granted"'),
        ),
        Lines(
            "Wait of those who got nothing",
            "Until they gave up, or until their time was over.",
            "s",
            quantiles("governor_acquire_wait_seconds", [0.5, 0.99], where='@,outcome="wait_over"', legend="time over")
            + quantiles("governor_acquire_wait_seconds", [0.5, 0.99], where='@,outcome="abandoned"', legend="gave up"),
        ),
        Lines(
            "Short",
            "Of all asks, those that were refused because there were not enough permits in time.",
            "percentunit",
            [
                Query(
                    'sum(rate(governor_acquires_total{@,outcome=~"none_free|wait_over|line_full|hopeless"}'
                    "[$__rate_interval])) / sum(rate(governor_acquires_total{@}[$__rate_interval]))",
                    "short",
                )
            ],
            colours=((None, "green"), (0.01, "orange"), (0.144, "red")),
        ),
    )


def _leases() -> tuple[Lines, ...]:
    return (
        Lines(
            "How leases end",
            "In a second. Expired ones were neither given back nor renewed; disconnected ones lost their holder.",
            "ops",
            [Query("sum by (reason) (rate(governor_lease_ends_total{@}[$__rate_interval]))", "{{reason}}")],
            stacked=True,
        ),
        Lines(
            "How long it is held",
            "Half, 95 and 99 of 100 leases lasted no longer than this.",
            "s",
            quantiles("governor_hold_seconds", [0.5, 0.95, 0.99]),
        ),
        Lines(
            "How close leases came to their end",
            "Of those that were renewed or given back, 1 and 10 of 100 had no more than this left.",
            "s",
            quantiles("governor_lease_margin_seconds", [0.01, 0.1]),
            colours=PLAIN,
            width=4,
        ),
        Lines(
            "How late leases ended",
            "Of those that expired, half and 99 of 100 ended no later than this after their deadline.",
            "s",
            quantiles("governor_lease_expiry_lag_seconds", [0.5, 0.99]),
            width=4,
        ),
    )
