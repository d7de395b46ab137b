"""Calls as stock clients make them, with a real engine behind and a clock that stands still."""

import asyncio
import logging

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2
from grpc import aio

from governor.core.effects import Granted
from governor.core.types import SECOND, LeaseId, TicketId
from governor.rpc import translate
from governor.v1 import governor_pb2 as pb
from governor.v1.governor_pb2_grpc import GovernorStub
from tests.rpc.conftest import World, ask, until
from tests.rpc.refusals import Refused, refused, status_of

OK = grpc.StatusCode.OK


async def test_take_and_give_back(governor: World) -> None:
    """A lease says what it is and how long it lasts; released, nothing is left of it."""
    lease = (await governor.stub.Acquire(ask(permits=2))).lease
    assert governor.in_use() == 2
    assert lease.grants == [pb.Grant(resource="sem", permits=2)]
    assert (lease.remaining, lease.waited) == (Duration(seconds=30), Duration())

    released = await governor.stub.Release(pb.ReleaseRequest(lease_ids=[lease.id]))

    assert released.results == [pb.LeaseResult(lease_id=lease.id, state=pb.LeaseResult.RELEASED)]
    assert governor.in_use() == 0


async def test_a_pool_names_its_member(governor: World) -> None:
    """With the attributes from the config."""
    lease = (await governor.stub.Acquire(ask("pool"))).lease

    members = {member.id: dict(member.attributes) for member in lease.grants[0].members}
    assert members in ({"primary": {"endpoint": "db1:5432"}}, {"spare": {}})


async def test_a_spent_grant_has_nothing_to_renew(governor: World) -> None:
    """A rate limit lends nothing: no remaining time, and a release says that it was spent."""
    lease = (await governor.stub.Acquire(ask("rate"))).lease
    assert not lease.HasField("remaining")

    said = await refused(governor.stub.Release(pb.ReleaseRequest(lease_ids=[lease.id])))

    assert (said.code, said.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "LEASE_ENDED")
    assert said.info.metadata["ended"] == "spent"


async def test_a_waiter_is_served(governor: World) -> None:
    """The next in line gets what is given back, and learns how long it stood there."""
    first = (await governor.stub.Acquire(ask(permits=2))).lease
    waiter = asyncio.ensure_future(governor.stub.Acquire(ask()))
    await governor.until_waiting(1)
    governor.clock.advance(3 * SECOND)

    await governor.stub.Release(pb.ReleaseRequest(lease_ids=[first.id]))

    assert (await waiter).lease.waited == Duration(seconds=3)


async def test_a_wait_that_is_over(governor: World) -> None:
    """Not now is RESOURCE_EXHAUSTED, with how long was waited."""
    await governor.stub.Acquire(ask(permits=2))
    request = ask()
    request.wait.FromMilliseconds(1500)
    waiter = asyncio.ensure_future(refused(governor.stub.Acquire(request)))
    await governor.until_waiting(1)

    governor.clock.advance(1500_000_000)

    said = await waiter
    assert (said.code, said.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "WAIT_OVER")
    assert said.message == "sem: no permits came within a wait of 1.5s; try again later, or wait longer"
    quota = said.details["QuotaFailure"]
    assert isinstance(quota, error_details_pb2.QuotaFailure)
    assert quota.violations[0].subject == "sem"


async def test_a_known_time_is_told(governor: World) -> None:
    """A rate limit knows when: RetryInfo for programs, pushback for gRPC's own retries."""
    await governor.stub.Acquire(ask("rate"))
    request = ask("rate")
    request.wait.FromNanoseconds(0)

    said = await refused(governor.stub.Acquire(request))

    assert (said.code, said.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "NONE_FREE")
    assert said.metadata["grpc-retry-pushback-ms"] == "1000"
    retry = said.details["RetryInfo"]
    assert isinstance(retry, error_details_pb2.RetryInfo)
    assert retry.retry_delay == Duration(seconds=1)


async def test_never_is_another_word(governor: World) -> None:
    """More than there is: OUT_OF_RANGE, with what was asked and what there is, and nothing about trying again."""
    said = await refused(governor.stub.Acquire(ask(permits=3)))

    assert said.code == grpc.StatusCode.OUT_OF_RANGE
    assert dict(said.info.metadata) == {"resource": "sem", "asked": "3", "limit": "2"}
    assert "RetryInfo" not in said.details
    assert "grpc-retry-pushback-ms" not in said.metadata


