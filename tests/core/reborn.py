"""What is written down of an engine, as a store would, and the engine that begins where that one ended.

It knows what must outlive a restart, and the order in which it is taken over. It must never know why.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from governor.core.effects import Effect, Reconfigured, Restored
from governor.core.engine import Engine
from governor.core.events import Reconfigure, ReserveIds, Restore
from governor.core.resource import Remembered, ResourceSpec
from governor.core.snapshot import Held, Past
from governor.core.types import LeaseId, Nanos


@dataclass(frozen=True)
class Written:
    """All that is kept of an engine; its instants count as ``stamp`` does."""

    stamp: Nanos
    last_id: LeaseId
    leases: tuple[Held, ...]
    past: tuple[Past, ...]
    resources: tuple[Remembered, ...]
    fading: tuple[Remembered, ...]


def written(engine: Engine, now: Nanos) -> Written:
    """What there is to know, of every lease there ever was."""
    ids = [LeaseId(number) for number in range(1, engine.last_id + 1)]
    held, past = [engine.held(id_) for id_ in ids], [engine.past(id_) for id_ in ids]
    kept = [engine.remember(name, now=now) for name in engine.remembered()]
    return Written(
        stamp=now,
        last_id=engine.last_id,
        leases=tuple(lease for lease in held if lease is not None),
        past=tuple(sorted((lease for lease in past if lease is not None), key=lambda lease: lease.ended_at)),
        resources=tuple(resource for resource in kept if resource is not None),
        fading=engine.fading(now=now),
    )


def reborn(
    book: Written,
    declared: Iterable[ResourceSpec],
    *,
    now: Nanos,
    ceiling: LeaseId,
    grace: Nanos = 0,
    at_once: int = 1000,
) -> tuple[Engine, list[Effect]]:
    """An engine that goes on from there, as a daemon does that starts ``now``, and what it says on the way."""
    later = now - book.stamp
    leases = [
        replace(held, granted_at=held.granted_at + later, deadline=held.deadline + later + grace)
        for held in book.leases
    ]
    past = [replace(ended, ended_at=ended.ended_at + later) for ended in book.past]
    resources = [
        replace(
            kept,
            memory=json.loads(json.dumps(kept.memory)),
            at=kept.at + later,
            override=kept.override and replace(kept.override, until=kept.override.until + later),
        )
        for kept in book.resources
    ]
    fading = [replace(kept, memory=json.loads(json.dumps(kept.memory)), at=kept.at + later) for kept in book.fading]
    engine = Engine(first_id=book.last_id + 1, at_once=at_once)
    engine.handle(ReserveIds(ceiling), now=now)
    names = tuple([kept.spec.name for kept in book.resources])
    specs = tuple([kept.spec for kept in book.resources])
    assert engine.handle(Reconfigure(specs), now=now) == [Reconfigured(names, (), ())]
    restored = engine.handle(Restore(tuple(leases), tuple(resources), tuple(past), tuple(fading)), now=now)
    assert restored == [Restored(len(leases))], restored
    return engine, [*restored, *engine.handle(Reconfigure(tuple(declared)), now=now)]
