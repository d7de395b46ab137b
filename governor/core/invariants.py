"""Invariants: what must be true of the whole state between any two events; see DESIGN.md for the list.

It knows how to look at everything, slowly. It must never be needed: the engine does not call it, tests do.
"""

from governor.core.lending import Lending
from governor.core.types import Nanos, Standing


def check(lending: Lending, now: Nanos) -> None:
    """Raise AssertionError with the name of the first invariant that does not hold."""
    behind = lending.agenda.bound <= now
    _in_use_is_the_sum_over_live_leases(lending)
    _lines_hold_who_waits(lending)
    _nothing_live_has_ended(lending)
    _limits_are_what_is_said_of_them(lending)
    if not behind:
        _no_head_could_be_granted(lending, now)
        _nothing_is_overdue(lending, now)


def _in_use_is_the_sum_over_live_leases(lending: Lending) -> None:
    lent: dict[int, int] = {}
    members: dict[tuple[int, str], int] = {}
    covered: dict[int, int] = {}
    for lease in lending.leases:
        for (resource, _), grant in zip(lease.ask.wants, lease.grants, strict=True):
            if resource.limit.lends:
                lent[id(resource)] = lent.get(id(resource), 0) + grant.permits
                covered[id(resource)] = covered.get(id(resource), 0) + 1
            for member in grant.members:
                members[id(resource), member.id] = members.get((id(resource), member.id), 0) + 1
    for resource in lending.resources:
        name = resource.spec.name
        assert resource.limit.in_use == lent.pop(id(resource), 0), f"I1: {name}: in use is not what leases hold"
        assert resource.leases == covered.pop(id(resource), 0), f"I1: {name}: leases are miscounted"
        assert not resource.removed or resource.leases, f"I1: {name}: removed and lent no more, but still there"
    assert not lent, "I1: a lease holds permits of a resource that is gone"


def _limits_are_what_is_said_of_them(lending: Lending) -> None:
    for resource in lending.resources:
        name, override, is_open = resource.spec.name, resource.override, resource.standing is Standing.OPEN
        assert resource.closed == (resource.removed or not is_open), f"I3: {name}: is closed without a reason, or open"
        assert not resource.removed or (is_open and override is None), (
            f"{name}: is removed, and something is said of it"
        )
        if override is not None:
            assert override.limit.kind == resource.spec.kind, f"{name}: an override is of another kind"
        declared = resource.in_force.limit.build(0).capacity
        assert resource.limit.capacity == declared, f"I1: {name}: obeys another limit than is in force"


def _no_head_could_be_granted(lending: Lending, now: Nanos) -> None:
    for resource in lending.resources:
        head = resource.line.head
        if head is None or not head.at_head or lending.leases.exhausted:
            continue
        assert not head.takeable(now), f"I3: {resource.spec.name}: its head could be granted"


def _lines_hold_who_waits(lending: Lending) -> None:
    waiting = lending.waiters.all()
    standing = [ask for resource in lending.resources for ask in resource.line]
    assert len(standing) == sum(len(ask.wants) for ask in waiting), "I5: somebody stands in line who does not wait"
    for resource in lending.resources:
        places = [ask.place for ask in resource.line]
        assert places == sorted(places), f"I4: {resource.spec.name}: its line is out of order"
        wanted = [sum(permits for other, permits in ask.wants if other is resource) for ask in resource.line]
        assert resource.line.permits == sum(wanted), f"I4: {resource.spec.name}: its line is miscounted"
        assert resource.line.head_permits == (wanted[0] if wanted else 0), (
            f"I4: {resource.spec.name}: its head is miscounted"
        )
        gone = resource.removed or resource.standing is Standing.DRAINING
        assert not (gone and places), f"I5: {resource.spec.name}: is draining, but somebody waits"
    assert lending.waiters.tickets == sum(len(ask.tickets) for ask in waiting), "I6: a ticket waits in no line"
    for ask in waiting:
        assert ask.tickets, "I5: an ask waits that everybody abandoned"
        for ticket in ask.tickets:
            assert lending.register.of_ticket(ticket) is ask, "I6: a ticket waits and stands for something else"


def _nothing_live_has_ended(lending: Lending) -> None:
    for lease in lending.leases:
        assert lease.end is None, f"I6: lease {lease.id} is live and has ended"
        assert lease.deadline is not None, f"I6: lease {lease.id} is live and lent nothing"
        assert lease.id <= lending.leases.last_id, f"I7: lease {lease.id} has an id not given out yet"


def _nothing_is_overdue(lending: Lending, now: Nanos) -> None:
    assert not lending.touched, "I3: a line was touched and nobody looked"
    for lease in lending.leases:
        assert lease.deadline is None or lease.deadline > now, f"I6: lease {lease.id} should have expired"
    for resource in lending.resources:
        override = resource.override
        assert override is None or override.until > now, f"{resource.spec.name}: its override should be over"
