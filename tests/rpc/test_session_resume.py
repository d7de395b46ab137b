"""Coming back to a session: what its client holds goes on, what it never received does not."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.types import SECOND
from governor.v1 import governor_pb2 as pb
from tests.rpc.conftest import RESOURCES, World, declared, until, world
from tests.rpc.peer import Peer, hello, length, want

KEEP = replace(declared("keep", SemaphoreSpec(2)), on_disconnect=None)


@pytest.fixture
async def governor(folder: Path) -> AsyncIterator[World]:
    """What there always is, and what outlives its holder."""
    async with world(folder, *RESOURCES, KEEP) as made:
        yield made


def back(peer: Peer, held: Iterable[int] = ()) -> pb.Hello:
    """What the same process says when it comes back."""
    return hello(peer.hello.client, peer.hello.instance, peer.session, held)


async def test_a_session_comes_back_within_its_grace(governor: World) -> None:
    """It is the same one, what it holds lives on, is renewed, and is kept alive as before."""
    peer = await Peer.begin(governor, acquires=[want(1), want(2, "pool")])
    held = [grant.lease.id for grant in peer.heard.grants]
    await peer.vanish()
    governor.clock.advance(2 * SECOND - 1)

    again = await Peer.begin(governor, back(peer, held))

    assert (again.heard.welcome.resumed, again.session) == (True, peer.session)
    assert not again.heard.ended
    assert not again.heard.results, "their lengths are as they were told"
    governor.clock.advance(29 * SECOND)
    assert (governor.in_use(), governor.in_use("pool")) == (1, 1)
    await again.do(keep_alive=True)
    governor.clock.advance(29 * SECOND)
    assert list((await again.do(releases=held)).released) == held


async def test_after_its_grace_there_is_nothing_to_come_back_to(governor: World) -> None:
    """A session of its own begins, and of each lease it says what has become of it."""
    peer = await Peer.begin(governor)
    lease = await peer.acquire(1)
    await peer.vanish()
    governor.clock.advance(2 * SECOND)

    again = await Peer.begin(governor, back(peer, [lease.id, 4711]))

    assert not again.heard.welcome.resumed
    assert again.session != peer.session
    assert [(result.lease_id, result.state, result.ended.reason) for result in again.heard.ended] == [
        (lease.id, pb.LeaseResult.ENDED, "disconnected"),
        (4711, pb.LeaseResult.UNKNOWN, ""),
    ]


async def test_what_was_never_received_is_taken_back(governor: World) -> None:
    """It was granted on the old stream, and its client speaks of it no more: as if it had never been."""
    peer = await Peer.begin(governor)
    held = await peer.acquire(1)
    both = [*want(3, "pool").claims, *want(3, "rate").claims]
    await peer.say(acquires=[want(2), pb.SessionAcquire(op=3, claims=both)])
    await until(lambda: governor.in_use("pool") == 1)
    await peer.vanish()

    again = await Peer.begin(governor, back(peer, [held.id]))

    assert again.heard.welcome.resumed
    assert not again.heard.ended, "it knows of nothing that could have ended"
    assert (governor.in_use(), governor.in_use("pool")) == (1, 0)
    assert len((await again.do(acquires=[want(4, "rate", wait=0)])).grants) == 1, "what was spent has been refunded"


async def test_an_ask_whose_answer_was_lost_is_repeated(governor: World) -> None:
    """The same op finds the lease that it was granted, whole; a cancel gives it back; an adopt is as good."""
    peer = await Peer.begin(governor)
    lost = await peer.do(acquires=[want(1), want(2), want(3, "pool"), want(4, "rate"), want(5, "open")])
    ids = {grant.op: grant.lease.id for grant in lost.grants}
    await peer.vanish()
    governor.clock.advance(SECOND)

    again = await Peer.begin(
        governor,
        back(peer),
        acquires=[want(1), want(4, "rate")],
        cancels=[2],
        releases=[ids[5]],
        adopts=[pb.SessionAdopt(op=6, lease_id=ids[3])],
    )

    assert {grant.op: grant.lease.id for grant in again.heard.grants} == {1: ids[1], 4: ids[4], 6: ids[3]}
    assert {length(grant.lease.remaining) for grant in again.heard.grants} == {0, 30 * SECOND}
    assert list(again.heard.released) == [ids[5]]
    assert (governor.in_use(), governor.in_use("pool"), governor.in_use("open")) == (1, 1, 0)
    # Once more, with nothing: all that it has is taken back, though two tickets stood for one of them.
    await again.vanish()
    await Peer.begin(governor, back(again))
    assert (governor.in_use(), governor.in_use("pool")) == (0, 0)
    assert not governor.sessions.owners


async def test_what_is_let_go_in_the_first_message_is_not_taken_back(governor: World) -> None:
    """Its client has spoken of it."""
    peer = await Peer.begin(governor)
    lease = await peer.acquire(1)
    await peer.vanish()

    await Peer.begin(governor, back(peer), detaches=[lease.id])

    assert governor.in_use() == 1


async def test_the_old_stream_may_seem_to_live(governor: World) -> None:
    """It ends with ABORTED, its asks keep their places if they are repeated and lose them if not; nothing is lost."""
    holder = await Peer.begin(governor, acquires=[want(1, "keep", permits=2)])
    peer = await Peer.begin(governor)
    held = await peer.acquire(1)
    await peer.do(acquires=[want(2, "keep"), want(3, "keep")])
    behind = await Peer.begin(governor, acquires=[want(1, "keep")])
    assert governor.waiters == 3

    again = await Peer.begin(governor, back(peer, [held.id]), acquires=[want(3, "keep")])

    error = await peer.end()
    assert error is not None
    assert error.code() is grpc.StatusCode.ABORTED
    assert again.heard.welcome.resumed
    assert governor.waiters == 2
    assert governor.in_use() == 1
    await holder.do(releases=[holder.heard.grants[0].lease.id])
    heard = await again.hears(lambda heard: bool(heard.grants))
    assert [grant.op for grant in heard.grants] == [3]
    await behind.hears(lambda heard: bool(heard.grants))
    governor.clock.advance(10 * SECOND)
    assert governor.in_use() == 1, "the end of the old stream disconnects nothing"


async def test_what_is_freed_as_it_comes_back_finds_its_ask_once(governor: World) -> None:
    """The first message gives back what its own ask, which is still in line, has waited for; both are in it."""
    peer = await Peer.begin(governor)
    held = await peer.acquire(1, "keep", permits=2)
    await peer.do(acquires=[want(2, "keep", permits=2)])

    again = await Peer.begin(governor, back(peer, [held.id]), releases=[held.id], acquires=[want(2, "keep", permits=2)])

    assert [grant.op for grant in again.heard.grants] == [2]
    assert governor.in_use("keep") == 2
    lease = again.heard.grants[0].lease.id
    assert list((await again.do(releases=[lease])).released) == [lease]
    assert governor.in_use("keep") == 0


@pytest.mark.parametrize("other", [{"client": "you"}, {"instance": "x" * 16}])
async def test_another_process_cannot_come_back_to_it(governor: World, other: dict[str, str]) -> None:
    """A child of a fork, or a stranger: it gets a session of its own, and the old one goes on."""
    peer = await Peer.begin(governor)
    lease = await peer.acquire(1)
    said = back(peer)
    said.MergeFrom(pb.Hello(**other))  # type: ignore[arg-type]

    stranger = await Peer.begin(governor, said)

    assert not stranger.heard.welcome.resumed
    assert list((await peer.do(releases=[lease.id])).released) == [lease.id]


async def test_a_new_session_may_hold_what_is_its_programs(governor: World) -> None:
    """Leases of no session, or of one whose client is away, if the client's name is the same; not those of others."""
    away, there = await Peer.begin(governor), await Peer.begin(governor)
    stranger = await Peer.begin(governor, hello(client="you"))
    lost, kept, strange = [await peer.acquire(1, "open") for peer in (away, there, stranger)]
    mine = await governor.stub.Acquire(pb.AcquireRequest(claims=want(1, "open").claims, client="me"))
    yours = await governor.stub.Acquire(pb.AcquireRequest(claims=want(1, "open").claims, client="you"))
    await away.vanish()

    held = [lost.id, kept.id, strange.id, mine.lease.id, yours.lease.id]
    new = await Peer.begin(governor, hello(held=[*held, lost.id]))

    assert not new.heard.welcome.resumed
    assert [(result.lease_id, result.state) for result in new.heard.ended] == [
        (lease, pb.LeaseResult.UNKNOWN) for lease in (kept.id, strange.id, yours.lease.id)
    ]
    renewed = [(result.lease_id, result.state, length(result.remaining)) for result in new.heard.results]
    assert renewed == [(mine.lease.id, pb.LeaseResult.RENEWED, 30 * SECOND)]
    governor.clock.advance(29 * SECOND)
    await new.do(keep_alive=True)
    governor.clock.advance(29 * SECOND)
    assert governor.in_use("open") == 2


async def test_a_second_session_of_one_process_gets_what_it_repeats(governor: World) -> None:
    """Its first answer was lost with its session's name: the op says whose the lease is, and then it is of one only."""
    first = await Peer.begin(governor)
    lease = await first.acquire(1)

    second = await Peer.begin(governor, hello(instance=first.hello.instance), acquires=[want(1)])

    assert [grant.lease.id for grant in second.heard.grants] == [lease.id]
    await first.hears(lambda heard: [result.lease_id for result in heard.ended] == [lease.id])
    await first.vanish()
    governor.clock.advance(2 * SECOND)
    assert governor.in_use() == 1
    await second.vanish()
    governor.clock.advance(2 * SECOND)
    assert governor.in_use() == 0


async def test_a_session_that_was_kept_can_be_resumed_for_long(governor: World) -> None:
    """As long as anything of it lives."""
    peer = await Peer.begin(governor)
    lease = await peer.acquire(1, "keep")
    await peer.vanish()
    governor.clock.advance(29 * SECOND)

    again = await Peer.begin(governor, back(peer, [lease.id]))

    assert again.heard.welcome.resumed
    governor.clock.advance(29 * SECOND)
    assert governor.in_use("keep") == 1
