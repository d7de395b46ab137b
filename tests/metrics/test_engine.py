"""I11: metrics equal the state at every step, for random histories of the real engine."""

from collections import Counter
from random import Random
from typing import assert_never

import pytest

from governor.core.effects import Abandoned, Denied, Effect, Granted, LeaseEnded, Released, Renewed
from governor.core.engine import Engine
from governor.core.events import (
    Abandon,
    Acquire,
    Disconnect,
    Drain,
    Event,
    Reconfigure,
    Release,
    Renew,
    ReserveIds,
    Wake,
)
from governor.core.kinds.pool import MemberSpec, PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec
from governor.core.resource import ResourceSpec
from governor.core.snapshot import Snapshot
from governor.core.types import MILLISECOND, SECOND, Claim, EndReason, LeaseId, Nanos, TicketId
from governor.metrics import Metrics
from tests.metrics.reading import read

STEPS = 300
# Each name with the limits that a config may give it; of "jobs" one is of another kind.
LIMITS: dict[str, tuple[LimitSpec, ...]] = {
    "jobs": (SemaphoreSpec(2), SemaphoreSpec(5), SemaphoreSpec(1), PoolSpec((MemberSpec("x"), MemberSpec("y")))),
    "db": (PoolSpec((MemberSpec("a"), MemberSpec("b", (), 2))), PoolSpec((MemberSpec("a"),)), PoolSpec(())),
    "api": (RateLimitSpec((Window(2, SECOND, 3),)), RateLimitSpec((Window(1, 4 * SECOND, 2),)), RateLimitSpec(())),
}
# All that this test is about, so all that it has to come upon.
EXPECTED = {
    *("granted", "repeated", "abandoned", "malformed", "unknown_resource", "above_capacity", "none_free"),
    *("wait_over", "line_full", "hopeless", "draining", "request_id_reused", "lease_ended"),
    *("lease expired", "lease released", "lease disconnected"),
    *("id released", "id ended", "id unknown", "id renewed", "id refused"),
}


def declared(name: str, limit: LimitSpec) -> ResourceSpec:
    """One resource of a config."""
    return ResourceSpec(name, limit, 3 * SECOND, 60 * SECOND, SECOND, 5 * SECOND, max_waiters=2)


def outcome(ending: Granted | Denied | Abandoned) -> str:
    """How a ticket ended, in the words of the metrics."""
    match ending:
        case Granted():
            return "repeated" if ending.repeated else "granted"
        case Denied():
            return ending.denial.reason.value
        case Abandoned():
            return "abandoned"
        case _:
            assert_never(ending)


