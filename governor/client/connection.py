"""The connection to the daemon: a socket and the stream on it, from the first attempt to the end of the last.

It knows sockets, and when to come back after one broke. It must never know who asks for what: it carries what the
conversation says, and tells it what was heard. All of it is done in the client's own thread.
"""

import contextlib
import errno
import logging
import os
import select
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from governor.address import VARIABLE, unfound
from governor.client.address import Address, Candidate
from governor.client.asks import SECOND
from governor.client.conversation import Conversation
from governor.client.credentials import Credentials
from governor.client.dial import Dial
from governor.client.stream import Ended, Stream
from governor.client.veil import Veil
from governor.client.witness import Witness
from governor.token import TokenError

if TYPE_CHECKING:
    import socket

_LOG: Final = logging.getLogger("governor.client")

_PATH: Final = "/governor.v1.Governor/Session"
# A connection that broke sooner was none to come back to at once.
_LASTED: Final = SECOND
# How long a connection may take to come about, and the daemon to greet us on it.
_PATIENCE: Final = 5 * SECOND
_CHUNK: Final = 256 * 1024
# What the daemon may leave unread before we take it for stuck and send no more.
_MOST_OUT: Final = 1024 * 1024
# UNAUTHENTICATED, PERMISSION_DENIED, INVALID_ARGUMENT, UNIMPLEMENTED: coming back changes nothing.
_UNAUTHENTICATED: Final = 16
_FOR_GOOD: Final = frozenset({3, 7, 12, 16})
# Not now: RESOURCE_EXHAUSTED.
_FULL: Final = 8

# Has this done in the client's own thread; False when there is none any more.
HandIn = Callable[[Callable[[Conversation], None]], bool]


