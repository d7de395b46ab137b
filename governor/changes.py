"""Changes: what has happened and is not on record yet.

It knows which leases and resources have changed since the last transaction. It must never know when the next one is
due, or how it is written.

Facts are written, not events: of a lease, what it is now. So what was granted and ended in between costs nothing, and a
failure loses nothing: the next transaction that succeeds has all of it. What nobody is told of, and nobody is harmed by
if it is forgotten (that a holder is gone, which idle member is next), can wait for the next heartbeat.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from governor.clock import Clock
from governor.core.effects import (
    Effect,
    Frozen,
    Granted,
    LeaseEnded,
    LeaseExtended,
    LeaseOrphaned,
    OverrideOver,
    Reconfigured,
    Refunded,
    Steered,
)
from governor.core.leases import REMEMBERED
from governor.core.types import SECOND, LeaseId, Nanos, TicketId
from governor.driver import Driver
from governor.store import Batch, Stored
from governor.store.rows import fading_row, lease_row, memory_text, past_row, resource_row, steered_row

_SELDOM: Final = frozenset((Refunded, Reconfigured, Frozen, Steered, OverrideOver))


@dataclass(slots=True)
class Taken:
    """What is in a transaction, should it have to be done again."""

    leases: set[LeaseId]
    moved: set[LeaseId]
    spent: list[LeaseId]
    tickets: list[TicketId]
    freezes: Nanos
    reserved: int | None
    # How many ended leases it puts on record, and which it drops for them.
    past: int
    gone_past: list[tuple[int]]


class Changes:
    """What has happened to one driver. ``urgent``: some of it must be on record before anybody is told of it."""

    def __init__(self, driver: Driver, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock
        self.urgent = False
        # Granted since the last transaction, and live; ended or otherwise to be written anew; only moved in time.
        self._fresh: dict[LeaseId, None] = {}
        self._dirty: set[LeaseId] = set()
        self._moved: set[LeaseId] = set()
        # Grants that lent nothing; of all new grants the tickets, to take them back if they cannot be written.
        self._spent: list[LeaseId] = []
        self._tickets: list[TicketId] = []
        # Resources that anything happened to; those of them whose memory can wait; what was last written of each.
        self._touched: set[str] = set()
        self._soft: set[str] = set()
        self._marks: dict[str, int] = {}
        self._declared = False
        # Whether what is declared no more has come by something of what was spent of it.
        self._faded = False
        # Resources of which an operator has said something, or an override is over.
        self._steered: set[str] = set()
        self._freezes: Nanos = 0
        self._reserved: int | None = None
        # The transaction that may be under way, in another thread.
        self._under_way: Taken | None = None
        # Leases that a restart has made longer, and that were not renewed since.
        self._graced: set[LeaseId] = set()
        # Which ended leases are in the file, oldest first.
        self._past: deque[LeaseId] = deque()

    def begin(self, stored: Stored) -> None:
        """This is on record already."""
        self._graced = {row.held.id for row in stored.leases}
        self._past.extend([each.id for each in stored.past])

    def reserve(self, ceiling: int) -> None:
        """Lease ids up to here are to be on record."""
        self._reserved = ceiling
        self.urgent = True

    def observe(self, effects: Sequence[Effect]) -> bool:
        """See what has happened in one step; whether any of it is urgent."""
        urgent = False
        for effect in effects:
            if isinstance(effect, Granted):
                urgent = True
                self._granted(effect)
            elif isinstance(effect, LeaseEnded):
                urgent = True
                self._ended(effect)
            elif isinstance(effect, LeaseExtended):
                urgent = True
                self._moved.add(effect.lease)
                if self._graced:
                    self._graced.discard(effect.lease)
            elif isinstance(effect, LeaseOrphaned):
                self._moved.add(effect.lease)
            elif type(effect) in _SELDOM:  # half of what it takes to ask `isinstance`, and an answer is in every step
                urgent = True
                self._seldom(effect)
        if urgent:
            self.urgent = True
        return urgent

    def _granted(self, effect: Granted) -> None:
        lease = effect.lease
        if effect.repeated:
            # Of one that is on record somebody may have the answer already.
            if not self._on_record(lease):
                self._tickets.append(effect.ticket)
            return
        self._tickets.append(effect.ticket)
        if effect.deadline is None:
            self._spent.append(lease)
        else:
            self._fresh[lease] = None
        for grant in effect.grants:
            self._touched.add(grant.resource)

    def _on_record(self, lease: LeaseId) -> bool:
        """Whether this one, which somebody holds or has spent, has ever been written for sure."""
        if lease in self._fresh or lease in self._spent:
            return False
        under_way = self._under_way
        return under_way is None or not (lease in under_way.leases or lease in under_way.spent)

    def _ended(self, effect: LeaseEnded) -> None:
        lease = effect.lease
        if lease in self._fresh:
            del self._fresh[lease]
        else:
            self._dirty.add(lease)
        for grant in effect.grants:
            self._touched.add(grant.resource)
        if self._graced:
            self._graced.discard(lease)

    def _seldom(self, effect: Effect) -> None:
        match effect:
            case Refunded():
                self._touched.update([grant.resource for grant in effect.grants])
                self._faded |= any(self._driver.fades(grant.resource) for grant in effect.grants)
            case Reconfigured():
                self._declared = True
            case Frozen():
                self._freezes += effect.length
            case Steered() | OverrideOver():
                self._steered.add(effect.resource)
            case _:
                raise AssertionError(effect)

    # --- what is written ------------------------------------------------------------------------------------

    def take(self, *, beat: bool) -> tuple[Batch, Taken]:
        """All that must be written, as it is now; with a ``beat`` also what could wait, and a sign of life."""
        batch = Batch(reserved=self._reserved)
        leases = self._take_leases(batch)
        spent, self._spent = self._spent, []
        for lease in spent:
            self._keep_past(lease, batch)
        moved = self._take_moved(batch)
        freezes, self._freezes = self._freezes, 0
        if beat or freezes:
            batch.stamp = self._clock.now()
            if freezes:
                # The engine has done the same, an instant ago.
                batch.freeze = (freezes, batch.stamp + SECOND)
        self._take_memories(batch, beat=beat)
        past, gone = len(batch.past), batch.gone_past
        taken = Taken(leases, moved, spent, self._tickets, freezes, self._reserved, past, gone)
        self._tickets, self._reserved, self.urgent = [], None, False
        self._under_way = taken
        return batch, taken

    def written(self) -> None:
        """What was taken is on record."""
        self._under_way = None

    def give_back(self, taken: Taken) -> list[TicketId]:
        """It could not be written. The tickets returned are of what was granted and is not on record."""
        self._under_way = None
        self._dirty |= taken.leases
        self._moved |= taken.moved
        # Of more than that nobody knows any more what they were.
        self._spent = (taken.spent + self._spent)[-REMEMBERED:]
        self._freezes += taken.freezes
        self._reserved = self._reserved or taken.reserved
        self._past.extendleft([LeaseId(gone) for (gone,) in reversed(taken.gone_past)])
        for _ in range(taken.past):
            self._past.pop()
        # What each resource remembers is written anew, whatever was written before.
        self._declared = True
        self.urgent = True
        tickets, self._tickets = taken.tickets + self._tickets, []
        return tickets

    def keep_trying(self) -> list[TicketId]:
        """Not even an attempt could be made to write. The tickets returned are as of `give_back`.

        It may be so for hours: of what comes and goes meanwhile no more is kept than an attempt would have left.
        """
        self._spent = self._spent[-REMEMBERED:]
        self._forget_moves()
        tickets, self._tickets = self._tickets, []
        return tickets

    def _forget_moves(self) -> None:
        """Of leases that have ended since."""
        self._moved = {lease for lease in self._moved if self._driver.held(lease) is not None}

    def forget_unwritten(self, written: set[int]) -> None:
        """Only leases of these ids are in the file: of others that have come and gone nothing is to be struck out.

        So an outage in which grants go on leaves no more behind than what is held and remembered.
        """
        held, past = self._driver.held, self._driver.past
        self._forget_moves()
        self._dirty = {
            lease for lease in self._dirty if lease in written or held(lease) is not None or past(lease) is not None
        }

    def _take_leases(self, batch: Batch) -> set[LeaseId]:
        driver = self._driver
        fresh, self._fresh = self._fresh, {}
        dirty, self._dirty = self._dirty, set()
        for lease in fresh:
            held = driver.held(lease)
            assert held is not None, "a lease that has ended was to be written"
            batch.leases.append(lease_row(held, graced=False))
        for lease in dirty:
            held = driver.held(lease)
            if held is None:
                batch.gone.append((lease,))
                self._keep_past(lease, batch)
            else:
                batch.leases.append(lease_row(held, graced=lease in self._graced))
        return dirty.union(fresh)

    def _take_moved(self, batch: Batch) -> set[LeaseId]:
        moved = self._moved
        if not moved:
            return set()
        self._moved = set()
        graced = self._graced
        batch.moved = [
            (deadline, orphaned, lease in graced, lease)
            for deadline, orphaned, lease in self._driver.deadlines(sorted(moved))
        ]
        return moved

    def _keep_past(self, lease: LeaseId, batch: Batch) -> None:
        """While its request id stands for a lease that has ended, whoever asks again must be told the same."""
        past = self._driver.past(lease)
        if past is not None:
            batch.past.append(past_row(past))
            self._past.append(lease)
            if len(self._past) > REMEMBERED:
                batch.gone_past.append((self._past.popleft(),))

    def _take_memories(self, batch: Batch, *, beat: bool) -> None:
        """What the limits remember, where it must not be forgotten or is due anyway."""
        driver = self._driver
        touched, self._touched = self._touched, set()
        steered, self._steered = self._steered, set()
        if self._declared or self._faded:
            self._faded = False
            batch.fading = [fading_row(each) for each in driver.fading()]
        if self._declared:
            self._declared = False
            names = driver.remembered()
            self._marks = {name: driver.marks(name) or 0 for name in names}
            batch.resources = [resource_row(driver.remember(name)) for name in names]
            self._soft.clear()
            return
        if beat:
            touched |= self._soft
            self._soft.clear()
        for name in steered:
            # What is declared no more is not steered, and when that was declared all was written anew.
            self._marks[name] = driver.marks(name) or 0
            batch.steered.append(steered_row(driver.remember(name)))
        touched -= steered
        for name in touched:
            marks = driver.marks(name)
            if marks is None:
                # It was draining, and is gone with its last lease.
                if self._marks.pop(name, None) is not None:
                    batch.gone_resources.append((name,))
            elif beat or marks != self._marks.get(name):
                former = self._marks.get(name)
                self._marks[name] = marks
                remembered = driver.remember(name)
                if remembered.memory or marks != former:
                    batch.memories.append((memory_text(remembered.memory), remembered.at, name))
            else:
                self._soft.add(name)
