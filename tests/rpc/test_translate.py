"""What the wire can say, and what of it the core is spared."""

import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st

from governor.core.effects import Granted, LeaseResult, LeaseState
from governor.core.types import (
    SECOND,
    Claim,
    Denial,
    Ended,
    EndReason,
    Grant,
    LeaseId,
    Member,
    Outcome,
    Reason,
    TicketId,
)
from governor.rpc import translate
from governor.v1 import governor_pb2 as pb

TEN_YEARS = 315_576_000


def test_a_full_ask() -> None:
    """Every field arrives as it was said; labels come sorted, since a map has no order."""
    request = pb.AcquireRequest(
        claims=[pb.Claim(resource="orders-db", permits=3), pb.Claim(resource="a/b & ü", permits=1, key="k")],
        client="web",
        wait=Duration(seconds=1, nanos=5),
        lease=Duration(seconds=TEN_YEARS),
        request_id="r",
        labels={"z": "1", "a": "2"},
    )

    assert translate.ask(request) == translate.Ask(
        (Claim("orders-db", 3), Claim("a/b & ü", 1, "k")),
        "web",
        SECOND + 5,
        TEN_YEARS * SECOND,
        "r",
        (("a", "2"), ("z", "1")),
    )


def test_absent_is_not_zero() -> None:
    """No wait is the resource's own; a wait of 0 is not to wait."""
    absent, zero = translate.ask(pb.AcquireRequest()), translate.ask(pb.AcquireRequest(wait=Duration()))

    assert isinstance(absent, translate.Ask)
    assert isinstance(zero, translate.Ask)
    assert (absent.wait, zero.wait) == (None, 0)


@pytest.mark.parametrize(
    ("request_", "field", "found"),
    [
        (pb.AcquireRequest(claims=[pb.Claim()] * 65), "claims", 65),
        (pb.AcquireRequest(claims=[pb.Claim(), pb.Claim(resource="x" * 201)]), "claims[1].resource", 201),
        (pb.AcquireRequest(claims=[pb.Claim(resource="ü" * 101)]), "claims[0].resource", 202),
        (pb.AcquireRequest(claims=[pb.Claim(resource="x" * 100_000)]), "claims[0].resource", 100_000),
        (pb.AcquireRequest(claims=[pb.Claim(key="x" * 257)]), "claims[0].key", 257),
        (pb.AcquireRequest(client="x" * 257), "client", 257),
        (pb.AcquireRequest(client="\U0001f41e" * 65), "client", 260),
        (pb.AcquireRequest(request_id="x" * 257), "request_id", 257),
        (pb.AcquireRequest(labels={str(n): "" for n in range(17)}), "labels", 17),
        (pb.AcquireRequest(labels={"x" * 257: ""}), "labels", 257),
        (pb.AcquireRequest(labels={"": "x" * 257}), "labels", 257),
        (pb.AcquireRequest(wait=Duration(seconds=-1)), "wait", None),
        (pb.AcquireRequest(wait=Duration(nanos=-1)), "wait", None),
        (pb.AcquireRequest(wait=Duration(nanos=10**9)), "wait", None),
        (pb.AcquireRequest(wait=Duration(seconds=1, nanos=-1)), "wait", None),
        (pb.AcquireRequest(lease=Duration(seconds=-1, nanos=1)), "lease", None),
        (pb.AcquireRequest(lease=Duration(seconds=2**63 - 1)), "lease", None),
    ],
)
def test_what_no_ask_can_say(request_: pb.AcquireRequest, field: str, found: int | None) -> None:
    """Too much of anything, and lengths that are none, are refused by the name of their field."""
    denial = translate.ask(request_)

    assert isinstance(denial, Denial)
    assert (denial.reason, denial.field, denial.asked) == (Reason.MALFORMED, field, found)
    assert denial.expected


@pytest.mark.parametrize(
    "request_",
    [
        pb.AcquireRequest(claims=[pb.Claim()] * 64),
        pb.AcquireRequest(claims=[pb.Claim(resource="x" * 200)]),
        pb.AcquireRequest(claims=[pb.Claim(resource="ü" * 100)]),
        pb.AcquireRequest(client="x" * 256, request_id="\U0001f41e" * 64),
        pb.AcquireRequest(labels={str(n).zfill(256): "x" * 256 for n in range(16)}),
        pb.AcquireRequest(wait=Duration(seconds=TEN_YEARS, nanos=999_999_999)),
        pb.AcquireRequest(lease=Duration()),
        pb.AcquireRequest(claims=[pb.Claim(permits=-(2**63))]),
    ],
)
def test_what_the_engine_may_judge(request_: pb.AcquireRequest) -> None:
    """At the bounds it is still an ask; whether it makes sense is not for the wire to say."""
    assert isinstance(translate.ask(request_), translate.Ask)


