"""Which config is in force, and what became of an attempt to put another in its place.

It knows the answers that operators are given. It must never know how a config is read, or what it does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from governor.core.types import Nanos


@dataclass(slots=True, frozen=True)
class ConfigState:
    """The config in force.

    ``source`` names the file, empty for the one that is built in; ``hash`` is the SHA-256 of its bytes, in hex.
    ``since`` and ``refused_at`` are of the wall clock, in nanoseconds since 1970. ``problems``: why a later attempt to
    load another was refused, gone with the next that succeeds; of very many the first, and how many more there are.
    Everybody may see them, so they say where and what was expected, and nothing that was written in the file.
    """

    source: str
    hash: str
    since: Nanos
    problems: tuple[str, ...] = ()
    refused_at: Nanos | None = None


@dataclass(slots=True, frozen=True)
class Reloaded:
    """How a reload went. With ``problems`` nothing has changed; they are for those who may read the file.

    ``added``, ``changed`` and ``removed`` name resources, ``settings`` keys of the daemon itself that hold from now on,
    and ``at_next_start`` those that are other than at this start and hold from the next. ``by``: who asked for it, as
    far as they said; several may have asked for one reading. ``state`` is as of then. ``details`` and
    ``setting_details``: how the first of the changed have changed, and keys of the daemon, by their names.
    """

    state: ConfigState
    problems: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    at_next_start: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)
    setting_details: Mapping[str, str] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """All of it in one line, for everybody."""
        if self.problems:
            return "; ".join(self.state.problems)
        parts = {
            "added": self.added,
            "changed": _detailed(self.changed, self.details),
            "removed": self.removed,
            "set": _detailed(self.settings, self.setting_details),
            "at the next start": self.at_next_start,
        }
        return "; ".join(f"{what} {', '.join(names)}" for what, names in parts.items() if names) or "nothing changed"


def _detailed(names: Sequence[str], details: Mapping[str, str]) -> list[str]:
    """Each with what it was and is, where that is known: ``orders-db (permits 10 -> 4)``."""
    return [f"{name} ({details[name]})" if name in details else name for name in names]
