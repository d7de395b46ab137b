"""Leases are read as protobuf reads them, however often their bytes have been seen."""

import random

import pytest
from google.protobuf.message import DecodeError

from governor.client.grants import MAX_KNOWN, Grants, Terms, Unopened
from governor.v1 import governor_pb2 as pb


def lease(number: int, *, resource: str = "db", permits: int = 1, remaining: int | None = 30, waited: int = 0) -> bytes:
    """As it travels; lengths in nanoseconds."""
    made = pb.Lease(id=number, grants=[pb.Grant(resource=resource, permits=permits)])
    if remaining is not None:
        made.remaining.FromNanoseconds(remaining)
    if waited:
        made.waited.FromNanoseconds(waited)
    return made.SerializeToString()


@pytest.mark.parametrize("number", [1, 127, 128, 16_383, 16_384, 1 << 21, 1 << 35, (1 << 62) - 1, (1 << 63) - 1])
def test_each_lease_has_its_own_id(number: int) -> None:
    """Of any length, and whether or not the rest was seen before."""
    grants = Grants()

    for each in (number, max(1, number - 1), number):
        assert grants.read(lease(each)) == (each, Terms((("db", 1),), (), 30, 0))
    assert len(grants) == 1


def test_what_was_seen_is_told_from_what_is_like_it() -> None:
    """Other permits, another resource, another length, none, a wait."""
    grants = Grants()
    for _ in range(2):
        assert grants.read(lease(1))[1] == Terms((("db", 1),), (), 30, 0)
        assert grants.read(lease(1, permits=2))[1] == Terms((("db", 2),), (), 30, 0)
        assert grants.read(lease(1, resource="dc"))[1] == Terms((("dc", 1),), (), 30, 0)
        assert grants.read(lease(1, remaining=2_000_000_031))[1] == Terms((("db", 1),), (), 2_000_000_031, 0)
        assert grants.read(lease(1, remaining=None))[1] == Terms((("db", 1),), (), None, 0)
        assert grants.read(lease(1, waited=1_500_000_000))[1] == Terms((("db", 1),), (), 30, 1_500_000_000)


def test_attributes_of_a_member_are_not_shared_by_two_leases() -> None:
    """A program may write to what it got."""
    grants = Grants()
    member = pb.Member(id="primary", attributes={"endpoint": "db1"}, generation=3)
    raw = pb.Lease(id=1, grants=[pb.Grant(resource="db", permits=1, members=[member])]).SerializeToString()
    first, second = grants.read(raw)[1].members[0], grants.read(raw)[1].members[0]

    assert first == second
    assert (first.id, first.resource, first.generation, dict(first.attributes)) == (
        "primary",
        "db",
        3,
        {"endpoint": "db1"},
    )
    assert first.attributes is not second.attributes


def test_what_is_remembered_is_bounded() -> None:
    """Of ever other leases the old ones are forgotten, and long ones are not remembered."""
    grants = Grants()
    for number in range(3 * MAX_KNOWN):
        grants.read(lease(1, permits=number + 1))
        assert len(grants) <= MAX_KNOWN
    before = len(grants)
    grants.read(lease(1, resource="x" * 1000))

    assert len(grants) == before


@pytest.mark.parametrize("seed", range(5))
def test_bad_bytes_are_read_as_protobuf_reads_them(seed: int) -> None:
    """Cut off, changed, or with another field first: the same lease, or the same refusal."""
    rng = random.Random(seed)
    grants = Grants()
    grants.read(lease(300))
    for _ in range(2000):
        raw = bytearray(lease(rng.choice([1, 300, 1 << 40])))
        if rng.random() < 0.5:
            del raw[rng.randrange(len(raw)) :]
        if raw and rng.random() < 0.5:
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        try:
            expected = pb.Lease.FromString(bytes(raw))
        except DecodeError:
            with pytest.raises(DecodeError):
                grants.read(bytes(raw))
            continue
        number, terms = grants.read(bytes(raw))

        assert number == expected.id
        assert terms.claims == tuple((grant.resource, grant.permits) for grant in expected.grants)
        assert (terms.length is None) is not expected.HasField("remaining")


def test_all_else_of_a_message_is_as_it_is_opened() -> None:
    """A response is the same but for the leases in it."""
    said = pb.SessionResponse(
        handled=7, released=[1, 2], grants=[pb.SessionGrant(op=5, keeps=True, lease=pb.Lease(id=9))]
    )
    left = Unopened.FromString(said.SerializeToString())

    assert (left.handled, list(left.released), left.grants[0].op, left.grants[0].keeps) == (7, [1, 2], 5, True)
    assert left.grants[0].lease == pb.Lease(id=9).SerializeToString()
