"""Reload: the config file is read anew, and all of it takes effect, or none.

It knows one reading at a time, whom to tell how it went, and which config is in force since when. It must never know
how a file is seen to change, or what a permit is.

However many ask for it, one reading is under way and at most one comes after it: whoever asks while one is under way
asks for the next, since the file may have been read before it changed.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from governor.aside import aside
from governor.clock import unix_nanos
from governor.config import Config, ConfigError, ConfigState, Problem, Reloaded, contents, fingerprint, folder_of, parse
from governor.config.change import SettingChange
from governor.config.settings import at_next_start, at_once
from governor.config.written import changes as differences
from governor.core.effects import Reconfigured, ReconfigureRefused
from governor.core.types import SECOND
from governor.driver import Driver
from governor.metrics import Metrics
from governor.notify import Notifier
from governor.wording import counted

_log: Final = logging.getLogger("governor")

# Of the problems of one file: as many are in the log, and as many are told to whoever asks how it went, and kept for
# whoever asks what is in force, which is often. A person mends the first ones first anyway.
_PROBLEMS_LOGGED: Final = 200
_PROBLEMS_TOLD: Final = 20
# Of those who asked for one reading, each of whom may say who it is.
_ASKERS_TOLD: Final = 8

# Of what has changed: how many resources are told of with how, and settings of the daemon at all; how many settings of
# each resource; and how long a value may be, of a resource and of the daemon.
_DETAILED: Final = 50
_SETTINGS_TOLD: Final = 6
_LONG: Final = 80
_LONGER: Final = 400

_NOT_NAMED: Final = "no config file was named at the start; nothing to read anew"
_ENDING: Final = "the daemon ends; nothing was read"


@dataclass(slots=True, frozen=True)
class _Reading:
    """What was read: its fingerprint, or why there is none, and what it means."""

    seen: str
    outcome: Config | ConfigError


class _Asked:
    """One reading that is asked for, and who waits for it."""

    def __init__(self) -> None:
        self.done: asyncio.Future[Reloaded] = asyncio.get_running_loop().create_future()
        self.by: list[str] = []
        # Somebody wants it whatever there is to read; or else what was read last need not be read again.
        self.anyway = False

    def ask(self, by: str, *, anyway: bool) -> None:
        self.anyway |= anyway
        if by and by not in self.by and len(self.by) < _ASKERS_TOLD:
            self.by.append(by)


class Reloader:
    """Reads ``path`` anew when asked, from `begin` on; None: no file was named.

    ``config`` is the one in force. ``seen``: the fingerprint of what was read last, good or bad, or why it could not be
    read. ``observers`` are told of each reload, also a refused one; they must be quick and must not raise.
    """

    def __init__(
        self,
        driver: Driver,
        metrics: Metrics,
        notifier: Notifier,
        config: Config,
        path: Path | None,
        environ: Mapping[str, str],
    ) -> None:
        self._driver = driver
        self._metrics = metrics
        self._notifier = notifier
        self._path = path
        self._environ = environ
        self._started = self.config = config
        self.seen = config.hash
        self.observers: list[Callable[[Reloaded], None]] = []
        self._begun = self._serving = self._reloading = self._closed = False
        self._task: asyncio.Task[None] | None = None
        self._next: _Asked | None = None
        now = unix_nanos()
        self.state = ConfigState("" if path is None else config.source, config.hash, now)
        metrics.config_loaded(config.hash, now / SECOND)
        metrics.show_clients(config.max_client_series)

    @property
    def started(self) -> Config:
        """The config that this daemon was started with."""
        return self._started

    def read(self, data: bytes, source: str) -> Config:
        """What these contents would mean in the place of the file; messages call them ``source``. May block.

        Raises `ConfigError`, also where they use an environment variable other than in the very value where the config
        in force does: whoever may ask what a file would mean must not read the daemon's environment in the answer.
        """
        folder = Path.cwd() if self._path is None else folder_of(self._path)
        return parse(data, source, folder, self._environ, self.config.variables)

    def refused_at_start(self, problems: Sequence[str]) -> None:
        """A part of the config could not take effect."""
        self._keep_problems(tuple(problems))

    def begin(self) -> None:
        """The daemon serves. Who asked before is served now, and a service manager hears of reloads from now on."""
        self._begun = self._serving = True
        self._go_on()

    def drain(self) -> None:
        """The end has begun: reloads take effect yet, and are no business of a service manager's any more."""
        self._serving = False

    async def close(self) -> None:
        """Read nothing any more; whoever waits for it is told so."""
        self._closed = True
        if self._next is not None:
            self._next.done.set_result(self._refused(_ENDING))
            self._next = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    # --- asking ---------------------------------------------------------------------------------------------

    def request(self, by: str) -> None:
        """Read the file anew, soon."""
        if self._path is None:
            _log.warning("reload: %s", _NOT_NAMED)
        elif not self._closed:
            self._ask(by)

    def request_if_changed(self, by: str) -> None:
        """Read the file anew, soon; if it is as it was when it was read last, nobody hears of it."""
        if self._path is not None and not self._closed:
            self._ask(by, anyway=False)

    async def reload(self, by: str = "") -> Reloaded:
        """The outcome of a reading that begins after this call."""
        if self._path is None:
            return self._refused(_NOT_NAMED)
        if self._closed:
            return self._refused(_ENDING)
        # Whoever gives it up must not take it from the others.
        return await asyncio.shield(self._ask(by).done)

    def _ask(self, by: str, *, anyway: bool = True) -> _Asked:
        asked = self._next = self._next or _Asked()
        asked.ask(by, anyway=anyway)
        self._go_on()
        return asked

    def _go_on(self) -> None:
        if self._begun and self._next is not None and self._task is None:
            self._task = asyncio.ensure_future(self._read_all())

    async def _read_all(self) -> None:
        try:
            while (asked := self._next) is not None:
                self._next = None
                await self._serve(asked)
        finally:
            self._task = None

    async def _serve(self, asked: _Asked) -> None:
        """One reading, from RELOADING to READY however it goes: else a manager would wait for ever."""
        assert self._path is not None, "a file was to be read that has no name"
        path = self._path
        try:
            if asked.anyway:
                self._tell_reloading()
            reading = await aside(lambda: _read(path, self._environ), "governor-reload")
            if not asked.anyway:
                if reading.seen == self.seen:
                    asked.done.set_result(Reloaded(self.state))
                    return
                self._tell_reloading()
            outcome = replace(self._apply(reading), by=tuple(asked.by))
        except asyncio.CancelledError:
            asked.done.set_result(self._refused(_ENDING))
            raise
        except Exception as error:  # noqa: BLE001 - whoever waits raises it; if nobody does, the loop shows it
            asked.done.set_exception(error)
            return
        finally:
            if self._reloading and self._serving:
                self._notifier.ready("serving")
            self._reloading = False
        for observe in self.observers:
            observe(outcome)
        asked.done.set_result(outcome)

    def _tell_reloading(self) -> None:
        # A start or an end is under way else, and the manager is told of that.
        if self._serving:
            self._notifier.reloading()
            self._reloading = True

    # --- what comes of it -----------------------------------------------------------------------------------

    def _apply(self, reading: _Reading) -> Reloaded:
        self.seen = reading.seen
        config = reading.outcome
        if isinstance(config, ConfigError):
            return self._refuse(config.problems)
        former = self.config
        change = self._driver.reconfigure(config.resources)
        if isinstance(change, ReconfigureRefused):
            return self._refuse([Problem(config.source, None, "", problem) for problem in change.problems])
        now = at_once(self.config, config)
        later = tuple(setting.name for setting in at_next_start(self._started, config))
        self._in_force(config)
        settings = tuple(setting.name for setting in now[:_DETAILED])
        if len(now) > _DETAILED:
            settings = (*settings, f"and {len(now) - _DETAILED} more")
        outcome = Reloaded(
            self.state,
            (),
            change.added,
            change.changed,
            change.removed,
            settings,
            later,
            details=_details(former, config, change.changed),
            setting_details={each.name: arrow(each) for each in now[:_DETAILED] if _short(each, _LONGER)},
        )
        resources = counted(spec.kind for spec in config.resources)
        _log.info("reloaded %s (%s): %s; %s", config.source, config.hash[:12], resources, outcome.told)
        if later:
            takes = "takes" if len(later) == 1 else "take"
            _log.warning("reload: %s %s effect at the next start", " and ".join(later), takes)
        return outcome

    def _in_force(self, config: Config) -> None:
        now, before = unix_nanos(), self.state
        self.config = config
        # The same text means the same, for as long as this process has its environment.
        self.state = ConfigState(config.source, config.hash, before.since if config.hash == before.hash else now)
        self._metrics.config_loaded(config.hash, now / SECOND)
        self._metrics.show_clients(config.max_client_series)

    def _refuse(self, problems: Sequence[Problem]) -> Reloaded:
        sentences = [str(problem) for problem in problems]
        for problem in self._first(sentences, _PROBLEMS_LOGGED):
            _log.error("reload refused: %s", problem)
        self._keep_problems(self._first([problem.public for problem in problems], _PROBLEMS_TOLD))
        return Reloaded(self.state, self._first(sentences, _PROBLEMS_TOLD))

    def _first(self, problems: Sequence[str], most: int) -> tuple[str, ...]:
        more = len(problems) - most
        rest = (f"and {more} more; `governor check {self._path}` lists them all",) if more > 0 else ()
        return (*problems[:most], *rest)

    def _keep_problems(self, problems: tuple[str, ...]) -> None:
        self._metrics.config_failed()
        self.state = replace(self.state, problems=problems, refused_at=unix_nanos())

    def _refused(self, why: str) -> Reloaded:
        return Reloaded(self.state, (why,))


