"""One client: what it holds, what it asks for, and whether it gives back what it takes."""

from deploy.monitoring.dashboards.board import Board
from deploy.monitoring.dashboards.panels import BAD_ABOVE_0, Lines, Number, Query

_ENDS = "governor_client_lease_ends_total"


def board() -> Board:
    """Where to look when a program leaks, or takes more than its share."""
    made = Board(
        "governor-client",
        "client",
        "One client, by the name that it declares. `other` is all beyond max_client_series, `unnamed` who has none.",
        chosen="client",
        known_by="governor_client_leases",
    )
    made.row(
        "Now",
        Number("Leases", "What it holds now.", "short", Query("sum(governor_client_leases{@})", "")),
        Number(
            "Share of all leases",
            "What it holds, of what all clients hold.",
            "percentunit",
            Query(
                'sum(governor_client_leases{@}) / sum(governor_client_leases{job=~"$job",instance=~"$instance"})', ""
            ),
        ),
        Number(
            "Asks",
            "Tickets that ended, in a second.",
            "ops",
            Query("sum(rate(governor_client_acquires_total{@}[$__rate_interval]))", ""),
        ),
        Number(
            "Expired",
            "Leases that it let expire within the time that is shown.",
            "short",
            Query(f'sum(increase({_ENDS}{{@,reason="expired"}}[$__range]))', ""),
            BAD_ABOVE_0,
        ),
        Number(
            "Lost with its connection",
            "Leases that ended because it was gone, within the time that is shown.",
            "short",
            Query(f'sum(increase({_ENDS}{{@,reason="disconnected"}}[$__range]))', ""),
            ((None, "green"), (1, "orange")),
        ),
        Number(
            "Gave up",
            "Asks that it abandoned in line within the time that is shown.",
            "short",
            Query('sum(increase(governor_client_acquires_total{@,outcome="abandoned"}[$__range]))', ""),
            ((None, "green"), (1, "orange")),
        ),
    )
    made.row(
        "Asks",
        Lines(
            "Asks by what became of them",
            "Tickets that ended, in a second. One that claims several resources counts once.",
            "ops",
            [Query("sum by (outcome) (rate(governor_client_acquires_total{@}[$__rate_interval]))", "{{outcome}}")],
            stacked=True,
            width=12,
        ),
        Lines(
            "Mean wait",
            "Time that its tickets stood in line, by how many they were.",
            "s",
            [
                Query(
                    "sum(rate(governor_client_wait_seconds_total{@}[$__rate_interval]))"
                    " / sum(rate(governor_client_acquires_total{@}[$__rate_interval]))",
                    "mean wait",
                )
            ],
            width=12,
        ),
    )
    return made.row(
        "Leases",
        Lines("Leases", "What it holds.", "short", [Query("sum(governor_client_leases{@})", "leases")]),
        Lines(
            "How its leases end",
            "In a second. Expired ones were neither given back nor renewed; disconnected ones lost their holder.",
            "ops",
            [Query(f"sum by (reason) (rate({_ENDS}{{@}}[$__rate_interval]))", "{{reason}}")],
            stacked=True,
        ),
        Lines(
            "Mean hold",
            "Time that its leases lasted, by how many ended.",
            "s",
            [
                Query(
                    "sum(rate(governor_client_hold_seconds_total{@}[$__rate_interval]))"
                    f" / sum(rate({_ENDS}{{@}}[$__rate_interval]))",
                    "mean hold",
                )
            ],
        ),
    )
