"""How much of a daemon one client may take, and that others are served when it has taken all of that."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import cast

import grpc
import pytest
from grpc import aio

from governor.bounds import Bound, Bounds
from governor.core.snapshot import Snapshot
from governor.core.types import MILLISECOND, LeaseId
from governor.rpc import listing, session
from governor.rpc.answers import Answers
from governor.rpc.guard import Context, Guard
from governor.rpc.outbox import MAX_UNREAD, Outbox
from governor.rpc.room import ANYBODYS, MAX_SLOW, Room
from governor.v1 import governor_pb2 as pb
from tests.rpc.conftest import RESOURCES, World, ask, until, world
from tests.rpc.peer import Peer, hello, nobodys, want
from tests.rpc.refusals import Refused
from tests.rpc.wire import Wire, framed

STREAMS = 20


@pytest.fixture
async def governor(folder: Path) -> AsyncIterator[World]:
    """What there always is, with room for very few."""
    async with world(folder, *RESOURCES, bounds=Bounds(streams=STREAMS, sessions=5, sessions_per_client=3)) as made:
        yield made


async def told(peer: Peer) -> Refused:
    """Why there is no session."""
    await peer.say(hello=peer.hello)
    error = await peer.end()
    assert error is not None
    return Refused(error)


class TestSessions:
    """Of one client, and of all."""

    async def test_of_one_client_there_are_so_many_and_others_come_in(self, governor: World) -> None:
        """Whoever is refused hears that it is not now, and when to try again; one that ends makes room at once."""
        mine = [await Peer.begin(governor, hello("mine")) for _ in range(3)]
        one_more = Peer(governor)
        one_more.hello = hello("mine")

        refused = await told(one_more)

        assert refused.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert refused.reason == "BUSY"
        assert "RetryInfo" in refused.details
        assert "3 sessions of this client" in refused.message
        assert governor.reached == {Bound.SESSIONS_PER_CLIENT: 1}
        other = await Peer.begin(governor, hello("other"))
        assert (await other.acquire(1)).id
        await mine[0].vanish()
        await Peer.begin(governor, hello("mine"))

    async def test_of_all_clients_there_are_so_many_whatever_their_names(self, governor: World) -> None:
        """Those that are there go on, and calls without a session are served."""
        there = [await Peer.begin(governor, hello(f"name {number}")) for number in range(5)]
        one_more = Peer(governor)
        one_more.hello = hello("another")

        refused = await told(one_more)

        assert "5 sessions are there" in refused.message
        assert governor.reached == {Bound.SESSIONS: 1}
        assert (await there[4].acquire(1)).id
        assert (await governor.stub.Acquire(ask())).lease.id

    async def test_whoever_comes_back_is_no_new_one(self, governor: World) -> None:
        """A connection that broke is resumed, however many sessions there are."""
        there = [await Peer.begin(governor, hello(f"name {number}")) for number in range(5)]
        lease = await there[0].acquire(1)
        await there[0].vanish()

        again = await Peer.begin(
            governor,
            hello(there[0].hello.client, there[0].hello.instance, resume=there[0].session, held=[lease.id]),
        )

        assert again.heard.welcome.resumed
        assert not governor.reached

    async def test_what_is_remembered_counts_until_its_last_lease_ends(self, governor: World) -> None:
        """Else one client after the other could leave something behind."""
        for number in range(3):
            peer = await Peer.begin(governor, hello("mine"))
            await peer.acquire(1, "open")
            await peer.vanish()
            assert governor.sessions.number_of("mine") == number + 1
        one_more = Peer(governor)
        one_more.hello = hello("mine")
        assert (await told(one_more)).reason == "BUSY"

        governor.clock.advance(3_000_000_000)

        assert governor.sessions.number_of("mine") == 0
        await Peer.begin(governor, hello("mine"))


class TestStreams:
    """Of one connection."""

    async def test_one_connection_has_so_many_and_another_is_served(self, governor: World) -> None:
        """More are refused before anything of them is kept; what they have, they keep."""
        wire = await governor.wire()
        await wire.answer(wire.call("ListResources", b""))  # by then it has heard how many it may have
        body = framed(pb.AcquireRequest(claims=[pb.Claim(resource="sem", permits=2)]).SerializeToString())
        asked = [wire.raw_call("Acquire", body) for _ in range(3 * STREAMS)]

        def reset() -> int:
            return sum(wire.calls[stream].reset for stream in asked)

        # One was granted.
        await until(lambda: reset() + governor.waiters + 1 == len(asked))
        # gRPC may let one or two in above what it has told.
        assert STREAMS - 1 <= governor.waiters <= STREAMS + 2
        assert (await governor.stub.Acquire(ask("open"))).lease.id

    async def test_calls_that_are_taken_back_at_once_are_soon_refused(self, governor: World) -> None:
        """Of a thousand no more than a few are ever begun: those that gRPC still has count, though they are over."""
        wire = await governor.wire()
        await wire.answer(wire.call("ListResources", b""))
        tasks = len(asyncio.all_tasks())

        for _ in range(1000):
            wire.cancel(wire.unfinished_call("Acquire"))

        answer = asyncio.ensure_future(_granted(governor))
        most = 0
        async with asyncio.timeout(60):
            while not answer.done():
                most = max(most, len(asyncio.all_tasks()))
                await asyncio.sleep(0)
        assert answer.result().id
        # Two for each call, and a few for the one that makes sense.
        assert most <= tasks + 2 * (STREAMS + 2) + 10


class TestUnread:
    """What lies there for those who do not read."""

    def test_whoever_has_the_most_makes_room(self) -> None:
        """Everybody may have a few; of those with more there are so many, and the newcomer is not the one to go."""
        given_up: list[int] = []
        room = Room()
        boxes = [_box(number, given_up, room) for number in range(MAX_SLOW + 10)]
        for box in boxes:
            _fill(box, ANYBODYS)
        assert (len(room), given_up) == (0, [])

        _fill(boxes[3], 5000)
        for box in boxes[:MAX_SLOW]:
            _fill(box, 1)
        assert (len(room), given_up) == (MAX_SLOW, [])
        _fill(boxes[MAX_SLOW], 1)

        assert given_up == [3]
        assert len(room) == MAX_SLOW
        assert [boxes[number].unread for number in (0, 3, MAX_SLOW)] == [ANYBODYS + 1, 0, ANYBODYS + 1]

    async def test_whoever_reads_makes_room_and_is_not_given_up(self) -> None:
        """A thousand at a time, as they leave."""
        given_up: list[int] = []
        room = Room()
        box = _box(1, given_up, room)
        _fill(box, MAX_UNREAD)
        assert len(room) == 1
        while box.unread:
            await box.message()
        assert len(room) == 0

        _fill(box, MAX_UNREAD + 1)

        assert (given_up, len(room), box.unread) == ([1], 0, 0)

    async def test_whoever_is_gone_takes_no_room(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Else a few who had much to read as they went would have those cut off who read slowly."""
        room = Room()
        monkeypatch.setattr(session, "Room", lambda _: room)
        async with world(folder, *RESOURCES) as governor:
            start = pb.SessionRequest(hello=hello(), acquires=[want(1, permits=2), want(2, permits=2)])
            more = pb.SessionRequest(releases=nobodys(2 * ANYBODYS)).SerializeToString()
            for number in range(3):
                start.hello.instance = f"{number:032x}"
                wire = await _deaf(governor)
                wire.unfinished_call("Session", framed(start.SerializeToString()) + 3 * framed(more))
                await until(lambda: len(room) == 1)
                wire.sever()
                await until(lambda: len(room) == 0)

    async def test_a_session_that_is_given_up_is_counted(self, governor: World) -> None:
        """And another goes on."""
        other = await Peer.begin(governor)
        wire = await _deaf(governor)
        start = pb.SessionRequest(hello=hello(), acquires=[want(1, permits=2), want(2, permits=2)])
        more = framed(pb.SessionRequest(releases=nobodys(5000)).SerializeToString())
        wire.unfinished_call("Session", framed(start.SerializeToString()) + more * 4)

        await until(lambda: governor.reached[Bound.UNREAD] == 1)

        assert (await other.acquire(1, "open")).id


