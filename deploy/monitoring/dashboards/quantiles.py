"""Quantiles of histograms, as queries.

It knows how to ask a histogram for them. It must never know of which.
"""

from collections.abc import Sequence
from typing import Final

from deploy.monitoring.dashboards.panels import Query

# Those whose buckets point at a span, where the daemon traces.
_FOLLOWED: Final = frozenset(("governor_acquire_wait_seconds", "governor_hold_seconds"))


def quantiles(
    metric: str, of: Sequence[float], *, by: str = "", where: str = "@", legend: str = ""
) -> tuple[Query, ...]:
    """One query for each of ``of``, told apart by the label ``by`` as well if there is one.

    Examples are of a histogram as a whole, so they are asked for with the last.
    """
    groups = f"le, {by}" if by else "le"
    return tuple(
        Query(
            f"histogram_quantile({each}, sum by ({groups}) (rate({metric}_bucket{{{where}}}[$__rate_interval])))",
            " ".join(part for part in (f"{{{{{by}}}}}" if by else "", f"p{each * 100:g}", legend) if part),
            exemplars=metric in _FOLLOWED and each == of[-1],
        )
        for each in of
    )
