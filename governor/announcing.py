"""Announcing: what the daemon says of its own start, and of not having run.

It knows the words. It must never know when they are due.
"""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from governor import __version__, tracing
from governor.chronicle import Chronicle, What
from governor.config import Config
from governor.config.override import overriding
from governor.core.types import Nanos, Said, Standing
from governor.driver import Driver
from governor.reload import changes
from governor.restart import Restarted
from governor.wording import are, count, counted, printable, said, span

if TYPE_CHECKING:
    from governor.rpc import GrpcServer

# Orders that are named in one line.
_MOST_ORDERS: Final = 20

_LOG: Final = logging.getLogger("governor")


def serving(config: Config, state: Path, server: "GrpcServer", http: str) -> None:
    """What is served, and where; ``http`` is empty for nowhere."""
    _LOG.info("governor %s, pid %d, state in %s", __version__, os.getpid(), state)
    _LOG.info("config %s: %s", config.source, counted(spec.kind for spec in config.resources))
    for warning in config.warnings:
        _LOG.warning("config %s: %s", config.source, warning)
    if server.why_not:
        _LOG.warning("operators are served nowhere: %s", server.why_not)
    for address in server.addresses:
        _LOG.info("listening on %s (gRPC)", address)
    for address in server.admin:
        if address not in server.addresses:
            _LOG.info("listening on %s (Admin)", address)
    if config.tracing is not None:
        _LOG.info("tracing to %s", printable(tracing.told(config.tracing, os.environ)))
    if http:
        _LOG.info("listening on %s (status page, metrics and health)", http)


def orders(driver: Driver) -> str:
    """What operators have ordered before, and is in force; empty: nothing."""
    told = list(_orders(driver))
    more = f"; and {len(told) - _MOST_ORDERS} more" if len(told) > _MOST_ORDERS else ""
    return printable("; ".join(told[:_MOST_ORDERS]) + more)


def _orders(driver: Driver) -> Iterator[str]:
    now = driver.now()
    for seen in driver.snapshot().resources:
        name, override = seen.name, seen.override
        if seen.standing is not Standing.OPEN:
            yield f"{name} is {seen.standing.value}{_by(seen.said)}"
        if override is not None:
            settings, _ = overriding(seen.declared.limit, override.limit)
            words = " ".join([f"{key} {value}" for key, value in sorted(settings.items())])
            yield f"{name} has {words} for {span(override.until - now)}{_by(override.said)}"
        if seen.members is not None and seen.members.quarantined:
            for member in driver.members(name):
                if member.by_operator:
                    until = "until it is restored" if member.until is None else f"for {span(member.until - now)}"
                    yield f"{member.id} of {name} is kept out {until}{_by(member.said)}"


def _by(who: Said) -> str:
    words = said(who.actor, who.reason, who.client)
    return f" ({words})" if words else ""


def remembered(written: str, restarted: Restarted, orders: str) -> None:
    """What is left of the daemon before; ``written``: when that last wrote anything. ``orders`` as above."""
    _LOG.info(
        "remembered from %s: %s held%s",
        written,
        are(restarted.leases, "lease"),
        f", {restarted.graced} of them {span(restarted.grace)} longer" if restarted.graced else "",
    )
    if told := changes(restarted.change):
        _LOG.info("config since then: %s", ", ".join(told))
    if orders:
        _LOG.info("orders still in force: %s", orders)
    for problem in restarted.kept:
        _LOG.error("config: %s; until then it stays as it was, and a reload tries again", problem)


def started(chronicle: Chronicle, restarted: Restarted, orders: str) -> None:
    """That there is a daemon, and what became of orders before there was one.

    Those in force are named, since what came last on the trail need not be what came last on record.
    """
    kept = f"; {count(restarted.leases, 'lease')} of before" if restarted.leases else ""
    stand = f"; orders in force: {orders}" if orders else ""
    chronicle.act(What.STARTED, detail=f"governor {__version__}, pid {os.getpid()}{kept}{stand}")
    for resource in restarted.over:
        chronicle.act(What.OVERRIDE_OVER, (resource,), "its time was over before the start")


def frozen(chronicle: Chronicle, length: Nanos) -> None:
    """That the daemon did not run for so long."""
    told = f"did not run for {span(length)}; all leases end as much later"
    _LOG.info("%s", told)
    if not chronicle.over:
        chronicle.act(What.FROZEN, detail=told)
