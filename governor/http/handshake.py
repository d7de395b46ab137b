"""A connection on which TLS is spoken, until both sides have shaken hands.

It knows what is shown, for how long a handshake may go on, and how much of the event loop all of them may have. It must
never know what is asked afterwards.

asyncio would do this by itself, but tells nobody of a connection before its handshake is over: whoever only connects
would be counted by nobody.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, Literal, Protocol

from governor.certificates import Certificates

# How long it may take. A scraper needs some milliseconds.
HANDSHAKE_SECONDS: Final = 10.0
# How long the other side may take to say that it has heard the end.
_SHUTDOWN_SECONDS: Final = 1.0
_PROTOCOL: Final = "http/1.1"
# How many times as long as a step took none is made. To sign takes 5 ms with a long RSA key, and costs the other side
# nothing: it may say the same hello again and again.
RESTS: Final = 3
# But no longer than this: a step may have taken long because others had the processor.
LONGEST_REST: Final = 0.05


class Step(Protocol):
    """Part of a handshake that can go on, or of one that nobody waits for any more."""

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to do."""
        ...

    def step(self) -> None:
        """Do what can be done."""
        ...


class Steps:
    """Steps of handshakes, one after the other and with a rest after each, for they are made in the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Step] = deque()
        self._busy = False

    def wait(self, step: Step) -> None:
        """Have it made in its turn, at once if nobody rests."""
        self._waiting.append(step)
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        while self._waiting:
            step = self._waiting.popleft()
            if not step.is_over:
                began = self._loop.time()
                step.step()
                self._loop.call_later(min((self._loop.time() - began) * RESTS, LONGEST_REST), self._next)
                return
        self._busy = False


# Over what TLS is about to be spoken, and who says whose turn it is. Of the task that begins it, for asyncio makes a
# `_Tls` in its own way and time.
_BEGUN: Final[ContextVar[tuple[asyncio.Transport, Steps]]] = ContextVar("begun")


class _Tls(ssl.SSLObject):
    """As asyncio has it, but that it makes a step of its handshake only in its turn."""

    _transport: asyncio.Transport
    _steps: Steps | None = None
    _waits = False
    _its_turn = False

    def do_handshake(self) -> None:
        """When bytes have come. Whose turn it is not is as if they were too few."""
        if self._its_turn:
            super().do_handshake()
            return
        if self._steps is None:
            self._transport, self._steps = _BEGUN.get()
        elif not self._waits:
            self._waits = True
            self._steps.wait(self)
        raise ssl.SSLWantReadError

    @property
    def is_over(self) -> bool:
        """Whether the other side is gone, or had to go."""
        return self._transport.is_closing()

    def step(self) -> None:
        """Its turn: with all that has come."""
        self._waits, self._its_turn = False, True
        protocol = self._transport.get_protocol()
        assert isinstance(protocol, asyncio.BufferedProtocol), "asyncio speaks TLS in another way"
        try:
            protocol.buffer_updated(0)
        finally:
            self._its_turn = False

    def getpeercert(self, binary_form: bool = False) -> bytes | None:  # type: ignore[override]  # noqa: FBT001, FBT002
        """As it is. What the ssl module makes of one raises if a name in it is no UTF-8, within asyncio."""
        del binary_form
        as_it_is: Literal[True] = True
        return super().getpeercert(as_it_is)


class Handshakes:
    """All that go on."""

    def __init__(self, certificates: Certificates) -> None:
        self._certificates = certificates
        self._tasks: set[asyncio.Task[None]] = set()
        self._made: dict[ssl.SSLContext, None] = {}
        self._steps = Steps(asyncio.get_running_loop())

    def begin(
        self, transport: asyncio.Transport, done: Callable[[asyncio.Transport, bytes], None], failed: Callable[[], None]
    ) -> None:
        """``done``: over what it goes from then on, and what has been said there by then. Else ``failed``, once."""
        task = asyncio.ensure_future(self._shake(transport, done, failed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """None goes on."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _shake(
        self, transport: asyncio.Transport, done: Callable[[asyncio.Transport, bytes], None], failed: Callable[[], None]
    ) -> None:
        # What comes is for whoever shakes hands. Not before here: asyncio begins to read only after it has told of a
        # connection, and in Python 3.11.2 does so also if that was paused meanwhile. The task goes on in
        # the next turn of the loop, before anything has been read.
        transport.pause_reading()
        early = _Early()
        veiled: asyncio.Transport | None = None
        try:
            # Looking at files may block, on a network's disk for ever.
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                shown = await asyncio.shield(self._certificates.soon())
                # Of a connection that had to make room meanwhile asyncio would not hear any more, and keep 256 KiB for
                # it until the time is over.
                if not transport.is_closing():
                    _BEGUN.set((transport, self._steps))
                    veiled = await asyncio.get_running_loop().start_tls(
                        transport,
                        early,
                        self._context(shown.context, asked=shown.authorities is not None),
                        server_side=True,
                        ssl_handshake_timeout=HANDSHAKE_SECONDS,
                        ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
                    )
        except (OSError, TimeoutError) as error:  # of which SSLError is one
            # It leads to the frames that it came through, they lead to it, and to 256 KiB for each connection:
            # thousands of them may fail before the collector of cycles looks.
            error.__traceback__ = None
        finally:
            if veiled is None or early.lost:
                transport.abort()
                failed()
        if veiled is not None and not early.lost:
            done(veiled, bytes(early.data))

    def _context(self, context: ssl.SSLContext, *, asked: bool) -> ssl.SSLContext:
        if context not in self._made:
            context.sslobject_class = _Tls
            context.set_alpn_protocols([_PROTOCOL])
            # Whoever has a certificate may show it; a probe has none.
            context.verify_mode = ssl.CERT_OPTIONAL if asked else ssl.CERT_NONE
            self._made = {context: None}
        return context


class _Early(asyncio.Protocol):
    """What is said as soon as the handshake is over, before anybody listens: no more than a turn of the loop brings."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.lost = False

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
