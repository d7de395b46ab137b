"""The daemon: composition root, order of start, reload and shutdown.

It knows which parts there are and in what order they begin and end. It must never decide anything about permits.

Order of start: config, state folder, what is remembered, HTTP, addresses, lease ids, gRPC, ready. Order of end: not
ready, drain, gRPC, HTTP, the last that is to be remembered, state folder. Whatever cannot be had at the start is one
line and an exit code; no lease id is used up by then.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM, Signals
from typing import TYPE_CHECKING, Final

import governor.http
import governor.rpc
from governor import __version__, announcing, descriptors, garbage, logs, operators, signals
from governor.audit import Audit, AuditFileError
from governor.chronicle import Chronicle, What
from governor.clock import LoopClock, unix_nanos
from governor.config import Config, ConfigError, Reloaded
from governor.core.effects import Effect
from governor.core.engine import Engine
from governor.core.types import SECOND, Nanos
from governor.driver import Driver
from governor.durability import Durability, OnStoreError
from governor.faults import Faults
from governor.fence import FenceError, FormerFence
from governor.journal import BLOCK, Journal
from governor.lines import Lines
from governor.lock import BindError, FolderLock
from governor.metrics import Metrics
from governor.notify import Notifier
from governor.process import boot
from governor.reload import Reloader
from governor.restart import Restarted, RestartError, go_on
from governor.store import Store, StoreError
from governor.tracing import TracingError
from governor.watching import Watcher
from governor.wording import are, span

if TYPE_CHECKING:
    from governor.sessions import Sessions

_log: Final = logging.getLogger("governor")

# The exit codes of a daemon that did not start, as sysexits.h has them: EX_OSERR and EX_CONFIG.
_CANNOT_START: Final = 71
_BAD_CONFIG: Final = 78

# What a grpc stop may take: everybody has been answered by then, this is for answers on their way.
_GRPC_GRACE_S: Final = 0.5
# How long after a failure to put more lease ids on record it is tried again.
_IDS_RETRY_S: Final = 1.0
# What the end may take beyond the drain, as a service manager is told.
_LAST_STEPS: Final = 10 * SECOND


def run(
    config: Config | ConfigError, path: Path | None, state: Path | None, form: logs.LogFormat = logs.LogFormat.AUTO
) -> int:
    """Serve until a signal says to stop; the exit code says how it went.

    ``path``: the config file, whole; None for the embedded default. ``state``: a state folder instead of the config's.
    ``form``: of the log; why it did not start is text in any case.
    """
    signals.hold((SIGTERM, SIGINT, SIGHUP))
    log = logs.start(form)
    try:
        if isinstance(config, ConfigError):
            raise config
        asyncio.run(Daemon(config, path, (state or config.state).absolute()).serve())
    except ConfigError as error:
        log.explain(str(error))
        return _BAD_CONFIG
    except TracingError as error:
        log.explain(f"governor: {error}")
        return _BAD_CONFIG
    except (AuditFileError, BindError, FenceError, StoreError) as error:
        log.explain(f"governor: {error}")
        return _CANNOT_START
    finally:
        log.stop()
    return 0


class Daemon:
    """One run of the daemon. ``path`` is read anew on SIGHUP."""

    def __init__(self, config: Config, path: Path | None, state: Path) -> None:
        self._config = config
        self._path = path
        self._state = state
        self._signals = 0
        self._stop = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._ready = False
        self._extending = False
        # When what this run began with was last written, by the wall clock; empty when there was nothing.
        self._remembered = ""
        self._set_serving: Callable[[], None] = lambda: None
        self._watcher: Watcher | None = None
        self._audit: Audit | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._sessions: Sessions | None = None

    async def serve(self) -> None:
        """Start, serve, drain and end.

        Raises AuditFileError, BindError, FenceError, StoreError or TracingError when something cannot be had.
        """
        asyncio.get_running_loop().set_exception_handler(Faults())
        descriptors.raise_limit()
        stop = self._on_stop_signal
        with signals.heard({SIGTERM: stop, SIGINT: stop, SIGHUP: self._on_hangup}):
            await self._serve(self._config)
            await self._last_steps()
            _log.info("stopped")

    async def _serve(self, config: Config) -> None:
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(_folder(self._state))
            self._notifier = stack.enter_context(Notifier(os.environ, os.getpid()))
            fence = FormerFence(self._state)
            store = Store(self._state, flush=config.durability is Durability.POWER)
            with garbage.kept():
                driver, restarted = self._resume(store, fence.reserved)
            stack.callback(driver.close)
            chronicle, metrics = Chronicle(driver, unix_nanos), self._begin_to_count(driver, stack)
            stack.callback(self._begin_to_tell(chronicle).close)
            # Whatever cannot be had from here on: what the folder is locked for has ended before the lock has.
            stack.push_async_callback(self._put_down)
            driver.freeze_observers.append(partial(announcing.frozen, chronicle))
            self._begin_audit(chronicle)
            self._reloader = Reloader(driver, metrics, self._notifier, config, self._path, os.environ)
            self._reloader.observers.append(chronicle.reloaded)
            stack.push_async_callback(self._reloader.close)
            if self._path is not None:
                reloader = self._reloader
                changed = partial(reloader.request_if_changed, "watch")
                self._watcher = Watcher(self._path, LoopClock(), lambda: reloader.seen, changed)
                stack.callback(self._watcher.close)
                reloader.observers.append(self._watch)
            guard = operators.guard(stack, driver, metrics, self._reloader, chronicle)
            certificates = operators.certificates(config, metrics)
            sight = operators.sight(
                driver, self._journal, self._reloader, sessions=lambda: self._sessions, not_ready=self._not_ready
            )
            pages = governor.http.Pages(metrics, self._not_ready, sight)
            http = await operators.show(stack, config, pages, guard, certificates, metrics.bound_reached)
            desk = operators.desk(
                driver,
                self._journal,
                metrics,
                self._reloader,
                chronicle,
                state=self._state,
                http=http,
                audit_problem=lambda: None if self._audit is None else self._audit.hindrance,
            )
            server = await governor.rpc.serve(
                driver,
                LoopClock(),
                config.listen,
                restart_grace=_promised(config),
                desk=desk,
                guard=guard,
                bounds=config.bounds,
                reached=metrics.bound_reached,
                certificates=certificates,
                bound=partial(self._first_ids, fence),
            )
            stack.push_async_callback(server.stop, _GRPC_GRACE_S)
            self._sessions = server.sessions
            chronicle.asker = server.sessions.asker
            stack.push_async_callback(chronicle.close, _GRPC_GRACE_S)
            driver.observers.append(self._watch_ids)
            announcing.serving(config, self._state, server, http)
            orders = self._announce_restart(restarted)
            self._begin_to_serve(server)
            announcing.started(chronicle, restarted, orders)
            garbage.settle()
            await self._stop.wait()
            self._ready = False
            self._reloader.drain()
            self._set_serving()
            self._notifier.stopping("draining", self._reloader.config.drain_timeout + _LAST_STEPS)
            server.drain()
            chronicle.act(What.DRAINING)
            await self._drain()

    def _begin_to_count(self, driver: Driver, stack: contextlib.AsyncExitStack) -> Metrics:
        self._metrics = metrics = Metrics(driver.snapshot, version=__version__)
        metrics.restored(driver.client_of(lease) or "" for lease in driver.lease_ids())
        driver.observers.append(metrics.observe)
        driver.lag_observers.append(metrics.loop_lag)
        driver.freeze_observers.append(metrics.frozen)
        self._journal.written, self._journal.failed = metrics.store_written, metrics.store_failed
        if (asked := self._config.tracing) is not None:
            # Behind the metrics, which count what its spans are examples of.
            stack.push_async_callback(operators.trace(asked, driver, metrics).close)
        return metrics

    def _begin_to_tell(self, chronicle: Chronicle) -> Lines:
        lines = Lines(LoopClock(), chronicle.act)
        chronicle.act_listeners.append(lines.acted)
        chronicle.refusal_listeners.append(lines.refused)
        self._driver.observers.append(lines.observe)
        self._driver.broken_observers.append(lines.broken)
        return lines

    def _begin_audit(self, chronicle: Chronicle) -> None:
        asked, metrics = self._config.audit, self._metrics
        if asked is not None:
            self._audit = Audit(asked, unix_nanos, dropped=metrics.audit_dropped, failed=metrics.audit_failed)
            self._audit.begin(chronicle, self._driver)

    def _begin_to_serve(self, server: governor.rpc.GrpcServer) -> None:
        self._driver.begin_to_beat()
        self._ready = True
        self._set_serving = lambda: server.set_serving(self._not_ready() is None)
        self._journal.changed = self._store_changed
        if self._audit is not None:
            self._audit.changed = self._set_serving
        self._store_changed()
        self._notifier.ready("serving")
        self._reloader.begin()
        self._watch()

    def _resume(self, store: Store, fence: int) -> tuple[Driver, Restarted]:
        """Go on where the daemon before this one ended."""
        config = self._config
        stored = store.load()
        clock = LoopClock()
        reserved = max(stored.reserved, fence)
        self._driver = driver = Driver(Engine(first_id=reserved + 1), clock, beating=False)
        self._journal = journal = Journal(driver, store, clock, config.durability, config.on_store_error)
        journal.begin(stored, reserved)
        now = clock.now()
        try:
            restarted = go_on(driver, stored, config.resources, config.restart_grace, now, boot())
        except RestartError as error:
            raise store.damaged(str(error)) from error
        if config.durability is Durability.NONE:
            store.forget_leases()
        else:
            store.restart(restarted.stamp, now, restarted.grace, restarted.resources_by, promise=_promised(config))
        driver.commit()
        if stored.resources:
            self._remembered = stored.written
        return driver, restarted

    def _announce_restart(self, restarted: Restarted) -> str:
        """Which orders are in force."""
        orders = announcing.orders(self._driver)
        if self._remembered:
            announcing.remembered(self._remembered, restarted, orders)
            if restarted.kept:
                self._reloader.refused_at_start(restarted.kept)
        return orders

    def _store_changed(self) -> None:
        self._metrics.store_writable(not self._journal.broken)
        self._set_serving()

    def _not_ready(self) -> str | None:
        if self._ready:
            if self._journal.broken and self._config.on_store_error is OnStoreError.REFUSE:
                return "the state cannot be written"
            return self._audit.hindrance if self._audit is not None else None
        return "draining" if self._stop.is_set() else "starting"

    def _on_hangup(self, _number: Signals) -> None:
        if self._audit is not None:
            self._audit.reopen()
        self._reloader.request("SIGHUP")

    def _watch(self, _outcome: Reloaded | None = None) -> None:
        """Watch the config, or do not, as it says itself."""
        if self._watcher is not None:
            (self._watcher.begin if self._reloader.config.watch else self._watcher.close)()

    # --- the end --------------------------------------------------------------------------------------------

    def _on_stop_signal(self, number: Signals) -> None:
        self._signals += 1
        if self._signals == 1:
            _log.info("%s: stopping", number.name)
            self._stop.set()
        else:
            _log.info("%s again: stopping at once", number.name)
            self._stop_now.set()

    async def _drain(self) -> None:
        """Answer everybody who waits, then wait for leases to come back, until drain_timeout or a second signal."""
        self._driver.drain()
        if self._driver.live_leases:
            self._driver.observers.append(self._stop_when_empty)
            _log.info(
                "draining: %s held; waiting up to %s for them to end (signal again to stop at once)",
                are(self._driver.live_leases, "lease"),
                span(self._reloader.config.drain_timeout),
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop_now.wait(), self._reloader.config.drain_timeout / SECOND)
        if self._driver.live_leases:
            _log.warning("%s still held", are(self._driver.live_leases, "lease"))

    async def _put_down(self) -> None:
        """The last that is to be remembered; what is told of that, too."""
        await self._journal.close()
        if self._audit is not None:
            await self._audit.close()

    async def _last_steps(self) -> None:
        """Let every task end by itself: one of grpc's that is cancelled says so in the log, with a traceback."""
        for task in self._tasks:
            task.cancel()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=_GRPC_GRACE_S)

    # --- the engine's effects -------------------------------------------------------------------------------

    def _stop_when_empty(self, effects: Sequence[Effect]) -> None:
        del effects
        if not self._driver.live_leases:
            self._stop_now.set()

    def _watch_ids(self, effects: Sequence[Effect]) -> None:
        del effects
        if self._journal.reserved - self._driver.last_id < BLOCK // 2 and not self._extending:
            self._extending = True
            self._spawn(self._reserve_ids())

    async def _first_ids(self, fence: FormerFence) -> None:
        """After all addresses are had: a start that fails uses none up. Before anybody asks, who would be refused."""
        self._driver.reserve_ids(await self._journal.reserve())
        fence.retire()

    async def _reserve_ids(self) -> None:
        """Put more ids on record before they run out; when they do, the engine refuses new asks."""
        told = ""
        while True:
            try:
                ceiling = await self._journal.reserve()
            except StoreError as error:
                if str(error) not in {told, self._journal.broken}:  # an outage is one line, not one a second
                    _log.error("%s", error)
                told = str(error)
                await asyncio.sleep(_IDS_RETRY_S)
            else:
                self._extending = False
                self._driver.reserve_ids(ceiling)
                return

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _folder(state: Path) -> FolderLock:
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        told = "there is something else of that name" if isinstance(error, FileExistsError) else error.strerror
        raise BindError(f"state folder {state}: cannot be made: {told}; name another with --state") from error
    return FolderLock(state)


def _promised(config: Config) -> Nanos:
    """How much longer leases surely live if this daemon dies: clients rely on it, so the next one keeps it."""
    lasting = config.durability is not Durability.NONE and config.on_store_error is OnStoreError.REFUSE
    return config.restart_grace if lasting else 0
