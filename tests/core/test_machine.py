"""The invariants I1 to I11 of DESIGN.md, held against everything Hypothesis can think of doing to the engine.

Each step goes to the engine, to the dumb model of ``model.py`` and into the outsider's record of ``record.py``; all
three must agree. ``make test-long`` looks longer. A failure prints how to repeat it.
"""

from collections import Counter
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from governor.core.effects import Effect, OverrideOver, Reconfigured, ReconfigureRefused
from governor.core.engine import Engine
from governor.core.events import (
    Abandon,
    Acquire,
    Disconnect,
    Drain,
    Event,
    Freeze,
    Reconfigure,
    Release,
    Renew,
    ReserveIds,
    Seal,
    Wake,
)
from governor.core.resource import ResourceSpec
from governor.core.snapshot import Held, ResourceSnapshot
from governor.core.types import (
    Claim,
    LeaseId,
    Nanos,
    Outcome,
    TicketId,
)
from tests.core.anything import (
    CLIENTS,
    MS,
    NAMES,
    any_claims,
    first_resources,
    lengths,
    malformed_claims,
    other_resources,
    unusual,
    waits,
)
from tests.core.facts import fact
from tests.core.model import Model, Place
from tests.core.model_limits import DumbPool
from tests.core.reborn import reborn, written
from tests.core.record import Record, never_more


