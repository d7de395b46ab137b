"""What a service manager is told: over a real socket, as systemd would listen."""

import asyncio
import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from governor.core.types import SECOND
from governor.notify import Notifier

ME = 4711


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """Somebody who listens."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(60)
        yield listener


def environ(manager: socket.socket, **more: str) -> dict[str, str]:
    """What a manager gives to a daemon."""
    return {"NOTIFY_SOCKET": manager.getsockname(), **more}


def heard(manager: socket.socket) -> list[str]:
    """One message, line by line."""
    return manager.recv(4096).decode().split("\n")


async def test_the_life_of_a_daemon(manager: socket.socket) -> None:
    """Ready, a reload with the instant of its beginning, and an end that says how long it may take."""
    with Notifier(environ(manager), ME) as notifier:
        notifier.ready("serving")
        assert heard(manager) == ["READY=1", "STATUS=serving"]

        before = time.monotonic_ns() // 1000
        notifier.reloading()
        word, when = heard(manager)
        assert word == "RELOADING=1"
        found = re.fullmatch(r"MONOTONIC_USEC=(\d+)", when)
        assert found is not None
        assert before <= int(found[1]) <= time.monotonic_ns() // 1000
        notifier.ready("serving")
        assert heard(manager) == ["READY=1", "STATUS=serving"]

        notifier.stopping("draining", 3 * SECOND)
        assert heard(manager) == ["STOPPING=1", "STATUS=draining", "EXTEND_TIMEOUT_USEC=3000000"]


async def test_the_loop_itself_says_that_it_runs(manager: socket.socket) -> None:
    """At half of the time after which it would be taken for dead; a loop that is blocked says nothing."""
    manager.setblocking(False)  # noqa: FBT003 - its only argument
    with Notifier(environ(manager, WATCHDOG_USEC="40000", WATCHDOG_PID=str(ME)), ME) as notifier:
        began = time.monotonic()
        notifier.ready("serving")
        loop = asyncio.get_running_loop()
        said = [(await loop.sock_recv(manager, 4096)).decode() for _ in range(4)]

        assert said == ["READY=1\nSTATUS=serving", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]
        assert time.monotonic() - began >= 0.04 - 0.002

    # One more may have been due at once with the last.
    with suppress(BlockingIOError):
        assert heard(manager) == ["WATCHDOG=1"]
    await asyncio.sleep(0.05)
    with pytest.raises(BlockingIOError):
        manager.recv(4096)


async def test_a_loop_that_is_stuck_says_nothing(manager: socket.socket) -> None:
    """However many signs were due meanwhile, so that the manager sees it; whoever else runs cannot speak for it."""
    manager.setblocking(False)  # noqa: FBT003 - its only argument
    with Notifier(environ(manager, WATCHDOG_USEC="2000"), ME) as notifier:
        notifier.ready("serving")
        heard(manager)
        heard(manager)
        time.sleep(0.02)  # noqa: ASYNC251 - what is stuck is the loop

        with pytest.raises(BlockingIOError):
            manager.recv(4096)


@pytest.mark.parametrize("watchdog", [{}, {"WATCHDOG_USEC": "2000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}])
async def test_a_watchdog_of_somebody_else_is_not_fed(manager: socket.socket, watchdog: dict[str, str]) -> None:
    """There is none, it is meant for another process, or it makes no sense; then nothing wakes up for it."""
    with Notifier(environ(manager, **watchdog), ME) as notifier:
        notifier.ready("serving")
        heard(manager)
        assert notifier._timer is None
        notifier.stopping("bye", 0)

        assert heard(manager)[0] == "STOPPING=1"


async def test_a_socket_without_a_file() -> None:
    """Its name begins with a zero byte, which an environment cannot hold."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as manager:
        manager.bind("")
        manager.settimeout(60)
        name = manager.getsockname().decode().replace("\0", "@", 1)
        with Notifier({"NOTIFY_SOCKET": name}, ME) as notifier:
            notifier.ready("serving")

            assert heard(manager)[0] == "READY=1"


@pytest.mark.parametrize("address", ["", "/nobody/is/here", "vsock:2:1234"])
async def test_without_a_manager_nothing_happens(address: str) -> None:
    """Not even an error."""
    with Notifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "2000"}, ME) as notifier:
        notifier.ready("serving")
        notifier.reloading()
        notifier.stopping("bye", SECOND)


async def test_a_manager_that_does_not_listen_holds_up_nobody(manager: socket.socket) -> None:
    """Its buffer fills up, and then it is gone."""
    with Notifier(environ(manager), ME) as notifier:
        for _ in range(1000):
            notifier.reloading()
        manager.close()
        notifier.ready("serving")
        notifier.close()
        notifier.ready("closed")
