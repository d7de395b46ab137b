"""Run: one world from its seed to its end, and what is wrong with its history.

It knows what befalls a world. It must never judge: that is for the checker, which sees no more than the clients saw.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from governor.core.events import Wake
from governor.core.kinds.pool import MemberSpec, Order, PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec
from governor.core.resource import ResourceSpec
from governor.core.types import MILLISECOND, SECOND, Nanos
from tests.history.check import check
from tests.history.log import Bound, Declared, History
from tests.simulate.client import Client
from tests.simulate.daemon import Daemon
from tests.simulate.manner import Declaration, Manner
from tests.simulate.world import Life, World

LENGTH: Final = 40 * SECOND


@dataclass(slots=True)
class Outcome:
    """What became of a world: what is wrong with it, and how much there was to see."""

    problems: list[str]
    history: History
    boots: int
    freezes: int


def run(seed: int, but: Callable[[Manner], Manner] = lambda drawn: drawn) -> Outcome:
    """All that follows from this seed, and from what is not as it was drawn."""
    world = World(seed)
    chance = world.chance
    drawn = Manner(
        at_once=chance.choice((1, 2, 1000)),
        to_disk=chance.choice((0, 0, 5 * MILLISECOND, 300 * MILLISECOND)),
        dies=chance.choice((0, 0.002, 0.02)),
        reloads=chance.choice((None, world.between(SECOND, LENGTH))),
    )
    history, manner = History(), but(drawn)
    daemon = Daemon(world, manner, first(world), partial(obeyed, world, history))
    for number in range(chance.randint(2, 7)):
        world.live(Client(f"client-{number}", world, daemon, history).life())
    world.live(deaths(world, daemon))
    world.live(stops(world, daemon))
    if manner.reloads is not None:
        world.live(reloads(world, daemon, history, manner.reloads))
    problems = []
    try:
        world.run(LENGTH)
        all_gone(daemon)
    except AssertionError as error:
        problems.append(f"{world.now}: the engine itself: {error!r}")
    problems += check(history)
    return Outcome(problems, history, daemon.boots + 1, daemon.freezes)


# --- what befalls it ----------------------------------------------------------------------------------------------


def deaths(world: World, daemon: Daemon) -> Life:
    """It is killed, and started again sooner or later."""
    often = world.between(2 * SECOND, 2 * LENGTH)
    while True:
        yield world.between(often // 10, often)
        daemon.die(world.between(10 * MILLISECOND, 5 * SECOND))


def stops(world: World, daemon: Daemon) -> Life:
    """It is stopped, for longer than anybody can miss, or not."""
    often = world.between(2 * SECOND, 2 * LENGTH)
    while True:
        yield world.between(often // 10, often)
        daemon.stop(world.between(10 * MILLISECOND, 10 * SECOND))


def reloads(world: World, daemon: Daemon, history: History, often: Nanos) -> Life:
    """The operator writes something else; until it is obeyed, what was before is in force as well."""
    while True:
        yield world.between(often // 10, often)
        daemon.declare(other(world, daemon.declared))
        history.declared.append(promised(daemon.declared, world.now))


def obeyed(world: World, history: History, declared: Declaration) -> None:
    """From now on this is in force, and nothing else."""
    in_force = promised(declared, world.now)
    former = [each for each in history.declared if each.until > world.now]
    same = next(
        (each for each in former if (each.bounds, each.max_lease) == (in_force.bounds, in_force.max_lease)), None
    )
    for each in former:
        if each is not same:
            each.until = world.now
    if same is None:
        history.declared.append(in_force)


def all_gone(daemon: Daemon) -> None:
    """I10: when nobody comes any more and the last lease is over, there is nothing left."""
    engine, now = daemon.engine, daemon.clock
    while (due := engine.next_deadline()) is not None:
        now = max(now, due)
        engine.handle(Wake(), now=now)
        engine.check(now=now)
    snapshot = engine.snapshot(now=now)
    assert (snapshot.leases, snapshot.waiters) == (0, 0), "I10: something is left"
    assert all(shown.in_use == 0 for shown in snapshot.resources), "I10: something is still lent"


# --- what is declared ---------------------------------------------------------------------------------------------


def first(world: World) -> Declaration:
    """Some resources."""
    specs = tuple([resource(world, name, make(world)) for name, make in _LIMITS.items()])
    return Declaration(specs, _restart_grace(world), _most(world))


def other(world: World, before: Declaration) -> Declaration:
    """What is declared instead: any setting may be another, of some resource; or that is removed, or there again.

    Now and then only what its clients are told besides its limit, or what the daemon says of all of them.
    """
    chance, specs = world.chance, before.specs
    if chance.random() < 0.3:
        return replace(before, restart_grace=_restart_grace(world), max_lease=_most(world))
    changed = chance.choice(("db", "db", "jobs", "conn", "conn", "api"))
    former = next((spec for spec in specs if spec.name == changed), None)
    rest = tuple([spec for spec in specs if spec is not former])
    if former is None:
        return replace(before, specs=(*rest, resource(world, changed, _LIMITS[changed](world))))
    if rest and chance.random() < 0.25:
        return replace(before, specs=rest)
    if chance.random() < 0.5:
        return replace(before, specs=(*rest, resource(world, changed, former.limit)))
    make = chance.choice((semaphore, pool, rate_limit)) if chance.random() < 0.1 else _LIMITS[changed]
    return replace(before, specs=(*rest, resource(world, changed, make(world))))


def _restart_grace(world: World) -> Nanos:
    return world.chance.choice((0, 200 * MILLISECOND, 5 * SECOND))


def _most(world: World) -> Nanos | None:
    return world.chance.choice((None, None, None, world.between(SECOND // 2, 20 * SECOND)))


def resource(world: World, name: str, limit: LimitSpec) -> ResourceSpec:
    """With the usual bounds, scaled to the length of a world."""
    longest = world.chance.choice((60 * SECOND, world.between(SECOND // 2, 20 * SECOND)))
    return ResourceSpec(
        name,
        limit,
        lease=min(longest, world.between(100 * MILLISECOND, 10 * SECOND)),
        max_lease=longest,
        on_disconnect=world.chance.choice((0, 500 * MILLISECOND, 2 * SECOND, 5 * SECOND, None)),
        max_wait=world.chance.choice((0, *[world.between(100 * MILLISECOND, 10 * SECOND)] * 9)),
        max_waiters=world.chance.choice((0, 1, 3, 1000, 1000, 1000)),
    )


def semaphore(world: World) -> LimitSpec:
    """A small one, or of none, or as many as anybody likes."""
    return SemaphoreSpec(world.chance.choice((0, None, *[1, 2, 3] * 6)))


def pool(world: World) -> LimitSpec:
    """Of a few members, with all that a pool knows to do; closed now and then."""
    chance = world.chance
    named = chance.sample(("east", "north", "south", "west"), chance.randint(1, 3))
    ids = chance.choice((named, named, named, [str(number) for number in range(1, chance.randint(1, 4))]))
    quarantine = chance.choice((0, world.between(10 * MILLISECOND, SECOND)))
    return PoolSpec(
        tuple([MemberSpec(id_, (("endpoint", chance.choice("ab")),), chance.randint(1, 2)) for id_ in ids]),
        chance.choice(list(Order)),
        quarantine=quarantine,
        max_quarantine=chance.choice((quarantine, 4 * SECOND)),
        max_lifetime=chance.choice((None, SECOND)),
        idle_timeout=chance.choice((None, SECOND)),
    )


def rate_limit(world: World) -> LimitSpec:
    """One or two windows, closed now and then, or none at all."""
    chance = world.chance
    count = chance.choice((0, *[1] * 9, *[2] * 6))
    periods = chance.sample((100 * MILLISECOND, SECOND, 5 * SECOND), count)
    if chance.random() < 0.05:
        return RateLimitSpec(tuple([Window(0, period, 0) for period in periods]))
    return RateLimitSpec(tuple([Window(chance.randint(1, 3), period, chance.randint(1, 4)) for period in periods]))


_LIMITS: Final[dict[str, Callable[[World], LimitSpec]]] = {
    "db": semaphore,
    "jobs": semaphore,
    "conn": pool,
    "api": rate_limit,
}


def promised(declared: Declaration, now: Nanos) -> Declared:
    """What clients are promised of these from now on."""
    bounds = {spec.name: bound(spec.limit) for spec in declared.specs}
    for spec in declared.specs:
        bounds[spec.name].max_wait = spec.max_wait
        if not bounds[spec.name].spent:
            bounds[spec.name].max_lease = spec.max_lease
    return Declared(bounds, since=now, max_lease=declared.max_lease or 0)


def bound(limit: LimitSpec) -> Bound:
    """What clients are promised of one."""
    match limit:
        case SemaphoreSpec(permits):
            return Bound(permits)
        case PoolSpec(members):
            slots = {member.id: member.max_leases for member in members}
            return Bound(sum(slots.values()), slots)
        case RateLimitSpec(windows):
            return Bound(windows=[(window.permits, window.period, window.burst) for window in windows], spent=True)
        case _:
            raise AssertionError(limit)
