"""The client's own thread: a conversation, a connection, and everything that has to happen in time.

It knows the clock, and who wants what. It must never run code of the program: what is to be told goes to those who
wait, or to their event loop, and a callback gets a thread of its own.

The thread alone touches the conversation. Others put what they want into ``inbox``, which is safe without a lock, and
wake it. So nothing that the program does to its own threads or its event loop keeps a lease from being kept alive.
"""

import asyncio
import contextlib
import logging
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import Final

from governor.client.address import Address
from governor.client.asks import SECOND, Ask
from governor.client.connection import Connection
from governor.client.conversation import Conversation
from governor.client.credentials import Credentials
from governor.client.farewell import FAREWELL, as_a_child_too, links
from governor.client.held import Held
from governor.client.telling import tell

_LOG: Final = logging.getLogger("governor.client")

# A session that nothing has depended on for so long is ended, and its thread; the next ask begins anew.
_IDLE: Final = 60 * SECOND
_MOST_NAME: Final = 200

# What the thread is to do: send an ask, give a lease back, or anything else with the conversation.
Work = Ask | Held | Callable[[Conversation], None]


class Link:
    """One client process's way to one daemon. Nothing happens before the first ``submit``."""

    def __init__(
        self,
        address: Address,
        name: str,
        labels: Mapping[str, str],
        version: str,
        credentials: Credentials | None = None,
    ) -> None:
        self._credentials = credentials or Credentials()
        self.address = address
        self.name = name
        self.labels = dict(labels)
        self.let_through = 0
        self._version = version
        self._start_afresh()
        links.add(self)

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
        self._busy_at = time.monotonic_ns()
        self._talk = Conversation(
            client=self.name,
            pid=self.pid,
            host=socket.gethostname()[:_MOST_NAME],
            instance=token_hex(16),
            labels=self.labels,
            address=str(self.address),
        )
        # Of which others may look at what is said to be for any thread.
        self.keeping = self._talk.keeping
        self._connection = Connection(self.address, self._version, self._talk, self._hand_in, self._credentials)

    # --- for any thread -----------------------------------------------------------------------------------------

    def submit(self, work: Work) -> None:
        """Have the client's thread do this, soon."""
        self.inbox.append(work)
        if self._asleep or self._thread is None:
            self._wake()

    def _hand_in(self, work: Work) -> bool:
        """The same, unless the thread has ended meanwhile."""
        if self._thread is None:
            return False
        self.submit(work)
        return True

    def ours_until(self, held: Held) -> int:
        """Until when a lease is ours if nothing more is heard of the daemon."""
        return self._talk.ours_until(held)

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
            loop.call_soon(self.flush, loop)
        gathered.append(work)

    def flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """What this turn of an event loop has asked for so far goes now, if that is anything."""
        gathered = self._gathered.pop(loop, None)
        if gathered is None:
            return  # it went earlier
        self.inbox.extend(gathered)
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
            self._connection.poll, self._wake_out, self._wake_in, self._thread = poll, *ends, thread
            thread.start()
            as_a_child_too()
        except BaseException:
            # If it runs for all that, as after Ctrl-C, it finds that it is not the one.
            self._thread = self._wake_out = self._wake_in = None
            for end in ends:
                end.close()
            raise

    def close(self, farewell: float = FAREWELL) -> None:
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
        self._connection.forsake()
        for end in (self._wake_in, self._wake_out):
            if end is not None:
                with contextlib.suppress(OSError):
                    os.close(end.detach())
        self.keeping.disown()
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
                self._connection.hang_up()
                self._connection.witness.leave(self._connection.poll)
                self._connection.dial.forget()
                for end in (self._wake_in, self._wake_out):
                    if end is not None:
                        end.close()
                self._connection.poll = select.poll()
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
            return not self._connection.greeted_at or not (self._talk.busy or self._connection.unsent)
        return not self._talk.busy and time.monotonic_ns() - self._busy_at >= _IDLE

    def _turn(self) -> None:
        now = time.monotonic_ns()
        inbox, talk, connection = self.inbox, self._talk, self._connection
        if self._gathered:
            self._leave_loops()
        hurried = False
        while inbox:
            work = inbox.popleft()
            if isinstance(work, Ask):
                self._closing = False
                if not (hurried or work.patient):
                    hurried = True  # once for all: this is done for each ask
                    connection.dial.hurry()
                talk.ask(work, now)
            elif isinstance(work, Held):
                talk.keeping.release(work)
            else:
                work(talk)
                hurried = False
        if not connection.open and talk.busy and not self._closing and now >= connection.dial.next_try:
            connection.begin(now)
        probe, silent = talk.tick(now)
        connection.say(now, probe=probe, silent=silent)
        tell(talk)
        if not self._done():
            self._wait(now)

    def _wait(self, now: int) -> None:
        """Sleep until something comes, or is due."""
        dues = [due for due in (self._talk.next_deadline(),) if due is not None]
        connection = self._connection
        if self._talk.busy:
            self._busy_at = now
        else:
            dues.append(self._busy_at + _IDLE)
        if not connection.open and self._talk.busy:
            connection.dial.make_it(self._talk.keeping.next_loss, now)
        due = connection.next_deadline()
        if due is not None and (self._talk.busy or connection.open):
            dues.append(due)
        timeout = max(0, -((now - min(dues)) // 1_000_000)) if dues else None
        self._asleep = True
        if self.inbox or self._talk.answers or (self._closing and self._done()):
            self._asleep = False
            timeout = 0
        events = connection.poll.poll(timeout)
        self._asleep = False
        dead = heard = False
        for descriptor, event in events:
            if self._wake_out is not None and descriptor == self._wake_out.fileno():
                with contextlib.suppress(BlockingIOError):
                    self._wake_out.recv(4096)
            elif connection.socket is not None and descriptor == connection.socket.fileno():
                heard = bool(event & ~select.POLLOUT)
                connection.ready(event)
            elif descriptor == connection.witness.descriptor:
                dead = True
        if dead and not heard:  # what it said last comes first
            connection.mourn()
