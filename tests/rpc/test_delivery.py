"""A grant whose reply does not leave is taken back, in every race that there is between the two.

The clock of these tests stands still: no lease ever expires, so nothing is free that was not given or taken back.
"""

import asyncio
import random
from dataclasses import dataclass, field

import grpc
import pytest

from governor.core.effects import Granted, LeaseEnded
from governor.core.types import EndReason, TicketId
from governor.rpc import delivery
from governor.v1 import governor_pb2 as pb
from tests.rpc.conftest import World, ask, until
from tests.rpc.refusals import status_of
from tests.rpc.wire import Wire

SEEDS = range(3)


@dataclass
class Crowd:
    """Clients on one connection that ask, hold for a moment, and give back whatever reaches them whole.

    ``usual`` is how long an answer has taken of late, so that patience ends around the moment of the grant, however
    fast the machine is.
    """

    wire: Wire
    dice: random.Random
    usual: float = 0.002
    received: int = 0
    gave_up: int = 0
    at_once: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(16))

    async def client(self) -> None:
        """Asks, and gives up early or late; a lease whose reply was under way then is returned all the same."""
        async with self.at_once:
            began = asyncio.get_running_loop().time()
            stream = self.wire.call("Acquire", ask().SerializeToString())
            call = self.wire.calls[stream]
            try:
                async with asyncio.timeout(self.usual * self.dice.uniform(0.2, 2)):
                    await call.ended.wait()
                self.usual = 0.9 * self.usual + 0.1 * (asyncio.get_running_loop().time() - began)
            except TimeoutError:
                self.gave_up += 1
                self.usual *= 1.02
                self.wire.cancel(stream)
                # The reply may just have been written. The server reads the cancellation before it reads the next
                # ask, and writes no reply after it; so when this is answered, the reply is here, or never will be.
                await self.wire.answer(self.wire.call("ListResources", b""))
            if call.message is not None:
                await self.give_back(call.message)

    async def give_back(self, message: bytes) -> None:
        """Releases what was received."""
        self.received += 1
        ids = [pb.AcquireResponse.FromString(message).lease.id]
        await self.wire.answer(self.wire.call("Release", pb.ReleaseRequest(lease_ids=ids).SerializeToString()))


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_storm_of_cancelled_calls(governor: World, seed: int) -> None:
    """1,000 clients give up around the moment of their grant: each either got its lease, or it was taken back."""
    granted = _count_grants(governor)
    wire = await governor.wire()
    crowd = Crowd(wire, random.Random(seed))

    await asyncio.gather(*(crowd.client() for _ in range(1000)))

    await governor.until_free()
    assert 0 < crowd.received <= len(granted)
    assert crowd.gave_up


async def test_a_storm_of_deadlines(governor: World) -> None:
    """Deadlines that fire as grants are made: the same."""
    granted = _count_grants(governor)
    dice = random.Random(0)
    wire = await governor.wire()
    crowd = Crowd(wire, dice)

    async def client() -> None:
        async with crowd.at_once:
            microseconds = int(crowd.usual * dice.uniform(0.2, 3) * 1e6)
            began = asyncio.get_running_loop().time()
            stream = wire.call("Acquire", ask().SerializeToString(), grpc_timeout=f"{microseconds}u")
            answer = await wire.answer(stream)
            if answer is None:
                crowd.gave_up += 1
                crowd.usual *= 1.05
            else:
                crowd.usual = 0.9 * crowd.usual + 0.1 * (asyncio.get_running_loop().time() - began)
                await crowd.give_back(answer)

    await asyncio.gather(*(client() for _ in range(500)))

    await governor.until_free()
    assert 0 < crowd.received <= len(granted)
    assert crowd.gave_up


async def test_a_crowd_in_line_gives_up(governor: World) -> None:
    """1,000 stock clients wait behind one holder and are cancelled in any order: nobody is left in line."""
    dice = random.Random(1)
    holder = (await governor.stub.Acquire(ask(permits=2))).lease
    calls = [governor.stub.Acquire(ask()) for _ in range(1000)]
    await governor.until_waiting(1000)

    for call in dice.sample(calls, len(calls)):
        call.cancel()
        if dice.random() < 0.1:
            await asyncio.sleep(0)

    await governor.until_waiting(0)
    assert {await call.code() for call in calls} == {grpc.StatusCode.CANCELLED}
    await governor.stub.Release(pb.ReleaseRequest(lease_ids=[holder.id]))
    assert governor.in_use() == 0


@pytest.mark.parametrize("seed", SEEDS)
async def test_severed_connections(governor: World, seed: int) -> None:
    """Connections that die with asks in line, grants under way and nothing said: the line empties by itself.

    What had been written into a socket before it died was delivered, as far as anybody can tell; its lease runs out.
    """
    dice = random.Random(seed)
    holder = (await governor.stub.Acquire(ask(permits=2))).lease
    wires = [await governor.wire() for _ in range(20)]
    for wire in wires:
        for _ in range(20):
            wire.call("Acquire", ask().SerializeToString())
    await governor.until_waiting(400)

    for wire in dice.sample(wires, len(wires)):
        wire.sever()
        await asyncio.sleep(dice.random() * 0.002)

    await governor.until_waiting(0)
    await governor.stub.Release(pb.ReleaseRequest(lease_ids=[holder.id]))
    assert governor.in_use() == 0


