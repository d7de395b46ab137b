"""Wrong and huge fields: the right status at once, and nothing has changed."""

import gzip
import struct

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2
from grpc import aio

from governor.v1 import governor_pb2 as pb
from tests.rpc.conftest import World, ask
from tests.rpc.refusals import refused

MALFORMED = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
TEN_YEARS = Duration(seconds=315_576_000)


def _with(**fields: object) -> pb.AcquireRequest:
    request = ask()
    request.MergeFrom(pb.AcquireRequest(**fields))  # type: ignore[arg-type] # each row says its own
    return request


@pytest.mark.parametrize(
    ("request_", "code", "field"),
    [
        (pb.AcquireRequest(), MALFORMED, "claims"),
        (ask(permits=0), MALFORMED, "claims[0].permits"),
        (ask(permits=-1), MALFORMED, "claims[0].permits"),
        (ask(permits=2**63 - 1), MALFORMED, "claims[0].permits"),
        (ask(permits=-(2**63)), MALFORMED, "claims[0].permits"),
        (ask("open", 2**31), MALFORMED, "claims[0].permits"),
        (ask("x" * 100_000), MALFORMED, "claims[0].resource"),
        (ask("x" * 200), NOT_FOUND, ""),
        (ask(""), MALFORMED, "claims[0].resource"),
        (_with(request_id="1"), MALFORMED, "client"),
        (ask("\0\n\x1b[2J"), NOT_FOUND, ""),
        (pb.AcquireRequest(claims=[pb.Claim(resource="sem", permits=1)] * 2), MALFORMED, "claims[1].resource"),
        (pb.AcquireRequest(claims=[pb.Claim(resource=str(n), permits=1) for n in range(1000)]), MALFORMED, "claims"),
        (pb.AcquireRequest(claims=[pb.Claim(resource="sem", permits=1, key="k")]), MALFORMED, "claims[0].key"),
        (_with(client="x" * 100_000), MALFORMED, "client"),
        (_with(request_id="x" * 257), MALFORMED, "request_id"),
        (_with(labels={str(n): "x" for n in range(17)}), MALFORMED, "labels"),
        (_with(lease=Duration()), MALFORMED, "lease"),
        (_with(lease=TEN_YEARS), MALFORMED, "lease"),
        (_with(lease=Duration(seconds=-5)), MALFORMED, "lease"),
        (_with(lease=Duration(seconds=5, nanos=2_000_000_000)), MALFORMED, "lease"),
        (_with(wait=Duration(seconds=5, nanos=-1)), MALFORMED, "wait"),
        (_with(wait=Duration(seconds=2**63 - 1)), MALFORMED, "wait"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, pb.AcquireRequest) else None,
)
async def test_bad_asks(governor: World, request_: pb.AcquireRequest, code: grpc.StatusCode, field: str) -> None:
    """Each is refused by its field, in a small answer."""
    before = governor.driver.snapshot()

    said = await refused(governor.stub.Acquire(request_, timeout=20))

    assert (said.code, said.info.metadata.get("field", "")) == (code, field)
    if code is MALFORMED:
        bad = said.details["BadRequest"]
        assert isinstance(bad, error_details_pb2.BadRequest)
        assert [violation.field for violation in bad.field_violations] == [field]
    assert len(said.message) < 300
    assert said.message.isprintable()
    assert governor.driver.snapshot() == before


async def test_a_wait_of_ten_years_is_legal(governor: World) -> None:
    """The resource's max_wait bounds it; free permits come at once."""
    assert (await governor.stub.Acquire(_with(wait=TEN_YEARS))).lease.id


@pytest.mark.parametrize(
    ("method", "raw"),
    [
        *(
            (method, raw)
            for method in ("Acquire", "Release", "Renew", "ListResources")
            for raw in (b"\x0a", b"\xff" * 9)
        ),
        ("Acquire", b"\x0a\x05\x0a\x03\xff\xfe\xfd"),
        ("Acquire", b"\x12\x02\xff\xfe"),
    ],
)
async def test_what_cannot_be_decoded(governor: World, method: str, raw: bytes) -> None:
    """Cut off, garbage, or text that is no UTF-8: INVALID_ARGUMENT, not the UNKNOWN that grpc.aio would say."""
    before = governor.driver.snapshot()
    call: aio.UnaryUnaryMultiCallable[bytes, bytes] = governor.channel.unary_unary(f"/governor.v1.Governor/{method}")

    said = await refused(call(raw, timeout=20))

    assert (said.code, said.info.metadata["field"]) == (MALFORMED, "request")
    assert governor.driver.snapshot() == before


@pytest.mark.parametrize("size", [300_000, 5_000_000])
async def test_what_is_too_large(governor: World, size: int) -> None:
    """The transport refuses it, before a byte of it is decoded."""
    before = governor.driver.snapshot()

    with pytest.raises(aio.AioRpcError) as caught:
        await governor.stub.Acquire(_with(client="x" * size), timeout=20)

    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "larger than max" in str(caught.value.details())
    assert governor.driver.snapshot() == before


async def test_what_only_unpacks_to_too_much(governor: World) -> None:
    """The bound holds for what a message becomes, not for how it travelled."""
    raw = _with(client="x" * 16_000_000).SerializeToString()
    wire = await governor.wire()

    bomb = wire.call("Acquire", gzip.compress(raw), flags=1, grpc_encoding="gzip")
    small = wire.call("Acquire", gzip.compress(ask().SerializeToString()), flags=1, grpc_encoding="gzip")

    assert await wire.answer(bomb) is None
    assert await wire.answer(small) is not None
    assert governor.in_use() == 1


async def test_a_call_without_its_message(governor: World) -> None:
    """A broken client is told, and its stream does not stay open for ever."""
    wire = await governor.wire()

    assert await wire.answer(wire.call("Acquire")) is None


async def test_a_message_that_breaks_off(governor: World) -> None:
    """A length that promises more than comes ends the call."""
    wire = await governor.wire()
    raw = ask().SerializeToString()

    broken = wire.raw_call("Acquire", struct.pack(">BI", 0, 1000) + raw)

    assert await wire.answer(broken) is None
    assert governor.in_use() == 0


@pytest.mark.parametrize("ids", [[], [0], [-1], [1, 2, 0], list(range(1, 1002)), [1] * 1001])
async def test_bad_ids(governor: World, ids: list[int]) -> None:
    """No id, an impossible one, too many: refused as a whole, so that none of them was acted upon."""
    lease = (await governor.stub.Acquire(ask())).lease
    assert lease.id == 1

    for call in (
        governor.stub.Release(pb.ReleaseRequest(lease_ids=ids)),
        governor.stub.Renew(pb.RenewRequest(lease_ids=ids)),
    ):
        said = await refused(call)
        assert said.code is MALFORMED
        assert said.info.metadata["field"].startswith("lease_ids")
    assert governor.in_use() == 1


async def test_an_outcome_without_a_name(governor: World) -> None:
    """A release with one is refused, and the lease lives."""
    lease = (await governor.stub.Acquire(ask("pool"))).lease
    call: aio.UnaryUnaryMultiCallable[bytes, bytes] = governor.channel.unary_unary("/governor.v1.Governor/Release")

    said = await refused(call(pb.ReleaseRequest(lease_ids=[lease.id]).SerializeToString() + b"\x10\x63"))

    assert (said.code, said.info.metadata["field"]) == (MALFORMED, "outcome")
    assert governor.in_use("pool") == 1