async def test_an_unknown_resource(governor: World) -> None:
    """NOT_FOUND, by name."""
    said = await refused(governor.stub.Acquire(ask("a/b & ü")))

    assert (said.code, said.reason) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_RESOURCE")
    found = said.details["ResourceInfo"]
    assert isinstance(found, error_details_pb2.ResourceInfo)
    assert (found.resource_type, found.resource_name) == ("governor.v1.Resource", "a/b & ü")


async def test_draining(governor: World) -> None:
    """Who waits is answered at once, who asks as well, both with when to come back; leases still end in order."""
    lease = (await governor.stub.Acquire(ask(permits=2))).lease
    waiter = asyncio.ensure_future(refused(governor.stub.Acquire(ask())))
    await governor.until_waiting(1)

    governor.driver.drain()

    for said in (await waiter, await refused(governor.stub.Acquire(ask()))):
        assert (said.code, said.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        assert said.metadata["grpc-retry-pushback-ms"] == "1000"
    assert await status_of(governor.stub.Release(pb.ReleaseRequest(lease_ids=[lease.id]))) is OK


async def test_one_lease_has_the_status_of_the_call(governor: World) -> None:
    """Ended and unknown ones fail the call, and the message says why and when."""
    lease = (await governor.stub.Acquire(ask())).lease
    governor.clock.advance(31_200_000_000)

    for call in (
        governor.stub.Release(pb.ReleaseRequest(lease_ids=[lease.id])),
        governor.stub.Renew(pb.RenewRequest(lease_ids=[lease.id])),
    ):
        said = await refused(call)
        assert (said.code, said.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "LEASE_ENDED")
        assert said.message.startswith(f"lease {lease.id}: expired 1.2s ago;")
        assert dict(said.info.metadata) == {"lease": str(lease.id), "ended": "expired", "ended_ago_ms": "1200"}
    for call in (
        governor.stub.Release(pb.ReleaseRequest(lease_ids=[10**12])),
        governor.stub.Renew(pb.RenewRequest(lease_ids=[10**12])),
    ):
        said = await refused(call)
        assert (said.code, said.reason) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_LEASE")
        found = said.details["ResourceInfo"]
        assert isinstance(found, error_details_pb2.ResourceInfo)
        assert (found.resource_type, found.resource_name) == ("governor.v1.Lease", str(10**12))


async def test_several_leases_have_a_result_each(governor: World) -> None:
    """The call is OK, and each id says what became of it."""
    ids = [(await governor.stub.Acquire(ask())).lease.id, 10**12]

    renewed = await governor.stub.Renew(pb.RenewRequest(lease_ids=ids, lease=Duration(seconds=60)))
    released = await governor.stub.Release(pb.ReleaseRequest(lease_ids=[*ids, ids[0]]))

    state = pb.LeaseResult
    assert [result.state for result in renewed.results] == [state.RENEWED, state.UNKNOWN]
    assert renewed.results[0].remaining == Duration(seconds=60)
    assert [result.state for result in released.results] == [state.RELEASED, state.UNKNOWN, state.ENDED]
    assert released.results[2].ended == pb.Ended(reason="released", ago=Duration())


async def test_a_renewal_that_is_too_long(governor: World) -> None:
    """It is refused by its field, and the lease lives on as it was."""
    lease = (await governor.stub.Acquire(ask())).lease

    said = await refused(
        governor.stub.Renew(pb.RenewRequest(lease_ids=[lease.id], lease=Duration(seconds=315_576_000)))
    )

    assert (said.code, said.info.metadata["field"]) == (grpc.StatusCode.INVALID_ARGUMENT, "lease")
    governor.clock.advance(31 * SECOND)
    assert governor.in_use() == 0


async def test_resources_are_listed_in_order(governor: World) -> None:
    """With what is lent now, who waits and since when."""
    await governor.stub.Acquire(ask(permits=2))
    waiter = asyncio.ensure_future(status_of(governor.stub.Acquire(ask())))
    await governor.until_waiting(1)
    governor.clock.advance(SECOND)

    listed = (await governor.stub.ListResources(pb.ListResourcesRequest())).resources

    assert [(seen.name, seen.kind) for seen in listed] == [
        ("sem", "semaphore"),
        ("pool", "pool"),
        ("rate", "rate_limit"),
        ("open", "semaphore"),
    ]
    assert listed[0] == pb.Resource(
        name="sem",
        kind="semaphore",
        capacity=2,
        in_use=2,
        available=0,
        leases=1,
        waiters=1,
        oldest_wait=Duration(seconds=1),
        max_waiters=2000,
        max_wait=Duration(seconds=30),
        lease=Duration(seconds=30),
    )
    assert not listed[1].HasField("oldest_wait")
    assert not listed[3].HasField("capacity")
    waiter.cancel()


async def test_a_deadline_ends_the_wait_with_an_answer(governor: World) -> None:
    """Just before the call's deadline the wait is over, and the client learns so rather than nothing."""
    await governor.stub.Acquire(ask(permits=2))
    waiter = asyncio.ensure_future(refused(governor.stub.Acquire(ask(), timeout=20)))
    await governor.until_waiting(1)

    # The daemon's clock, not the client's: a wait that was left at max_wait would still stand here.
    governor.clock.advance(20 * SECOND)

    said = await waiter
    assert (said.code, said.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "WAIT_OVER")


async def test_a_wait_shorter_than_the_deadline_is_kept(governor: World) -> None:
    """The deadline only ever shortens a wait."""
    await governor.stub.Acquire(ask(permits=2))
    request = ask()
    request.wait.FromSeconds(5)
    waiter = asyncio.ensure_future(refused(governor.stub.Acquire(request, timeout=20)))
    await governor.until_waiting(1)

    governor.clock.advance(5 * SECOND - 1)
    assert governor.waiters == 1
    governor.clock.advance(1)

    assert "within a wait of 5s" in (await waiter).message


async def test_a_passed_deadline_leaves_the_line(governor: World) -> None:
    """The clock stands still, so only the call's own deadline can end this wait."""
    await governor.stub.Acquire(ask(permits=2))

    code = await status_of(governor.stub.Acquire(ask(), timeout=0.05))

    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    await governor.until_waiting(0)


async def test_a_cancelled_call_leaves_the_line_and_the_next_moves_up(governor: World) -> None:
    """A large ask in front holds up a small one only as long as somebody wants it."""
    await governor.stub.Acquire(ask())
    large = governor.stub.Acquire(ask(permits=2))
    await governor.until_waiting(1)
    small = asyncio.ensure_future(governor.stub.Acquire(ask()))
    await governor.until_waiting(2)

    large.cancel()

    assert (await small).lease.grants[0].permits == 1


async def test_the_same_request_is_the_same_lease(governor: World) -> None:
    """A reply that was lost costs nothing: asked again under its id, it comes again."""
    request = ask()
    request.client, request.request_id = "web", "1"

    first, second = await governor.stub.Acquire(request), await governor.stub.Acquire(request)

    assert first.lease.id == second.lease.id
    assert governor.in_use() == 1
    request.claims[0].permits = 2
    said = await refused(governor.stub.Acquire(request))
    assert (said.code, said.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED")
    assert said.info.metadata["field"] == "request_id"


async def test_a_fault_is_logged_and_answered(
    governor: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller gets INTERNAL and a sentence without our insides; the traceback is in the log."""

    def broken() -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(governor.driver, "snapshot", broken)
    with caplog.at_level(logging.ERROR), pytest.raises(aio.AioRpcError) as caught:
        await governor.stub.ListResources(pb.ListResourcesRequest())

    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in str(caught.value.details())
    assert "ZeroDivisionError: secret" in caplog.text


async def test_what_the_transport_raises_is_left_to_it(
    governor: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It says that the call or the server has ended: no fault of ours, and no reason to touch the call again."""

    def ended() -> None:
        raise aio.InternalError

    monkeypatch.setattr(governor.driver, "snapshot", ended)
    with caplog.at_level(logging.ERROR, logger="governor"):
        await status_of(governor.stub.ListResources(pb.ListResourcesRequest()))

    assert not [record for record in caplog.records if record.name.startswith("governor")]


async def test_a_cancellation_from_within_still_answers(governor: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A future that dies under a call must not leave its caller hanging until the deadline."""

    async def cancelled(*_: object, **__: object) -> None:
        raise asyncio.CancelledError

    await governor.stub.Acquire(ask(permits=2))
    monkeypatch.setattr(governor.driver, "answer", cancelled)

    assert await status_of(governor.stub.Acquire(ask(), timeout=20)) is grpc.StatusCode.INTERNAL


async def test_a_grant_whose_reply_cannot_be_made_is_taken_back(
    governor: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the grant and its reply nothing gets lost, whatever goes wrong there."""

    def broken(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(translate, "acquired", broken)

    assert await status_of(governor.stub.Acquire(ask())) is grpc.StatusCode.INTERNAL
    assert governor.in_use() == 0


@pytest.mark.parametrize("resource", ["sem", "rate"])
async def test_a_grant_that_is_not_on_record_is_not_told_again(governor: World, resource: str) -> None:
    """Two calls under one request id; what they were granted cannot be written, and is taken back from both."""
    tickets: list[TicketId] = []
    governor.driver.observers.append(
        lambda effects: tickets.extend([effect.ticket for effect in effects if isinstance(effect, Granted)])
    )
    recorded: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    governor.driver.commit = lambda: recorded
    request = ask(resource)
    request.client, request.request_id = "me", "r"
    calls = [asyncio.ensure_future(status_of(governor.stub.Acquire(request))) for _ in range(2)]
    await until(lambda: len(tickets) == 2)
    for ticket in tickets:
        governor.driver.abandon(ticket)
    recorded.set_result(False)

    assert await asyncio.gather(*calls) == [grpc.StatusCode.UNAVAILABLE] * 2


async def test_both_addresses_lead_to_the_same_engine(governor: World) -> None:
    """What is taken over TCP is seen over the unix socket."""
    async with aio.insecure_channel(str(governor.server.addresses[1])) as channel:
        await GovernorStub(channel).Acquire(ask(permits=2))

    assert governor.in_use() == 2


async def test_blocked_asks_do_not_keep_a_release_out(governor: World) -> None:
    """On one and the same connection, behind more asks than most servers would let in."""
    lease = (await governor.stub.Acquire(ask(permits=2))).lease
    waiters = [asyncio.ensure_future(status_of(governor.stub.Acquire(ask()))) for _ in range(300)]
    await governor.until_waiting(300)

    assert await status_of(governor.stub.Release(pb.ReleaseRequest(lease_ids=[lease.id]))) is OK

    governor.driver.drain()
    codes = await asyncio.gather(*waiters)
    assert (codes.count(OK), codes.count(grpc.StatusCode.UNAVAILABLE)) == (2, 298)


async def test_a_burst_is_answered_in_our_own_words(governor: World) -> None:
    """Thousands of asks in one moment wait or are told that the line is full; gRPC throws none of them away."""
    await governor.stub.Acquire(ask(permits=2))

    async def one() -> str:
        try:
            await governor.stub.Acquire(ask())
        except aio.AioRpcError as error:
            return Refused(error).reason
        return "granted"

    asks = [asyncio.ensure_future(one()) for _ in range(3000)]
    await until(lambda: sum(call.done() for call in asks) == 1000)
    governor.driver.drain()

    answers = await asyncio.gather(*asks)
    assert (answers.count("LINE_FULL"), answers.count("DRAINING")) == (1000, 2000)


async def test_nothing_blocks_the_loop(governor: World, never_blocks: object) -> None:
    """Not a read, not a write, not a lookup on the way of a call."""
    lease = (await governor.stub.Acquire(ask())).lease
    await governor.stub.Renew(pb.RenewRequest(lease_ids=[lease.id]))
    await governor.stub.Release(pb.ReleaseRequest(lease_ids=[lease.id]))
    await refused(governor.stub.Acquire(ask("none")))

    listed = await governor.stub.ListResources(pb.ListResourcesRequest())

    assert len(listed.resources) == 4


async def test_ids_of_the_core_stay_in_it(governor: World) -> None:
    """To abandon what was never asked, or was delivered and given back, is nothing."""
    lease = (await governor.stub.Acquire(ask())).lease
    await governor.stub.Release(pb.ReleaseRequest(lease_ids=[lease.id]))

    governor.driver.abandon(TicketId(1))
    governor.driver.abandon(TicketId(10**6))

    assert LeaseId(lease.id) == governor.driver.last_id
    assert governor.in_use() == 0
