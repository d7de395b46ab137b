"""What Hypothesis may declare and ask for: small numbers, short times, few names, so that much happens at once.

It knows what is usual and what is rare. It must never know what becomes of it.
"""

from functools import cache
from typing import Final, TypeVar

from hypothesis import strategies as st

from governor.core.kinds.pool import MemberSpec, Order, PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.limit import LimitSpec
from governor.core.resource import ResourceSpec
from governor.core.types import MILLISECOND, Claim

MS: Final = MILLISECOND
T = TypeVar("T")
NAMES: Final = ("amber", "birch", "cedar", "delta")
CLIENTS: Final = ("", "ann", "ben")


def mostly(times: int, usual: st.SearchStrategy[T], rare: st.SearchStrategy[T]) -> st.SearchStrategy[T]:
    """The usual, so many times as often as the rare one."""
    return st.integers(0, times).flatmap(lambda number: rare if number == times else usual)


# Whole milliseconds, so that deadlines fall on the same instant; and some that just miss it.
lengths = st.builds(lambda whole, off: whole * MS + off, st.integers(1, 12), st.sampled_from((0, 0, 0, 0, 1, 333_333)))
waits = mostly(5, st.one_of(st.none(), lengths), st.just(0))

semaphores = st.builds(SemaphoreSpec, st.sampled_from((1, 2, 3)))
pools = st.builds(
    lambda members, order, quarantine, factor: PoolSpec(
        tuple(MemberSpec(id_, (("endpoint", f"{id_}:5432"),), max_leases) for id_, max_leases in members),
        order=order,
        quarantine=quarantine,
        max_quarantine=quarantine * factor,
    ),
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from((1, 1, 1, 2))),
        min_size=1,
        max_size=3,
        unique_by=lambda member: member[0],
    ),
    st.sampled_from(Order),
    lengths,
    st.sampled_from((1, 3, 8)),
)
windows = st.builds(
    Window, st.sampled_from((1, 2, 3, 7)), st.sampled_from((5 * MS, 12 * MS, 50 * MS)), st.sampled_from((1, 2, 3))
)
rate_limits = st.builds(
    RateLimitSpec, st.lists(windows, min_size=1, max_size=2, unique_by=lambda w: w.period).map(tuple)
)
# What is legal and rare: closed, and unlimited.
extremes = st.sampled_from(
    (
        SemaphoreSpec(0),
        SemaphoreSpec(None),
        PoolSpec(()),
        RateLimitSpec(()),
        RateLimitSpec((Window(0, 5 * MS, 1),)),
        RateLimitSpec((Window(3, 5 * MS, 3), Window(0, 12 * MS, 3))),
    )
)


def resource(name: str, limits: st.SearchStrategy[LimitSpec]) -> st.SearchStrategy[ResourceSpec]:
    """A resource, mostly with room to wait in."""
    return st.builds(
        ResourceSpec,
        name=st.just(name),
        limit=limits,
        lease=lengths,
        max_lease=st.sampled_from((20 * MS, 20 * MS, 13 * MS)),
        on_disconnect=mostly(2, lengths, st.sampled_from((0, 0, None))),
        max_wait=mostly(9, st.sampled_from((30 * MS, 200 * MS, 8 * MS)), st.just(0)),
        max_waiters=mostly(6, st.just(50), st.sampled_from((2, 1, 0))),
    )


# Each name suggests a kind. A reload may also turn it into another, or into an extreme.
usual = {
    "amber": resource("amber", semaphores),
    "birch": resource("birch", semaphores),
    "cedar": resource("cedar", pools),
    "delta": resource("delta", rate_limits),
}
unusual = {
    name: mostly(3, usual[name], resource(name, st.one_of(semaphores, pools, rate_limits, extremes))) for name in NAMES
}
first_resources = st.tuples(*usual.values())
other_resources = st.lists(st.sampled_from(NAMES), unique=True, min_size=3).flatmap(
    lambda chosen: st.tuples(*(unusual[name] for name in chosen))
)


# All three are kept: to look into a strategy that it has not seen before takes Hypothesis longer than to draw from it.
@cache
def claims(names: tuple[str, ...]) -> st.SearchStrategy[tuple[Claim, ...]]:
    """Of some of these; one claim as a rule."""
    claim = st.builds(Claim, st.sampled_from(names), mostly(7, st.just(1), st.sampled_from((2, 3))))
    one = claim.map(lambda single: (single,))
    several = st.lists(claim, min_size=min(2, len(names)), max_size=3, unique_by=lambda claim: claim.resource)
    return mostly(3, one, several.map(tuple))


@cache
def any_name(names: tuple[str, ...]) -> st.SearchStrategy[str]:
    """One of these, or in rare cases of what may not be there."""
    return mostly(15, st.sampled_from(names), st.sampled_from((*NAMES, "nowhere")))


@cache
def any_claims(names: tuple[str, ...]) -> st.SearchStrategy[tuple[Claim, ...]]:
    """Of some of these, or in rare cases of what may not be there."""
    return mostly(15, claims(names), claims((*NAMES, "nowhere")))


malformed_claims = st.one_of(
    st.just(()),
    st.sampled_from((0, -1, 2**31, 2**63)).map(lambda permits: (Claim("birch", 1), Claim("amber", permits))),
    st.just((Claim("amber", 1), Claim("amber", 2))),
    st.just((Claim("amber", 1, key="tenant"),)),
    st.just(tuple(Claim(f"r{number}", 1) for number in range(65))),
)
