"""The client's own thread: a socket, a conversation on it, and everything that has to happen in time.

It knows sockets, the clock, and when to come back after a connection broke. It must never run code of the program: what
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
import select
import socket
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from secrets import token_hex
from typing import Final

from governor.client.address import Address, Candidate
from governor.client.asks import SECOND, Ask
from governor.client.conversation import Conversation
from governor.client.dial import Dial
from governor.client.held import Held
from governor.client.stream import Ended, Stream
from governor.client.telling import tell
from governor.client.witness import Witness

_LOG: Final = logging.getLogger("governor.client")

_PATH: Final = "/governor.v1.Governor/Session"
# A connection that broke sooner was none to come back to at once.
_LASTED: Final = SECOND
# How long a connection may take to come about, and the daemon to greet us on it.
_PATIENCE: Final = 5 * SECOND
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
        # Of the same thread again when a signal handler, or what the garbage collector runs, comes in between.
        self._lock = threading.RLock()
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
        self._witness = Witness()
        self._dial = Dial(self.address)
        # The host's name is being looked up, in a thread of its own.
        self._looking_up = False
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

    def give_up(self, ask: Ask) -> None:
        """Nobody waits for this ask any more: whatever it was granted, or is being granted, goes back."""
        ask.given_up = True
        if self._thread is not None or self.inbox:  # else nobody knows of it, and nothing was granted
            self.submit(lambda talk: talk.cancel(ask))

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

    def _leave_loops(self) -> None:
        """Take what was asked for in the last turn of an event loop that was closed before the next."""
        for loop in list(self._gathered):
            if loop.is_closed():
                self.inbox.extend(self._gathered.pop(loop, ()))

    def _wake(self) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._start()
        self._asleep = False
        with contextlib.suppress(BlockingIOError, AttributeError, OSError):
            self._wake_in.send(b"\0")  # type: ignore[union-attr]  # None only when the thread has just ended

    def _start(self) -> None:
        """Start the thread, or change nothing: whoever takes one to run that does not would wait without end."""
        poll, ends = select.poll(), socket.socketpair()
        try:
            for end in ends:
                end.setblocking(False)  # noqa: FBT003
            poll.register(ends[0], select.POLLIN)
            thread = threading.Thread(target=self._run, name="governor-client", daemon=True)
            self._poll, self._wake_out, self._wake_in, self._thread = poll, *ends, thread
            thread.start()
            _bid_farewell_as_a_child()
        except BaseException:
            # If it runs for all that, as after Ctrl-C, it finds that it is not the one.
            self._thread = self._wake_out = self._wake_in = None
            for end in ends:
                end.close()
            raise

    def close(self, farewell: float = _FAREWELL) -> None:
        """Give everything back and hang up; waits ``farewell`` seconds at most. The next ask begins anew."""
        thread = self.leave()
        if thread is not None:
            thread.join(farewell)

    def leave(self) -> threading.Thread | None:
        """Give everything back and hang up, soon; the thread that ends when that is done, if it can be waited for."""
        with self._lock:  # while it is started it cannot be waited for
            thread = self._thread
        if thread is None:
            return None
        self.submit(self._give_all_back)
        return None if thread is threading.current_thread() else thread

    def forked(self) -> None:
        """We are the child of a fork: hang up without a word, and forget what our parent holds."""
        for end in (self._socket, self._wake_in, self._wake_out):
            if end is not None:
                with contextlib.suppress(OSError):
                    os.close(end.detach())
        self._witness.leave()
        self._talk.keeping.disown()
        self._start_afresh()

    def _give_all_back(self, talk: Conversation) -> None:
        self._closing = True
        talk.give_all_back()

    # --- the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        with self._lock:
            if self._thread is not threading.current_thread():
                return
        try:
            while not self._done():
                self._turn()
        except BaseException:  # noqa: BLE001 - whatever it is, nobody who waits may be left hanging
            _LOG.exception("the client's thread failed; this is a bug of governor")
            self._talk.fail()
            tell(self._talk)
        finally:
            with self._lock:
                self._hang_up()
                self._witness.leave(self._poll)
                self._dial.forget()
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
            # Of one that has not greeted us we hold nothing.
            return self._stream is None or not self._greeted_at or not (self._talk.busy or self._stream.out)
        return not self._talk.busy and time.monotonic_ns() - self._busy_at >= _IDLE

    def _turn(self) -> None:
        now = time.monotonic_ns()
        inbox, talk = self.inbox, self._talk
        if self._gathered:
            self._leave_loops()
        while inbox:
            work = inbox.popleft()
            if isinstance(work, Ask):
                self._closing = False
                if not work.patient:
                    self._dial.hurry()
                talk.ask(work)
            elif isinstance(work, Held):
                talk.keeping.release(work)
            else:
                work(talk)
        if self._stream is None and talk.busy and not self._closing and now >= self._dial.next_try:
            self._connect(now)
        probe, give_up = talk.tick(now)
        try:
            if self._stream is not None:
                self._check(now, silent=give_up)
                self._say(now, probe=probe)
        except Ended as ended:
            self._broken(ended, now)
        tell(self._talk)
        if not self._done():
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
            self._dial.make_it(self._talk.keeping.next_loss, now)
            dues.append(self._dial.next_try)
        timeout = max(0, -((now - min(dues)) // 1_000_000)) if dues else None
        self._asleep = True
        if self.inbox or self._talk.answers or (self._closing and self._done()):
            self._asleep = False
            timeout = 0
        events = self._poll.poll(timeout)
        self._asleep = False
        dead = heard = False
        for descriptor, event in events:
            if self._wake_out is not None and descriptor == self._wake_out.fileno():
                with contextlib.suppress(BlockingIOError):
                    self._wake_out.recv(4096)
            elif self._socket is not None and descriptor == self._socket.fileno():
                heard = bool(event & ~select.POLLOUT)
                self._ready(event)
            elif descriptor == self._witness.descriptor:
                dead = True
        if dead and not heard:  # what it said last comes first
            self._mourn()

    def _mourn(self) -> None:
        """The daemon that greeted us last is dead; whatever the proxies say that are between us."""
        now = time.monotonic_ns()
        self._witness.leave(self._poll)
        if self._greeted_at:
            self._broken(Ended(None, "the daemon has died"), now)
        self._talk.died(now)

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
        try:
            if self.address.is_name and not self._dial.knows_where:
                self._look_up(now)
                return
            sock = self._dial.begin(now)
        except Ended as ended:
            self._broken(ended, now)
            return
        if sock is not None:
            self._socket = sock
            self._stream = Stream(_PATH, self.address.authority, f"governor-python/{self._version}")
            self._connecting_until = now + _PATIENCE
            self._poll.register(sock, select.POLLIN | select.POLLOUT)
            self._talk.connected(now)

    def _look_up(self, now: int) -> None:
        """Find the addresses of a name, which may take long: nobody who waits here may wait for that."""
        self._dial.next_try = now + _PATIENCE
        if self._looking_up:
            return
        self._looking_up = True
        pid = self.pid

        def found(result: list[Candidate] | str, _: Conversation) -> None:
            self._looking_up = False
            if self._stream is not None or pid != self.pid:
                return
            now = time.monotonic_ns()
            if isinstance(result, str):
                self._broken(Ended(None, result), now)
            else:
                self._dial.found(result, now)

        def look_up() -> None:
            try:
                result: list[Candidate] | str = self.address.candidates()
            except OSError as error:
                result = error.strerror or str(error)
            except ValueError as error:  # a name that can be no host
                result = str(error)
            if self._thread is not None:
                self.submit(partial(found, result))
            else:
                self._looking_up = False  # nobody wants to know any more

        try:
            threading.Thread(target=look_up, name="governor-look-up", daemon=True).start()
        except RuntimeError as error:  # there is no room for it
            self._looking_up = False
            raise Ended(None, str(error)) from error

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
                self._dial.reached()
                self._witness.follow(talk.process, self._poll)
        stream.check()

    def _broken(self, ended: Ended, now: int) -> None:
        """The connection is no more; try again after a while, if anything depends on it."""
        greeted_at, taken = self._greeted_at, self._taken
        first_time = self._dial.first_time
        self._hang_up()
        self._talk.disconnected(now)
        if self._dial.goes_on(now, lasted=greeted_at > 0 and now - greeted_at >= _LASTED):
            return
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


# --- forks ------------------------------------------------------------------------------------------------------

_links: "weakref.WeakSet[Link]" = weakref.WeakSet()


def _after_fork() -> None:
    for link in list(_links):
        link.forked()


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _farewell() -> None:
    # All at once: a program with many clients ends as soon as one with one, also when the daemon is away.
    until = time.monotonic() + _FAREWELL
    for thread in [link.leave() for link in list(_links)]:
        if thread is not None:
            thread.join(max(0.0, until - time.monotonic()))


_farewells: set[int] = set()


def _bid_farewell_as_a_child() -> None:
    """Have a child of multiprocessing give back what it gave back last: it ends without what `atexit` would run."""
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or os.getpid() in _farewells:
        return
    from multiprocessing.util import Finalize  # noqa: PLC0415 - only where it has been imported anyway

    _farewells.add(os.getpid())
    Finalize(None, _farewell, exitpriority=-1)
