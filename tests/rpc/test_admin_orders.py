"""What operators order: it is done, told to whom it concerns, put on record with who did it, and done once."""

import asyncio

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2

from governor.core.types import Claim, LeaseId, Said
from governor.rpc.admin.orders import AT_ONCE
from governor.v1 import admin_pb2 as admin
from governor.v1 import governor_pb2 as pb
from tests.rpc.conftest import ask, until
from tests.rpc.operators import JOE, MINUTE, Operated
from tests.rpc.peer import Peer
from tests.rpc.refusals import refused

# --- revoke -------------------------------------------------------------------------------------------------


async def test_a_revoked_lease_is_free_and_its_holder_is_told(operators: Operated) -> None:
    """Who waits has it at once; the session hears why, and what gives it back or renews it is told so."""
    peer = await Peer.begin(operators.world)
    lease = await peer.acquire(1, permits=2)
    waiting = asyncio.ensure_future(operators.world.stub.Acquire(ask()))
    await operators.world.until_waiting(1)

    said = await operators.admin.Revoke(admin.RevokeRequest(lease_ids=[lease.id]), metadata=JOE)

    assert [(each.lease_id, each.state) for each in said.results] == [(lease.id, pb.LeaseResult.REVOKED)]
    assert said.revoked == 1
    assert (await waiting).lease.id == lease.id + 1
    heard = await peer.hears(lambda heard: bool(heard.ended))
    assert [(each.lease_id, each.state, each.ended.reason) for each in heard.ended] == [
        (lease.id, pb.LeaseResult.ENDED, "revoked")
    ]
    for call in (
        operators.world.stub.Release(pb.ReleaseRequest(lease_ids=[lease.id])),
        operators.world.stub.Renew(pb.RenewRequest(lease_ids=[lease.id])),
        operators.admin.Revoke(admin.RevokeRequest(lease_ids=[lease.id])),
    ):
        late = await refused(call)
        assert (late.code, late.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "LEASE_ENDED")
        assert late.info.metadata["ended"] == "revoked"
    done = await peer.do(releases=[lease.id])
    assert [each.ended.reason for each in done.results] == ["revoked"]
    assert operators.acts == [("revocation", ("sem",), f"lease {lease.id}", "joe@desk, 3rd floor")]


async def test_of_several_each_has_its_result(operators: Operated) -> None:
    """In the order asked; only those that ended by this are counted and put on record, a lease named twice once."""
    held = [(await operators.world.stub.Acquire(ask("open"))).lease.id for _ in range(2)]
    gone = (await operators.world.stub.Acquire(ask("pool"))).lease.id
    await operators.world.stub.Release(pb.ReleaseRequest(lease_ids=[gone]))

    said = await operators.admin.Revoke(admin.RevokeRequest(lease_ids=[gone, held[0], 99, held[0], held[1]]))

    states = [pb.LeaseResult.State.Name(each.state) for each in said.results]
    assert states == ["ENDED", "REVOKED", "UNKNOWN", "ENDED", "REVOKED"]
    assert said.revoked == 2
    assert operators.acts == [("revocation", ("open",), f"leases {held[0]}, {held[1]}", "")]


async def test_one_that_never_was_is_not_found(operators: Operated) -> None:
    """As for a release; and nothing is put on record."""
    said = await refused(operators.admin.Revoke(admin.RevokeRequest(lease_ids=[99])))

    assert (said.code, said.reason) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_LEASE")
    assert operators.acts == []


async def test_all_leases_of_a_client(operators: Operated) -> None:
    """However many there are; those of others are left alone, and so is what the client takes afterwards."""
    world = operators.world
    theirs = world.stub.Acquire(pb.AcquireRequest(claims=[pb.Claim(resource="open", permits=1)], client="other"))
    kept = (await theirs).lease.id
    for _ in range(2500):
        world.driver.ask((Claim("open", 1),), client="web")

    said = await operators.admin.Revoke(admin.RevokeRequest(client="web"), metadata=JOE)

    assert (said.revoked, list(said.results)) == (2500, [])
    assert world.driver.lease_ids() == [kept]
    again = await operators.admin.Revoke(admin.RevokeRequest(client="web"))
    assert again.revoked == 0
    assert operators.acts == [("revocation", ("open",), "2500 leases of client web", "joe@desk, 3rd floor")]


