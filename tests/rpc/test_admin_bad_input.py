"""Wrong, huge and odd orders: the right status at once, by its field, and nothing has changed."""

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2
from grpc import aio

from governor.rpc.admin import ADMIN
from governor.v1 import admin_pb2 as admin
from tests.rpc.conftest import ask
from tests.rpc.operators import MINUTE, Operated
from tests.rpc.refusals import Refused, refused

MALFORMED = grpc.StatusCode.INVALID_ARGUMENT
HUGE = "x" * 100_000


def override(length: Duration | None = MINUTE, resource: str = "sem", **settings: str) -> admin.SetOverrideRequest:
    """Of a semaphore unless it says so, for a minute unless it says so."""
    return admin.SetOverrideRequest(resource=resource, settings=settings, length=length)


@pytest.mark.parametrize(
    ("method", "request_", "field"),
    [
        ("GetResource", admin.GetResourceRequest(), "resource"),
        ("GetResource", admin.GetResourceRequest(resource=HUGE), "resource"),
        ("ListLeases", admin.ListLeasesRequest(resource=HUGE), "resource"),
        ("ListLeases", admin.ListLeasesRequest(client=HUGE), "client"),
        ("ListLeases", admin.ListLeasesRequest(session=HUGE), "session"),
        ("ListLeases", admin.ListLeasesRequest(limit=-1), "limit"),
        ("ListWaiters", admin.ListWaitersRequest(resource=HUGE), "resource"),
        ("ListWaiters", admin.ListWaitersRequest(limit=-(2**63)), "limit"),
        ("ListSessions", admin.ListSessionsRequest(client=HUGE), "client"),
        ("Revoke", admin.RevokeRequest(), "lease_ids"),
        ("Revoke", admin.RevokeRequest(lease_ids=[1], client="me"), "lease_ids"),
        ("Revoke", admin.RevokeRequest(client="me", session="0123abcd"), "lease_ids"),
        ("Revoke", admin.RevokeRequest(lease_ids=[0]), "lease_ids[0]"),
        ("Revoke", admin.RevokeRequest(lease_ids=[1, -5]), "lease_ids[1]"),
        ("Revoke", admin.RevokeRequest(lease_ids=range(1, 1002)), "lease_ids"),
        ("Revoke", admin.RevokeRequest(client=HUGE), "client"),
        ("Revoke", admin.RevokeRequest(session=HUGE), "session"),
        ("PauseResource", admin.PauseResourceRequest(), "resource"),
        ("ResumeResource", admin.ResumeResourceRequest(resource=HUGE), "resource"),
        ("DrainResource", admin.DrainResourceRequest(), "resource"),
        ("SetOverride", override(resource="", permits="3"), "resource"),
        ("SetOverride", override(resource=HUGE, permits="3"), "resource"),
        ("SetOverride", override(None, permits="3"), "length"),
        ("SetOverride", override(Duration(nanos=999_999_999), permits="3"), "length"),
        ("SetOverride", override(Duration(seconds=30 * 86400, nanos=1), permits="3"), "length"),
        ("SetOverride", override(Duration(seconds=-1), permits="3"), "length"),
        ("SetOverride", override(Duration(seconds=2**63 - 1), permits="3"), "length"),
        ("SetOverride", override(), "settings"),
        ("SetOverride", override(permits=""), "settings.permits"),
        ("SetOverride", override(permits="many"), "settings.permits"),
        ("SetOverride", override(permits="-1"), "settings.permits"),
        ("SetOverride", override(permits="3.5"), "settings.permits"),
        ("SetOverride", override(permits="2147483648"), "settings.permits"),
        ("SetOverride", override(permits=HUGE), "settings.permits"),
        ("SetOverride", override(rate="1/s"), "settings.rate"),
        ("SetOverride", override(permits="3", lease="5s"), "settings.lease"),
        ("SetOverride", override(resource="rate", permits="3"), "settings.permits"),
        ("SetOverride", override(resource="rate", rate="fast"), "settings.rate"),
        ("SetOverride", override(resource="rate", rate="1/s", windows="1/s"), "settings.rate"),
        ("SetOverride", override(resource="rate", burst="0"), "settings.burst"),
        (
            "SetOverride",
            admin.SetOverrideRequest(resource="sem", settings={str(n): "1" for n in range(1000)}, length=MINUTE),
            "settings",
        ),
        ("SetOverride", admin.SetOverrideRequest(resource="sem", settings={HUGE: "1"}, length=MINUTE), "settings"),
        (
            "SetOverride",
            admin.SetOverrideRequest(resource="sem", settings={"\x1b[2J": "1"}, length=MINUTE),
            "settings.\\x1b[2J",
        ),
        ("ClearOverride", admin.ClearOverrideRequest(), "resource"),
        ("RecycleMembers", admin.RecycleMembersRequest(resource="pool", member=HUGE), "member"),
        ("QuarantineMember", admin.QuarantineMemberRequest(resource="pool"), "member"),
        (
            "QuarantineMember",
            admin.QuarantineMemberRequest(resource="pool", member="spare", length=Duration()),
            "length",
        ),
        (
            "QuarantineMember",
            admin.QuarantineMemberRequest(resource="pool", member="spare", length=Duration(seconds=-5)),
            "length",
        ),
        (
            "QuarantineMember",
            admin.QuarantineMemberRequest(resource="pool", member="spare", length=Duration(seconds=31 * 86400)),
            "length",
        ),
        ("RestoreMember", admin.RestoreMemberRequest(resource="pool"), "member"),
        ("Watch", admin.WatchRequest(what=["everything"]), "what[0]"),
    ],
    ids=lambda value: str(value)[:40] if not isinstance(value, str) else value[:20],
)
async def test_bad_orders(operators: Operated, method: str, request_: object, field: str) -> None:
    """Each is refused by its field, in a small answer that is fit to be shown."""
    await operators.world.stub.Acquire(ask())
    before = operators.world.driver.snapshot()

    said = await refusal(operators, method, request_)

    assert (said.code, said.info.metadata["field"]) == (MALFORMED, field)
    bad = said.details["BadRequest"]
    assert isinstance(bad, error_details_pb2.BadRequest)
    assert [violation.field for violation in bad.field_violations] == [field]
    assert len(said.message) < 500
    assert said.message.isprintable()
    assert operators.world.driver.snapshot() == before
    assert operators.acts == []


