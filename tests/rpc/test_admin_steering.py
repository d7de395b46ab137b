"""How operators steer resources and members: it is done, told to whom it concerns, and done once."""

import asyncio

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from governor.core.types import SECOND
from governor.v1 import admin_pb2 as admin
from governor.v1 import governor_pb2 as pb
from tests.rpc.conftest import RESOURCES, ask
from tests.rpc.operators import JOE, MINUTE, Operated
from tests.rpc.refusals import refused

# --- pause, drain, resume -----------------------------------------------------------------------------------


async def test_a_paused_resource_keeps_its_line(operators: Operated) -> None:
    """New asks are refused as paused, by its name; who waits is granted after the pause. Twice is once."""
    world = operators.world
    held = (await world.stub.Acquire(ask(permits=2))).lease.id
    waiting = asyncio.ensure_future(world.stub.Acquire(ask()))
    await world.until_waiting(1)

    said = await operators.admin.PauseResource(admin.PauseResourceRequest(resource="sem"), metadata=JOE)
    again = await operators.admin.PauseResource(admin.PauseResourceRequest(resource="sem"), metadata=JOE)

    assert (said.changed, said.resource.paused, said.resource.name) == (True, True, "sem")
    assert (again.changed, again.resource.paused) == (False, True)
    late = await refused(world.stub.Acquire(ask()))
    assert (late.code, late.reason, late.info.metadata["resource"]) == (grpc.StatusCode.UNAVAILABLE, "PAUSED", "sem")
    await world.stub.Release(pb.ReleaseRequest(lease_ids=[held]))
    assert world.waiters == 1

    said = await operators.admin.ResumeResource(admin.ResumeResourceRequest(resource="sem"), metadata=JOE)
    again = await operators.admin.ResumeResource(admin.ResumeResourceRequest(resource="sem"), metadata=JOE)

    assert (await waiting).lease.id
    assert (said.changed, said.resource.paused, again.changed) == (True, False, False)
    assert operators.acts == [
        ("paused", ("sem",), "", "joe@desk, 3rd floor"),
        ("resumed", ("sem",), "", "joe@desk, 3rd floor"),
    ]


async def test_a_drained_resource_sends_everybody_away(operators: Operated) -> None:
    """But for holders; others are refused as draining, by its name, until it is resumed."""
    world = operators.world
    await world.stub.Acquire(ask(permits=2))
    waiting = asyncio.ensure_future(refused(world.stub.Acquire(ask())))
    await world.until_waiting(1)

    said = await operators.admin.DrainResource(admin.DrainResourceRequest(resource="sem"))

    assert (said.changed, said.resource.draining, said.resource.removed) == (True, True, False)
    assert said.resource.leases == 1
    for told in (await waiting, await refused(world.stub.Acquire(ask()))):
        assert (told.reason, told.info.metadata["resource"]) == ("DRAINING", "sem")
    assert (await world.stub.Acquire(ask("open"))).lease.id
    await operators.admin.ResumeResource(admin.ResumeResourceRequest(resource="sem"))
    assert [act[0] for act in operators.acts] == ["draining", "resumed"]


async def test_an_order_says_why(operators: Operated) -> None:
    """It stands beside what is ordered, with who says so, for whoever looks, and goes to the trail with the order."""
    world, why = operators.world, "r" * 256
    await operators.admin.PauseResource(admin.PauseResourceRequest(resource="sem", reason=why), metadata=JOE)
    request = admin.SetOverrideRequest(resource="open", settings={"permits": "5"}, length=MINUTE, reason="a\nsale")
    await operators.admin.SetOverride(request, metadata=JOE)
    out = await operators.admin.QuarantineMember(
        admin.QuarantineMemberRequest(resource="pool", member="spare", reason="it lags"), metadata=JOE
    )

    listed = {each.name: each for each in (await world.stub.ListResources(pb.ListResourcesRequest())).resources}
    assert (listed["sem"].actor, listed["sem"].reason, listed["sem"].actor_client) == (JOE[0][1], why, "")
    assert (listed["open"].override.actor, listed["open"].override.reason) == (JOE[0][1], "a\nsale")
    assert (out.members[0].actor, out.members[0].reason) == (JOE[0][1], "it lags")
    assert operators.reasons == [why, "a\nsale", "it lags"]

    resumed = await operators.admin.ResumeResource(admin.ResumeResourceRequest(resource="sem", reason="it is up"))
    assert (resumed.resource.actor, resumed.resource.reason) == ("", "")
    assert (operators.acts[-1][0], operators.reasons[-1]) == ("resumed", "it is up")