async def test_many_are_revoked_in_slices(operators: Operated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a client or by their ids: no step has more than some hundreds, and between two others have their turn."""
    steps: list[int] = []
    turns: list[int] = []
    revoke = operators.world.driver.revoke
    loop = asyncio.get_running_loop()

    def seen(leases: tuple[LeaseId, ...], said: Said) -> object:
        steps.append(len(leases))
        loop.call_soon(lambda: turns.append(len(steps)))
        return revoke(leases, said)

    monkeypatch.setattr(operators.world.driver, "revoke", seen)
    for _ in range(5 * AT_ONCE // 2):
        operators.world.driver.ask((Claim("open", 1),), client="web")
    named = range(1, AT_ONCE + 2)

    assert (await operators.admin.Revoke(admin.RevokeRequest(lease_ids=named))).revoked == AT_ONCE + 1
    assert steps == [AT_ONCE, 1]
    await operators.admin.Revoke(admin.RevokeRequest(client="web"))

    assert not operators.world.driver.live_leases
    assert max(steps) == AT_ONCE
    assert turns == list(range(1, len(steps) + 1))


@pytest.mark.parametrize(
    "request_", [admin.RevokeRequest(client="web"), admin.RevokeRequest(lease_ids=range(1, 2 * AT_ONCE + 1))]
)
async def test_what_was_revoked_is_on_record_whoever_goes_away(
    operators: Operated, request_: admin.RevokeRequest
) -> None:
    """An operator whose call ends in the midst of it has done what was done by then."""
    driver = operators.world.driver
    for _ in range(2 * AT_ONCE):
        driver.ask((Claim("open", 1),), client="web")
    service = operators.world.server._admin
    assert service is not None
    order = asyncio.ensure_future(service._orders.revoke(request_, Said("joe")))
    await asyncio.sleep(0)

    order.cancel()

    with pytest.raises(asyncio.CancelledError):
        await order
    assert driver.live_leases == AT_ONCE
    ((what, resources, detail, actor),) = operators.acts
    assert (what, resources, actor) == ("revocation", ("open",), "joe")
    assert detail in {f"{AT_ONCE} leases of client web", f"leases {', '.join(map(str, range(1, 21)))} and 230 more"}


async def test_all_leases_of_a_session(operators: Operated) -> None:
    """By the name that operators see; its client is told, and its other sessions keep theirs."""
    one, other = await Peer.begin(operators.world), await Peer.begin(operators.world)
    leases = [(await one.acquire(1)).id, (await one.acquire(2, "open")).id]
    kept = (await other.acquire(1, "open")).id

    said = await operators.admin.Revoke(admin.RevokeRequest(session=one.session[:8]))

    assert said.revoked == 2
    heard = await one.hears(lambda heard: len(heard.ended) == 2)
    assert {(each.lease_id, each.ended.reason) for each in heard.ended} == {(lease, "revoked") for lease in leases}
    assert operators.world.driver.lease_ids() == [kept]
    assert operators.acts == [("revocation", ("open", "sem"), f"2 leases of session {one.session[:8]} of me", "")]


@pytest.mark.parametrize("session", ["0123abcd", "x", "0123abcd0123abcd0123abcd0123abcd"])
async def test_a_session_that_is_not_there(operators: Operated, session: str) -> None:
    """Is not found."""
    said = await refused(operators.admin.Revoke(admin.RevokeRequest(session=session)))

    assert (said.code, said.reason) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_SESSION")
    info = said.details["ResourceInfo"]
    assert isinstance(info, error_details_pb2.ResourceInfo)
    assert (info.resource_type, info.resource_name) == ("governor.v1.Session", session)


# --- all of them --------------------------------------------------------------------------------------------


async def test_operators_are_served_while_the_daemon_drains(operators: Operated) -> None:
    """That is when they are needed: what is held can be seen, and ended."""
    lease = (await operators.world.stub.Acquire(ask())).lease.id
    operators.world.server.drain()
    operators.world.driver.drain()

    info = await operators.admin.GetInfo(admin.GetInfoRequest())
    assert (info.draining, info.leases) == (True, 1)
    assert (await operators.admin.PauseResource(admin.PauseResourceRequest(resource="sem"))).changed
    assert (await operators.admin.Revoke(admin.RevokeRequest(lease_ids=[lease]))).revoked == 1
    assert not operators.world.driver.live_leases


# --- on record ----------------------------------------------------------------------------------------------


async def test_what_is_answered_is_on_record(operators: Operated, monkeypatch: pytest.MonkeyPatch) -> None:
    """An order is answered once it is written; it is in force at once."""
    written = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(operators.world.driver, "commit", lambda: written)
    call = asyncio.ensure_future(operators.admin.PauseResource(admin.PauseResourceRequest(resource="sem")))

    await until(lambda: bool(operators.acts))

    assert (await refused(operators.world.stub.Acquire(ask()))).reason == "PAUSED"
    assert not call.done()
    written.set_result(True)
    assert (await call).changed


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("Revoke", admin.RevokeRequest(client="web")),
        ("PauseResource", admin.PauseResourceRequest(resource="sem")),
        ("ResumeResource", admin.ResumeResourceRequest(resource="sem")),
        ("DrainResource", admin.DrainResourceRequest(resource="sem")),
        ("SetOverride", admin.SetOverrideRequest(resource="sem", settings={"permits": "7"}, length=MINUTE)),
        ("ClearOverride", admin.ClearOverrideRequest(resource="sem")),
        ("RecycleMembers", admin.RecycleMembersRequest(resource="pool", member="spare")),
        ("QuarantineMember", admin.QuarantineMemberRequest(resource="pool", member="spare")),
        ("RestoreMember", admin.RestoreMemberRequest(resource="pool", member="spare")),
        ("Reload", admin.ReloadRequest()),
    ],
)
async def test_what_is_so_already_is_on_record_too(
    operators: Operated, monkeypatch: pytest.MonkeyPatch, name: str, request_: Message
) -> None:
    """Whoever repeats an order that is only on its way to the disk is not told so before it is there."""
    call = getattr(operators.admin, name)
    await call(request_)
    loop = asyncio.get_running_loop()
    asked: list[asyncio.Future[bool]] = []

    def commit() -> asyncio.Future[bool]:
        asked.append(loop.create_future())
        return asked[-1]

    monkeypatch.setattr(operators.world.driver, "commit", commit)
    repeated = asyncio.ensure_future(call(request_))
    await until(lambda: bool(asked) or repeated.done())

    assert not repeated.done()
    for each in asked:
        each.set_result(True)
    await repeated


async def test_who_says_nothing_is_nobody(operators: Operated) -> None:
    """What is said is put on record as it is said, if it is one text of at most 256 bytes."""
    pause, resume = admin.PauseResourceRequest(resource="sem"), admin.ResumeResourceRequest(resource="sem")
    await operators.admin.PauseResource(pause)
    await operators.admin.ResumeResource(resume, metadata=(("governor-actor", "x" * 256),))
    assert [act[3] for act in operators.acts] == ["", "x" * 256]
    for metadata in ((("governor-actor", "x" * 257),), (("governor-actor", "a"), ("governor-actor", "b"))):
        said = await refused(operators.admin.PauseResource(pause, metadata=metadata))
        assert (said.code, said.info.metadata["field"]) == (grpc.StatusCode.INVALID_ARGUMENT, "governor-actor")
    assert len(operators.acts) == 2
