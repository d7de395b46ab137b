"""A connection on which TLS is spoken, until both sides have shaken hands.

It knows what is shown, and for how long a handshake may go on. It must never know what is asked afterwards.

asyncio would do this by itself, but tells nobody of a connection before its handshake is over: whoever only connects
would be counted by nobody.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

from governor.certificates import Certificates

# How long it may take. A scraper needs some milliseconds.
HANDSHAKE_SECONDS: Final = 10.0
# How long the other side may take to say that it has heard the end.
_SHUTDOWN_SECONDS: Final = 1.0
_PROTOCOL: Final = "http/1.1"


class Handshakes:
    """All that go on."""

    def __init__(self, certificates: Certificates) -> None:
        self._certificates = certificates
        self._tasks: set[asyncio.Task[None]] = set()
        self._made: dict[ssl.SSLContext, None] = {}

    def begin(
        self, transport: asyncio.Transport, done: Callable[[asyncio.Transport, bytes], None], failed: Callable[[], None]
    ) -> None:
        """``done``: over what it goes from then on, and what has been said there by then. Else ``failed``, once."""
        # What comes now is for whoever shakes hands.
        transport.pause_reading()
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
        early = _Early()
        veiled: asyncio.Transport | None = None
        try:
            # Looking at files may block, on a network's disk for ever.
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                shown = await asyncio.shield(self._certificates.soon())
                veiled = await asyncio.get_running_loop().start_tls(
                    transport,
                    early,
                    self._context(shown.context, asked=shown.authorities is not None),
                    server_side=True,
                    ssl_handshake_timeout=HANDSHAKE_SECONDS,
                    ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
                )
        except (OSError, TimeoutError):  # of which SSLError is one
            pass
        finally:
            if veiled is None or early.lost:
                transport.abort()
                failed()
        if veiled is not None and not early.lost:
            done(veiled, bytes(early.data))

    def _context(self, context: ssl.SSLContext, *, asked: bool) -> ssl.SSLContext:
        if context not in self._made:
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