class EngineMachine(RuleBasedStateMachine):
    """Anything may happen next."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(first_id=LeaseId(1))
        self.model = Model()
        self.record = Record()
        self.now: Nanos = 0
        self.tickets = 0
        self.steps = 0
        # The instant that the engine was last told of, and what was in use before.
        self.seen: Nanos = 0
        self.in_use_before: dict[str, int] = {}
        # Whose overrides were over in the last step.
        self.overrides_over: set[str] = set()
        # Whether the engine and the model went apart; then there is nothing left to learn from this example.
        self.astray = False

    def do(self, event: Event) -> list[Effect]:
        """One step of all three; they must agree."""
        self.in_use_before = {name: self.record.in_use(name) for name in self.model.resources}
        self.steps += 1
        self.seen = self.now
        self.astray = True
        effects = self.engine.handle(event, now=self.now)
        self.record.take_down(event, effects, self.now)
        self.overrides_over = {effect.resource for effect in effects if isinstance(effect, OverrideOver)}
        expected = self.model.handle(event, self.now, effects)
        happened = [fact(effect) for effect in effects]
        missing = [one for one in expected if one not in happened]
        wrong = [one for one in happened if one not in expected]
        assert (missing, wrong) == ([], []), f"at {self.now}: missing {missing}; wrong {wrong}"
        assert len(happened) == len(expected)
        self.engine.check(now=self.now)
        self.astray = False
        return effects

    # --- what may happen --------------------------------------------------------------------------------------

    @initialize(specs=first_resources, ids=st.sampled_from((1000, 1000, 1000, 1000, 3)))
    def start(self, specs: tuple[ResourceSpec, ...], ids: int) -> None:
        """Some resources, and ids for a while."""
        self.do(ReserveIds(LeaseId(ids)))
        self.do(Reconfigure(specs))

    def ask(self, wanted: tuple[Claim, ...], client: str, wait: Nanos | None, lease: Nanos | None, id_: str) -> None:
        """A new ticket."""
        self.tickets += 1
        labels = (("for", client),) if client else ()
        self.do(Acquire(TicketId(self.tickets), wanted, client, wait, lease, id_, labels))

    def some_claims(self, data: st.DataObject) -> tuple[Claim, ...]:
        """Of what is declared, or in rare cases of what is not."""
        return data.draw(any_claims(tuple(self.record.declared)))

    @rule(data=st.data(), client=st.sampled_from(CLIENTS), wait=waits, lease=st.one_of(st.none(), lengths))
    def acquire(self, data: st.DataObject, client: str, wait: Nanos | None, lease: Nanos | None) -> None:
        """Somebody asks."""
        self.ask(self.some_claims(data), client, wait, lease, "")

    @rule(data=st.data(), crowd=st.lists(waits, min_size=2, max_size=4))
    def a_crowd_acquires(self, data: st.DataObject, crowd: list[Nanos | None]) -> None:
        """Several ask for the same, each with a patience of its own."""
        wanted = self.some_claims(data)
        for wait in crowd:
            self.ask(wanted, "", wait, None, "")

    @precondition(lambda self: len(self.record.declared) > 1)
    @rule(data=st.data(), crowd=st.integers(2, 4))
    def a_mixed_crowd_acquires(self, data: st.DataObject, crowd: int) -> None:
        """Several ask for different things, some of them for several at once, and are patient."""
        names = st.sampled_from(tuple(self.record.declared))
        wanted = st.lists(names, min_size=1, max_size=2, unique=True)
        for _ in range(crowd):
            self.ask(tuple(Claim(name, 1) for name in data.draw(wanted)), "", None, None, "")

    @rule(data=st.data(), client=st.sampled_from(CLIENTS), wait=waits, id_=st.sampled_from(("r1", "r2", "r3")))
    def acquire_by_id(self, data: st.DataObject, client: str, wait: Nanos | None, id_: str) -> None:
        """Somebody asks under a request id, perhaps one that was used for something else."""
        self.ask(self.some_claims(data), client, wait, None, id_)

    @precondition(lambda self: any(asked.ask.request_id for asked in self.record.asked.values()))
    @rule(data=st.data(), wait=waits)
    def acquire_again(self, data: st.DataObject, wait: Nanos | None) -> None:
        """Somebody repeats an ask word for word."""
        asks = [asked.ask for asked in self.record.asked.values() if asked.ask.request_id]
        ask = data.draw(st.sampled_from(asks))
        self.ask(ask.claims, ask.client, wait, ask.lease, ask.request_id)

    @precondition(lambda self: self.steps % 7 == 0)
    @rule(wanted=malformed_claims, id_=st.sampled_from(("", "r1")))
    def acquire_nonsense(self, wanted: tuple[Claim, ...], id_: str) -> None:
        """Somebody asks for what nobody could mean."""
        self.ask(wanted, "", None, None, id_)

    @precondition(lambda self: self.steps % 7 == 1)
    @rule(
        data=st.data(),
        odd=st.sampled_from(((-1, None), (None, MS - 1), (None, 0), (None, 20 * MS), (None, 20 * MS + 1))),
    )
    def acquire_for_odd_times(self, data: st.DataObject, odd: tuple[Nanos | None, Nanos | None]) -> None:
        """Somebody asks for a wait or a lease at or beyond the edge of what is allowed."""
        self.ask(self.some_claims(data), "", odd[0], odd[1], "")

    @precondition(lambda self: self.tickets)
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        """Whoever held some ticket, in whatever state, is gone."""
        self.do(Abandon(TicketId(data.draw(st.integers(0, self.tickets)))))

    @precondition(lambda self: self.model.line)
    @rule(data=st.data())
    def abandon_in_line(self, data: st.DataObject) -> None:
        """Whoever waited is gone."""
        place: Place = data.draw(st.sampled_from(self.model.line))
        self.do(Abandon(data.draw(st.sampled_from(place.tickets))))

    def some_leases(self, data: st.DataObject) -> tuple[LeaseId, ...]:
        """Live ones for the most part, and others."""
        live = [LeaseId(lease.grant.lease) for lease in self.record.live()]
        known = [*live, *live, *self.record.leases, LeaseId(0), LeaseId(10**9)]
        return tuple(data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=4)))

    @precondition(lambda self: self.record.leases)
    @rule(data=st.data(), outcome=st.sampled_from(Outcome), settled=st.booleans())
    def release(self, data: st.DataObject, outcome: Outcome, settled: bool) -> None:  # noqa: FBT001 - as above
        """Somebody gives leases back, and perhaps some that are not there."""
        self.do(Release(self.some_leases(data), outcome, settled))

    @precondition(lambda self: self.record.leases)
    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        """Whoever held some leases is gone, whether or not all of them are there."""
        self.do(Disconnect(self.some_leases(data)))

    @precondition(lambda self: self.record.live())
    @rule(outcome=st.sampled_from(Outcome))
    def release_oldest(self, outcome: Outcome) -> None:
        """Whoever has held longest gives back."""
        self.do(Release((self.record.live()[0].grant.lease,), outcome))

    @precondition(lambda self: self.record.leases)
    @rule(
        data=st.data(),
        lease=st.one_of(st.none(), lengths, st.sampled_from((0, MS - 1, 20 * MS, 20 * MS + 1))),
        most=st.one_of(st.none(), st.sampled_from((MS, 7 * MS))),
    )
    def renew(self, data: st.DataObject, lease: Nanos | None, most: Nanos | None) -> None:
        """Somebody renews leases, and perhaps some that are not there."""
        self.do(Renew(self.some_leases(data), lease, most))

    @rule(step=st.one_of(st.sampled_from((1, MS, MS - 1, 5 * MS)), lengths), look=st.booleans())
    def time_passes(self, step: Nanos, look: bool) -> None:  # noqa: FBT001 - Hypothesis passes by name
        """A little time passes, whether or not a timer fires."""
        self.now += step
        if look:
            self.do(Wake())

    @precondition(lambda self: self.model.due())
    @rule(data=st.data(), off=st.sampled_from((0, 0, 0, -1, 1)))
    def time_passes_to_a_deadline(self, data: st.DataObject, off: Nanos) -> None:
        """Time passes to the very instant at which something is due, or to just before or after."""
        instants = sorted({at for at, _, _ in self.model.due()})
        self.now = max(self.now, data.draw(st.sampled_from(instants)) + off)
        if data.draw(st.booleans()):
            self.do(Wake())

    @rule()
    def timer_fires(self) -> None:
        """The timer fires at the instant that the engine asked for, and is armed for a later one."""
        due = self.engine.next_deadline()
        if due is not None:
            self.now = max(self.now, due)
            self.do(Wake())
            after = self.engine.next_deadline()
            assert after is None or after > self.now, "a timer armed for what is over would never rest"

    @precondition(lambda self: self.model.line and self.steps % 5 == 0)
    @rule()
    def long_silence(self) -> None:
        """Everybody sleeps for a long time, and nobody looks."""
        self.now += 1000 * MS

    @precondition(lambda self: self.steps % 7 == 2)
    @rule(specs=other_resources)
    def reconfigure(self, specs: tuple[ResourceSpec, ...]) -> None:
        """The operator declares something else."""
        effects = self.do(Reconfigure(specs))
        for effect in effects:
            if isinstance(effect, ReconfigureRefused):
                stuck = [s.name for s in specs if self.kind_in_use(s.name) not in {None, s.kind}]
                assert all(any(name in problem for problem in effect.problems) for name in stuck)

    def kind_in_use(self, name: str) -> str | None:
        """The kind of a resource that something is lent of."""
        return self.model.resources[name].spec.kind if self.model.held(name) else None

    @precondition(lambda self: self.steps % 5 == 3)
    @rule(data=st.data(), gone=st.booleans())
    def reconfigure_one(self, data: st.DataObject, gone: bool) -> None:  # noqa: FBT001 - Hypothesis passes by name
        """The operator changes, adds or removes one resource and leaves the others as they are."""
        name = data.draw(st.sampled_from(NAMES))
        others = [spec for spec in self.record.declared.values() if spec.name != name]
        self.do(Reconfigure((*others, *(() if gone and len(others) > 1 else (data.draw(unusual[name]),)))))

    @precondition(lambda self: self.steps % 7 == 3)
    @rule()
    def reconfigure_nothing(self) -> None:
        """The operator writes the same file again."""
        effects = self.do(Reconfigure(tuple(self.record.declared.values())))
        assert [effect for effect in effects if isinstance(effect, Reconfigured)] == [Reconfigured((), (), ())]

    @precondition(lambda self: self.steps % 7 == 4 or not self.ids_left())
    @rule(more=st.sampled_from((1, 2, 1000)))
    def reserve_ids(self, more: int) -> None:
        """The shell has put a higher ceiling on record."""
        self.do(ReserveIds(LeaseId(self.model.ceiling + more)))

    @precondition(lambda self: self.model.sealed or self.steps % 11 == 6)
    @rule()
    def seal(self) -> None:
        """What is granted cannot be put on record, or it can again."""
        self.do(Seal(sealed=not self.model.sealed))

    @precondition(lambda self: self.tickets > 12 and self.steps % 7 == 5)
    @rule()
    def drain(self) -> None:
        """The daemon is told to stop."""
        self.do(Drain())

    @precondition(lambda self: self.steps % 7 == 6)
    @rule(length=lengths, look=st.booleans())
    def freeze(self, length: Nanos, look: bool) -> None:  # noqa: FBT001 - Hypothesis passes by name
        """Nothing was done for a while; whatever was due meanwhile has not happened."""
        self.now += length
        self.do(Freeze(length if look else 1000 * MS))

    @precondition(lambda self: self.steps % 5 == 4)
    @rule()
    def restart(self) -> None:
        """I12: the daemon dies, and another one goes on from what was written; nobody can tell but who waited."""
        self.do(Wake())
        for ticket in [ticket for place in reversed(self.record.places) for ticket in place]:
            self.do(Abandon(ticket))
        book = written(self.engine, self.now)
        ceiling = LeaseId(self.model.ceiling)
        declared = self.record.declared.values()
        self.engine, effects = reborn(book, declared, now=self.now, ceiling=ceiling)
        gone = [kept.spec.name for kept in book.resources if kept.spec.name not in self.record.declared]
        lent = {name for name, resource in self.model.resources.items() if resource.removed}
        assert effects[1:] == [Reconfigured((), (), tuple(gone))]
        assert lent == set(gone)
        self.model.restart()
        self.record.restarted()
        self.engine.check(now=self.now)

    # --- what must always hold --------------------------------------------------------------------------------

    def shown(self) -> dict[str, ResourceSnapshot]:
        """What the engine shows of the instant that it was last told of."""
        return {r.name: r for r in self.engine.snapshot(now=self.seen).resources}

    @invariant()
    def i1_in_use_is_the_sum_over_live_leases(self) -> None:
        """In use is the sum over live leases; beyond the capacity only what a shrink left, and that never rises."""
        for name, shown in self.shown().items():
            assert shown.in_use == self.record.in_use(name)
            over = 0 if shown.capacity is None else max(0, shown.in_use - shown.capacity)
            assert shown.over_limit == over
            # Whoever was granted as of before the end of an override in this step was not too many then.
            if over and not shown.removed and name not in self.overrides_over:
                assert shown.in_use <= self.in_use_before.get(name, 0)

    @invariant()
    def i2_no_permit_is_both_free_and_lent(self) -> None:
        """Free and lent permits together are no more than there are, and no member is lent beyond its share."""
        lent = Counter(
            (grant.resource, member.id)
            for lease in self.record.live()
            for grant in lease.grant.grants
            for member in grant.members
        )
        for name, shown in self.shown().items():
            if shown.capacity is not None:
                assert shown.available is not None
                assert 0 <= shown.available <= shown.capacity
                assert shown.available + shown.in_use <= max(shown.capacity, shown.in_use)
            limit = self.model.resources[name].limit
            if isinstance(limit, DumbPool):
                assert shown.members is not None
                states = (shown.members.free, shown.members.lent, shown.members.quarantined)
                assert sum(states) == len(limit.spec.members)
                for id_, own in limit.members.items():
                    assert lent[name, id_] == own.lent

    @invariant()
    def i3_no_lost_wake_up(self) -> None:
        """Nobody waits at the head of all its lines for permits that could all be taken."""
        shown = self.shown()
        busy: set[str] = set()
        for place in self.record.places:
            wanted = self.record.asked[place[0]].ask.claims
            if not busy & {claim.resource for claim in wanted} and self.ids_left():
                free = [shown[claim.resource].available for claim in wanted]
                short = [n is not None and n < claim.permits for n, claim in zip(free, wanted, strict=True)]
                assert any(short), f"tickets {place} wait for what is free"
            busy |= {claim.resource for claim in wanted}

    def ids_left(self) -> bool:
        """Whether a lease could have a number, and be put on record."""
        return not self.model.sealed and max(self.record.leases, default=0) < self.model.ceiling

    @invariant()
    def i4_grants_follow_the_line(self) -> None:
        """Whoever was granted had nobody before it in any of its lines (the record says when it was not so)."""
        waiting = [self.record.asked[ticket] for place in self.record.places for ticket in place]
        assert all(asked.end == "" for asked in waiting)

    @invariant()
    def i5_an_abandoned_ticket_is_never_granted(self) -> None:
        """A ticket that was abandoned in line has left it for good."""
        waiting = {ticket for place in self.record.places for ticket in place}
        assert not self.record.abandoned & waiting

    @invariant()
    def i6_everything_ends_exactly_once(self) -> None:
        """Every ticket waits or has ended once, every lease lives or has ended once."""
        waiting = sum(map(len, self.record.places))
        ended = sum(self.record.counters[how] for how in ("granted", "denied", "abandoned"))
        assert waiting + ended == len(self.record.asked) == self.tickets

    @invariant()
    def i7_lease_ids_rise(self) -> None:
        """Later leases have higher numbers, and none is above the ceiling."""
        ids = list(self.record.leases)
        assert ids == sorted(ids)
        assert max(ids, default=0) <= self.model.ceiling

    @invariant()
    def i8_one_request_id_one_lease(self) -> None:
        """No request id has two live leases, or waits while it has one."""
        names = [(lease.ask.client, lease.ask.request_id) for lease in self.record.live()]
        names += [(ask.client, ask.request_id) for ask in (self.record.asked[p[0]].ask for p in self.record.places)]
        assert max(Counter(name for name in names if name[1]).values(), default=1) == 1

    @invariant()
    def i9_no_window_grants_more_than_it_may(self) -> None:
        """Any stretch of time saw at most burst + rate × time, and no idle time saves up more than a burst."""
        shown = self.shown()
        for (name, window), spent in self.record.spent.items():
            never_more(window, spent)
            available = shown[name].available
            assert available is not None
            assert available <= window.burst

    @invariant()
    def i11_metrics_equal_the_state(self) -> None:
        """What a counter of effects says is what the snapshot shows."""
        snapshot = self.engine.snapshot(now=self.seen)
        assert snapshot.leases == self.record.counters["leases granted"] - self.record.counters["leases ended"]
        assert snapshot.waiters == len(self.record.places)
        assert snapshot.draining == self.model.draining
        assert [shown.name for shown in snapshot.resources] == list(self.model.resources)
        for shown in snapshot.resources:
            self.resource_is_as_the_model_has_it(shown)

    def resource_is_as_the_model_has_it(self, shown: ResourceSnapshot) -> None:
        """Every number that is shown of one resource, counted the slow way."""
        resource = self.model.resources[shown.name]
        spec, limit = resource.spec, resource.limit
        capacity = 0 if resource.removed else limit.capacity()
        line = [p for p in self.model.line if any(c.resource == shown.name for c in p.ask.claims)]
        assert shown == ResourceSnapshot(
            name=spec.name,
            kind=spec.kind,
            lends=limit.lends,
            capacity=capacity,
            in_use=limit.in_use,
            over_limit=0 if capacity is None else max(0, limit.in_use - capacity),
            available=0 if resource.closed else limit.available(self.seen),
            leases=len(self.model.held(shown.name)),
            waiters=len(line),
            oldest_wait=self.seen - line[0].since if line else None,
            members=shown.members,
            removed=resource.removed,
            standing=resource.standing,
            override=resource.override,
            spec=resource.in_force,
            declared=spec,
            lease=spec.lease,
            max_wait=spec.max_wait,
            max_waiters=spec.max_waiters,
        )

    @invariant()
    def a_look_shows_what_the_model_has(self) -> None:
        """What is held is what lives, and where somebody stands in line is what an ask of now would be told."""
        for id_, lease in self.model.leases.items():
            if lease.ended is not None:
                assert self.engine.held(id_) is None
                continue
            assert lease.deadline is not None
            grants = tuple(lease.grants[claim.resource] for claim in lease.ask.claims)
            length = self.model.renewal(lease)
            assert self.engine.held(id_) == Held(
                id_,
                grants,
                lease.deadline,
                lease.ask.client,
                length,
                lease.ask.request_id,
                lease.ask.labels,
                lease.length,
                lease.granted,
                lease.waited,
                lease.orphaned,
                tuple(name for name, limit in lease.limits.items() if not limit.lends),
            )
        waiting = {ticket: place for place in self.model.line for ticket in place.tickets}
        for ticket in map(TicketId, range(self.tickets + 1)):
            stands = self.model.stands(waiting[ticket], self.seen) if ticket in waiting else None
            assert self.engine.place(ticket, now=self.seen) == stands

    @invariant()
    def the_next_deadline_is_never_late(self) -> None:
        """Whatever is due next, the engine asks to be woken by then; with nothing due it asks for nothing."""
        due = self.model.due()
        assert not due or self.engine.due_before(due[0][0] + 1)
        asked = self.engine.next_deadline()
        assert (asked is None) == (not due)
        if asked is not None:
            assert asked <= due[0][0]

    def i10_all_gone_leaves_nothing(self) -> None:
        """When all clients are gone and the longest lease is over, nothing is in use, waits, or is armed."""
        for ticket in [ticket for place in self.record.places for ticket in place]:
            self.do(Abandon(ticket))
        while (due := self.engine.next_deadline()) is not None:
            assert due > self.now or self.seen < self.now
            self.now = max(self.now, due)
            self.do(Wake())

        snapshot = self.engine.snapshot(now=self.now)
        assert (snapshot.leases, snapshot.waiters) == (0, 0)
        assert all((r.in_use, r.leases, r.waiters, r.removed) == (0, 0, 0, False) for r in snapshot.resources)
        assert not self.record.live()
        assert not self.record.places

    def teardown(self) -> None:
        """Every example ends with everybody gone."""
        if not self.astray:
            self.i10_all_gone_leaves_nothing()


LONG: Final = settings.get_current_profile_name() == "long"
PROFILE: Final = settings.get_profile("long")


def many(examples: int, steps: int) -> settings:
    """So many as a rule, and very many when there is time."""
    return settings(
        max_examples=PROFILE.max_examples if LONG else examples,
        stateful_step_count=2 * steps if LONG else steps,
        print_blob=True,
    )


TestEngine = EngineMachine.TestCase
TestEngine.settings = many(250, 40)
