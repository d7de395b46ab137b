"""Clients against a real daemon in a process of its own, which is judged in the end as in `tests.e2e`."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from governor import AsyncLease, Client, Lease
from governor.client import patience
from governor.client.asks import SECOND
from tests.e2e import conftest as e2e
from tests.e2e.client import Client as Raw
from tests.e2e.process import BOUND, ROOT, Daemon, until
from tests.proxy import Proxy

# The daemon of a module, which says in ``YAML`` what it declares; and what is in use there, which must end at nothing.
daemon = e2e.daemon
me = e2e.me
# Daemons of a test's own, and connections to them.
folder = e2e.folder
start = e2e.start
connect = e2e.connect

Run = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    """Every client of a test is closed by it, and leaves no thread."""
    yield
    until(lambda: not any(thread.name.startswith("governor-client") for thread in threading.enumerate()), "all ended")


@pytest.fixture(autouse=True)
def _nobody_is_blamed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that does not get to run is waited for, but where a module is about that: it says ``BLAMES``."""
    if "daemon" in request.fixturenames and not hasattr(request.module, "BLAMES"):
        monkeypatch.setattr(patience, "LEAST", int(BOUND * SECOND))


def deadline(lease: Lease | AsyncLease) -> float:
    """Until when it is safe to rely on it, in seconds of the monotonic clock."""
    assert lease.remaining is not None
    return time.monotonic() + lease.remaining


def is_kept_alive(lease: Lease) -> None:
    """Returns when it lasts longer than it did, which nothing else makes it do; it must not be lost before."""
    first = deadline(lease)
    until(lambda: lease.lost or deadline(lease) > first + 1, "it was kept alive")
    assert not lease.lost


@pytest.fixture
def gov(daemon: Daemon, me: Raw) -> Iterator[Client]:
    """A client of the module's daemon, closed in the end."""
    with Client(daemon.address) as client:
        yield client


@pytest.fixture
def proxy(daemon: Daemon, me: Raw) -> Iterator[Proxy]:
    """The way to the module's daemon through a proxy."""
    with Proxy(daemon.address) as proxy:
        yield proxy


@pytest.fixture
def run() -> Iterator[Run]:
    """Starts the program ``tests.client.<name>``; whoever still lives at the end is killed."""
    with ExitStack() as stack:

        def start_one(name: str, *arguments: str) -> "subprocess.Popen[str]":
            program = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", f"tests.client.{name}", *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    cwd=ROOT,
                )
            )
            stack.callback(program.wait, BOUND)
            stack.callback(program.kill)
            return program

        yield start_one
