"""How a peer is found, started, driven and stopped.

It knows processes, ports and tasks. It must never know what is said to a peer.
"""

import asyncio
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol

# One pair after another is made by each of the tasks. The semaphore has room for all of them.
PERMITS: Final = 100_000
NAME: Final = "bench"
# Long enough that nothing expires meanwhile.
LEASE_SECONDS: Final = 30

_BOUND: Final = 10.0

Pair = Callable[[], Awaitable[None]]


class Missing(Exception):  # noqa: N818 - it is no error of anybody's
    """Something that is measured beside is not installed; the text says how to get it."""


class Peer(Protocol):
    """A server that runs, and how a Python program drives it."""

    pid: int

    async def pairs(self, tasks: int, seconds: float) -> float:
        """Pairs of acquire and release a second, of so many tasks in one event loop."""
        ...

    def end(self) -> None:
        """Stop the server."""
        ...


def program(name: str, how: str) -> str:
    """Where a program is: beside this Python or on PATH. Raises Missing, with ``how`` to get it."""
    beside = Path(sys.executable).parent / name
    path = str(beside) if beside.exists() else shutil.which(name)
    if path is None:
        raise Missing(f"{name} is missing: {how}")
    return path


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a server of ours."""
    process.terminate()
    try:
        process.wait(_BOUND)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """One on which nobody listens now. Somebody else may take it before it is used; the server then ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Returns when the server accepts connections."""
    end = time.monotonic() + _BOUND
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"{process.args!r} does not come to serve")
        time.sleep(0.01)


async def repeat(pairs: list[Pair], seconds: float) -> float:
    """Each of ``pairs`` again and again in a task of its own, for so long; how many a second they were together."""
    loop = asyncio.get_running_loop()
    for pair in pairs:
        await pair()  # connects, and whatever else only the first one costs
    made = 0
    end = loop.time() + seconds

    async def one(pair: Pair) -> None:
        nonlocal made
        while loop.time() < end:
            await pair()
            made += 1

    began = loop.time()
    await asyncio.gather(*map(one, pairs))
    return made / (loop.time() - began)