@pytest.mark.parametrize(
    ("method", "request_", "code", "reason"),
    [
        ("RecycleMembers", admin.RecycleMembersRequest(resource="sem"), "FAILED_PRECONDITION", "NOT_A_POOL"),
        (
            "QuarantineMember",
            admin.QuarantineMemberRequest(resource="rate", member="x"),
            "FAILED_PRECONDITION",
            "NOT_A_POOL",
        ),
        ("RestoreMember", admin.RestoreMemberRequest(resource="pool", member="x"), "NOT_FOUND", "UNKNOWN_MEMBER"),
        ("RecycleMembers", admin.RecycleMembersRequest(resource="pool", member="x"), "NOT_FOUND", "UNKNOWN_MEMBER"),
        ("SetOverride", override(resource="pool", size="3"), "FAILED_PRECONDITION", "A_POOL"),
        ("ClearOverride", admin.ClearOverrideRequest(resource="pool"), "FAILED_PRECONDITION", "A_POOL"),
        ("ListLeases", admin.ListLeasesRequest(resource="x"), "NOT_FOUND", "UNKNOWN_RESOURCE"),
        ("ListWaiters", admin.ListWaitersRequest(resource="x"), "NOT_FOUND", "UNKNOWN_RESOURCE"),
        ("ListLeases", admin.ListLeasesRequest(session="0123abcd"), "NOT_FOUND", "UNKNOWN_SESSION"),
        ("ListWaiters", admin.ListWaitersRequest(session="0123abcd"), "NOT_FOUND", "UNKNOWN_SESSION"),
        ("Watch", admin.WatchRequest(resources=["x"]), "NOT_FOUND", "UNKNOWN_RESOURCE"),
    ],
    ids=lambda value: str(value)[:40] if not isinstance(value, str) else value[:20],
)
async def test_orders_that_do_not_fit(
    operators: Operated, method: str, request_: object, code: str, reason: str
) -> None:
    """What is there is of another kind, or it is not there: each is said, and nothing has changed."""
    before = operators.world.driver.snapshot()

    said = await refusal(operators, method, request_)

    assert (said.code.name, said.reason) == (code, reason)
    assert "; " in said.message
    assert operators.world.driver.snapshot() == before
    assert operators.acts == []


METHODS = sorted(method.name for method in admin.DESCRIPTOR.services_by_name["Admin"].methods)


@pytest.mark.parametrize("raw", [b"\xff\xff\xff", b"\x0a\xff\xff\xff\xff\x0f"])
@pytest.mark.parametrize("method", METHODS)
async def test_bytes_that_are_no_message(operators: Operated, method: str, raw: bytes) -> None:
    """Every method names what it expected."""
    said = await undecoded(operators, method, (raw,))

    assert (said.code, said.info.metadata["field"]) == (MALFORMED, "request")
    assert operators.acts == []


@pytest.mark.parametrize("method", METHODS)
async def test_a_call_without_a_message(operators: Operated, method: str) -> None:
    """Is told that one was expected."""
    said = await undecoded(operators, method, ())

    assert (said.code, said.info.metadata["field"]) == (MALFORMED, "request")
    assert operators.acts == []


async def undecoded(operators: Operated, method: str, messages: tuple[bytes, ...]) -> Refused:
    """What becomes of these messages, and of the end that follows them."""
    ask: aio.StreamStreamMultiCallable[bytes, bytes] = operators.world.channel.stream_stream(f"/{ADMIN}/{method}")
    call = ask(iter(messages), timeout=20)
    return await refused(call.read())


async def refusal(operators: Operated, method: str, request_: object) -> Refused:
    """Of a call that must not succeed, however it is answered."""
    call = getattr(operators.admin, method)(request_, timeout=20)
    return await refused(call.read() if isinstance(call, aio.UnaryStreamCall) else call)
