"""The machine of ``test_machine.py`` with operators who step in at any moment."""

from collections import Counter
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from governor.core.effects import Denied, Granted, Reconfigured, ReconfigureRefused
from governor.core.events import (
    Quarantine,
    Readmit,
    Reconfigure,
    Recycle,
    Revoke,
    SetOverride,
    SetStanding,
    Wake,
)
from governor.core.kinds.pool import PoolSpec
from governor.core.limit import LimitSpec
from governor.core.resource import ResourceSpec
from governor.core.types import Claim, Nanos, Standing
from tests.core.anything import NAMES, any_name, extremes, lengths, mostly, other_resources, rate_limits, semaphores
from tests.core.compared import compared
from tests.core.test_machine import EngineMachine, many

CLOSED: Final = (Standing.PAUSED, Standing.PAUSED, Standing.DRAINING)


class OperatorMachine(EngineMachine):
    """Anything may happen next, and somebody means well."""

    @precondition(lambda self: self.record.leases)
    @rule(data=st.data())
    def revoke(self, data: st.DataObject) -> None:
        """Leases end, and perhaps some that are not there."""
        self.do(Revoke(self.some_leases(data)))

    def some_resource(self, data: st.DataObject, *kinds: str) -> str:
        """The name of one that is there, of these kinds if there is any; rarely of one that is not."""
        names = [name for name, r in self.model.resources.items() if not kinds or r.spec.kind in kinds]
        return data.draw(any_name(tuple(names or NAMES)))

    @rule(data=st.data(), standing=st.sampled_from(CLOSED))
    def close(self, data: st.DataObject, standing: Standing) -> None:
        """A resource is paused or drained."""
        self.do(SetStanding(self.some_resource(data), standing))

    @precondition(lambda self: self.model.line)
    @rule(data=st.data(), standing=st.sampled_from(CLOSED))
    def close_where_somebody_waits(self, data: st.DataObject, standing: Standing) -> None:
        """So is one of those that somebody waits for."""
        claims = [claim for place in self.model.line for claim in place.ask.claims]
        self.do(SetStanding(data.draw(st.sampled_from(claims)).resource, standing))

    @precondition(lambda self: any(resource.closed for resource in self.model.resources.values()))
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        """What was closed is open again."""
        closed = [name for name, resource in self.model.resources.items() if resource.closed]
        self.do(SetStanding(data.draw(st.sampled_from(closed)), Standing.OPEN))

    @rule(data=st.data(), length=mostly(9, lengths, st.just(0)), limit=st.one_of(semaphores, rate_limits, extremes))
    def override(self, data: st.DataObject, length: Nanos, limit: LimitSpec) -> None:
        """Another limit is in force, mostly of the kind that the resource is."""
        self.do(SetOverride(self.some_resource(data, limit.kind), limit, self.now + length))

    @rule(data=st.data(), length=lengths, semaphore=semaphores, rate_limit=rate_limits)
    def override_and_ask(self, data: st.DataObject, length: Nanos, semaphore: LimitSpec, rate_limit: LimitSpec) -> None:
        """Another limit is in force, and two want all there is of it, one of them for long."""
        name = self.some_resource(data, "semaphore", "rate_limit")
        there = self.model.resources.get(name)
        limit = rate_limit if there is not None and there.spec.kind == "rate_limit" else semaphore
        self.do(SetOverride(name, limit, self.now + length))
        most = limit.build(0).largest or 1
        for wait in (0, None):
            self.ask((Claim(name, most),), "", wait, None, "")

    @precondition(lambda self: any(resource.override for resource in self.model.resources.values()))
    @rule(data=st.data(), again=st.booleans())
    def clear_override(self, data: st.DataObject, again: bool) -> None:  # noqa: FBT001 - Hypothesis passes by name
        """It is taken back, or said again word for word."""
        names = [name for name, resource in self.model.resources.items() if resource.override]
        name = data.draw(st.sampled_from(names))
        override = self.model.resources[name].override
        assert override is not None
        self.do(SetOverride(name, override.limit, override.until) if again else SetOverride(name, None))

    @rule(
        data=st.data(),
        member=mostly(9, st.sampled_from("abcd"), st.just("nobody")),
        length=mostly(9, st.one_of(st.none(), lengths), st.just(0)),
        order=st.sampled_from((Recycle, Quarantine, Readmit)),
    )
    def steer_a_member(
        self, data: st.DataObject, member: str, length: Nanos | None, order: type[Recycle | Quarantine | Readmit]
    ) -> None:
        """A member of a pool is recycled, kept out or let in again; or all are recycled."""
        name = self.some_resource(data, "pool")
        spec = self.model.resources[name].spec.limit if name in self.model.resources else None
        if member != "nobody" and isinstance(spec, PoolSpec) and spec.members:
            member = data.draw(st.sampled_from([each.id for each in spec.members]))
        if order is Recycle:
            self.do(Recycle(name, None if length is None else member))
        elif order is Quarantine:
            self.do(Quarantine(name, member, None if length is None else self.now + length))
        else:
            self.do(Readmit(name, member))

    @rule(specs=other_resources)
    def compare_and_reconfigure(self, specs: tuple[ResourceSpec, ...]) -> None:
        """What a comparison says that a reload would do is what it does, and the comparison itself does nothing."""
        self.do(Wake())
        before = self.engine.snapshot(now=self.now)
        waiting = set(self.engine.waiting(None))
        said = {each.resource: each for each in compared(self.engine.compare(specs), self.now)}
        assert self.engine.snapshot(now=self.now) == before
        effects = [effect for effect in self.do(Reconfigure(specs)) if getattr(effect, "ticket", 0) in {0, *waiting}]

        if any(isinstance(effect, ReconfigureRefused) for effect in effects):
            assert any(each.problem for each in said.values())
            return
        changed = next(effect for effect in effects if isinstance(effect, Reconfigured))
        assert set(said) == {*changed.added, *changed.changed, *changed.removed}
        refused = Counter(effect.denial.resource for effect in effects if isinstance(effect, Denied))
        granted = Counter(
            grant.resource for effect in effects if isinstance(effect, Granted) for grant in effect.grants
        )
        after = {shown.name: shown for shown in self.engine.snapshot(now=self.now).resources}
        for name, each in said.items():
            over = 0 if each.after is None else after[name].over_limit
            assert (each.refused, each.granted, each.over_limit, each.problem) == (
                refused[name],
                granted[name],
                over,
                "",
            )


TestOperators = OperatorMachine.TestCase
TestOperators.settings = many(150, 40)
