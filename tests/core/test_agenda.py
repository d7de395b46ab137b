"""The agenda against the dumbest one there is: a dict, and a look at all of it."""

from hypothesis import given
from hypothesis import strategies as st

from governor.core.agenda import NEVER, Agenda
from governor.core.types import SECOND, Nanos

# Instants that crowd into one bucket, spread over some, or are ages apart.
instants = st.one_of(st.integers(0, 50), st.integers(0, 3 * SECOND), st.integers(0, 10**18), st.just(0), st.just(2**28))


@given(steps=st.lists(st.tuples(st.integers(0, 12), instants, st.booleans()), max_size=200))
def test_the_first_is_always_the_earliest(steps: list[tuple[int, Nanos, bool]]) -> None:
    """Whatever is added, moved and dropped, the earliest is first, and of equal instants the smallest key."""
    agenda = Agenda()
    dumb: dict[int, Nanos] = {}
    for key, due, look in steps:
        if key in dumb:
            agenda.drop(key, dumb.pop(key))
        else:
            agenda.add(key, due)
            dumb[key] = due
        expected = min(((due, key) for key, due in dumb.items()), default=None)
        assert agenda.bound <= (NEVER if expected is None else expected[0])
        if look:
            assert agenda.first() == expected
            assert agenda.bound == (NEVER if expected is None else expected[0])
        assert len(agenda) == len(dumb)


def test_a_deadline_that_moves_for_ever_leaves_nothing_behind() -> None:
    """A lease that is renewed a hundred thousand times costs as much room as one that never was."""
    agenda = Agenda()
    agenda.add(1, 30 * SECOND)
    agenda.add(2, 10**9 * SECOND)
    for beat in range(100_000):
        agenda.drop(1, (30 + beat) * SECOND)
        agenda.add(1, (31 + beat) * SECOND)

    assert agenda.first() == (100_030 * SECOND, 1)
    assert len(agenda) == 2
    assert len(agenda._buckets) < 1000
    assert len(agenda._order) < 1000


def test_what_comes_and_goes_at_the_front_leaves_nothing_behind() -> None:
    """A hundred thousand deadlines dropped before they are due cost no room, though the front is looked at."""
    agenda = Agenda()
    agenda.add(0, 0)
    for key in range(1, 100_000):
        agenda.add(key, key)
        assert agenda.first() == (0, 0)
        agenda.drop(key, key)

    assert len(agenda) == 1
    assert len(agenda._front) < 1000


def test_many_deadlines_come_in_order() -> None:
    """Ten thousand deadlines, added in no order, come one after the other."""
    agenda = Agenda()
    dues = [(number * 7_919_999_999) % (100 * SECOND) for number in range(10_000)]
    for key, due in enumerate(dues):
        agenda.add(key, due)

    came = []
    while (first := agenda.first()) is not None:
        came.append(first)
        agenda.drop(first[1], first[0])

    assert came == sorted((due, key) for key, due in enumerate(dues))
