"""An override as an operator writes it: some settings of a limit, for a while, in the words of the YAML.

It knows which settings a limit of each kind has, and reads each as the file is read. It must never change anything.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

from pydantic_core import PydanticCustomError

from governor.config.accepts import Accepts, Context
from governor.config.nodes import Scalar
from governor.config.problems import spoken
from governor.config.resources import BURSTS, PERMITS, window
from governor.config.values import RATE, RATE_OR_UNLIMITED
from governor.config.written import BURST, limit_settings
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec

T = TypeVar("T")

# As many as the file may have.
MAX_WINDOWS: Final = 16
# Of one setting: sixteen windows, each with its burst.
MAX_SETTING: Final = 1000

_CONTEXT: Final = Context(Path(), None, None)


class SettingError(ValueError):
    """A setting that will not do: its ``name``, and what was ``expected`` in its place."""

    def __init__(self, name: str, expected: str) -> None:
        super().__init__(f"{name}: {expected}")
        self.name = name
        self.expected = expected


def overridden(declared: LimitSpec, settings: Mapping[str, str]) -> LimitSpec:
    """The limit with these settings in the place of what is declared; raises `SettingError`.

    Not of a pool: that has the members that it has.
    """
    match declared:
        case SemaphoreSpec():
            _known(declared, settings, ("permits",))
            return SemaphoreSpec(_read(PERMITS, "permits", settings["permits"]))
        case RateLimitSpec():
            _known(declared, settings, ("rate", "burst", "windows"))
            return _rate_limit(declared, settings)
        case _:
            raise AssertionError(f"a {declared.kind} has no settings that could be overridden")


def _known(limit: LimitSpec, settings: Mapping[str, str], names: tuple[str, ...]) -> None:
    kind = f"{spoken([*names])}, which a {limit.kind} has"
    if not settings:
        raise SettingError("", kind)
    for name in sorted(settings):
        if name not in names:
            raise SettingError(name, kind)


def _rate_limit(declared: RateLimitSpec, settings: Mapping[str, str]) -> RateLimitSpec:
    rate, burst, windows = (settings.get(name) for name in ("rate", "burst", "windows"))
    if windows is not None:
        for name in ("rate", "burst"):
            if name in settings:
                raise SettingError(name, f"nothing beside windows: each has a burst of its own, as in 10/s{BURST}5")
        return RateLimitSpec(_windows(windows))
    only = declared.windows[0] if len(declared.windows) == 1 else None
    if rate is None:
        if only is None:
            has = "windows" if declared.windows else "no rate"
            raise SettingError("burst", f"a rate beside it, since {has} is what is declared")
        return RateLimitSpec((Window(only.permits, only.period, _burst("burst", settings["burst"])),))
    read = _read(RATE_OR_UNLIMITED, "rate", rate)
    if burst is not None:
        if read is None:
            raise SettingError("burst", "nothing beside a rate that is unlimited")
        return RateLimitSpec((window(read, _burst("burst", burst)),))
    # A burst that is the number of the rate was most likely never written, and goes along with it.
    kept = None if only is None or only.burst == only.permits else only.burst
    return RateLimitSpec(() if read is None else (window(read, kept),))


def _windows(text: str) -> tuple[Window, ...]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > MAX_WINDOWS:
        raise SettingError("windows", f"1 to {MAX_WINDOWS} rates, and there are {len(parts)}")
    made = []
    for part in parts:
        rate, comma, burst = part.partition(BURST)
        read = _read(RATE, "windows", rate)
        made.append(window(read, _burst("windows", burst.strip()) if comma else None))
    return tuple(made)


def _burst(name: str, text: str) -> int:
    return _read(BURSTS, name, text)


def _read(accepts: Accepts[T], name: str, text: str) -> T:
    if len(text) > MAX_SETTING:
        raise SettingError(name, f"{accepts.what}, in at most {MAX_SETTING} characters")
    try:
        return accepts.read(Scalar(text, written=text, quoted=False, line=0), _CONTEXT)
    except PydanticCustomError as error:
        raise SettingError(name, error.message().removeprefix("expected ")) from None


def overriding(declared: LimitSpec, limit: LimitSpec) -> tuple[dict[str, str], dict[str, str]]:
    """The settings that an override sets, and what is declared of these."""
    now, then = limit_settings(limit), limit_settings(declared)
    names = [name for name in now | then if now.get(name) != then.get(name)] or list(now)
    return {name: now[name] for name in names if name in now}, {name: then[name] for name in names if name in then}
