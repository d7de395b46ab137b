"""The audit trail: what operators do and what befalls leases, as lines of a file.

It knows which entries are written, and whether anybody has to wait for that. It must never know how an entry comes
about.

Under ``drop`` nobody waits, and what the file cannot take in time is dropped and counted. Under ``block`` whoever is
about to be told of anything waits until its line is written: with what is put on record, so that there is one place to
wait. A file that says that it cannot be written is not waited for: nothing is granted meanwhile, as while the state
cannot be written, and as while more lines wait than may. What was granted and is in no line of it was told to nobody,
and is taken back.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from governor.audit.file import AuditFile, AuditFileError
from governor.audit.line import line
from governor.audit.unwritten import Unwritten
from governor.audit.writer import MAX_BYTES, Writer
from governor.auditing import AuditEvents, Auditing, AuditPolicy
from governor.chronicle import Chronicle
from governor.core.effects import Effect
from governor.core.snapshot import Held
from governor.core.types import Nanos
from governor.driver import Driver
from governor.entries import ACCESS, ACTS, LEASES, Entry, What, carried
from governor.wording import were

__all__ = ["Audit", "AuditFileError"]

# How long the end waits for the last lines, in seconds.
LAST_LINES_S: Final = 2.0

_LOG: Final = logging.getLogger("governor")

Done = bool | Awaitable[bool]


class Audit:
    """One audit trail, from `begin` to `close`.

    ``dropped`` is called with how many lines were, ``failed`` for each failure of the file, in any thread.
    """

    def __init__(
        self,
        asked: Auditing,
        now: Callable[[], Nanos],
        *,
        dropped: Callable[[int], None],
        failed: Callable[[], None],
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """``now``: the wall clock. Raises AuditFileError."""
        self._asked = asked
        self._now = now
        self._dropped = dropped
        self._blocks = asked.policy is AuditPolicy.BLOCK
        self._most = max_bytes
        self._loop = asyncio.get_running_loop()

        def complain(sentence: str) -> None:
            failed()
            _LOG.error("%s", sentence)

        self._writer = Writer(
            AuditFile(asked.file, asked.max_size, asked.keep, complain),
            lambda missed: line(Entry(now(), What.MISSED, missed=missed)),
            meanwhile="nothing is granted" if self._blocks else "lines wait, and those that do not fit are dropped",
            failed=failed,
            news=self._news,
            max_bytes=max_bytes,
        )
        self._unsent: list[bytes] = []
        self._dropping = False
        # Those who wait, by the line up to which all must be written. Two groups at most: for what is being written,
        # and for what comes next.
        self._waiting: list[tuple[int, asyncio.Future[bool]]] = []
        self._driver: Driver | None = None
        self._commit: Callable[[], Done] = lambda: True
        self._holding = False
        self._unwritten = Unwritten()
        # Some of that was taken back, and whoever it was granted to may be about to ask whether all is well.
        self._took_back = False
        # Called when `hindrance` is another.
        self.changed: Callable[[], None] = lambda: None
        self._closed = False

    def begin(self, chronicle: Chronicle, driver: Driver) -> None:
        """From now on all that is wanted of what happens is written; first, which leases there are already."""
        self._driver = driver
        if self._asked.events is AuditEvents.OPERATORS:
            chronicle.act_listeners.append(self._tell_act)
        else:
            chronicle.listen(self._tell if self._asked.events is AuditEvents.ALL else self._tell_some)
        if self._asked.events is not AuditEvents.OPERATORS and driver.live_leases:
            # From the last: they are taken from the end, so that each is forgotten as its line is made.
            held = [each for each in map(driver.held, reversed(driver.lease_ids())) if each is not None]
            self._writer.begin_with(_carried(held, self._now(), driver.stepped_at), len(held))
        if self._blocks:
            self._commit, driver.commit = driver.commit, self._commit_too
            # Behind whoever makes lines of the same step.
            driver.observers.append(self._observe)

    def reopen(self) -> None:
        """Somebody may have moved the file away."""
        self._writer.reopen()

    @property
    def hindrance(self) -> str | None:
        """Why nothing may be granted, if so."""
        return "the audit file cannot be written" if self._holding else None

    async def close(self) -> None:
        """Write what is there, for a bounded time."""
        self._send()
        self._closed = True
        self._writer.end()
        left = await asyncio.to_thread(self._writer.join, LAST_LINES_S)
        if left:
            self._dropped(left)
            _LOG.error("audit file %s: the last %s not written", self._asked.file, were(left, "line"))

    # --- what happens ---------------------------------------------------------------------------------------

    def _tell_act(self, act: Entry) -> None:
        if not act.client:  # how many of those there are is for clients to say, and old lines make room for new ones
            self._tell((act,))

    def _tell_some(self, told: Sequence[Entry]) -> None:
        some = [
            entry
            for entry in told
            if entry.what in LEASES or entry.what in ACTS or (entry.what is What.REFUSED and entry.reason in ACCESS)
        ]
        if some:
            self._tell(some)

    def _tell(self, told: Sequence[Entry]) -> None:
        if not self._unsent:
            # What one turn of the loop brings is handed over at once: to wake a thread costs more than a line.
            self._loop.call_soon(self._send)
        self._unsent += map(line, told)

    def _send(self) -> None:
        if not self._unsent or self._closed:
            return
        lines, self._unsent = self._unsent, []
        dropped = self._writer.add(lines)
        if dropped:
            self._dropped(dropped)
            if not self._dropping:
                _LOG.error("audit file %s: takes lines too slowly: some are dropped, and counted", self._asked.file)
        self._dropping = bool(dropped)
        if self._blocks:
            # Not here: whoever calls is about to tell what has been granted so far, and nothing more may be by then.
            self._loop.call_soon(self._look)

    # --- waiting for it -------------------------------------------------------------------------------------

    def _observe(self, effects: Sequence[Effect]) -> None:
        """See what is granted before all that has happened is written."""
        line = self._writer.put + len(self._unsent)
        if line > self._writer.written or self._unwritten:
            self._unwritten.observe(effects, line)

    def _commit_too(self) -> Done:
        """As `Driver.commit`, and the lines of all that has happened are written, too."""
        done = self._commit()
        self._send()
        if self._writer.written == self._writer.put and not self._took_back:
            return done
        return self._both(done)

    async def _both(self, done: Done) -> bool:
        # First asked for, then waited for: both disks are at work at the same time.
        written = self._written()
        good = done if isinstance(done, bool) else await done
        return await written and good

    def _written(self) -> "asyncio.Future[bool]":
        """Whether all lines so far are written, once that is known."""
        writer, waiting = self._writer, self._waiting
        if waiting and waiting[-1][0] > writer.taken:
            # That one is not being written yet, so this one will be with it.
            waiting[-1] = writer.put, waiting[-1][1]
        else:
            waiting.append((writer.put, self._loop.create_future()))
        written = waiting[-1][1]
        self._let_go()
        # Whoever waits may be cancelled, and others wait for the same.
        return asyncio.shield(written)

    def _news(self) -> None:
        """In the writer's thread."""
        if self._blocks and not self._closed:
            with suppress(RuntimeError):  # the loop is closed: there is nobody left who waits
                self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        """Whoever has waited long enough goes on; whether anything may be granted."""
        writer = self._writer
        if not writer.problem:
            self._took_back = False
        self._let_go()
        # Half of the room is for what still comes of what has been granted.
        self._hold(holds=bool(writer.problem) or writer.waiting > self._most // (4 if self._holding else 2))

    def _let_go(self) -> None:
        """Those whose lines are written; or all when it cannot be, and what they would have been told is taken back."""
        writer, waiting = self._writer, self._waiting
        self._unwritten.forget(writer.written)
        broken = bool(writer.problem)
        if broken and self._unwritten:
            self._take_back()
        broken |= self._took_back
        while waiting and (broken or waiting[0][0] <= writer.written):
            waiting.pop(0)[1].set_result(not broken)

    def _take_back(self) -> None:
        assert self._driver is not None
        self._took_back = True
        # First, so that what comes back is granted to nobody else.
        self._hold(holds=True)
        for ticket in self._unwritten.take():
            self._driver.abandon(ticket)

    def _hold(self, *, holds: bool) -> None:
        if holds is not self._holding:
            self._holding = holds
            assert self._driver is not None
            self._driver.set_writable(not holds, by="audit")
            self.changed()


def _carried(held: list[Held], at: Nanos, now: Nanos) -> Iterator[bytes]:
    while held:
        yield line(carried(held.pop(), at=at, now=now))
