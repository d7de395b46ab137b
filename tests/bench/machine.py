"""The machine that the figures are of.

It knows where Linux and Python tell of themselves. It must never know what is measured.
"""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

_PACKAGES: Final = (
    "grpcio",
    "h2",
    "protobuf",
    "aiohttp",
    "pydantic",
    "prometheus-client",
    "PyYAML",
    "redis",
    "hiredis",
)


def facts() -> dict[str, object]:
    """Processor, memory, versions, date, and how busy the machine is with other things."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _after("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory": _after("/proc/meminfo", "MemTotal"),
        "system": platform.platform(),
        "python": f"{platform.python_implementation()} {platform.python_version()}, {platform.python_compiler()}",
        "packages": {name: version(name) for name in _PACKAGES},
        "load": os.getloadavg(),
    }


def _after(path: str, key: str) -> str:
    """What stands behind ``key :`` in a file of /proc."""
    for line in Path(path).read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return "unknown"
