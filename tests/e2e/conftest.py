"""Daemons for a test, each in its own process, ended and judged when the test is over."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from tests.e2e.client import Client
from tests.e2e.process import BOUND, COMMAND, ROOT, Daemon, until

# What every config here begins with: a socket and a free port, and an end that waits for nobody for long.
HEAD = """\
listen: [unix:{folder}/governor.sock, 127.0.0.1:0]
http: 127.0.0.1:0
drain_timeout: {drain}
"""

Connect = Callable[[Daemon], Client]


class Start(Protocol):
    """Starts a daemon."""

    def __call__(
        self,
        yaml: str,
        *,
        drain: str = "100ms",
        command: tuple[str, ...] = COMMAND,
        config: Path | None = None,
        head: str = HEAD,
    ) -> Daemon:
        """On this YAML, after the lines that every config here begins with; returns when it serves.

        ``config``: where it is written, which may be through links. Else it is governor.yaml in the folder.
        """
        ...


class Spawn(Protocol):
    """Starts a borrower."""

    def __call__(self, address: str, *resources: str, module: str = "tests.e2e.borrower") -> "subprocess.Popen[str]":
        """A process of its own, which takes a permit of each and then does nothing."""
        ...


@contextmanager
def starting(folder: Path) -> Iterator[Start]:
    """Daemons in one folder. In the end each must exit with 0 and must have logged nothing but information."""
    daemons: list[Daemon] = []

    def start(
        yaml: str,
        *,
        drain: str = "100ms",
        command: tuple[str, ...] = COMMAND,
        config: Path | None = None,
        head: str = HEAD,
    ) -> Daemon:
        config = config or folder / "governor.yaml"
        config.write_text(head.format(folder=folder, drain=drain) + yaml, encoding="utf-8")
        daemon = Daemon(config, folder / "state", command=command, forked=True)
        daemons.append(daemon)
        daemon.wait_until_it_serves()
        return daemon

    try:
        yield start
        running = [daemon for daemon in daemons if daemon.process.poll() is None]
        codes = [daemon.end() for daemon in running]
    finally:
        for daemon in daemons:
            daemon.kill()
    assert codes == [0] * len(codes), "".join(daemon.log for daemon in daemons)
    blemishes = "".join(daemon.blemishes for daemon in daemons)
    assert not blemishes, f"a daemon that works does not say:\n{blemishes}"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: the path of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="governor-") as name:
        yield Path(name)


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts daemons of this test's own."""
    with starting(folder) as start:
        yield start


@pytest.fixture(scope="module")
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """One daemon for all tests of a module that says in ``YAML`` what it declares."""
    with tempfile.TemporaryDirectory(prefix="governor-") as name, starting(Path(name)) as start:
        yield start(request.module.YAML)


@pytest.fixture
def me(daemon: Daemon) -> Iterator[Client]:
    """A connection to the module's daemon; in the end nothing may be in use and nobody may wait."""
    with Client(daemon.address) as client:
        yield client
        until(client.idle, "nothing is in use and nobody waits")


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Makes connections to daemons, by their unix sockets; closed at the end."""
    with ExitStack() as stack:
        yield lambda daemon: stack.enter_context(Client(daemon.address))


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts borrowers; whoever still lives at the end is killed."""
    borrowers: list[subprocess.Popen[str]] = []

    def spawn_one(address: str, *resources: str, module: str = "tests.e2e.borrower") -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", module, address, *resources]
        borrower = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        borrowers.append(borrower)
        return borrower

    yield spawn_one
    for borrower in borrowers:
        with borrower:
            borrower.kill()
            borrower.wait(BOUND)
