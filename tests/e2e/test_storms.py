"""Many callers that give up at the worst moments: nothing is left in use, and nobody in line."""

import asyncio
import random

import grpc
import pytest
from grpc import StatusCode, aio

from governor.v1 import governor_pb2 as pb
from tests.e2e.client import AsyncClient, Client, ask
from tests.e2e.process import BOUND, Daemon

# No lease ends by itself within a test: what comes back was given back, or taken back.
YAML = """
defaults: {lease: 10h, max_lease: 10h, max_wait: 1h, max_waiters: 2000}
semaphores:
  still: {permits: 1}
  busy: {permits: 8}
""" + "".join(f"  tight-{number}: {{permits: 1}}\n" for number in range(50))


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_thousand_waiters_cancelled_at_random_moments(daemon: Daemon, me: Client, seed: int) -> None:
    """While some still arrive others leave, from either end of the line and its middle, over four connections."""
    rng = random.Random(seed)
    held = me.acquire("still")
    clients = [AsyncClient(address) for address in daemon.addresses * 2]
    calls: list[aio.UnaryUnaryCall[pb.AcquireRequest, pb.AcquireResponse]] = []
    before = daemon.metric("governor_acquires_total", resource="still", outcome="abandoned")

    def arrive() -> None:
        calls.append(rng.choice(clients).stub.Acquire(ask("still", wait=3000)))

    async with asyncio.timeout(BOUND):
        for _ in range(500):
            arrive()
        await clients[0].until_counts("still", in_use=1, waiters=500)
        moves = ["arrive"] * 500 + ["leave"] * 1_000
        rng.shuffle(moves)
        for move in moves:
            if move == "arrive":
                arrive()
            else:
                rng.choice(calls).cancel()
            await asyncio.sleep(rng.choice([0, 0, 0.001]))
        for call in calls:
            call.cancel()
        await clients[0].until_counts("still", in_use=1, waiters=0)
        assert {await call.code() for call in calls} == {StatusCode.CANCELLED}
    me.release(held.id)

    assert me.counts("still") == (0, 0)
    abandoned = daemon.metric("governor_acquires_total", resource="still", outcome="abandoned") - before
    assert 500 <= abandoned <= 1_000  # the others gave up before their ask had arrived
    for client in clients:
        await client.channel.close()


@pytest.mark.parametrize("seed", [3, 4])
async def test_a_thousand_callers_cancelled_while_permits_go_round(daemon: Daemon, me: Client, seed: int) -> None:
    """Many give up just as they are granted. Under a request id that costs no permit: asked again, it is theirs.

    A reply that was written is delivered as far as a server can know, so only the client can give that lease back.
    """
    rng = random.Random(seed)
    outcomes = {"granted": 0, "cancelled": 0, "found": 0}
    calls: dict[int, aio.UnaryUnaryCall[pb.AcquireRequest, pb.AcquireResponse]] = {}

    async def give_back(client: AsyncClient, lease: pb.Lease) -> None:
        # In the turn in which the permit goes to the next in line, some of the next in line give up.
        next_ones = list(calls.values())
        for _ in range(min(len(next_ones), rng.randint(0, 3))):
            rng.choice(next_ones[: rng.choice([1, 12, 1_000])]).cancel()
        await client.stub.Release(pb.ReleaseRequest(lease_ids=[lease.id]))

    async def borrow(client: AsyncClient, number: int) -> None:
        await asyncio.sleep(rng.uniform(0, 0.2))
        request = ask("busy", wait=3000, client=f"storm-{seed}", request_id=f"{number}")
        calls[number] = call = client.stub.Acquire(request)
        try:
            lease = (await call).lease
        except asyncio.CancelledError:
            outcomes["cancelled"] += 1
            lease = None
        finally:
            del calls[number]
        if lease is not None:
            outcomes["granted"] += 1
            await give_back(client, lease)
            return
        request.wait.seconds = 0
        try:
            lease = (await client.stub.Acquire(request)).lease
        except grpc.RpcError as error:
            assert error.code() is StatusCode.RESOURCE_EXHAUSTED  # noqa: PT017  (to be granted is as good an end)
        else:
            outcomes["found"] += 1
            await give_back(client, lease)

    async with AsyncClient(daemon.addresses[0]) as one, AsyncClient(daemon.addresses[1]) as other:
        async with asyncio.timeout(BOUND):
            await asyncio.gather(*(borrow(rng.choice([one, other]), number) for number in range(1_000)))
            await one.until_counts("busy", in_use=0, waiters=0)

    assert sum(resource.leases for resource in me.resources()) == 0
    # The worst moments were among them: between the grant and its reply, and after the reply was written.
    assert daemon.metric("governor_lease_ends_total", resource="busy", reason="disconnected") > 0
    assert outcomes["granted"] > 100
    assert outcomes["cancelled"] > 100


@pytest.mark.parametrize("bound", ["wait", "deadline"])
async def test_a_wait_that_ends_as_the_grant_is_made(daemon: Daemon, me: Client, bound: str) -> None:
    """The permit comes back within milliseconds of the end of the wait: it is lent whole, or not at all.

    When a call's own deadline passes, its client cannot know whether a grant was on its way: it asks again.
    """
    rng = random.Random(5)
    outcomes = {"granted": 0, "over": 0, "deadline": 0}
    # When to give back, in seconds: later after each grant, earlier after each refusal, so always near the end.
    moment = 0.125

    async def one_try(client: AsyncClient, name: str, number: int) -> None:
        nonlocal moment
        holder = (await client.stub.Acquire(ask(name))).lease
        request = ask(name, client=name, request_id=f"{bound}-{number}")
        deadline: float | None = None
        if bound == "wait":
            request.wait.FromMilliseconds(130)
        else:
            deadline = 0.15  # of which the daemon keeps a little for the answer's way
        call = client.stub.Acquire(request, timeout=deadline)
        await asyncio.sleep(moment + rng.uniform(-0.005, 0.005))
        await client.stub.Release(pb.ReleaseRequest(lease_ids=[holder.id]))
        try:
            lease = (await call).lease
        except grpc.RpcError as error:
            moment = max(0.03, moment - 0.002)
            if error.code() is StatusCode.RESOURCE_EXHAUSTED:
                outcomes["over"] += 1
                assert await client.counts(name) == (0, 0)
                return
            assert error.code() is StatusCode.DEADLINE_EXCEEDED  # noqa: PT017  (to be granted is as good an end)
            assert bound == "deadline"
            outcomes["deadline"] += 1
            lease = (await client.stub.Acquire(request)).lease
        else:
            moment += 0.002
            outcomes["granted"] += 1
        assert await client.counts(name) == (1, 0)
        await client.stub.Release(pb.ReleaseRequest(lease_ids=[lease.id]))
        assert await client.counts(name) == (0, 0)

    async def tries(client: AsyncClient, name: str) -> None:
        for number in range(6):
            await one_try(client, name, number)

    async with AsyncClient(daemon.address) as client, asyncio.timeout(BOUND):
        await asyncio.gather(*(tries(client, f"tight-{number}") for number in range(50)))

    assert outcomes["granted"] > 20
    assert outcomes["over"] + outcomes["deadline"] > 20
