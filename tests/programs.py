"""Programs that tests use from outside Python, and how a Debian machine gets each."""

import shutil
from typing import Final

import pytest

PROGRAMS: Final = {
    "bash": "apt-get install bash",
    "fish": "apt-get install fish",
    "h2load": "apt-get install nghttp2-client",
    "node": "apt-get install nodejs npm, then make node",
    "prometheus": "apt-get install prometheus (or only the program, as .ci/run does)",
    "promtool": "apt-get install prometheus (or only its promtool, as .ci/run does)",
    "redis-server": "apt-get install redis-server",
    "script": "apt-get install bsdutils",
    "tmux": "apt-get install tmux",
    "zsh": "apt-get install zsh",
}


def needed(name: str) -> str:
    """Where it is; else the test fails with the way to get it: a skipped check checks nothing."""
    path = shutil.which(name)
    if path is None:
        pytest.fail(f"this test needs `{name}` on PATH: {PROGRAMS[name]}", pytrace=False)
    return path
