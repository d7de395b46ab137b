"""Writing replies into the same messages makes no difference but in time."""

from hypothesis import given
from hypothesis import strategies as st

from governor.core.effects import Granted, LeaseResult, LeaseState
from governor.core.types import SECOND, Ended, EndReason, Grant, LeaseId, Member, TicketId
from governor.rpc import translate
from governor.rpc.replies import MAX_FORMS, Replies
from governor.v1 import governor_pb2 as pb

NOW = 1000 * SECOND
IDS = st.integers(1, 2**63 - 1).map(LeaseId)

GRANTS = st.builds(
    Grant,
    resource=st.sampled_from(["a", "b"]),
    permits=st.integers(1, 3),
    members=st.sampled_from([(), (Member("m", (("endpoint", "db1"),), 2),)]),
    key=st.sampled_from(["", "k"]),
)
GRANTED = st.builds(
    Granted,
    ticket=st.just(TicketId(1)),
    lease=IDS,
    grants=st.lists(GRANTS, min_size=1, max_size=2).map(tuple),
    deadline=st.none() | st.integers(NOW - SECOND, NOW + 10 * SECOND),
    waited=st.sampled_from([0, 0, 5]),
    client=st.just(""),
)
RESULTS = st.one_of(
    st.builds(LeaseResult, IDS, st.just(LeaseState.RELEASED)),
    st.builds(LeaseResult, IDS, st.just(LeaseState.ENDED), ended=st.just(Ended(EndReason.EXPIRED, SECOND))),
)


@given(st.lists(GRANTED))
def test_a_lease_reads_the_same_whatever_was_granted_before(grants: list[Granted]) -> None:
    """A message that was written before carries nothing over."""
    replies = Replies()

    for granted in grants:
        reply = pb.AcquireResponse.FromString(replies.acquired(granted, now=NOW))
        assert reply == translate.acquired(granted, now=NOW)


@given(st.lists(st.lists(RESULTS, min_size=1, max_size=2)))
def test_results_read_the_same_whatever_was_released_before(releases: list[list[LeaseResult]]) -> None:
    """A message that was written before carries nothing over."""
    replies = Replies()

    for results in releases:
        reply = pb.ReleaseResponse.FromString(replies.released(results))
        assert reply == translate.released(results)


def test_the_messages_that_are_held_are_bounded() -> None:
    """However many resources there ever were."""
    replies = Replies()

    for number in range(MAX_FORMS + 1):
        granted = Granted(TicketId(1), LeaseId(1), (Grant(f"resource {number}", 1),), NOW + SECOND, 0, "")
        replies.acquired(granted, now=NOW)
        assert len(replies) == number % MAX_FORMS + 1