@pytest.mark.parametrize("order", ["PauseResource", "Revoke", "SetOverride", "QuarantineMember", "RecycleMembers"])
async def test_a_reason_that_is_too_long_is_refused(operators: Operated, order: str) -> None:
    """What is on the trail is what was said, so nothing is cut; nothing has changed."""
    kind = getattr(admin, f"{order}Request")
    said = await refused(getattr(operators.admin, order)(kind(reason="r" * 257)))

    assert said.code is grpc.StatusCode.INVALID_ARGUMENT
    assert said.message == "reason: expected at most 256 bytes of text, not 257"
    assert operators.acts == []


# --- override -----------------------------------------------------------------------------------------------


async def test_an_override_is_in_force_for_a_while(operators: Operated) -> None:
    """It wakes who waits, is shown beside what is declared, and ends by itself."""
    world = operators.world
    held = (await world.stub.Acquire(ask(permits=2))).lease.id
    waiting = asyncio.ensure_future(world.stub.Acquire(ask()))
    await world.until_waiting(1)

    request = admin.SetOverrideRequest(resource="sem", settings={"permits": "3"}, length=MINUTE)
    said = await operators.admin.SetOverride(request, metadata=JOE)

    assert said.changed
    assert (await waiting).lease.id
    assert said.resource.capacity == 3
    assert dict(said.resource.override.settings) == {"permits": "3"}
    assert dict(said.resource.override.declared) == {"permits": "2"}
    assert said.resource.override.remaining == MINUTE
    seen = await operators.admin.GetResource(admin.GetResourceRequest(resource="sem"))
    assert seen.settings["permits"] == "3"
    assert operators.acts == [("overridden", ("sem",), "permits 3 for 1m", "joe@desk, 3rd floor")]

    world.clock.advance(20 * SECOND)
    await world.stub.Renew(pb.RenewRequest(lease_ids=[held, held + 1]))
    (row, *_) = (await world.stub.ListResources(pb.ListResourcesRequest())).resources
    assert row.override.remaining == Duration(seconds=40)
    world.clock.advance(20 * SECOND)
    await world.stub.Renew(pb.RenewRequest(lease_ids=[held, held + 1]))
    world.clock.advance(20 * SECOND)
    (row, *_) = (await world.stub.ListResources(pb.ListResourcesRequest())).resources
    assert (row.capacity, row.over_limit, row.HasField("override")) == (2, 1, False)


async def test_an_override_can_be_replaced_and_cleared(operators: Operated) -> None:
    """The second takes the place of the first; what is clear already is not cleared again."""
    for permits in ("5", "1"):
        request = admin.SetOverrideRequest(resource="sem", settings={"permits": permits}, length=MINUTE)
        said = await operators.admin.SetOverride(request)
        assert (said.changed, said.resource.capacity) == (True, int(permits))

    said = await operators.admin.ClearOverride(admin.ClearOverrideRequest(resource="sem"), metadata=JOE)
    again = await operators.admin.ClearOverride(admin.ClearOverrideRequest(resource="sem"), metadata=JOE)

    assert (said.changed, said.resource.capacity, said.resource.HasField("override")) == (True, 2, False)
    assert (again.changed, again.resource.capacity) == (False, 2)
    assert [act[:3] for act in operators.acts[2:]] == [("override_over", ("sem",), "cleared")]


async def test_a_rate_is_overridden_in_the_words_of_the_config(operators: Operated) -> None:
    """All of its settings are put on record as they were said."""
    request = admin.SetOverrideRequest(
        resource="rate", settings={"rate": "10/30s", "burst": "4"}, length=Duration(seconds=3600)
    )
    said = await operators.admin.SetOverride(request)

    assert said.resource.capacity == 4
    assert dict(said.resource.override.settings) == {"rate": "10/30s", "burst": "4"}
    assert dict(said.resource.override.declared) == {"rate": "1/s", "burst": "1"}
    assert operators.acts == [("overridden", ("rate",), "burst 4, rate 10/30s for 1h", "")]


