"""Journal: what has happened and is not on record yet, and when it is written down.

It knows which leases and resources have changed since the last transaction. It must never know how they are written, nor
decide anything about permits. In one sentence: nobody is told of a grant or of an end before it is on record.

Facts are written, not events: of a lease, what it is now. So what was granted and ended in between costs nothing, and a
failure loses nothing: the next transaction that succeeds has all of it. What nobody relies on to the second (renewals,
which idle member is next) is written with the next heartbeat.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from governor.clock import Clock
from governor.core.effects import (
    Effect,
    Granted,
    LeaseEnded,
    LeaseExtended,
    LeaseOrphaned,
    Paused,
    Reconfigured,
    Refunded,
)
from governor.core.leases import REMEMBERED
from governor.core.types import SECOND, LeaseId, Nanos, TicketId
from governor.driver import Driver
from governor.durability import Durability, OnStoreError
from governor.store import Batch, Store, Stored, StoreError
from governor.store.rows import lease_row, memory_text, past_row, resource_row

# Lease ids are put on record so many at a time, ahead of use: the disk is waited for once in a block.
BLOCK: Final = 1_000_000

# How long the log grows before it is moved into the file, in bytes; and after how many transactions it is looked at.
_LOG_BYTES: Final = 3_000_000
_LOOK: Final = 32
# After a failure it is tried again, ever less often.
_RETRY_S: Final = (0.1, 0.2, 0.5, 1.0)

_LOG = logging.getLogger("governor")

Done = bool | Awaitable[bool]


@dataclass(slots=True)
class _Taken:
    """What is in a transaction, should it have to be done again."""

    leases: set[LeaseId]
    moved: set[LeaseId]
    spent: list[LeaseId]
    tickets: list[TicketId]
    pauses: Nanos
    reserve: int | None


class Journal:
    """Writes what happens to one driver into one store.

    ``written`` is called with how many nanoseconds each transaction took, ``failed`` for each that failed. ``changed`` is
    called when the state can be written no more, or again: see ``broken``.
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
        # Granted since the last transaction, and live; ended or otherwise to be written anew; only moved in time.
        self._fresh: dict[LeaseId, None] = {}
        self._dirty: set[LeaseId] = set()
        self._moved: set[LeaseId] = set()
        # Grants that lent nothing; of all grants the tickets, to take them back if they cannot be written.
        self._spent: list[LeaseId] = []
        self._tickets: list[TicketId] = []
        # Resources that anything happened to; those of them whose memory can wait; what was last written of each.
        self._touched: set[str] = set()
        self._soft: set[str] = set()
        self._marks: dict[str, int] = {}
        self._declared = False
        self._pauses: Nanos = 0
        self._reserve: int | None = None
        # Leases that a restart has made longer, and that were not renewed since.
        self._graced: set[LeaseId] = set()
        # Which ended leases are in the file, oldest first.
        self._past: deque[LeaseId] = deque()
        # Whether anything must be written before anybody is told of it.
        self._urgent = False
        self._scheduled = False
        # The transaction under way in the thread; what those wait for who come meanwhile.
        self._flying: asyncio.Future[bool] | None = None
        self._next: asyncio.Future[bool] | None = None
        # The log is being moved into the file; nobody may write meanwhile.
        self._folding = False
        self._locked = False
        self._look = _LOOK
        self._fold_at = _LOG_BYTES
        self._retries = 0
        self._retry: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def begin(self, stored: Stored, reserved: int) -> None:
        """From now on, and before anything of ``stored`` is told to the driver, whatever happens to it is written."""
        self.reserved = reserved
        if self._leases_too:
            self._graced = {row.held.id for row in stored.leases}
            self._past.extend([each.id for each in stored.past])
            self._driver.observers.append(self._observe)
            self._driver.beat_observers.append(self._beat)
        self._driver.commit = self.commit

    # --- what happens ---------------------------------------------------------------------------------------

    def _observe(self, effects: Sequence[Effect]) -> None:
        urgent = False
        for effect in effects:
            if isinstance(effect, Granted):
                urgent = True
                if effect.repeated:
                    if effect.lease in self._fresh:
                        self._tickets.append(effect.ticket)
                    continue
                self._tickets.append(effect.ticket)
                if effect.deadline is None:
                    self._spent.append(effect.lease)
                else:
                    self._fresh[effect.lease] = None
                for grant in effect.grants:
                    self._touched.add(grant.resource)
            elif isinstance(effect, LeaseEnded):
                urgent = True
                lease = effect.lease
                if lease in self._fresh:
                    del self._fresh[lease]
                else:
                    self._dirty.add(lease)
                for grant in effect.grants:
                    self._touched.add(grant.resource)
                if self._graced:
                    self._graced.discard(lease)
            elif isinstance(effect, LeaseExtended):
                self._moved.add(effect.lease)
                if self._graced:
                    self._graced.discard(effect.lease)
            elif isinstance(effect, LeaseOrphaned):
                self._moved.add(effect.lease)
            elif isinstance(effect, Refunded):
                urgent = True
                self._touched.update([grant.resource for grant in effect.grants])
            elif isinstance(effect, Reconfigured):
                urgent = self._declared = True
            elif isinstance(effect, Paused):
                urgent = True
                self._pauses += effect.length
        if urgent:
            self._urgent = True
            if not self._scheduled:
                # For what nobody is told of, such as an expiry.
                self._scheduled = True
                self._loop.call_soon(self._turn_over)

    def _turn_over(self) -> None:
        self._scheduled = False
        self.commit()

    def _beat(self) -> None:
        """Once a second while anything is lent: a sign of life, and all that could wait."""
        self._touched |= self._soft
        self._soft.clear()
        self._write(beat=True)

    # --- writing --------------------------------------------------------------------------------------------

    def commit(self) -> Done:
        """Whatever has happened is on record, now or when the answer comes.

        False: it cannot be written, and what was granted since has been taken back.
        """
        if not self._urgent:
            # Shielded: whoever waits for it may be cancelled, and others wait for the same.
            return asyncio.shield(self._flying) if self._flying else self._good()
        return self._write()

    def _write(self, *, beat: bool = False) -> Done:
        if self.broken or self._closed:
            return self._good()
        if self._in_thread or self._locked:
            if self._next is None:
                self._next = self._loop.create_future()
                if self._in_thread and self._flying is None:
                    self._spawn(self._write_in_thread())
            return asyncio.shield(self._next)
        batch, taken = self._take(beat=beat)
        began = time.monotonic_ns()
        try:
            self._store.write(batch)
        except StoreError as error:
            self._fail(taken, error)
            return not self._refuse
        self._succeed(taken, time.monotonic_ns() - began)
        return True

    async def _write_in_thread(self) -> None:
        """One transaction after the other, until nobody waits for one."""
        while self._next is not None and not self.broken:
            self._flying, self._next = self._next, None
            flying = self._flying
            batch, taken = self._take(beat=True)
            began = time.monotonic_ns()
            try:
                await self._run(self._store.write, batch)
            except StoreError as error:
                self._flying = None
                self._fail(taken, error)
            else:
                self._flying = None
                self._succeed(taken, time.monotonic_ns() - began)
            flying.set_result(self._good())
        self._let_go()

    def _take(self, *, beat: bool = False) -> tuple[Batch, _Taken]:
        """All that is to be written, as it is now."""
        driver = self._driver
        batch = Batch(reserved=self._reserve)
        leases, self._fresh = self._fresh, {}
        dirty, self._dirty = self._dirty, set()
        graced = self._graced
        for lease in leases:
            held = driver.held(lease)
            assert held is not None, "a lease that has ended was to be written"
            batch.leases.append(lease_row(held, graced=False))
        for lease in dirty:
            held = driver.held(lease)
            if held is None:
                batch.gone.append((lease,))
                self._keep_past(lease, batch)
            else:
                batch.leases.append(lease_row(held, graced=lease in graced))
        spent, self._spent = self._spent, []
        for lease in spent:
            self._keep_past(lease, batch)
        moved: set[LeaseId] = set()
        pauses: Nanos = 0
        if beat or self._pauses:
            moved, self._moved = self._moved, moved
            for lease in moved:
                held = driver.held(lease)
                if held is not None:
                    batch.moved.append((held.deadline, held.orphaned, lease in graced, lease))
            pauses, self._pauses = self._pauses, 0
            batch.stamp = self._clock.now()
            if pauses:
                batch.pause = (pauses, batch.stamp + SECOND)
        touched, self._touched = self._touched, set()
        self._remember(touched, batch, beat=beat)
        taken = _Taken(
            leases=dirty.union(leases),
            moved=moved,
            spent=spent,
            tickets=self._tickets,
            pauses=pauses,
            reserve=self._reserve,
        )
        self._tickets, self._declared, self._reserve, self._urgent = [], False, None, False
        return batch, taken

    def _keep_past(self, lease: LeaseId, batch: Batch) -> None:
        """While its request id stands for a lease that has ended, whoever asks again must be told the same."""
        past = self._driver.past(lease)
        if past is not None:
            batch.past.append(past_row(past))
            self._past.append(lease)
            if len(self._past) > REMEMBERED:
                batch.gone_past.append((self._past.popleft(),))

    def _remember(self, touched: set[str], batch: Batch, *, beat: bool) -> None:
        """What the limits remember, where it must not be forgotten or is due anyway."""
        driver = self._driver
        if self._declared:
            names = driver.resources()
            self._marks = {name: driver.marks(name) or 0 for name in names}
            batch.resources = [resource_row(driver.remember(name)) for name in names]
            return
        for name in touched:
            marks = driver.marks(name)
            if marks is None:
                if name in self._marks:
                    # It was draining, and is gone with its last lease.
                    del self._marks[name]
                    batch.gone_resources.append((name,))
            elif marks != self._marks.get(name) or beat:
                self._marks[name] = marks
                remembered = driver.remember(name)
                batch.memories.append((memory_text(remembered.memory), remembered.at, name))
            else:
                self._soft.add(name)

    def _succeed(self, taken: _Taken, took: Nanos) -> None:
        self.written(took)
        if taken.reserve is not None:
            self.reserved = taken.reserve
        self._look -= 1
        if not self._look:
            self._look = _LOOK
            if not self._folding and self._store.log_bytes() > self._fold_at:
                self._folding = True
                self._spawn(self._fold())

    # --- when it fails --------------------------------------------------------------------------------------

    def _fail(self, taken: _Taken, error: StoreError) -> None:
        """All of it is to be written yet; what was granted in it was told to nobody, and is taken back."""
        self.failed()
        self._dirty |= taken.leases
        self._moved |= taken.moved
        self._spent = taken.spent + self._spent
        # What each resource remembers is written anew, whatever was written before.
        self._declared = True
        self._pauses += taken.pauses
        self._reserve = self._reserve or taken.reserve
        self._urgent = True
        if str(error) != self.broken:
            meanwhile = "nothing is granted" if self._refuse else "what changes is forgotten at a restart"
            _LOG.error("%s; until then, %s", error, meanwhile)
            self.broken = str(error)
            self.changed()
        if self._refuse:
            self._driver.set_writable(False)
            tickets = taken.tickets + self._tickets
            self._tickets = []
            for ticket in tickets:
                self._driver.abandon(ticket)
        if not self._closed:
            seconds = _RETRY_S[min(self._retries, len(_RETRY_S) - 1)]
            self._retries += 1
            self._retry = self._loop.call_later(seconds, lambda: self._spawn(self._try_again()))
        self._let_go()

    async def _try_again(self) -> None:
        """In the thread, where a disk may take its time; what happens meanwhile is for the next transaction."""
        batch, taken = self._take(beat=True)
        began = time.monotonic_ns()
        try:
            await self._run(self._store.reopen)
            await self._run(self._store.write, batch)
        except StoreError as error:
            self._fail(taken, error)
            return
        self._retries = 0
        self.broken = ""
        self._succeed(taken, time.monotonic_ns() - began)
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
        self._reserve = ceiling
        self._urgent = True
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
            self._locked = not self._in_thread
            await self._run(self._store.fold)
        except StoreError as error:
            self.failed()
            _LOG.error("%s", error)  # noqa: TRY400 - one line for people
        # Somebody may be reading, which keeps the log; it is not tried again before there is as much once more.
        self._fold_at = _LOG_BYTES + self._store.log_bytes()
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
                _LOG.error("%s", error)  # noqa: TRY400 - one line for people
        await self._run(self._store.close)
        self._thread.shutdown()

    def _run(self, work: Callable[..., None], *arguments: object) -> Awaitable[None]:
        return self._loop.run_in_executor(self._thread, partial(work, *arguments))

    def _spawn(self, work: "Awaitable[None]") -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
