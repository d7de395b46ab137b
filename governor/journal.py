"""Journal: when what has happened is put on record.

It knows when a transaction is due, and what to do when one fails. It must never know what is in it, nor decide anything
about permits. In one sentence: nobody is told of a grant or of an end before it is on record.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from governor.changes import Changes, Taken
from governor.clock import Clock
from governor.core.effects import Effect
from governor.core.types import LeaseId, Nanos
from governor.driver import Driver
from governor.durability import Durability, OnStoreError
from governor.steps import BEAT
from governor.store import Store, Stored, StoreError

# Lease ids are put on record so many at a time, ahead of use: the disk is waited for once in a block.
BLOCK: Final = 1_000_000
# Beyond it a lease id would not fit its place.
HIGHEST: Final = 2**62 - 1

# How long the log grows, in bytes, before it is moved into the file, and how much more of it there may be meanwhile: if
# a disk is slower, those who want to write wait for it. After how many transactions it is looked at. Where there is
# less room than that, each of them, and it is moved when it is as long as what is left: the file needs some to grow,
# and one whose log has taken all of it stays as it is for ever. Nor is it worth while for less than so much.
_LOG_BYTES: Final = 3_000_000
_LOG_MORE: Final = 4_000_000
_LOG_LEAST: Final = 32_000
_LOOK: Final = 32
# After a failure it is tried again, ever less often.
_RETRY_S: Final = (0.1, 0.2, 0.5, 1.0)

_LOG = logging.getLogger("governor")

Done = bool | Awaitable[bool]
_Result = TypeVar("_Result")


class Journal:
    """Writes what happens to one driver into one store.

    ``written`` is called with how many nanoseconds each transaction took, ``failed`` for each that failed. ``changed``
    is called when the state can be written no more, or again: see ``broken``.
    """

    def __init__(
        self, driver: Driver, store: Store, clock: Clock, durability: Durability, on_error: OnStoreError
    ) -> None:
        self._driver = driver
        self._store = store
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._leases_too = durability is not Durability.NONE
        self._in_thread = durability is Durability.POWER
        self._refuse = on_error is OnStoreError.REFUSE
        self.written: Callable[[Nanos], None] = lambda _: None
        self.failed: Callable[[], None] = lambda: None
        self.changed: Callable[[], None] = lambda: None
        # What is wrong with the store; empty while it can be written.
        self.broken = ""
        self.reserved = 0
        self._changes = Changes(driver, clock)
        self._scheduled = False
        # The transaction under way in the thread; what those wait for who come meanwhile.
        self._flying: asyncio.Future[bool] | None = None
        self._next: asyncio.Future[bool] | None = None
        # The log is being moved into the file; nobody may write meanwhile.
        self._folding = False
        self._locked = False
        self._look = 1
        # How long it was when it had been moved, or begun: somebody may be reading, which keeps it.
        self._left = 0
        self._retries = 0
        self._retry: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._beat_at = clock.now()

    def begin(self, stored: Stored, reserved: int) -> None:
        """From now on, and before anything of ``stored`` is told to the driver, whatever happens to it is written."""
        self.reserved = reserved
        if self._leases_too:
            self._changes.begin(stored)
            self._driver.observers.append(self._observe)
            self._driver.beat_observers.append(self._beat)
        self._driver.commit = self.commit
        self._driver.unrecorded = self.unrecorded

    # --- what happens ---------------------------------------------------------------------------------------

    def _observe(self, effects: Sequence[Effect]) -> None:
        if self._changes.observe(effects) and not self._scheduled:
            # For what nobody is told of, such as an expiry.
            self._scheduled = True
            self._loop.call_soon(self._turn_over)

    def _turn_over(self) -> None:
        self._scheduled = False
        if not self._driver.gathering:
            self.commit()

    def _beat(self) -> None:
        """Once a second while anything is lent: a sign of life, and all that could wait."""
        self._write(beat=True)

    # --- writing --------------------------------------------------------------------------------------------

    def commit(self) -> Done:
        """Whatever has happened is on record, now or when the answer comes.

        False: it cannot be written, and what was granted since has been taken back.
        """
        if not self._changes.urgent:
            # Shielded: whoever waits for it may be cancelled, and others wait for the same.
            return asyncio.shield(self._flying) if self._flying else self._good()
        return self._write()

    def unrecorded(self) -> bool:
        """Whether to `commit` would make a transaction in the loop."""
        return self._changes.urgent and not (self._in_thread or self._locked or self.broken)

    def _write(self, *, beat: bool = False) -> Done:
        if self.broken or self._closed:
            return self._good()
        if self._in_thread or self._locked:
            if self._next is None:
                self._next = self._loop.create_future()
                if self._in_thread and self._flying is None:
                    self._spawn(self._write_in_thread())
            return asyncio.shield(self._next)
        began = now = self._clock.now()
        # While nothing is lent there is no heartbeat, and nobody has looked whether the files are still there.
        if beat or now - self._beat_at > 2 * BEAT:
            beat, self._beat_at = True, now
        batch, taken = self._changes.take(beat=beat)
        try:
            self._store.write(batch)
        except StoreError as error:
            self._fail(taken, error)
            return not self._refuse
        self._succeed(taken, self._clock.now() - began)
        return True

    async def _write_in_thread(self) -> None:
        """One transaction after the other, until nobody waits for one."""
        while self._next is not None and not self.broken:
            self._flying, self._next = self._next, None
            flying = self._flying
            batch, taken = self._changes.take(beat=True)
            began = self._clock.now()
            try:
                await self._run(self._store.write, batch)
            except StoreError as error:
                self._flying = None
                self._fail(taken, error)
            else:
                self._flying = None
                self._succeed(taken, self._clock.now() - began)
            flying.set_result(self._good())
        self._let_go()

    def _succeed(self, taken: Taken, took: Nanos) -> None:
        self.written(took)
        self._changes.written()
        if taken.reserved is not None:
            self.reserved = taken.reserved
        self._look -= 1
        if not self._look:
            self._look_at_log()

    def _look_at_log(self) -> None:
        room = max(_LOG_LEAST, self._store.room())
        self._look = _LOOK if room > _LOG_BYTES else 1
        grown = self._store.log_bytes() - self._left
        most = min(_LOG_BYTES, room)
        if not self._folding and grown > most:
            self._folding = True
            self._spawn(self._fold())
        elif self._folding and grown > most + min(_LOG_MORE, room):
            self._locked = not self._in_thread

    # --- when it fails --------------------------------------------------------------------------------------

    def _fail(self, taken: Taken | None, error: StoreError) -> None:
        """All of it is to be written yet; what was granted in it was told to nobody, and is taken back."""
        self.failed()
        tickets = self._changes.keep_trying() if taken is None else self._changes.give_back(taken)
        if str(error) != self.broken:
            meanwhile = "nothing is granted" if self._refuse else "what changes is forgotten at a restart"
            _LOG.error("%s; until then, %s", error, meanwhile)
            self.broken = str(error)
            self.changed()
        if self._refuse:
            self._driver.set_writable(False)
            for ticket in tickets:
                self._driver.abandon(ticket)
        if not self._closed:
            seconds = _RETRY_S[min(self._retries, len(_RETRY_S) - 1)]
            self._retries += 1
            self._retry = self._loop.call_later(seconds, lambda: self._spawn(self._try_again()))
        self._let_go()

    async def _try_again(self) -> None:
        """In the thread, where a disk may take its time; what happens meanwhile is for the next transaction."""
        try:
            await self._run(self._store.reopen)
            written = None if self._refuse else await self._run(self._store.lease_ids)
        except StoreError as error:
            self._fail(None, error)
            return
        if written is not None:
            self._changes.forget_unwritten(written)
        batch, taken = self._changes.take(beat=True)
        began = self._clock.now()
        try:
            await self._run(self._store.write, batch)
        except StoreError as error:
            self._fail(taken, error)
            return
        self._retries = 0
        self.broken = ""
        self._succeed(taken, self._clock.now() - began)
        _LOG.info("%s: can be written again", self._store.path)
        if self._refuse:
            self._driver.set_writable(True)
        self.changed()
        self.commit()

    def _good(self) -> bool:
        return not (self.broken and self._refuse)

    def _let_go(self) -> None:
        """Whoever waits for a transaction that will not come is told how it is."""
        if self._next is not None and self.broken:
            self._next.set_result(not self._refuse)
            self._next = None

    # --- ids, the log, the end ------------------------------------------------------------------------------

    async def reserve(self) -> LeaseId:
        """Put the next block of ids on record, on the disk itself; the highest of them. Raises StoreError."""
        ceiling = max(self.reserved, self._driver.last_id) + BLOCK
        if self.broken:
            raise StoreError(self.broken)
        if ceiling > HIGHEST:
            raise StoreError(f"{self._store.path}: all lease ids are used up; start with a new state folder")
        self._changes.reserve(ceiling)
        done = self.commit()
        if not isinstance(done, bool):
            await done
        if self.reserved < ceiling:
            raise StoreError(self.broken)
        await self._run(self._store.flush)
        return LeaseId(ceiling)

    async def _fold(self) -> None:
        """Move the log into the file. For the last part of it nobody may write; those who want to, wait."""
        try:
            await self._run(self._store.flush)
            if not self.broken:  # else the file is just being opened anew
                self._locked = not self._in_thread
                await self._run(self._store.fold)
        except StoreError as error:
            self.failed()
            _LOG.error("%s", error)
        # It is not tried again before there is as much once more.
        self._left = self._store.log_bytes()
        self._folding = self._locked = False
        if not self._in_thread and self._next is not None:
            waiting, self._next = self._next, None
            waiting.set_result(self._write() is True)

    async def close(self) -> None:
        """Write all there is, and close the file."""
        if self._retry is not None:
            self._retry.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._leases_too and self.broken:
            # What was given back and renewed meanwhile is told by nobody else: there may be room by now.
            await self._try_again()
        if self._leases_too and not self.broken:
            done = self._write(beat=True)
            if not isinstance(done, bool):
                await done
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)
        if not self.broken:
            try:
                await self._run(self._store.fold)
            except StoreError as error:
                _LOG.error("%s", error)
        await self._run(self._store.close)
        self._thread.shutdown()

    def _run(self, work: Callable[..., _Result], *arguments: object) -> Awaitable[_Result]:
        return self._loop.run_in_executor(self._thread, partial(work, *arguments))

    def _spawn(self, work: "Awaitable[None]") -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
