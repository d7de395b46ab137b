"""Operators: what the daemon tells and shows them of itself, what it lets them do, and what they let others do.

It knows which part of the daemon has which answer. It must never know how operators are reached.
"""

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from governor import __version__, tracing
from governor.address import TcpAddress
from governor.bounds import Bound
from governor.certificates import Certificates, Shown
from governor.chronicle import Chronicle
from governor.clock import LoopClock, unix_nanos
from governor.config import Config
from governor.core.types import SECOND, Claim, Denial, EndReason
from governor.driver import Driver
from governor.history import History
from governor.http import Door, Head, Pages, Sight, serve
from governor.journal import Journal
from governor.metrics import Metrics
from governor.refusals import Refusals
from governor.reload import Reloader
from governor.rpc import code_of
from governor.rpc.admin import About, Desk, where
from governor.rpc.guard import Guard
from governor.rpc.watch import Watch
from governor.sessions import Sessions
from governor.tracing import Tracing, cannot

if TYPE_CHECKING:
    from governor.trace import Trace

# Who has asked for a reload when nobody says so.
_SOMEBODY: str = "Admin"


def desk(
    driver: Driver,
    journal: Journal,
    metrics: Metrics,
    reloader: Reloader,
    chronicle: Chronicle,
    *,
    state: Path,
    http: str,
    audit_problem: Callable[[], str | None],
) -> Desk:
    """The desk of one daemon, which starts now; ``http`` is where its pages are. ``audit_problem``: as in `About`."""
    config, started_at = reloader.started, unix_nanos()
    host, folder = socket.gethostname(), str(state.absolute())
    traced = "" if config.tracing is None else tracing.told(config.tracing, os.environ)

    def about() -> About:
        revoked, expired = metrics.lost(EndReason.REVOKED), metrics.lost(EndReason.EXPIRED)
        state_problem, why = journal.broken, audit_problem() or ""
        return About(host, started_at, http, folder, config.durability, state_problem, why, revoked, expired, traced)

    return Desk(
        where=where(config.admin, config.listen, state),
        about=about,
        config=lambda: reloader.state,
        reload=lambda actor: reloader.reload(actor or _SOMEBODY),
        read=reloader.read,
        running=lambda: (reloader.config, reloader.started),
        act=chronicle.act,
        watch=Watch(chronicle, driver).watch,
    )


def guard(stack: AsyncExitStack, driver: Driver, metrics: Metrics, reloader: Reloader, chronicle: Chronicle) -> Guard:
    """Who may ask for what, as the config in force says; of what he may not is told until ``stack`` ends."""
    refusals = Refusals(LoopClock(), chronicle.refused)
    # The last that was counted is told to those who watch before they go, and to others at the end of all calls.
    chronicle.endings.append(refusals.tell_all)
    stack.callback(refusals.close)

    def refused(denial: Denial, claims: Sequence[Claim], origin: str) -> None:
        metrics.caller_refused(denial.reason)
        refusals.refused(denial, claims, origin)

    made = Guard(driver, reloader.config.clients, refused)
    reloader.observers.append(lambda _outcome: made.declare(reloader.config.clients))
    return made


def trace(asked: Tracing, driver: Driver, metrics: Metrics) -> "Trace":
    """What is asked of a driver is traced from now on; only who traces pays for loading that. Raises TracingError."""
    try:
        from governor.trace import begin  # noqa: PLC0415
    except Exception as error:
        raise cannot(error) from error
    return begin(asked, driver, metrics, code_of)


def certificates(config: Config, metrics: Metrics) -> Certificates | None:
    """What is shown where TLS is spoken. Raises BindError."""
    if config.tls is None:
        return None

    def told(shown: Shown | None) -> None:
        metrics.certificate_read(None if shown is None else (shown.since, shown.until))

    return Certificates(config.tls, told, time=lambda: unix_nanos() / SECOND)


async def show(
    stack: AsyncExitStack,
    config: Config,
    pages: Pages,
    guard: Guard,
    certificates: Certificates | None,
    reached: Callable[[Bound], None],
) -> str:
    """The pages, until ``stack`` ends: the URL of where they are, empty for nowhere. Raises BindError.

    ``reached`` is told of each connection that is refused.
    """
    at = config.http
    if at is None:
        return ""
    if certificates is not None:
        # Sessions last, so nobody may shake hands for days while a certificate ends or is changed.
        pages.scraped = certificates.soon
    door = Door(guard.reader) if at.clients else None
    server = await serve(
        at.address,
        pages,
        door,
        certificates,
        config.bounds.http_connections,
        partial(reached, Bound.HTTP_CONNECTIONS),
    )
    stack.push_async_callback(server.stop)
    if door is not None:
        guard.changed.append(server.ask_again)
    scheme = "https" if at.address.tls else "http"
    return f"{scheme}://{TcpAddress(at.address.host, server.port)}"


def sight(
    driver: Driver,
    journal: Journal,
    reloader: Reloader,
    *,
    sessions: Callable[[], Sessions | None],
    not_ready: Callable[[], str | None],
) -> Sight:
    """What the status page of one daemon, which starts now, may look at; the past is kept from now on."""
    clock, started_at, host, pid = LoopClock(), unix_nanos(), socket.gethostname(), os.getpid()
    history = History(driver.peaks, clock.now())
    driver.turn, driver.turn_at = history.turn, history.ends_at

    def head() -> Head:
        return Head(__version__, pid, host, started_at, reloader.state, journal.broken, not_ready())

    return Sight(driver, clock, history, head, sessions)
