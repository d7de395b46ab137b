"""Store: a list of transactions, and somebody who writes down what must outlive the daemon.

It knows from the effects alone what has changed, and asks the engine what it is now: as the real store does. It must
never know what any of it means. When the power fails, any part of the list survives that begins at its beginning, but
for what was promised: that is there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from governor.core.effects import (
    Effect,
    Frozen,
    Granted,
    LeaseEnded,
    LeaseExtended,
    LeaseOrphaned,
    Reconfigured,
    Refunded,
    Released,
)
from governor.core.engine import Engine
from governor.core.resource import Remembered
from governor.core.snapshot import Held, Past
from governor.core.types import Grant, LeaseId, Nanos

K = TypeVar("K")
V = TypeVar("V")

# How many transactions are kept apart, so that it can be tried out what every first part of them would mean.
_APART: Final = 8


@dataclass(frozen=True)
class Row:
    """A live lease. ``graced``: a restart has made it longer, and nobody has renewed it since."""

    held: Held
    graced: bool


@dataclass
class Tables:
    """All that is written. Instants are of the clock that ``stamp`` is of."""

    leases: dict[LeaseId, Row]
    past: dict[LeaseId, Past]
    resources: dict[str, Remembered]
    stamp: Nanos
    last_id: LeaseId
    fading: tuple[Remembered, ...] = ()
    # How much longer leases live after a restart, by the word of the daemon that wrote this.
    promised: Nanos = 0

    def copy(self) -> "Tables":
        """The same, which stays as it is."""
        tables = (dict(self.leases), dict(self.past), dict(self.resources))
        return Tables(*tables, self.stamp, self.last_id, self.fading, self.promised)


@dataclass
class Transaction:
    """What is to be written at once; None is to be struck out."""

    leases: dict[LeaseId, Row | None]
    past: dict[LeaseId, Past | None]
    resources: dict[str, Remembered | None]
    stamp: Nanos
    last_id: LeaseId
    # All that is neither declared nor lent, but spent; None is as it was.
    fading: tuple[Remembered, ...] | None = None
    # The rows of another clock are all struck out.
    anew: bool = False
    # None is as it was.
    promised: Nanos | None = None

    def write(self, tables: Tables) -> None:
        """Make it so."""
        if self.anew:
            tables.leases.clear()
            tables.past.clear()
            tables.resources.clear()
        _update(tables.leases, self.leases)
        _update(tables.past, self.past)
        _update(tables.resources, self.resources)
        if self.fading is not None:
            tables.fading = self.fading
        if self.promised is not None:
            tables.promised = self.promised
        tables.stamp, tables.last_id = self.stamp, self.last_id


def empty() -> Tables:
    """Nothing is written yet."""
    return Tables({}, {}, {}, stamp=0, last_id=LeaseId(0))


class Store:
    """Transactions; those up to ``durable`` are promised."""

    def __init__(self) -> None:
        self._base = empty()
        self._apart: list[Transaction] = []
        self._folded = 0
        self.durable = 0

    @property
    def written(self) -> int:
        """How many there are."""
        return self._folded + len(self._apart)

    def append(self, transaction: Transaction) -> None:
        """One more, which is not promised yet."""
        self._apart.append(transaction)
        while len(self._apart) > _APART and self._folded < self.durable:
            self._apart.pop(0).write(self._base)
            self._folded += 1

    def prefixes(self) -> list[Tables]:
        """What there would be after each transaction, from some time ago until now."""
        tables = self._base.copy()
        found = [tables.copy()]
        for transaction in self._apart:
            transaction.write(tables)
            found.append(tables.copy())
        return found

    def fail(self, survive: int) -> Tables:
        """So many transactions survive, all others are lost; what is there then."""
        assert self.durable <= survive <= self.written, "what was promised is lost"
        del self._apart[survive - self._folded :]
        self.durable = survive
        return self.prefixes()[-1]


class Scribe:
    """Writes down what an engine says has changed, in one transaction when it is asked to."""

    def __init__(self, engine: Engine, graced: Iterable[LeaseId] = ()) -> None:
        self._engine = engine
        self._graced = set(graced)
        self._leases: dict[LeaseId, None] = {}
        self._resources: dict[str, bool] = {}
        self._marks: dict[str, int | None] = {}
        self._faded = False

    def observe(self, effects: Sequence[Effect]) -> None:
        """Note what is not as it was."""
        for effect in effects:
            match effect:
                case Granted(repeated=False) | LeaseEnded() | Refunded():
                    self._leases[effect.lease] = None
                    self._touch(effect.grants)
                    self._faded |= isinstance(effect, Refunded)
                case LeaseExtended():
                    self._leases[effect.lease] = None
                    self._graced.discard(effect.lease)
                case LeaseOrphaned():
                    self._leases[effect.lease] = None
                case Released():
                    # Their request ids may be free now.
                    self._leases.update(dict.fromkeys([result.lease for result in effect.results]))
                case Frozen():
                    self._leases.update(dict.fromkeys(map(LeaseId, range(1, self._engine.last_id + 1))))
                case Reconfigured():
                    self._faded = True
                    # Also those that are remembered no longer, since they are as good as new.
                    self._resources.update(dict.fromkeys((*self._marks, *self._engine.remembered()), True))
                case _:
                    pass

    def transaction(self, now: Nanos, *, heartbeat: bool = False) -> Transaction | None:
        """All that has changed, if anything has, or if it is time for a sign of life."""
        resources = {name: self._engine.remember(name, now=now) for name in self._must_be_written(late=heartbeat)}
        if not (self._leases or resources or self._faded or heartbeat):
            return None
        transaction = Transaction(
            leases={id_: self._row(id_) for id_ in self._leases},
            past={id_: self._engine.past(id_) for id_ in self._leases},
            resources=resources,
            stamp=now,
            last_id=self._engine.last_id,
            fading=self._engine.fading(now=now) if self._faded else None,
        )
        self._faded = False
        self._leases.clear()
        return transaction

    def everything(self, now: Nanos, promise: Nanos) -> Transaction:
        """All there is, of a clock of which nothing has been written yet, and what clients are promised from now on."""
        self._leases.update(dict.fromkeys(map(LeaseId, range(1, self._engine.last_id + 1))))
        self._resources.update(dict.fromkeys(self._engine.remembered(), True))
        self._faded = True
        transaction = self.transaction(now)
        assert transaction is not None or not self._engine.last_id
        return replace(transaction or Transaction({}, {}, {}, now, self._engine.last_id), anew=True, promised=promise)

    def _row(self, lease: LeaseId) -> Row | None:
        held = self._engine.held(lease)
        return None if held is None else Row(held, graced=lease in self._graced)

    def _touch(self, grants: tuple[Grant, ...]) -> None:
        for grant in grants:
            self._resources.setdefault(grant.resource, False)

    def _must_be_written(self, *, late: bool) -> list[str]:
        """Of the resources that have changed, those with a new mark; all of them, if the last time was long ago."""
        names = []
        for name, urgent in list(self._resources.items()):
            marks = self._engine.marks(name)
            if urgent or late or marks != self._marks.get(name):
                names.append(name)
                self._marks[name] = marks
                if marks is None:
                    del self._marks[name]
                del self._resources[name]
        return names


def _update(table: dict[K, V], changes: dict[K, V | None]) -> None:
    for key, row in changes.items():
        if row is None:
            table.pop(key, None)
        else:
            table[key] = row