async def test_a_dead_connection_is_never_lent_to(governor: World) -> None:
    """The permit passes over everybody who is gone, to the first who is there."""
    holder = (await governor.stub.Acquire(ask(permits=2))).lease
    wire = await governor.wire()
    for _ in range(50):
        wire.call("Acquire", ask().SerializeToString())
    await governor.until_waiting(50)
    waiter = asyncio.ensure_future(governor.stub.Acquire(ask(permits=2)))
    await governor.until_waiting(51)

    wire.sever()
    await governor.stub.Release(pb.ReleaseRequest(lease_ids=[holder.id]))

    async with asyncio.timeout(60):
        assert (await waiter).lease.grants[0].permits == 2


async def test_grpc_aio_sends_in_the_way_that_is_watched(governor: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What delivery rests on holds for the installed grpcio: its send is the one future that the task waits for."""
    seen: list[bool] = []
    judge = delivery.Delivery._judge

    def spy(self: delivery.Delivery, ticket: TicketId, batch: "asyncio.Future[None]") -> None:
        seen.append(batch.exception() is None)
        judge(self, ticket, batch)

    monkeypatch.setattr(delivery.Delivery, "_judge", spy)

    await governor.stub.Acquire(ask())

    await until(lambda: bool(seen))
    assert seen == [True]


async def test_a_task_that_ends_without_sending(caplog: pytest.LogCaptureFixture) -> None:
    """When the server stopped under a handler's feet, nothing was sent; that is no riddle."""
    taken_back: list[TicketId] = []
    watching = delivery.Delivery(taken_back.append)

    async def handler() -> None:
        watching.watch(TicketId(1))

    await asyncio.ensure_future(handler())
    await until(lambda: bool(taken_back))

    assert not caplog.records


async def test_an_unknown_way_to_send_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Then nothing is taken back that may have arrived, and the log does not fill with it."""
    delivery._complain.cache_clear()
    taken_back: list[TicketId] = []
    watching = delivery.Delivery(taken_back.append)

    async def handler() -> None:
        watching.watch(TicketId(1))
        await asyncio.sleep(0)  # waits for the next turn of the loop, not for a future

    await asyncio.gather(handler(), handler())

    assert not taken_back
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    delivery._complain.cache_clear()


async def test_a_reply_into_a_cancelled_call_is_noticed(governor: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancellation that comes after the handler has returned is seen by the watch and by nothing else."""
    ended: list[LeaseEnded] = []
    governor.driver.observers.append(
        lambda effects: ended.extend(effect for effect in effects if isinstance(effect, LeaseEnded))
    )
    acquire = governor.driver.ask
    wire = await governor.wire()

    def slow(*args: object, **kwargs: object) -> object:
        answer = acquire(*args, **kwargs)  # type: ignore[arg-type] # whatever the servicer gave
        # The cancellation reaches grpc's own threads, while the loop stands still and cannot be told of it.
        wire.cancel(stream)
        wire.flush()
        return answer

    monkeypatch.setattr(governor.driver, "ask", slow)
    stream = wire.call("Acquire", ask().SerializeToString())

    await until(lambda: bool(ended))
    assert ended[0].reason is EndReason.DISCONNECTED
    assert governor.in_use() == 0


async def test_what_stays_lent_was_delivered(governor: World) -> None:
    """A call that got its reply keeps its lease, however the client ends the call afterwards."""
    call = governor.stub.Acquire(ask())
    lease = (await call).lease

    call.cancel()
    await governor.stub.ListResources(pb.ListResourcesRequest())

    assert governor.in_use() == 1
    await governor.stub.Release(pb.ReleaseRequest(lease_ids=[lease.id]))


async def test_a_lost_reply_can_be_had_again(governor: World) -> None:
    """The way out of the race that no server can see: ask again under the same id, and release what comes."""
    request = ask()
    request.client, request.request_id = "web", "lost"
    first = (await governor.stub.Acquire(request)).lease

    again = (await governor.stub.Acquire(request)).lease
    await governor.stub.Release(pb.ReleaseRequest(lease_ids=[again.id]))

    assert first.id == again.id
    assert governor.in_use() == 0


async def test_a_stopping_server_takes_back_what_it_cannot_send(governor: World) -> None:
    """Everybody in line is gone when the server has stopped, and nothing was lent to them."""
    await governor.stub.Acquire(ask(permits=2))
    calls = [governor.stub.Acquire(ask()) for _ in range(100)]
    codes = [asyncio.ensure_future(status_of(call)) for call in calls]
    await governor.until_waiting(100)

    await governor.server.stop(0)

    await governor.until_waiting(0)
    assert grpc.StatusCode.OK not in await asyncio.gather(*codes)
    assert governor.in_use() == 2


def _count_grants(governor: World) -> list[int]:
    """Fills with the ids of leases as they are granted."""
    granted: list[int] = []
    governor.driver.observers.append(
        lambda effects: granted.extend(effect.lease for effect in effects if isinstance(effect, Granted))
    )
    return granted