class Connection:
    """The one that there is, or that is tried. ``poll`` hears of its socket.

    ``greeted_at``: when the daemon greeted us on it, in nanoseconds; 0 while it has not.
    """

    def __init__(
        self, address: Address, version: str, talk: Conversation, hand_in: HandIn, credentials: Credentials
    ) -> None:
        self._credentials = credentials
        self.poll = select.poll()
        self.greeted_at = 0
        self.dial = Dial(address)
        self.witness = Witness()
        self.socket: socket.socket | None = None
        self._address = address
        self._unnamed = address.usual and not address.path
        self._agent = f"governor-python/{version}"
        self._talk = talk
        self._hand_in = hand_in
        self._stream: Stream | None = None
        # Over what it goes, where TLS is spoken.
        self._veil: Veil | None = None
        self._until = 0
        # Whether the daemon took anything.
        self._taken = False
        # The host's name is being looked up, in a thread of its own.
        self._looking_up = False

    @property
    def open(self) -> bool:
        """Whether there is one, or is about to be."""
        return self._stream is not None

    @property
    def unsent(self) -> bool:
        """Whether something that was said has not left yet."""
        return self._stream is not None and bool(self._stream.out or (self._veil is not None and self._veil.out))

    def next_deadline(self) -> int | None:
        """When something must be done about it, if anything depends on it."""
        return self._until or (None if self.open else self.dial.next_try)

    # --- how it comes about -------------------------------------------------------------------------------------

    def begin(self, now: int) -> None:
        """Begin to connect; how it went shows when the socket is ready."""
        try:
            if self._address.is_name and not self.dial.knows_where:
                self._look_up(now)
                return
            sock = self.dial.begin(now)
        except Ended as ended:
            self._broken(ended, now)
            return
        if sock is not None:
            tls, authority = self._address.tls, self._address.authority
            try:
                headers = self._credentials.headers(sock, secret=tls)
                self._veil = Veil(self._credentials.context(), self._address.host) if tls else None
            except TokenError as error:
                sock.close()
                self.dial.reached()
                self._broken(Ended(_UNAUTHENTICATED, str(error)), now)
                return
            self.socket = sock
            self._stream = Stream(_PATH, authority, self._agent, headers, scheme="https" if tls else "http")
            self._until = now + _PATIENCE
            self.poll.register(sock, select.POLLIN | select.POLLOUT)
            self._talk.connected(now)

    def _look_up(self, now: int) -> None:
        """Find the addresses of a name, which may take long: nobody who waits here may wait for that."""
        self.dial.next_try = now + _PATIENCE
        if self._looking_up:
            return
        self._looking_up = True

        def found(result: list[Candidate] | str, _: Conversation) -> None:
            self._looking_up = False
            if self._stream is not None:
                return
            now = time.monotonic_ns()
            if isinstance(result, str):
                self._broken(Ended(None, result), now)
            else:
                self.dial.found(result, now)

        def look_up() -> None:
            try:
                result: list[Candidate] | str = self._address.candidates()
            except OSError as error:
                result = error.strerror or str(error)
            except ValueError as error:  # a name that can be no host
                result = str(error)
            if not self._hand_in(partial(found, result)):
                self._looking_up = False  # nobody wants to know any more

        try:
            threading.Thread(target=look_up, name="governor-look-up", daemon=True).start()
        except RuntimeError as error:  # there is no room for it
            self._looking_up = False
            raise Ended(None, str(error)) from error

    # --- what goes over it --------------------------------------------------------------------------------------

    def say(self, now: int, *, probe: bool, silent: bool) -> None:
        """Send what there is to say, if there is any way; ``probe``: ask for a sign of life, ``silent``: give it up."""
        if self._stream is None:
            return
        try:
            self._check(now, silent=silent)
            self._send(now, probe=probe)
        except Ended as ended:
            self._broken(ended, now)

    def ready(self, event: int) -> None:
        """The socket has something, as ``poll`` says."""
        now = time.monotonic_ns()
        try:
            if event & (select.POLLIN | select.POLLHUP | select.POLLERR):
                self._listen(now)
        except Ended as ended:
            self._broken(ended, now)

    def _check(self, now: int, *, silent: bool) -> None:
        """Raise Ended if it has become pointless to wait for this connection."""
        if silent:
            raise Ended(None, "the daemon is silent")
        if self._until and now >= self._until:
            raise Ended(None, "the daemon does not answer")

    def _send(self, now: int, *, probe: bool) -> None:
        stream, sock, talk = self._stream, self.socket, self._talk
        assert stream is not None
        assert sock is not None
        if probe:
            stream.ping(now)
        while len(stream.out) + stream.stuck < _MOST_OUT:
            message = talk.next_message(now)
            if message is None:
                break
            stream.send(message)
        out = stream.out
        if (veil := self._veil) is not None:
            veil.hide(stream.out)
            out = veil.out
        if out:
            try:
                sent = sock.send(out)
                del out[:sent]
                self._taken = True
            except BlockingIOError:
                pass
            except OSError as error:
                if error.errno not in {errno.ENOTCONN, errno.EINPROGRESS}:
                    raise Ended(None, error.strerror or str(error)) from error
        self.poll.modify(sock, select.POLLIN | (select.POLLOUT if out else 0))

    def _listen(self, now: int) -> None:
        stream, sock, talk = self._stream, self.socket, self._talk
        assert stream is not None
        assert sock is not None
        try:
            data = sock.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            raise Ended(None, error.strerror or str(error)) from error
        if not data:
            raise Ended(None, "the daemon closed the connection")
        talk.heard(now)
        if self._veil is not None and not (data := self._veil.show(data)):
            return
        messages = stream.receive(data)
        if stream.answered_at:
            talk.knew_us(stream.answered_at)
        for message in messages:
            try:
                talk.hear(message, now)
            except ValueError as error:
                raise Ended(None, str(error)) from error
            if not self.greeted_at:
                self.greeted_at = now
                self._until = 0
                self.dial.reached()
                self.witness.follow(talk.process, self.poll)
        stream.check()

    # --- how it ends --------------------------------------------------------------------------------------------

    def _broken(self, ended: Ended, now: int) -> None:
        """It is no more; try again after a while, if anything depends on it."""
        greeted_at, taken = self.greeted_at, self._taken
        first_time = self.dial.first_time
        self.hang_up()
        self._talk.disconnected(now)
        if self.dial.goes_on(now, lasted=greeted_at > 0 and now - greeted_at >= _LASTED):
            return
        if greeted_at:
            if self._talk.busy:
                _LOG.info("%s: %s; coming back", self._address, ended.message)
        elif ended.code is not None or not (taken and first_time):
            # One that breaks off before it has said a word may just be about to end: it is tried once more.
            # The daemon names itself where it speaks of no resource; the address says already who speaks.
            said = f"{self._address}: {ended.message.removeprefix('governor: ')}"
            if ended.code is None:
                said = f"no governor daemon at {said}{self._unfound()}"
            self._talk.refused(said, for_good=ended.code in _FOR_GOOD, full=ended.code == _FULL)

    def _unfound(self) -> str:
        """Of a daemon that is not where nobody has said that it would be, where else it was looked for."""
        return f", and {unfound()}; `governor serve` starts one, {VARIABLE} names another" if self._unnamed else ""

    def mourn(self) -> None:
        """The daemon that greeted us last is dead; whatever the proxies say that are between us."""
        now = time.monotonic_ns()
        self.witness.leave(self.poll)
        if self.greeted_at:
            self._broken(Ended(None, "the daemon has died"), now)
        self._talk.died(now)

    def hang_up(self) -> None:
        """Say nothing more on it."""
        if self.socket is not None:
            with contextlib.suppress(KeyError, ValueError, OSError):
                self.poll.unregister(self.socket)
            self.socket.close()
        self.socket = self._stream = self._veil = None
        self._taken = False
        self.greeted_at = 0
        self._until = 0

    def forsake(self) -> None:
        """It is our parent's: close what we have inherited of it, and not a word."""
        self.witness.leave()
        if self.socket is not None:
            with contextlib.suppress(OSError):
                os.close(self.socket.detach())
