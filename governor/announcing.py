"""Announcing: what the daemon says of its own start, and of not having run.

It knows the words. It must never know when they are due.
"""

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from governor import __version__
from governor.chronicle import Chronicle, What
from governor.config import Config
from governor.core.types import Nanos
from governor.reload import changes
from governor.restart import Restarted
from governor.wording import are, count, counted, span

if TYPE_CHECKING:
    from governor.rpc import GrpcServer

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
    if http:
        _LOG.info("listening on %s (status page, metrics and health)", http)


def remembered(written: str, restarted: Restarted) -> None:
    """What is left of the daemon before; ``written``: when that last wrote anything."""
    _LOG.info(
        "remembered from %s: %s held%s",
        written,
        are(restarted.leases, "lease"),
        f", {restarted.graced} of them {span(restarted.grace)} longer" if restarted.graced else "",
    )
    if told := changes(restarted.change):
        _LOG.info("config since then: %s", ", ".join(told))
    for problem in restarted.kept:
        _LOG.error("config: %s; until then it stays as it was, and a reload tries again", problem)


def started(chronicle: Chronicle, restarted: Restarted) -> None:
    """That there is a daemon, and what became of orders before there was one."""
    kept = f"; {count(restarted.leases, 'lease')} of before" if restarted.leases else ""
    chronicle.act(What.STARTED, detail=f"governor {__version__}, pid {os.getpid()}{kept}")
    for resource in restarted.over:
        chronicle.act(What.OVERRIDE_OVER, (resource,), "its time was over before the start")


def frozen(chronicle: Chronicle, length: Nanos) -> None:
    """That the daemon did not run for so long."""
    told = f"did not run for {span(length)}; all leases end as much later"
    _LOG.info("%s", told)
    if not chronicle.over:
        chronicle.act(What.FROZEN, detail=told)
