"""Rate limits beside a deliberately dumb one: a log of all grants, in fractions."""

from dataclasses import dataclass, field
from fractions import Fraction

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.types import SECOND, Nanos
from tests.core.kinds.histories import lengths, windows
from tests.core.kinds.rates import spec, take


@dataclass
class Log:
    """Grants by their instants. An ask conforms if no length of time that ends with it would hold too many."""

    window: Window
    grants: list[tuple[Nanos, int]] = field(default_factory=list)

    def conforms(self, permits: int, now: Nanos) -> bool:
        """Look at each length of time that starts with a grant."""
        rate = Fraction(self.window.permits, self.window.period)
        burst = self.window.burst if rate else 0
        return permits <= burst and all(
            permits + sum(others for at, others in self.grants if at >= start) <= burst + (now - start) * rate
            for start, _ in self.grants
        )


@settings(max_examples=200)
@given(
    st.lists(windows, max_size=3).map(tuple),
    st.lists(st.tuples(lengths, st.integers(1, 7)), max_size=20),
)
def test_it_grants_what_a_log_of_all_grants_allows(declared: tuple[Window, ...], asks: list[tuple[Nanos, int]]) -> None:
    """I9, and nothing less: an ask is refused only if it would break a window."""
    limit = RateLimitSpec(declared).build(0)
    logs = [Log(window) for window in declared]
    now = 0
    for length, permits in asks:
        now += length
        granted = take(limit, permits, now)
        assert granted == all(log.conforms(permits, now) for log in logs)
        if granted:
            for log in logs:
                log.grants.append((now, permits))


@settings(max_examples=200)
@given(
    st.lists(windows, min_size=1, max_size=2).map(tuple),
    st.lists(st.tuples(lengths, st.integers(1, 7), st.none() | st.integers(0, 9)), max_size=20),
)
def test_no_refund_lets_through_what_the_rest_would_not_have_left(
    declared: tuple[Window, ...], moves: list[tuple[Nanos, int, int | None]]
) -> None:
    """I9, whatever is undone and whenever: what was used would have been granted had the rest never been asked."""
    limit = RateLimitSpec(declared).build(0)
    used: list[tuple[Nanos, int]] = []
    now = 0
    for length, permits, undone in moves:
        now += length
        if undone is not None and used:
            taken, refund = used.pop(undone % len(used))
            limit.put_back(refund, (), taken, now)
        elif take(limit, permits, now):
            assert all(Log(window, used).conforms(permits, now) for window in declared)
            used.append((now, permits))


@given(windows, st.lists(st.tuples(lengths, st.integers(1, 7)), max_size=5), st.integers(0, 20), st.integers(1, 7))
@example(Window(3, SECOND, burst=1), [(0, 1)], 7, 1)
@example(Window(1_000_000_001, SECOND, burst=2), [(0, 2)], 9, 2)
def test_the_place_in_line_tells_the_instant(
    window: Window, asks: list[tuple[Nanos, int]], ahead: int, permits: int
) -> None:
    """With one window, behind single permits that each go when they can, ``not_before`` is when it is served."""
    assume(window.permits >= 1 and permits <= window.burst)
    assume(window.burst == 1 or window.permits <= (window.burst - 1) * window.period + 1)
    limit = spec(window).build(0)
    now = 0
    for length, others in asks:
        now += length
        take(limit, others, now)
    promised = limit.not_before(permits, ahead, now)
    for _ in range(ahead):
        now = limit.not_before(1, 0, now)
        assert take(limit, 1, now)

    assert limit.not_before(permits, 0, now) == promised
