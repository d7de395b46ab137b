"""The client's own thread: a socket, a conversation on it, and everything that has to happen in time.

It knows sockets, the clock, and how to come back after a connection broke. It must never run code of the program: what
is to be told goes to those who wait, or to their event loop, and a callback gets a thread of its own.

The thread alone touches the conversation. Others put what they want into ``inbox``, which is safe without a lock, and
wake it. So nothing that the program does to its own threads or its event loop keeps a lease from being kept alive.
"""

import asyncio
import atexit
import contextlib
import errno
import logging
import os
import random
import select
import socket
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Final

from governor.client.address import Address, Candidate
from governor.client.asks import SECOND, Ask
from governor.client.conversation import Answer, Conversation
from governor.client.held import Held
from governor.client.stream import Ended, Stream

_LOG: Final = logging.getLogger("governor.client")

_PATH: Final = "/governor.v1.Governor/Session"
# A connection that broke sooner was none to come back to at once.
_LASTED: Final = SECOND
# How long a connection may take to come about, and the daemon to greet us on it.
_PATIENCE: Final = 5 * SECOND
_FIRST_PAUSE: Final = SECOND // 20
_LONGEST_PAUSE: Final = 2 * SECOND
# A session that nothing has depended on for so long is ended, and its thread; the next ask begins anew.
_IDLE: Final = 60 * SECOND
_CHUNK: Final = 256 * 1024
# What the daemon may leave unread before we take it for stuck and send no more.
_MOST_OUT: Final = 1024 * 1024
# How long a program that ends waits for its last releases to leave.
_FAREWELL: Final = 0.5
# UNAUTHENTICATED, PERMISSION_DENIED, INVALID_ARGUMENT, UNIMPLEMENTED: coming back changes nothing.
_FOR_GOOD: Final = frozenset({3, 7, 12, 16})
_MOST_NAME: Final = 200

# What the thread is to do: send an ask, give a lease back, or anything else with the conversation.
Work = Ask | Held | Callable[[Conversation], None]


