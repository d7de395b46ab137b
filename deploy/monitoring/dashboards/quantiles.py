"""Quantiles of histograms, as queries.

It knows how to ask a histogram for them. It must never know of which.
"""

from collections.abc import Sequence

from deploy.monitoring.dashboards.panels import Query


def quantiles(
    metric: str, of: Sequence[float], *, by: str = "", where: str = "@", legend: str = ""
) -> tuple[Query, ...]:
    """One query for each of ``of``, told apart by the label ``by`` as well if there is one."""
    groups = f"le, {by}" if by else "le"
    return tuple(
        Query(
            f"histogram_quantile({each}, sum by ({groups}) (rate({metric}_bucket{{{where}}}[$__rate_interval])))",
            " ".join(part for part in (f"{{{{{by}}}}}" if by else "", f"p{each * 100:g}", legend) if part),
        )
        for each in of
    )