# --- members ------------------------------------------------------------------------------------------------


async def test_a_quarantined_member_is_kept_out(operators: Operated) -> None:
    """For as long as is said; it can be restored before. Twice is once."""
    world = operators.world
    request = admin.QuarantineMemberRequest(resource="pool", member="primary", length=MINUTE)
    said = await operators.admin.QuarantineMember(request, metadata=JOE)

    (member,) = said.members
    assert (said.changed, member.id, member.state) == (True, "primary", admin.MemberState.QUARANTINED)
    assert (member.by_operator, member.quarantined_for) == (True, MINUTE)
    assert (await world.stub.Acquire(ask("pool"))).lease.grants[0].members[0].id == "spare"

    restore = admin.RestoreMemberRequest(resource="pool", member="primary")
    said, again = await operators.admin.RestoreMember(restore), await operators.admin.RestoreMember(restore)

    assert (said.changed, said.members[0].state) == (True, admin.MemberState.FREE)
    assert (again.changed, again.members[0].id) == (False, "primary")
    assert (await world.stub.Acquire(ask("pool"))).lease.grants[0].members[0].id == "primary"
    assert operators.acts == [
        ("quarantined", ("pool",), "primary for 1m", "joe@desk, 3rd floor"),
        ("restored", ("pool",), "primary", ""),
    ]


async def test_a_quarantine_may_last_until_it_is_ended(operators: Operated) -> None:
    """No time is shown then, and none ends it."""
    said = await operators.admin.QuarantineMember(admin.QuarantineMemberRequest(resource="pool", member="spare"))

    assert not said.members[0].HasField("quarantined_for")
    operators.world.clock.advance(10**6 * SECOND)
    seen = await operators.admin.GetResource(admin.GetResourceRequest(resource="pool"))
    assert [member.state for member in seen.members] == [admin.MemberState.FREE, admin.MemberState.QUARANTINED]
    assert operators.acts == [("quarantined", ("pool",), "spare until it is restored", "")]


async def test_members_are_recycled(operators: Operated) -> None:
    """One, or all; the answer shows those that it was about."""
    one = await operators.admin.RecycleMembers(admin.RecycleMembersRequest(resource="pool", member="spare"))
    both = await operators.admin.RecycleMembers(admin.RecycleMembersRequest(resource="pool"))

    assert [(member.id, member.generation) for member in one.members] == [("spare", 2)]
    assert [(member.id, member.generation) for member in both.members] == [("primary", 2), ("spare", 3)]
    assert [act[:3] for act in operators.acts] == [
        ("recycled", ("pool",), "spare"),
        ("recycled", ("pool",), "all members"),
    ]


# --- what is steered no more --------------------------------------------------------------------------------


async def test_what_is_removed_is_steered_no_more(operators: Operated) -> None:
    """It is there while it is lent, and says so; its leases can be revoked, and then it is unknown."""
    lease = (await operators.world.stub.Acquire(ask())).lease.id
    operators.world.driver.reconfigure(RESOURCES[1:])
    for call in (
        operators.admin.PauseResource(admin.PauseResourceRequest(resource="sem")),
        operators.admin.ClearOverride(admin.ClearOverrideRequest(resource="sem")),
        operators.admin.SetOverride(admin.SetOverrideRequest(resource="sem", settings={"permits": "3"}, length=MINUTE)),
    ):
        said = await refused(call)
        assert (said.code, said.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "REMOVED")
        assert said.info.metadata["resource"] == "sem"
    seen = await operators.admin.GetResource(admin.GetResourceRequest(resource="sem"))
    assert (seen.resource.removed, seen.resource.draining) == (True, True)

    await operators.admin.Revoke(admin.RevokeRequest(lease_ids=[lease]))

    said = await refused(operators.admin.PauseResource(admin.PauseResourceRequest(resource="sem")))
    assert (said.code, said.reason) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_RESOURCE")