@given(st.integers(0, translate.MAX_LEASE_IDS), st.integers(0, 999_999_999))
def test_durations_are_exact(seconds: int, nanos: int) -> None:
    """A length comes back as it went, to the nanosecond."""
    ask = translate.ask(pb.AcquireRequest(wait=Duration(seconds=seconds, nanos=nanos)))
    assert isinstance(ask, translate.Ask)
    assert ask.wait is not None

    lease = translate.acquired(Granted(TicketId(1), LeaseId(1), (), ask.wait, ask.wait, ""), now=0).lease

    assert (lease.remaining.seconds, lease.remaining.nanos) == (seconds, nanos)
    assert lease.waited == lease.remaining


@pytest.mark.parametrize("ids", [[], [0], [1, -1], [-(2**63)], list(range(1, 1002))])
def test_ids_that_never_were(ids: list[int]) -> None:
    """None, too many and impossible ids are refused for both calls alike."""
    for denial in (
        translate.release(pb.ReleaseRequest(lease_ids=ids)),
        translate.renew(pb.RenewRequest(lease_ids=ids)),
    ):
        assert isinstance(denial, Denial)
        assert denial.reason is Reason.MALFORMED
        assert denial.field.startswith("lease_ids")


def test_a_thousand_ids_are_fine() -> None:
    """At the bound, and with the largest id."""
    ids = [*range(1, 1000), 2**63 - 1]

    assert translate.release(pb.ReleaseRequest(lease_ids=ids)) == (tuple(ids), Outcome.UNKNOWN)
    assert translate.renew(pb.RenewRequest(lease_ids=ids)) == (tuple(ids), None)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (pb.OUTCOME_UNSPECIFIED, Outcome.UNKNOWN),
        (pb.OUTCOME_OK, Outcome.OK),
        (pb.OUTCOME_BROKEN, Outcome.BROKEN),
        (pb.OUTCOME_UNKNOWN, Outcome.UNKNOWN),
    ],
)
def test_outcomes(said: pb.Outcome.ValueType, meant: Outcome) -> None:
    """Each has its word in the core."""
    assert translate.release(pb.ReleaseRequest(lease_ids=[1], outcome=said)) == ((1,), meant)


@pytest.mark.parametrize("number", [4, -1, 2**31 - 1])
def test_an_outcome_from_the_future(number: int) -> None:
    """A number without a name is refused, not read as something else."""
    raw = pb.ReleaseRequest(lease_ids=[1]).SerializeToString()
    request = pb.ReleaseRequest.FromString(raw + b"\x10" + _varint(number))

    denial = translate.release(request)

    assert isinstance(denial, Denial)
    assert (denial.field, denial.asked) == ("outcome", number)


def test_a_granted_pool() -> None:
    """Members come with what the operator wrote beside them."""
    grant = Grant("pool", 2, (Member("a", (("endpoint", "db1:5432"),), 3), Member("b")))

    lease = translate.acquired(Granted(TicketId(1), LeaseId(9), (grant,), 7 * SECOND, 3, ""), now=2 * SECOND).lease

    assert lease == pb.Lease(
        id=9,
        grants=[
            pb.Grant(
                resource="pool",
                permits=2,
                members=[
                    pb.Member(id="a", attributes={"endpoint": "db1:5432"}, generation=3),
                    pb.Member(id="b", generation=1),
                ],
            )
        ],
        remaining=Duration(seconds=5),
        waited=Duration(nanos=3),
    )


def test_what_was_spent_has_nothing_left() -> None:
    """Without a deadline there is no remaining time, which is not the same as none left."""
    lease = translate.acquired(Granted(TicketId(1), LeaseId(9), (), None, 0, ""), now=5).lease

    assert not lease.HasField("remaining")


def test_remaining_is_never_negative() -> None:
    """Even when the reply is made after the deadline."""
    lease = translate.acquired(Granted(TicketId(1), LeaseId(9), (), 5, 0, ""), now=9).lease

    assert lease.remaining == Duration()


@pytest.mark.parametrize("state", LeaseState)
def test_every_state_has_a_number(state: LeaseState) -> None:
    """And it is the one of the same name."""
    result = LeaseResult(LeaseId(1), state, remaining=5, ended=Ended(EndReason.EXPIRED, SECOND))
    made, same = translate.released([result]).results[0], translate.renewed([result]).results[0]

    assert made == same

    assert pb.LeaseResult.State.Name(made.state) == state.name
    assert (made.remaining, made.ended.reason, made.ended.ago) == (Duration(nanos=5), "expired", Duration(seconds=1))


def _varint(number: int) -> bytes:
    number %= 2**64
    digits = []
    while number >= 128:
        digits.append(number % 128 + 128)
        number //= 128
    return bytes([*digits, number])