class Link:
    """One client process's way to one daemon. Nothing happens before the first ``submit``."""

    def __init__(self, address: Address, name: str, labels: Mapping[str, str], version: str) -> None:
        self.address = address
        self.name = name
        self.labels = dict(labels)
        self.let_through = 0
        self._version = version
        self._start_afresh()
        _links.add(self)

    def _start_afresh(self) -> None:
        """As new: also in a forked child, where the thread is gone and the session is its parent's."""
        self.pid = os.getpid()
        self.inbox: deque[Work] = deque()
        # What event loops ask for in their current turn.
        self._gathered: dict[asyncio.AbstractEventLoop, list[Work]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._asleep = False
        self._closing = False
        self._wake_in: socket.socket | None = None
        self._wake_out: socket.socket | None = None
        self._socket: socket.socket | None = None
        self._stream: Stream | None = None
        self._connecting_until = 0
        # Whether the daemon took anything, and when it greeted us; 0 while it has not.
        self._taken = False
        self._greeted_at = 0
        # The addresses that are left to try, if this one fails.
        self._candidates: deque[Candidate] = deque()
        self._pause = 0
        self._tried_at = self._next_try = 0
        self._busy_at = time.monotonic_ns()
        self._poll = select.poll()
        self._talk = Conversation(
            client=self.name,
            pid=self.pid,
            host=socket.gethostname()[:_MOST_NAME],
            instance=token_hex(16),
            labels=self.labels,
            address=str(self.address),
        )

    # --- for any thread -----------------------------------------------------------------------------------------

    def submit(self, work: Work) -> None:
        """Have the client's thread do this, soon."""
        self.inbox.append(work)
        if self._asleep or self._thread is None:
            self._wake()

    def submit_soon(self, loop: asyncio.AbstractEventLoop, work: Work) -> None:
        """The same, together with what else this turn of an event loop asks for: it all goes in one message."""
        gathered = self._gathered.get(loop)
        if gathered is None:
            gathered = self._gathered[loop] = []
            loop.call_soon(self._flush, loop)
        gathered.append(work)

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        self.inbox.extend(self._gathered.pop(loop, ()))
        if self._asleep or self._thread is None:
            self._wake()

    def _wake(self) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._wake_out, self._wake_in = socket.socketpair()
                    for end in (self._wake_out, self._wake_in):
                        end.setblocking(False)  # noqa: FBT003
                    self._poll.register(self._wake_out, select.POLLIN)
                    self._thread = threading.Thread(target=self._run, name="governor-client", daemon=True)
                    self._thread.start()
        self._asleep = False
        with contextlib.suppress(BlockingIOError, AttributeError, OSError):
            self._wake_in.send(b"\0")  # type: ignore[union-attr]  # None only when the thread has just ended

    def close(self, farewell: float = _FAREWELL) -> None:
        """Give everything back and hang up; waits ``farewell`` seconds at most. The next ask begins anew."""
        thread = self._thread
        if thread is None:
            return
        self.submit(self._give_all_back)
        if thread is not threading.current_thread():
            thread.join(farewell)

    def forked(self) -> None:
        """We are the child of a fork: hang up without a word, and forget what our parent holds."""
        for end in (self._socket, self._wake_in, self._wake_out):
            if end is not None:
                with contextlib.suppress(OSError):
                    os.close(end.detach())
        self._talk.keeping.disown()
        self._start_afresh()

    def _give_all_back(self, talk: Conversation) -> None:
        self._closing = True
        talk.give_all_back()

    # --- the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._done():
                self._turn()
        except BaseException:  # noqa: BLE001 - whatever it is, nobody who waits may be left hanging
            _LOG.exception("the client's thread failed; this is a bug of governor")
            self._talk.fail()
            self._deliver()
        finally:
            with self._lock:
                self._hang_up()
                self._candidates.clear()
                self._pause = 0
                for end in (self._wake_in, self._wake_out):
                    if end is not None:
                        end.close()
                self._poll = select.poll()
                self._closing = False
                self._thread = None
            if self.inbox:
                self._wake()  # somebody asked while we were closing

    def _done(self) -> bool:
        """Whether it was closed and all is said, or nothing has depended on the daemon for long."""
        if self.inbox:
            return False
        if self._closing:
            return self._stream is None or not (self._talk.busy or self._stream.out)
        return not self._talk.busy and time.monotonic_ns() - self._busy_at >= _IDLE

    def _turn(self) -> None:
        now = time.monotonic_ns()
        inbox, talk = self.inbox, self._talk
        while inbox:
            work = inbox.popleft()
            if isinstance(work, Ask):
                self._closing = False
                if not work.patient:
                    # Whoever does not wait for a daemon that is away is told so soon.
                    self._next_try = min(self._next_try, self._tried_at + _FIRST_PAUSE)
                talk.ask(work)
            elif isinstance(work, Held):
                talk.keeping.release(work)
            else:
                work(talk)
        if self._stream is None and talk.busy and not self._closing and now >= self._next_try:
            self._connect(now)
        probe, give_up = talk.tick(now)
        try:
            if self._stream is not None:
                self._check(now, silent=give_up)
                self._say(now, probe=probe)
        except Ended as ended:
            self._broken(ended, now)
        self._deliver()
        self._wait(now)

    def _wait(self, now: int) -> None:
        """Sleep until something comes, or is due."""
        dues = [due for due in (self._talk.next_deadline(),) if due is not None]
        if self._talk.busy:
            self._busy_at = now
        else:
            dues.append(self._busy_at + _IDLE)
        if self._connecting_until:
            dues.append(self._connecting_until)
        if self._stream is None and self._talk.busy:
            dues.append(self._next_try)
        timeout = max(0, -((now - min(dues)) // 1_000_000)) if dues else None
        self._asleep = True
        if self.inbox or self._talk.answers:
            self._asleep = False
            timeout = 0
        events = self._poll.poll(timeout)
        self._asleep = False
        for descriptor, event in events:
            if self._wake_out is not None and descriptor == self._wake_out.fileno():
                with contextlib.suppress(BlockingIOError):
                    self._wake_out.recv(4096)
            elif self._socket is not None and descriptor == self._socket.fileno():
                self._ready(event)

    def _ready(self, event: int) -> None:
        now = time.monotonic_ns()
        try:
            if event & (select.POLLIN | select.POLLHUP | select.POLLERR):
                self._listen(now)
        except Ended as ended:
            self._broken(ended, now)

    # --- the connection -----------------------------------------------------------------------------------------

    def _connect(self, now: int) -> None:
        """Begin to connect; how it went shows when the socket is ready."""
        self._tried_at = now
        why = "no such host"
        try:
            if not self._candidates:
                self._candidates.extend(self.address.candidates())
            while self._candidates:
                sock, code = _begin(*self._candidates.popleft())
                if code == errno.EAGAIN:  # of a unix socket: the daemon is there, and takes nobody in just now
                    self._next_try = now + _FIRST_PAUSE
                    return
                if sock is None:
                    why = os.strerror(code)
                    continue
                self._socket = sock
                self._stream = Stream(_PATH, self.address.authority, f"governor-python/{self._version}")
                self._connecting_until = now + _PATIENCE
                self._poll.register(sock, select.POLLIN | select.POLLOUT)
                self._talk.connected(now)
                return
        except OSError as error:
            why = error.strerror or str(error)
        except ValueError as error:  # a name that can be no host, or no path
            why = str(error)
        self._broken(Ended(None, why), now)

    def _check(self, now: int, *, silent: bool) -> None:
        """Raise Ended if it has become pointless to wait for this connection."""
        if silent:
            raise Ended(None, "the daemon is silent")
        if self._connecting_until and now >= self._connecting_until:
            raise Ended(None, "the daemon does not answer")

    def _say(self, now: int, *, probe: bool) -> None:
        """Send what there is to say."""
        stream, sock, talk = self._stream, self._socket, self._talk
        assert stream is not None
        assert sock is not None
        if probe:
            stream.ping()
        while len(stream.out) + stream.stuck < _MOST_OUT:
            message = talk.next_message(now)
            if message is None:
                break
            stream.send(message)
        if stream.out:
            try:
                sent = sock.send(stream.out)
                del stream.out[:sent]
                self._taken = True
            except BlockingIOError:
                pass
            except OSError as error:
                if error.errno not in {errno.ENOTCONN, errno.EINPROGRESS}:
                    raise Ended(None, error.strerror or str(error)) from error
        self._poll.modify(sock, select.POLLIN | (select.POLLOUT if stream.out else 0))

    def _listen(self, now: int) -> None:
        stream, sock, talk = self._stream, self._socket, self._talk
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
        for message in stream.receive(data):
            try:
                talk.hear(message, now)
            except ValueError as error:
                raise Ended(None, str(error)) from error
            if not self._greeted_at:
                self._greeted_at = now
                self._connecting_until = 0
                self._candidates.clear()
        stream.check()

    def _broken(self, ended: Ended, now: int) -> None:
        """The connection is no more; try again after a while, if anything depends on it."""
        greeted_at, taken = self._greeted_at, self._taken
        first_time = not self._pause
        self._hang_up()
        self._talk.disconnected(now)
        if self._candidates:
            self._next_try = now
            return
        if greeted_at and now - greeted_at >= _LASTED:
            self._pause, self._next_try = 0, now
        else:
            self._pause = min(_LONGEST_PAUSE, self._pause * 2 or _FIRST_PAUSE)
            self._next_try = now + int(self._pause * random.uniform(0.5, 1))  # noqa: S311
        if greeted_at:
            if self._talk.busy:
                _LOG.info("%s: %s; coming back", self.address, ended.message)
        elif ended.code is not None or not (taken and first_time):
            # One that breaks off before it has said a word may just be about to end: it is tried once more.
            said = f"{self.address}: {ended.message}"
            if ended.code is None:
                said = f"no governor daemon at {said}"
            self._talk.refused(said, for_good=ended.code in _FOR_GOOD)

    def _hang_up(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(KeyError, ValueError, OSError):
                self._poll.unregister(self._socket)
            self._socket.close()
        self._socket = self._stream = None
        self._taken = False
        self._greeted_at = 0
        self._connecting_until = 0

    # --- to those who wait --------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        talk = self._talk
        if talk.answers:
            answers, talk.answers = talk.answers, []
            self._answer(answers)
        if talk.places:
            places, talk.places = talk.places, []
            for ask, ahead, expected in places:
                if ask.on_queued is not None:
                    _call(partial(ask.on_queued, ahead, expected))
        if talk.keeping.losses:
            losses, talk.keeping.losses = talk.keeping.losses, []
            for held in losses:
                _LOG.warning("lease %d on %s is lost: %s", held.id, ", ".join(n for n, _ in held.claims), held.reason)
                _call(held.tell_loss)

    def _answer(self, answers: list[tuple[Ask, Answer]]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Ask, Answer]]] = {}
        for ask, answer in answers:
            loop = ask.loop
            if loop is None:
                ask.settle(answer)
            else:
                by_loop.setdefault(loop, []).append((ask, answer))
        for loop, settled in by_loop.items():
            try:
                loop.call_soon_threadsafe(_settle, settled)
            except RuntimeError:  # the loop is closed, and nobody waits there
                for _, answer in settled:
                    if isinstance(answer, Held):
                        self._talk.keeping.release(answer)


def _settle(settled: list[tuple[Ask, Answer]]) -> None:
    for ask, answer in settled:
        ask.settle(answer)


def _call(told: Callable[[], None]) -> None:
    """Tell the program something. Whatever it does about it, this thread goes on."""
    try:
        told()
    except Exception:  # noqa: BLE001 - it is the program's
        _LOG.exception("the program failed when it was told something")


def _begin(family: socket.AddressFamily, where: str | tuple[str, int]) -> tuple[socket.socket | None, int]:
    """A socket that is about to connect, or None and why not. Raises OSError or ValueError when it cannot even try."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)  # noqa: FBT003
        if family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = sock.connect_ex(where)
    except BaseException:
        sock.close()
        raise
    if code in {0, errno.EINPROGRESS}:
        return sock, code
    sock.close()
    return None, code


def default_name() -> str:
    """What a program is called unless it says so: the name of its script."""
    return Path(sys.argv[0] if sys.argv and sys.argv[0] not in {"", "-c", "-m"} else "python").name[:_MOST_NAME]


# --- forks ------------------------------------------------------------------------------------------------------

_links: "weakref.WeakSet[Link]" = weakref.WeakSet()


def _after_fork() -> None:
    for link in list(_links):
        link.forked()


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _farewell() -> None:
    for link in list(_links):
        link.close()