class TestLists:
    """Of all resources, which may be large."""

    async def test_all_who_ask_at_once_cost_no_more_than_one(
        self, governor: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One look for all that one turn of the loop has brought; a later list is of a later look."""
        looks: list[Snapshot] = []
        look = governor.driver.snapshot

        def counted() -> Snapshot:
            looks.append(look())
            return looks[-1]

        monkeypatch.setattr(governor.driver, "snapshot", counted)
        # Which calls come in one turn is gRPC's to say, so they are made here.
        clock, guard = governor.clock, Guard(governor.driver)
        lists = listing.Listing(governor.driver, clock, guard, None, lambda _: None)
        context = cast("Context", None)  # whoever is known to nobody is not looked at
        told = await asyncio.gather(*[anext(lists.tell(b"", context)) for _ in range(STREAMS)])
        assert len(set(told)) == len(looks) == 1
        lease = (await governor.stub.Acquire(ask())).lease

        seen = pb.ListResourcesResponse.FromString(cast("bytes", await anext(lists.tell(b"", context))))

        assert len(looks) == 2
        assert next(each.in_use for each in seen.resources if each.name == "sem") == len(lease.grants)

    async def test_after_a_look_that_took_long_all_wait_for_the_next(
        self, governor: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And are told what is true then."""
        looks: list[int] = []
        look = governor.driver.snapshot

        def slow() -> Snapshot:
            looks.append(len(looks))
            governor.clock.time += 5 * MILLISECOND
            return look()

        monkeypatch.setattr(governor.driver, "snapshot", slow)
        lists = listing.Listing(governor.driver, governor.clock, Guard(governor.driver), None, lambda _bound: None)
        context = cast("Context", None)  # it is asked who calls, where anybody is

        async def told() -> int:
            async with aclosing(lists.tell(b"", context)) as answers:
                return _in_use(await anext(answers))

        assert await told() == 0
        more = [asyncio.ensure_future(told()) for _ in range(10)]
        await governor.stub.Acquire(ask())
        assert len(looks) == 1

        governor.clock.advance(50 * MILLISECOND)

        assert set(await asyncio.gather(*more)) == {1}
        assert len(looks) == 2

    async def test_what_nobody_reads_is_bounded_and_leases_go_on(
        self, governor: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Further lists are refused, for now; permits are lent and come back as ever."""
        size = len((await governor.stub.ListResources(pb.ListResourcesRequest())).SerializeToString())
        monkeypatch.setattr(listing, "MAX_UNREAD", 3 * size)
        wire = await _deaf(governor)
        for _ in range(10):
            wire.call("ListResources", b"")
        await until(lambda: governor.reached[Bound.UNREAD] == 7)  # ten but for the three that fit

        with pytest.raises(aio.AioRpcError) as refused:
            await governor.stub.ListResources(pb.ListResourcesRequest())
        lease = (await governor.stub.Acquire(ask())).lease
        await governor.stub.Release(pb.ReleaseRequest(lease_ids=[lease.id]))

        assert Refused(refused.value).reason == "BUSY"
        wire.sever()
        await _listed(governor)


def _in_use(answer: object) -> int:
    assert isinstance(answer, bytes)
    return next(each.in_use for each in pb.ListResourcesResponse.FromString(answer).resources if each.name == "sem")


async def _granted(governor: World) -> pb.Lease:
    return (await governor.stub.Acquire(ask())).lease


async def _listed(governor: World) -> None:
    """Returns when a list is answered again."""
    async with asyncio.timeout(60):
        while True:
            try:
                await governor.stub.ListResources(pb.ListResourcesRequest())
            except aio.AioRpcError:
                await asyncio.sleep(0.001)
            else:
                return


async def _deaf(governor: World) -> Wire:
    """A connection over which no byte of an answer may be sent."""
    wire = await governor.wire()
    wire.shut()
    return wire


def _nothing_is_lent(_: LeaseId) -> None:
    pass


def _box(number: int, given_up: list[int], room: Room) -> Outbox:
    return Outbox(
        Answers(_nothing_is_lent),
        commit=lambda: True,
        overflowed=lambda: given_up.append(number),
        superseded=lambda: None,
        room=room,
    )


def _fill(box: Outbox, number: int) -> None:
    for op in range(number):
        box.queued(op + 1, 1, None)
