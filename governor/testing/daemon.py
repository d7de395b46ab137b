"""A daemon in a thread of this process, steered by a test.

It knows the parts of a daemon and how to put them together without a state folder, pages or signals. It must never
decide anything about permits: those are the real engine's decisions, and only the time is made up.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import yaml

import governor.rpc
from governor.address import TcpAddress
from governor.chronicle import Chronicle
from governor.clock import unix_nanos
from governor.config import Config, ConfigError, Problem, load, loads
from governor.core.effects import Effect, ReconfigureRefused
from governor.core.engine import Engine
from governor.core.snapshot import ResourceSnapshot, Snapshot
from governor.core.types import SECOND, LeaseId
from governor.driver import Driver
from governor.testing.clock import FakeClock
from governor.testing.desk import InForce, desk

T = TypeVar("T")

# What a config may be: the text of a YAML file, the path of one, or what such a file would say.
Declared = str | Path | Mapping[str, Any]
# The fixture ``governor_daemon``.
StartDaemon = Callable[[Declared], "Daemon"]

# More lease ids than a test gives out.
_IDS: Final = LeaseId(2**40)
# Seconds that the daemon may take for anything it is told; it takes milliseconds.
_PATIENCE: Final = 30.0
_GRPC_GRACE_S: Final = 0.5
_SOURCE: Final = "config"


class Daemon:
    """A daemon in this process, whose time stands still until a test moves it.

    Programs reach it at ``address``, by `governor.Client` or over gRPC, as they would reach any other. It serves from
    entering the block to leaving it. Its ``listen``, ``http`` and ``state`` are its own, whatever the config says.

    Args:
        config: The text of a config, the `pathlib.Path` of one, or a mapping that says the same. Defaults are those
            of a real daemon.

    Raises:
        ConfigError: The config cannot be used; every problem is named.

    All that is called here blocks the thread that calls, and works from any. `wait_until` in a coroutine would hold up
    the very tasks it waits for: write ``await asyncio.to_thread(daemon.wait_until, ...)`` there.

    Do not fork with a daemon in the process: gRPC does not live through that. Test such programs against
    `governor serve`.

    Example:
        >>> with Daemon("semaphores: {thumbnails: {permits: 2}}") as daemon:
        ...     print(daemon.resource("thumbnails").capacity, daemon.address.startswith("127.0.0.1:"))
        2 True
    """

    def __init__(self, config: Declared) -> None:
        self._config = InForce(_read(config))
        self._clock = FakeClock()
        self._address = self._admin_address = ""
        self._started: Future[None] = Future()
        self._stop = asyncio.Event()
        self._watches: set[_Watch] = set()
        self._thread = threading.Thread(target=self._run, name="governor-testing", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result(_PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        """Where it serves, as a client takes it: ``127.0.0.1`` and a port that was free."""
        return self._address

    @property
    def admin_address(self) -> str:
        """Where it serves operators, ``governor.v1.Admin``: for tests of what happens when one steps in."""
        return self._admin_address

    # --- time -----------------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Move its time on.

        When it returns, all that became due has happened, each thing at its own instant and in order: leases have
        ended, waits are over, permits have come back and gone to the next in line. The answers are on their way.
        What clients have sent and the daemon has not yet received comes after that: see `wait_until`.

        A client keeps its leases alive in the machine's time, and a renewal counts from where the daemon's time stands:
        moved on by the whole length of a lease at once, it ends, whoever keeps it alive; by less, it may live on.

        Raises:
            ValueError: Time does not go back.

        Example:
            >>> with Daemon({"rate_limits": {"api": {"rate": "1/s", "burst": 5}}}) as daemon:
            ...     daemon.advance(0.25)
        """
        if not seconds >= 0:
            raise ValueError(f"time does not go back: advance by 0 seconds or more, not {seconds}")
        self._do(lambda: self._clock.advance(round(seconds * SECOND)))

    # --- looks ----------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The numbers of everything, at one instant: resources, leases, waiters."""
        return self._do(self._driver.snapshot)

    def resource(self, name: str) -> ResourceSnapshot:
        """The numbers of one resource: ``capacity``, ``in_use``, ``available``, ``leases``, ``waiters`` and more.

        Raises:
            KeyError: There is none of that name.
        """
        return _one(self.snapshot(), name)

    def wait_until(self, condition: Callable[[Snapshot], bool], *, timeout: float = 10) -> Snapshot:
        """Wait, in the machine's time, until the daemon's numbers are so; the numbers then.

        Looked at after each step of the daemon, so no state is missed, however short. For whatever a program does in
        threads of its own: an ask has reached its line, a lease was given back.

        Args:
            condition: What must hold; it is called in the daemon's thread.
            timeout: Seconds until this is given up.

        Raises:
            TimeoutError: It did not come to be.

        Example:
            >>> with Daemon("semaphores: {thumbnails: {permits: 2}}") as daemon:
            ...     seen = daemon.wait_until(lambda seen: seen.waiters == 0)
        """
        watch = _Watch(condition)

        def begin() -> None:
            self._watches.add(watch)
            watch.look(self._driver.snapshot())

        self._do(begin)
        try:
            return watch.found.result(timeout)
        except TimeoutError:
            seen = self.snapshot()
            raise TimeoutError(f"after {timeout:g} s it still is not so: {seen}") from None
        finally:
            self._watches.discard(watch)

    # --- what an operator does ------------------------------------------------------------------------------

    def reload(self, config: Declared) -> None:
        """Apply another config, whole or not at all, as SIGHUP does.

        Raises:
            ConfigError: It cannot be used, and nothing has changed.
        """
        read = _read(config)
        self._do(lambda: self._apply(read))

    def drain(self) -> None:
        """Refuse new asks and whoever waits, as SIGTERM does; leases go on, and time must be moved for them to end."""

        def drain() -> None:
            self._server.set_serving(False)
            self._server.drain()
            self._driver.drain()

        self._do(drain)

    def close(self) -> None:
        """End it now: connections break, and nobody can connect. Safe twice."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # its loop has ended by itself
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_PATIENCE)

    # --- in its own thread ----------------------------------------------------------------------------------

    def _do(self, step: Callable[[], T]) -> T:
        async def do() -> T:
            return step()

        return asyncio.run_coroutine_threadsafe(do(), self._loop).result(_PATIENCE)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._driver = driver = Driver(Engine(), self._clock)
        driver.observers.append(self._look)
        driver.reserve_ids(_IDS)
        self._apply(self._config.config)
        chronicle = Chronicle(driver, unix_nanos)
        self._server = server = await governor.rpc.serve(
            driver, self._clock, (TcpAddress("127.0.0.1", 0),), desk=desk(driver, chronicle, self._config)
        )
        chronicle.asker = server.sessions.asker
        try:
            server.set_serving(True)
            self._address, self._admin_address = str(server.addresses[0]), str(server.admin[0])
            self._started.set_result(None)
            await self._stop.wait()
        finally:
            driver.close()
            await chronicle.close(0)
            await server.stop(0)
            # Else it would know itself, and gRPC's thread would stay until Python collects its garbage.
            driver.observers.remove(self._look)
        # A task of grpc's that is cancelled says so in the log, with a traceback.
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others, timeout=_GRPC_GRACE_S)

    def _apply(self, config: Config) -> None:
        outcome = self._driver.reconfigure(config.resources)
        if isinstance(outcome, ReconfigureRefused):
            raise ConfigError(tuple(Problem(config.source, None, "", problem) for problem in outcome.problems))
        self._config.config = config

    def _look(self, effects: Sequence[Effect]) -> None:
        if self._watches:
            snapshot = self._driver.snapshot()
            for watch in tuple(self._watches):
                watch.look(snapshot)


class _Watch:
    """Somebody who waits for the daemon's numbers to be so."""

    def __init__(self, condition: Callable[[Snapshot], bool]) -> None:
        self.found: Future[Snapshot] = Future()
        self._condition = condition

    def look(self, snapshot: Snapshot) -> None:
        """Whether they are so now. What goes wrong in the asking is for whoever waits, not for the daemon."""
        if self.found.done():
            return
        try:
            if self._condition(snapshot):
                self.found.set_result(snapshot)
        except BaseException as error:  # noqa: BLE001 - an assertion, for one
            self.found.set_exception(error)


def _read(config: Declared) -> Config:
    if isinstance(config, Path):
        return load(config, os.environ)
    text = config if isinstance(config, str) else yaml.safe_dump(dict(config), sort_keys=False)
    return loads(text, source=_SOURCE, environ=os.environ)


def _one(snapshot: Snapshot, name: str) -> ResourceSnapshot:
    for resource in snapshot.resources:
        if resource.name == name:
            return resource
    raise KeyError(f"{name}: no such resource; there are {', '.join(each.name for each in snapshot.resources)}")
