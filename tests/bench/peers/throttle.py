"""pacman82's throttle, a semaphore server in Rust, driven by the least client that HTTP/1.1 allows.

It knows throttle's routes and how to read an answer. It must never know what it is compared with.

Throttle is driven as favourably as its interface allows. Its own client makes a peer for each lock; here each task has
one, so that a pair is two requests: one acquires (with an expiry, and willing to wait), one releases. HTTP/1.1 answers
one request of a connection after another, so each task has a connection of its own, which stays open.
"""

import asyncio
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.bench.peers.peer import LEASE_SECONDS, NAME, PERMITS, Pair, free_port, program, repeat, stop, wait_for

_HOW: Final = "pip install throttle-server==0.4.1"
_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length: "
_OK: Final = b"HTTP/1.1 200 "


class ThrottlePeer:
    """One server of a process of its own, with one semaphore."""

    def __init__(self) -> None:
        """Raises Missing."""
        self._folder = tempfile.TemporaryDirectory()
        config = Path(self._folder.name, "throttle.toml")
        config.write_text(f"[semaphores]\n{NAME} = {PERMITS}\n")
        self._port = port = free_port()
        command = [program("throttle", _HOW), "--address=127.0.0.1", f"--port={port}", f"--configuration={config}"]
        # Without a level it logs errors only.
        environment = {name: value for name, value in os.environ.items() if name != "THROTTLE_LOG"}
        self._process = subprocess.Popen(command, env=environment)
        self.pid = self._process.pid
        wait_for(port, self._process)

    async def pairs(self, tasks: int, seconds: float) -> float:
        """As `Peer`; with as many connections as tasks."""
        connections = [await _connect(self._port) for _ in range(tasks)]
        try:
            rate = await repeat([await _pair(connection) for connection in connections], seconds)
            left = await connections[0].ask(_request("GET", f"/remainder?semaphore={NAME}", b""))
            assert int(left) == PERMITS, f"throttle has {left!r} left of {PERMITS}"
            return rate
        finally:
            for connection in connections:
                connection.close()

    def end(self) -> None:
        """As `Peer`."""
        stop(self._process)
        self._folder.cleanup()


async def _pair(connection: "_Connection") -> Pair:
    peer = (await connection.ask(_request("POST", "/new_peer", b'{"expires_in":"1h"}'))).decode()
    wishes = f"expires_in={LEASE_SECONDS}s&block_for=5s"
    acquire = _request("PUT", f"/peers/{peer}/{NAME}?{wishes}", b"1")
    release = _request("DELETE", f"/peers/{peer}/{NAME}", b"")

    async def pair() -> None:
        await connection.ask(acquire)
        await connection.ask(release)

    return pair


def _request(method: str, path: str, body: bytes) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n"
    if body:
        head += "content-type: application/json\r\n"
    return head.encode() + b"\r\n" + body


async def _connect(port: int) -> "_Connection":
    _, connection = await asyncio.get_running_loop().create_connection(_Connection, "127.0.0.1", port)
    return connection


class _Connection(asyncio.Protocol):
    """One connection: a request, its answer, the next request."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._answer: asyncio.Future[bytes] | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """A server must not end it while it owes an answer."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("the server closed the connection"))

    async def ask(self, request: bytes) -> bytes:
        """The body of the answer; any status but 200 is an error."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        """Mostly the whole answer at once."""
        received = self._received = self._received + data
        head = received.find(_END)
        if head < 0:
            return
        at = received.index(_LENGTH, 0, head + 2) + len(_LENGTH)
        body = head + len(_END)
        end = body + int(received[at : received.index(b"\r", at)])
        if len(received) < end:
            return
        self._received = received[end:]
        assert self._answer is not None
        if received.startswith(_OK):
            self._answer.set_result(received[body:end])
        else:
            self._answer.set_exception(RuntimeError(f"throttle refused: {received[:end]!r}"))

    def close(self) -> None:
        """Hang up."""
        assert self._transport is not None
        self._transport.close()
