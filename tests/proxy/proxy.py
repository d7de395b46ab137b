"""The proxy as a test sees it: an address, and what happens to those who connect there.

It knows threads, ports and when a test wants what. It must never know a frame.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Final, Self, TypeVar, assert_never

from governor.address import TcpAddress, UnixAddress, parse
from governor.v1 import governor_pb2 as pb
from tests.proxy.link import Link
from tests.proxy.rules import BOUND, Way

T = TypeVar("T")


class Proxy:
    """Listens on a port of 127.0.0.1 and forwards to ``target`` (host:port or unix:/path), in a thread of its own.

    ``up`` is the way from client to daemon, ``down`` the way back. Whatever a test calls is in force when it returns.
    """

    def __init__(self, target: str) -> None:
        self.up: Final = Way(self._run, pb.SessionRequest)
        self.down: Final = Way(self._run, pb.SessionResponse)
        self.accepted = 0
        self._target = parse(target)
        self._links: set[Link] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._held = False
        self._faults: list[str] = []
        # Bound until the end, and never listening: the port stays ours while nobody is accepted on it.
        self._place = socket.socket()
        self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._place.bind(("127.0.0.1", 0))
        self._port: int = self._place.getsockname()[1]
        self.address: Final = f"127.0.0.1:{self._port}"
        self._listener: socket.socket | None = None
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda _, context: self._faults.append(repr(context)))
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")

    def __enter__(self) -> Self:
        self._thread.start()
        self.accept_new()
        return self

    def __exit__(self, *_: object) -> None:
        self._wait(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(BOUND)
        self._loop.close()
        self._place.close()
        assert not self._faults, "\n".join(self._faults)

    @property
    def connections(self) -> int:
        """How many clients are connected now; ``accepted`` is how many ever were."""
        return len(self._links)

    def forward_to(self, target: str) -> None:
        """Where new connections lead: the daemon came back elsewhere."""
        self._target = parse(target)

    def cut(self) -> None:
        """Resets every connection; what was on its way is lost."""
        self._run(self._cut)

    def hold(self) -> None:
        """A black hole: nothing gets through any more, either way, and no connection breaks."""
        self._run(lambda: self._hold(held=True))

    def let_go(self) -> None:
        """The end of `hold`: everything goes on, in order."""
        self._run(lambda: self._hold(held=False))

    def refuse_new(self) -> None:
        """Nobody can connect, as if no daemon were there; connections that exist go on."""
        self._wait(self._refuse())

    def accept_new(self) -> None:
        """The end of `refuse_new`, on the same port."""
        self._wait(self._listen())

    # --- in the proxy's own thread --------------------------------------------------------------------------

    def _run(self, step: Callable[[], object]) -> None:
        async def run() -> None:
            step()

        self._wait(run())

    def _wait(self, work: Coroutine[object, None, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(BOUND)

    async def _listen(self) -> None:
        listener = socket.socket()
        listener.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(("127.0.0.1", self._port))
        listener.listen()
        # Not asyncio's own accepting: whoever arrives in the turn in which that ends is lost, and left open.
        self._loop.add_reader(listener, self._accept, listener)
        self._listener = listener

    async def _refuse(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        client, _ = listener.accept()
        client.setblocking(False)  # noqa: FBT003 - as above
        self.accepted += 1
        task = self._loop.create_task(self._open(client))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    def _cut(self) -> None:
        for link in tuple(self._links):
            link.cut()

    def _hold(self, *, held: bool) -> None:
        self._held = held
        for link in tuple(self._links):
            link.go_on()

    async def _open(self, client: socket.socket) -> None:
        link = Link(self.up, self.down, lambda: self._held, self._links.discard)
        await self._loop.connect_accepted_socket(lambda: link.near, client)
        self._links.add(link)
        target = self._target
        try:
            match target:
                case TcpAddress():
                    await self._loop.create_connection(lambda: link.far, target.host, target.port)
                case UnixAddress():
                    await self._loop.create_unix_connection(lambda: link.far, str(target.path))
                case _:
                    assert_never(target)
        except OSError:
            link.cut()

    async def _close(self) -> None:
        await self._refuse()
        if self._opening:
            await asyncio.wait(self._opening)
        self._cut()
        while self._links:  # noqa: ASYNC110 - each is gone within a turn or two of the loop
            await asyncio.sleep(0)