def _read(path: Path, environ: Mapping[str, str]) -> _Reading:
    try:
        data = contents(path)
    except ConfigError as error:
        return _Reading(str(error), error)
    try:
        return _Reading(fingerprint(data), parse(data, str(path), folder_of(path), environ))
    except ConfigError as error:
        return _Reading(fingerprint(data), error)


def _details(before: Config, after: Config, changed: Sequence[str]) -> dict[str, str]:
    """How the first of those that have changed have, in as many words as a line has room for."""
    old = {spec.name: spec for spec in before.resources}
    new = {spec.name: spec for spec in after.resources}
    details: dict[str, str] = {}
    for name in changed[:_DETAILED]:
        if name in old and name in new:
            how = [f"{each.name} {arrow(each)}" for each in differences(old[name], new[name]) if _short(each)]
            more = [f"and {len(how) - _SETTINGS_TOLD} more"] if len(how) > _SETTINGS_TOLD else []
            details[name] = ", ".join(how[:_SETTINGS_TOLD] + more)
    return {name: how for name, how in details.items() if how}


def arrow(change: SettingChange) -> str:
    """``10 -> 4``."""
    return f"{change.before or 'none'} -> {change.after or 'none'}"


def _short(change: SettingChange, most: int = _LONG) -> bool:
    return max(len(change.before), len(change.after)) <= most


def changes(change: Reconfigured) -> list[str]:
    """What became of which resources."""
    by_what = {"added": change.added, "changed": change.changed, "removed": change.removed}
    return [f"{what} {', '.join(names)}" for what, names in by_what.items() if names]
