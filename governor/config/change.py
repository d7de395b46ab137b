"""Change: one setting that differs between two configs, as the YAML would say it.

It knows words alone, and must never know what they mean.
"""

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class SettingChange:
    """One setting, and what it was and will be; empty: there was none, or will be none."""

    name: str
    before: str
    after: str
