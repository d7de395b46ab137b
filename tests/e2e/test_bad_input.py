"""Asks that make no sense, from any client in any language: the right answer at once, and nothing has changed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypedDict, Unpack

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from grpc import StatusCode

from governor.v1 import governor_pb2 as pb
from tests.e2e.client import Client, Refusal, ask
from tests.e2e.process import BOUND, Daemon

# Whoever had to wait here would wait for longer than any call of these tests lasts.
YAML = """
defaults: {lease: 1h, max_wait: 1h}
semaphores:
  one: {permits: 1}
  four: {permits: 4}
  none: {permits: 0}
rate_limits:
  api: {rate: 1/h}
"""

SERVICE = "/governor.v1.Governor/"
YEAR = 365 * 24 * 3600


@dataclass(frozen=True)
class Bad:
    """An ask, how it must be answered, and which field must be named."""

    method: str
    message: bytes
    code: StatusCode
    reason: str = "MALFORMED"
    field: str = ""


class Fields(TypedDict, total=False):
    """What an AcquireRequest may say besides its claims."""

    client: str
    request_id: str
    wait: Duration
    lease: Duration
    labels: dict[str, str]


def acquire(code: StatusCode, reason: str, field: str, *claims: pb.Claim, **fields: Unpack[Fields]) -> Bad:
    """An Acquire."""
    request = pb.AcquireRequest(claims=claims, **fields)
    return Bad("Acquire", request.SerializeToString(), code, reason, field)


def malformed(field: str, *claims: pb.Claim, **fields: Unpack[Fields]) -> Bad:
    """An Acquire with a field that makes no sense."""
    return acquire(StatusCode.INVALID_ARGUMENT, "MALFORMED", field, *claims, **fields)


def claim(resource: str = "four", permits: int = 1, key: str = "") -> pb.Claim:
    """One claim."""
    return pb.Claim(resource=resource, permits=permits, key=key)


def release(field: str, *ids: int, outcome: int = 0) -> Bad:
    """A Release with a field that makes no sense."""
    message = pb.ReleaseRequest(lease_ids=ids, outcome=pb.Outcome.ValueType(outcome))
    return raw("Release", message.SerializeToString(), field)


def renewal(field: str, *ids: int, lease: Duration | None = None) -> Bad:
    """A Renew with a field that makes no sense."""
    return raw("Renew", pb.RenewRequest(lease_ids=ids, lease=lease).SerializeToString(), field)


def raw(method: str, message: bytes, field: str = "request") -> Bad:
    """Bytes that no generated code would send."""
    return Bad(method, message, StatusCode.INVALID_ARGUMENT, "MALFORMED", field)


def unknown(name: str) -> Bad:
    """An Acquire of what is not declared."""
    return acquire(StatusCode.NOT_FOUND, "UNKNOWN_RESOURCE", "", claim(name))


def above(name: str, permits: int) -> Bad:
    """An Acquire of more than there is."""
    return acquire(StatusCode.OUT_OF_RANGE, "ABOVE_CAPACITY", "", claim(name, permits))


TABLE = {
    # numbers
    "0 permits": malformed("claims[0].permits", claim(permits=0)),
    "-1 permits": malformed("claims[0].permits", claim(permits=-1)),
    "2^63-1 permits": malformed("claims[0].permits", claim(permits=2**63 - 1)),
    "-2^63 permits": malformed("claims[0].permits", claim(permits=-(2**63))),
    "2^63 permits": raw("Acquire", b"\x0a\x11\x0a\x04four\x10" + b"\x80" * 9 + b"\x01", "claims[0].permits"),
    "0 permits, second": malformed("claims[1].permits", claim(), claim("one", 0)),
    "2^31-1 permits": above("four", 2**31 - 1),
    "one too many": above("four", 5),
    "a closed resource": above("none", 1),
    "above a burst": above("api", 2),
    # names
    "100 kB name": malformed("claims[0].resource", claim("x" * 100_000)),
    "201 bytes of name": malformed("claims[0].resource", claim("é" * 100 + "x")),
    "100 kB key": malformed("claims[0].key", claim(key="x" * 100_000)),
    "a key": malformed("claims[0].key", claim(key="k")),
    "100 kB client": malformed("client", claim(), client="x" * 100_000),
    "100 kB request id": malformed("request_id", claim(), request_id="x" * 100_000),
    "a large label": malformed("labels", claim(), labels={"l": "x" * 1_000}),
    "17 labels": malformed("labels", claim(), labels={f"l{number}": "" for number in range(17)}),
    "unknown": unknown("five"),
    "no name": malformed("claims[0].resource", claim("")),
    "another case": unknown("Four"),
    "a null": unknown("four\0"),
    "line feeds": unknown("a\r\nb: c"),
    "odd text": unknown("\u202e\U0001f4a5\x1b[31m"),
    "unknown, second": acquire(StatusCode.NOT_FOUND, "UNKNOWN_RESOURCE", "", claim(), claim("five")),
    # claims
    "no claims": malformed("claims"),
    "65 claims": malformed("claims", *[claim(f"r{number}") for number in range(65)]),
    "1,000 claims": malformed("claims", *[claim(f"r{number}") for number in range(1_000)]),
    "the same twice": malformed("claims[1].resource", claim(), claim()),
    # lengths
    "lease of 0": malformed("lease", claim(), lease=Duration()),
    "lease of 1 ns": malformed("lease", claim(), lease=Duration(nanos=1)),
    "lease of -1 s": malformed("lease", claim(), lease=Duration(seconds=-1)),
    "lease of 10 years": malformed("lease", claim(), lease=Duration(seconds=10 * YEAR)),
    "lease of 2^63-1 s": malformed("lease", claim(), lease=Duration(seconds=2**63 - 1)),
    "lease of two signs": malformed("lease", claim(), lease=Duration(seconds=1, nanos=-1)),
    "lease of 2^31-1 ns": malformed("lease", claim(), lease=Duration(nanos=2**31 - 1)),
    "wait of -1 s": malformed("wait", claim(), wait=Duration(seconds=-1)),
    "wait of 2^63-1 s": malformed("wait", claim(), wait=Duration(seconds=2**63 - 1)),
    # encodings
    "invalid UTF-8 name": raw("Acquire", b"\x0a\x06\x0a\x02\xff\xfe\x10\x01"),
    "invalid UTF-8 client": raw("Acquire", b"\x0a\x08\x0a\x04four\x10\x01\x12\x02\xc3\x28"),
    "half a message": raw("Acquire", b"\x0a\x7f\x0a\x04four"),
    "no message of ours": raw("Acquire", b"GET / HTTP/1.1\r\n\r\n"),
    "half a release": raw("Release", b"\x0a\x7f"),
    "half a renewal": raw("Renew", b"\xff"),
    "half a list": raw("ListResources", b"\xff"),
    "an empty ask": raw("Acquire", b"", "claims"),
    # leases
    "release of none": release("lease_ids"),
    "release of 1,001": release("lease_ids", *range(1, 1_002)),
    "release of 0": release("lease_ids[0]", 0),
    "release of -1": release("lease_ids[1]", 1, -1),
    "release with no such outcome": release("outcome", 1, outcome=99),
    "renewal of none": renewal("lease_ids"),
    "renewal of 0": renewal("lease_ids[0]", 0),
    "renewal for -1 s": renewal("lease", 1, lease=Duration(seconds=-1)),
    "release of the unknown": Bad(
        "Release", pb.ReleaseRequest(lease_ids=[2**63 - 1]).SerializeToString(), StatusCode.NOT_FOUND, "UNKNOWN_LEASE"
    ),
    "renewal of the unknown": Bad(
        "Renew", pb.RenewRequest(lease_ids=[2**63 - 1]).SerializeToString(), StatusCode.NOT_FOUND, "UNKNOWN_LEASE"
    ),
    # sizes: gRPC itself answers these, before any of it is read
    "5 MB": Bad("Acquire", b"\x12" + b"\x80\x80\xc0\x02" + b"x" * 5_242_880, StatusCode.RESOURCE_EXHAUSTED, ""),
    "no such method": Bad("Borrow", b"", StatusCode.UNIMPLEMENTED, ""),
}


@pytest.fixture
def unchanged(daemon: Daemon, me: Client) -> Iterator[None]:
    """One permit is lent; whatever happens meanwhile, the resources are as before in the end."""
    held = me.acquire("one", "four").id
    before = me.resources()
    yield
    after = me.resources()
    me.release(held)
    assert after == before


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("bad", TABLE.values(), ids=TABLE)
def test_bad_input_is_refused_at_once_and_changes_nothing(me: Client, bad: Bad) -> None:
    """With its status, its reason and the field that is wrong, in a sentence that says what was expected."""
    call = _raw_call(me, bad.method)
    with pytest.raises(grpc.RpcError) as caught:
        call(bad.message)

    refusal = Refusal(caught.value)
    assert (refusal.code, refusal.reason) == (bad.code, bad.reason)
    assert len(refusal.message) < 1_000
    assert refusal.message.isprintable()
    if bad.code is StatusCode.INVALID_ARGUMENT:
        assert refusal.field == bad.field
        assert refusal.message.startswith(bad.field)
    if bad.code is StatusCode.OUT_OF_RANGE:
        assert {"asked", "limit"} <= refusal.facts.keys()


@pytest.mark.usefixtures("unchanged")
def test_a_renewal_that_is_too_long_leaves_the_lease_as_it_was(me: Client) -> None:
    """Of one lease it is the status, of several each result says so."""
    lease = me.acquire("four", lease=3600).id
    with pytest.raises(grpc.RpcError) as refused:
        me.renew(lease, lease=10 * YEAR)
    results = me.renew(lease, 2**62, lease=10 * YEAR)

    assert (Refusal(refused.value).code, Refusal(refused.value).field) == (StatusCode.INVALID_ARGUMENT, "lease")
    assert [result.state for result in results] == [pb.LeaseResult.REFUSED, pb.LeaseResult.UNKNOWN]
    assert me.renew(lease)[0].remaining.seconds <= 3600
    me.release(lease)


@pytest.mark.usefixtures("unchanged")
def test_a_request_id_stands_for_one_ask(me: Client) -> None:
    """The same id for other claims is refused, and the first ask keeps what it got."""
    lease = me.acquire("four", client="c", request_id="r").id
    with pytest.raises(grpc.RpcError) as reused:
        me.acquire("four", permits=2, client="c", request_id="r")

    assert Refusal(reused.value).code is StatusCode.INVALID_ARGUMENT
    assert Refusal(reused.value).reason == "REQUEST_ID_REUSED"
    assert Refusal(reused.value).field == "request_id"
    assert me.acquire("four", client="c", request_id="r").id == lease
    me.release(lease)


@pytest.mark.usefixtures("unchanged")
def test_good_asks_are_served_beside_bad_ones(daemon: Daemon, me: Client) -> None:
    """A connection that sent all of these, many at a time, is as good as any other."""
    with Client(daemon.addresses[1]) as other:
        calls = [
            _raw_multi(other, bad.method).future(bad.message, timeout=BOUND)
            for bad in TABLE.values()
            for _ in range(5)
            if len(bad.message) < 1_000_000
        ]
        lease = other.acquire("four").id
        codes = {call.code() for call in calls}
        other.release(lease)

    assert codes == {bad.code for bad in TABLE.values() if len(bad.message) < 1_000_000}


def test_bad_asks_are_counted_without_making_series(daemon: Daemon, me: Client) -> None:
    """What clients send as a name never becomes a label."""
    before = daemon.metrics()
    for number in range(50):
        with pytest.raises(grpc.RpcError):
            me.stub.Acquire(ask(f"made up {number}"))
    after = daemon.metrics()

    strays = ("governor_stray_acquires_total", frozenset({("outcome", "unknown_resource")}))
    assert after[strays] == before[strays] + 50
    assert after.keys() == before.keys()


def _raw_call(client: Client, method: str) -> Callable[[bytes], bytes]:
    return lambda message: _raw_multi(client, method)(message, timeout=BOUND)


def _raw_multi(client: Client, method: str) -> "grpc.UnaryUnaryMultiCallable[bytes, bytes]":
    return client.channel.unary_unary(SERVICE + method, None, None)
