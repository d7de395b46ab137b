"""Reading what a client says on its session: bytes that were read before say what they said then."""

from typing import cast

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from governor.core.types import SECOND, Claim, Denial
from governor.rpc import requests
from governor.v1 import governor_pb2 as pb

TEXT = st.text(max_size=20)
ACQUIRES = st.builds(
    pb.SessionAcquire,
    op=st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 300)),
    claims=st.lists(st.builds(pb.Claim, resource=TEXT, permits=st.integers(-1, 2**40)), max_size=3),
    wait=st.none() | st.builds(Duration, seconds=st.integers(0, 9), nanos=st.integers(-1, 999_999_999)),
    labels=st.dictionaries(TEXT, TEXT, max_size=2),
)
PLAIN = pb.SessionAcquire(op=7, claims=[pb.Claim(resource="sem", permits=1)])


@example([pb.SessionAcquire(op=1), pb.SessionAcquire()])
@given(st.lists(ACQUIRES, max_size=5))
def test_however_often_an_ask_is_read_it_says_the_same(acquires: list[pb.SessionAcquire]) -> None:
    """As one reader finds it that has read all before, and one that has read nothing."""
    asks = requests.Asks()
    for acquire in acquires * 2:
        raw = acquire.SerializeToString()
        op, terms = asks.read(raw)
        assert (op, terms) == requests.Asks().read(raw)
        assert op == acquire.op
        assert isinstance(terms, Denial) or [claim.permits for claim in terms[0]] == [
            claim.permits for claim in acquire.claims
        ]


@given(st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1))
def test_an_ask_under_another_op_is_not_read_again(first: int, second: int) -> None:
    """The very same terms."""
    asks = requests.Asks()
    made = []
    for op in (first, second):
        PLAIN.op = op
        assert asks.read(PLAIN.SerializeToString())[0] == op
        made.append(asks.read(PLAIN.SerializeToString())[1])
    assert made[0] is made[1]
    assert made[0] == ((Claim("sem", 1),), None, None, ())
    assert len(asks) == 1


@given(st.lists(ACQUIRES, max_size=5), st.lists(st.integers(1, 2**63 - 1), max_size=5))
def test_an_unopened_message_says_all_that_the_message_says(
    acquires: list[pb.SessionAcquire], numbers: list[int]
) -> None:
    """And of each ask its bytes."""
    message = pb.SessionRequest(
        hello=pb.Hello(client="me"), acquires=acquires, releases=numbers, places=numbers, keep_alive=True
    )

    unopened = requests.Unopened.FromString(message.SerializeToString())

    raw = cast("list[bytes]", unopened.acquires)
    assert [pb.SessionAcquire.FromString(each) for each in raw] == acquires
    assert (list(unopened.releases), list(unopened.places), unopened.keep_alive) == (numbers, numbers, True)
    assert unopened.hello.client == "me"


def test_what_is_remembered_is_bounded() -> None:
    """Long asks are not, and more than so many are forgotten together."""
    asks = requests.Asks()
    asks.read(pb.SessionAcquire(op=1, claims=[pb.Claim(resource="x" * 150)] * 2).SerializeToString())
    assert len(asks) == 0
    for number in range(requests.MAX_KNOWN + 1):
        asks.read(pb.SessionAcquire(op=1, claims=[pb.Claim(resource=str(number), permits=1)]).SerializeToString())
    assert len(asks) == 1


@pytest.mark.parametrize("raw", [b"\x08", b"\x08\x80", b"\x08\x80\x80", b"\xff", b"\x12\x7f", b"\x08" + b"\xff" * 12])
def test_what_ends_too_soon_cannot_be_read(raw: bytes) -> None:
    """In its op or after it."""
    with pytest.raises(DecodeError):
        requests.Asks().read(raw)


@pytest.mark.parametrize("op", [b"", b"\x08\x00", b"\x08\x80\x00", b"\x08" + b"\xff" * 9 + b"\x01"])
def test_an_op_that_is_none_is_refused(op: bytes) -> None:
    """Absent, zero in any spelling, negative; also when the rest is known."""
    asks = requests.Asks()
    _, terms = asks.read(PLAIN.SerializeToString())
    assert not isinstance(terms, Denial)
    PLAIN.ClearField("op")
    rest = PLAIN.SerializeToString()

    for _ in range(2):
        number, denial = asks.read(op + rest)
        assert isinstance(denial, Denial)
        assert denial.field == "op"
        assert number <= 0
    PLAIN.op = 7


def test_lengths_are_read() -> None:
    """A wait, a lease and labels."""
    acquire = pb.SessionAcquire(op=1, wait=Duration(seconds=2), lease=Duration(nanos=5), labels={"b": "2", "a": "1"})
    assert requests.Asks().read(acquire.SerializeToString()) == (
        1,
        ((), 2 * SECOND, 5, (("a", "1"), ("b", "2"))),
    )


@given(ACQUIRES, st.lists(st.integers(-1, 2**63 - 1), min_size=1, max_size=3))
def test_an_ask_under_several_ops_says_what_it_says_under_one(acquire: pb.SessionAcquire, ops: list[int]) -> None:
    """However often it is read, and whichever way first; unless an op is none, or it has one of its own."""
    one = pb.SessionAcquire()
    one.MergeFrom(acquire)
    acquire.ClearField("op")
    raw = acquire.SerializeToString()
    asks = requests.Asks()
    for _ in range(2):
        terms = asks.read_alike(ops, raw)
        if min(ops) < 1:
            assert isinstance(terms, Denial)
            assert terms.field.startswith("ops[")
            continue
        one.op = ops[0]
        assert asks.read(one.SerializeToString()) == (ops[0], terms)
        if one.op:
            refused = asks.read_alike(ops, one.SerializeToString())
            assert isinstance(refused, Denial)
            assert refused.field == "ask.op"
