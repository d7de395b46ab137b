"""Reads units of systemd: plainly, as far as ours go."""

from pathlib import Path
from typing import Final

SYSTEMD: Final = Path(__file__).parents[2] / "deploy" / "systemd"
UNIT: Final = SYSTEMD / "governor.service"


def settings(unit: Path, section: str) -> dict[str, list[str]]:
    """All values of each key of a section, in order."""
    found: dict[str, list[str]] = {}
    inside = ""
    for line in unit.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            inside = line
        elif inside == f"[{section}]" and "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def one(key: str) -> str:
    """The one value that a key of the service has."""
    (value,) = settings(UNIT, "Service")[key]
    return value