class History:
    """An engine with its metrics, and an account of our own of what was asked and answered."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now: Nanos = 0
        self.engine = Engine()
        self.shown = self.snapshot()
        self.metrics = Metrics(self.snapshot, version="1")
        self.last_ticket = 0
        self.waiting: dict[TicketId, Acquire] = {}
        self.ended: Counter[tuple[str, str]] = Counter()
        self.strays = 0
        self.seen: Counter[str] = Counter()

    def snapshot(self) -> Snapshot:
        """The state now."""
        return self.engine.snapshot(now=self.now)

    def next_event(self) -> Event:
        """Mostly what is in order, about what there is: what is not is over at once."""
        random = self.random
        roll = random.random()
        if roll < 0.55:
            return self.next_ask()
        if roll < 0.68:
            return Release(self.some_ids(), settled=random.random() < 0.2)
        if roll < 0.71:
            return Disconnect(self.some_ids())
        if roll < 0.80:
            return Renew(self.some_ids(), random.choice((None, SECOND, 50 * SECOND, 90 * SECOND)))
        if roll < 0.90:
            return Abandon(TicketId(max(1, self.last_ticket - random.randrange(5))))
        if roll < 0.97:
            return Wake()
        chosen = {name: random.choice((*limits, None)) for name, limits in LIMITS.items()}
        return Reconfigure(tuple(declared(name, limit) for name, limit in chosen.items() if limit))

    def next_ask(self) -> Acquire:
        """Few clients and request ids, so that asks are repeated."""
        random = self.random
        self.last_ticket += 1
        names = random.choices(("jobs", "db", "api", "guess"), (10, 10, 10, 1), k=random.choice((1, 1, 2, 0)))
        return Acquire(
            TicketId(self.last_ticket),
            tuple(Claim(name, random.choice((1, 1, 1, 1, 2, 2, 6, 0))) for name in names),
            random.choice(("", "one")),
            random.choice((None, None, None, None, 0, SECOND // 2)),
            random.choice((None, None, MILLISECOND, 50 * SECOND)),
            random.choice(("", "", "", "p", "q")),
        )

    def some_ids(self) -> tuple[LeaseId, ...]:
        """Ids of the last few leases, and of one that never was."""
        last = self.engine.last_id
        return tuple(LeaseId(max(1, last + 1 - self.random.randrange(8))) for _ in range(self.random.choice((1, 1, 2))))

    def step(self, event: Event) -> None:
        """Let it happen, note it down, and compare."""
        if isinstance(event, Acquire):
            self.waiting[event.ticket] = event
        effects = self.engine.handle(event, now=self.now)
        self.metrics.observe(effects)
        for effect in effects:
            self.note(effect)
        self.forget()
        self.compare()

    def note(self, effect: Effect) -> None:
        """A ticket ends once, under each resource that it names and that there was before."""
        match effect:
            case Granted() | Denied() | Abandoned():
                ask = self.waiting.pop(effect.ticket)
                how = outcome(effect)
                self.seen[how] += 1
                named = {claim.resource for claim in ask.claims} & {resource.name for resource in self.shown.resources}
                self.ended.update((name, how) for name in named)
                self.strays += not named
            case LeaseEnded():
                self.seen[f"lease {effect.reason}"] += 1
            case Released(results) | Renewed(results):
                self.seen.update(f"id {result.state}" for result in results)
            case _:
                pass

    def forget(self) -> None:
        """What is gone, or of another kind now, starts anew; a scrape makes the metrics see it, too."""
        self.metrics.page()
        kinds = {resource.name: resource.kind for resource in self.shown.resources}
        self.shown = self.snapshot()
        stays = {resource.name for resource in self.shown.resources if kinds.get(resource.name) == resource.kind}
        self.ended = Counter({key: count for key, count in self.ended.items() if key[0] in stays})

    def compare(self) -> None:
        """The counters against the state and against our own account."""
        tallies = self.metrics._tallies
        assert set(tallies.by_resource) == {resource.name for resource in self.shown.resources}
        for resource in self.shown.resources:
            tally, name = tallies.by_resource[resource.name], resource.name
            ours = {how: count for (of, how), count in self.ended.items() if of == name}
            assert {how: count for how, count in tally.tickets.items() if count} == ours
            assert resource.waiters == self.places(name), f"{name}: who has not ended does not wait"
            if resource.kind == RateLimitSpec.kind:
                continue
            ends = tally.ends
            assert tally.tickets["granted"] - sum(ends.values()) == resource.leases, f"{name}: granted - ended"
            assert sum(tally.hold.counts) == sum(ends.values())
            assert sum(tally.lag.counts) == ends[EndReason.EXPIRED]
            assert sum(tally.margin.counts) >= ends[EndReason.RELEASED]
        held = Counter(view.client or "unnamed" for view in map(self.engine.lease, self.engine.lease_ids()) if view)
        assert {name: tally.leases for name, tally in tallies.clients.shown().items() if tally.leases} == held
        assert sum(tallies.strays.values()) == self.strays
        for state, count in (Counter(tallies.releases) + Counter(tallies.renewals)).items():
            assert count == self.seen[f"id {state}"]

    def places(self, name: str) -> int:
        """At how many places the tickets stand that have not ended; those of one request id share one."""
        asks = [ask for ask in self.waiting.values() if name in {claim.resource for claim in ask.claims}]
        return len({(ask.client, ask.request_id) if ask.request_id else ask.ticket for ask in asks})

    def run(self) -> None:
        """A history from the first declaration until nothing is lent and nobody waits."""
        self.step(ReserveIds(LeaseId(1_000_000)))
        self.step(Reconfigure(tuple(declared(name, limits[0]) for name, limits in LIMITS.items())))
        for _ in range(STEPS):
            self.now += self.random.choice((0, 0, 0, 0, 1, SECOND // 10, SECOND, 4 * SECOND))
            self.step(self.next_event())
        self.step(Drain())
        self.step(self.next_ask())
        while (due := self.engine.next_deadline()) is not None:
            self.now = max(self.now, due)
            self.step(Wake())


SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_i11_metrics_equal_the_state_at_every_step(seed: int) -> None:
    """What was granted and has not ended is lent, who asked and has no answer waits, and the page says so."""
    history = History(Random(seed))
    history.run()

    assert history.waiting == {}
    page = read(history.metrics)
    for resource in history.shown.resources:
        name = resource.name
        assert page.of("governor_waiters", resource=name) == 0
        tickets = sum(count for (of, _), count in history.ended.items() if of == name)
        assert sum(page.all("governor_acquires_total", resource=name)) == tickets
        if resource.kind != RateLimitSpec.kind:
            granted = page.of("governor_acquires_total", resource=name, outcome="granted")
            assert sum(page.all("governor_lease_ends_total", resource=name)) == granted
            assert page.of("governor_leases", resource=name) == page.of("governor_permits_in_use", resource=name) == 0


def test_the_histories_come_upon_everything() -> None:
    """All ways in which tickets, leases and ids can end; else the test above would not say much."""
    missing = set(EXPECTED)
    for seed in SEEDS:
        history = History(Random(seed))
        history.run()
        missing -= set(history.seen)
        if not missing:
            break

    assert missing == set()
