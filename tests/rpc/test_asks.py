"""What is remembered of asks makes no difference but in time."""

import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st

from governor.core.types import Denial, Reason
from governor.rpc import translate
from governor.rpc.asks import MAX_BYTES, MAX_KNOWN, Asks
from governor.v1 import governor_pb2 as pb

REQUESTS = st.builds(
    pb.AcquireRequest,
    claims=st.lists(st.builds(pb.Claim, resource=st.sampled_from(["a", "b", "c" * 300]), permits=st.integers(-1, 2))),
    client=st.sampled_from(["", "web"]),
    wait=st.none() | st.builds(Duration, seconds=st.integers(-1, 2)),
    request_id=st.sampled_from(["", "r"]),
)


@given(st.lists(REQUESTS))
def test_an_ask_reads_the_same_however_often_it_comes(requests: list[pb.AcquireRequest]) -> None:
    """Whatever came before it."""
    asks = Asks()

    for request in [*requests, *requests]:
        assert asks.read(request.SerializeToString()) == translate.ask(request)


def test_the_same_bytes_are_read_once() -> None:
    """The second time, nothing is made anew."""
    asks = Asks()
    raw = pb.AcquireRequest(claims=[pb.Claim(resource="a", permits=1)], client="web").SerializeToString()

    assert asks.read(raw) is asks.read(raw)
    assert len(asks) == 1


@pytest.mark.parametrize(
    "request_",
    [
        pb.AcquireRequest(claims=[pb.Claim(resource="a", permits=1)], request_id="once"),
        pb.AcquireRequest(claims=[pb.Claim(resource="a", permits=1)] * 60),
        pb.AcquireRequest(wait=Duration(seconds=-1)),
    ],
    ids=["request id", "large", "malformed"],
)
def test_what_does_not_come_again_is_not_remembered(request_: pb.AcquireRequest) -> None:
    """An ask of its own kind, one that takes much room, and one that is no ask."""
    asks = Asks()

    asks.read(request_.SerializeToString())

    assert len(asks) == 0


def test_bytes_that_are_no_ask_are_refused() -> None:
    """They are malformed, each time."""
    asks = Asks()

    for _ in range(2):
        refusal = asks.read(b"\xff")
        assert isinstance(refusal, Denial)
        assert refusal.reason is Reason.MALFORMED


def test_what_is_remembered_is_bounded() -> None:
    """However many asks there are, and however long they may be."""
    asks = Asks()

    for number in range(MAX_KNOWN + 1):
        raw = pb.AcquireRequest(client=f"{number:0{MAX_BYTES - 3}}").SerializeToString()
        assert len(raw) == MAX_BYTES
        asks.read(raw)
        assert len(asks) == number % MAX_KNOWN + 1
