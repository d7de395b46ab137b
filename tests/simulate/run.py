"""Run: one world from its seed to its end, and what is wrong with its history.

It knows what befalls a world. It must never judge: that is for the checker, which sees no more than the clients saw.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from governor.core.events import Wake
from governor.core.kinds.pool import MemberSpec, Order, PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec
from governor.core.resource import ResourceSpec
from governor.core.types import MILLISECOND, SECOND
from tests.history.check import check
from tests.history.log import Bound, Declared, History
from tests.simulate.client import Client
from tests.simulate.daemon import Daemon, Manner
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
        grace=chance.choice((0, 200 * MILLISECOND, 5 * SECOND)),
    )
    daemon = Daemon(world, but(drawn), specs(world, ()))
    history = History(declared=[Declared(bounds(daemon.specs))])
    for number in range(chance.randint(2, 7)):
        world.live(Client(f"client-{number}", world, daemon, history).life())
    world.live(deaths(world, daemon))
    world.live(stops(world, daemon))
    if chance.random() < 0.5:
        world.live(reloads(world, daemon, history))
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


def reloads(world: World, daemon: Daemon, history: History) -> Life:
    """The operator writes something else; until it is obeyed, what was before is in force as well."""
    often = world.between(SECOND, LENGTH)
    while True:
        yield world.between(often // 10, often)
        before = [declared for declared in history.declared if declared.until > world.now]
        daemon.declare(specs(world, daemon.specs), partial(over, world, before))
        history.declared.append(Declared(bounds(daemon.specs), since=world.now))


def over(world: World, declared: list[Declared]) -> None:
    """From now on these are not in force any more."""
    for each in declared:
        each.until = world.now


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


def specs(world: World, before: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    """Some resources; if there were others before, one of them is changed, removed or added."""
    limits = {"db": semaphore, "jobs": semaphore, "conn": pool, "api": rate_limit}
    if not before:
        return tuple([resource(world, name, make(world)) for name, make in limits.items()])
    changed = world.chance.choice(("db", "db", "jobs", "conn", "conn", "api"))
    rest = tuple([spec for spec in before if spec.name != changed])
    gone = len(rest) > 1 and len(rest) < len(before) and world.chance.random() < 0.4
    return rest if gone else (*rest, resource(world, changed, limits[changed](world)))


def resource(world: World, name: str, limit: LimitSpec) -> ResourceSpec:
    """With the usual bounds, scaled to the length of a world."""
    return ResourceSpec(
        name,
        limit,
        lease=world.between(100 * MILLISECOND, 10 * SECOND),
        max_lease=60 * SECOND,
        on_disconnect=world.chance.choice((0, 500 * MILLISECOND, 2 * SECOND, None)),
        max_wait=world.between(100 * MILLISECOND, 10 * SECOND),
        max_waiters=world.chance.choice((1, 3, 1000)),
    )


def semaphore(world: World) -> LimitSpec:
    """A small one."""
    return SemaphoreSpec(world.chance.randint(1, 3))


def pool(world: World) -> LimitSpec:
    """Of a few members, with all that a pool knows to do."""
    chance = world.chance
    ids = chance.sample(("east", "north", "south", "west"), chance.randint(1, 3))
    return PoolSpec(
        tuple([MemberSpec(id_, (), chance.randint(1, 2)) for id_ in ids]),
        chance.choice(list(Order)),
        quarantine=world.between(10 * MILLISECOND, SECOND),
        max_quarantine=4 * SECOND,
        max_lifetime=chance.choice((None, SECOND)),
        idle_timeout=chance.choice((None, SECOND)),
    )


def rate_limit(world: World) -> LimitSpec:
    """One or two windows."""
    chance = world.chance
    periods = chance.sample((100 * MILLISECOND, SECOND, 5 * SECOND), chance.randint(1, 2))
    return RateLimitSpec(tuple([Window(chance.randint(1, 3), period, chance.randint(1, 4)) for period in periods]))


def bounds(declared: tuple[ResourceSpec, ...]) -> dict[str, Bound]:
    """What clients are promised of these."""
    return {spec.name: bound(spec.limit) for spec in declared}


def bound(limit: LimitSpec) -> Bound:
    """What clients are promised of one."""
    match limit:
        case SemaphoreSpec(permits):
            return Bound(permits)
        case PoolSpec(members):
            slots = {member.id: member.max_leases for member in members}
            return Bound(sum(slots.values()), slots)
        case RateLimitSpec(windows):
            return Bound(windows=[(window.permits, window.period, window.burst) for window in windows])
        case _:
            raise AssertionError(limit)
