"""What a session holds: giving back, keeping alive, letting go, taking over, and hearing of every other end."""

from dataclasses import replace

import grpc
import pytest

from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.types import SECOND, LeaseId
from governor.v1 import governor_pb2 as pb
from tests.rpc.conftest import RESOURCES, World, ask, declared
from tests.rpc.peer import Peer, hello, length, want

RELEASED, RENEWED, ENDED, UNKNOWN = (
    pb.LeaseResult.RELEASED,
    pb.LeaseResult.RENEWED,
    pb.LeaseResult.ENDED,
    pb.LeaseResult.UNKNOWN,
)


def _told(results: "list[pb.LeaseResult]") -> list[tuple[int, "pb.LeaseResult.State.ValueType", str]]:
    return [(result.lease_id, result.state, result.ended.reason) for result in results]


# --- giving back ------------------------------------------------------------------------------------------------


async def test_what_is_given_back_is_free_for_what_the_same_message_asks(governor: World) -> None:
    """So a program that goes on to the next thing needs one message."""
    peer = await Peer.begin(governor)
    lease = await peer.acquire(1, permits=2)

    done = await peer.do(releases=[lease.id], acquires=[want(2, permits=2)])

    assert list(done.released) == [lease.id]
    assert [grant.op for grant in done.grants] == [2]
    assert not done.ended, "its own doing is no news"
    assert governor.in_use() == 2


async def test_giving_back_what_is_not_there_says_what_became_of_it(governor: World) -> None:
    """Ended, or never known; the others of the message are given back."""
    peer = await Peer.begin(governor)
    spent, lease = await peer.acquire(1, "rate"), await peer.acquire(2)
    lost = await peer.acquire(3)
    await peer.do(releases=[lost.id])

    done = await peer.do(releases=[lost.id, 4711, spent.id, -1, lease.id, lease.id])

    assert list(done.released) == [lease.id]
    assert _told(list(done.results)) == [
        (lost.id, ENDED, "released"),
        (4711, UNKNOWN, ""),
        (spent.id, ENDED, "spent"),
        (-1, UNKNOWN, ""),
        (lease.id, ENDED, "released"),
    ]
    assert governor.in_use() == 0


async def test_how_a_member_was_goes_with_it(governor: World) -> None:
    """A broken one is kept out; an outcome that nobody knows is read as unknown, and the lease is given back."""
    peer = await Peer.begin(governor)
    broken, other = await peer.acquire(1, "pool"), await peer.acquire(2, "pool")
    strange = pb.SessionRelease(lease_id=other.id, outcome=77)  # type: ignore[arg-type]

    done = await peer.do(outcomes=[pb.SessionRelease(lease_id=broken.id, outcome=pb.OUTCOME_BROKEN), strange])

    assert sorted(done.released) == [broken.id, other.id]
    pool = next(seen for seen in governor.driver.snapshot().resources if seen.name == "pool")
    assert pool.members is not None
    assert (pool.members.quarantined, pool.members.free) == (1, 1)


async def test_whoever_knows_an_id_may_give_it_back(governor: World) -> None:
    """From another session or in a call of its own; the session whose lease it was is told in the same turn."""
    peer, other = await Peer.begin(governor), await Peer.begin(governor, hello(client="you"))
    first, second, third = [await peer.acquire(op, "open") for op in (1, 2, 3)]

    done = await other.do(releases=[first.id])
    assert list(done.released) == [first.id]
    heard = await peer.hears(lambda heard: bool(heard.ended))
    assert _told(list(heard.ended)) == [(first.id, ENDED, "released")]

    await governor.stub.Release(pb.ReleaseRequest(lease_ids=[second.id]))
    heard = await peer.hears(lambda heard: bool(heard.ended))
    assert _told(list(heard.ended)) == [(second.id, ENDED, "released")]
    assert list((await peer.do(releases=[third.id])).released) == [third.id]


# --- keeping alive ----------------------------------------------------------------------------------------------


async def test_one_keep_alive_renews_all(governor: World) -> None:
    """Each for the length of its grant, which was told then and is not told again."""
    peer = await Peer.begin(governor, acquires=[want(1), want(2, "pool")])
    short = pb.SessionAcquire(op=3, claims=want(3, "open").claims)
    short.lease.FromNanoseconds(5 * SECOND)
    await peer.do(acquires=[short])
    for _ in range(10):
        governor.clock.advance(4 * SECOND)

        done = await peer.do(keep_alive=True)

        assert done.kept_alive
        assert not done.results
        assert not done.ended
    assert (governor.in_use(), governor.in_use("pool"), governor.in_use("open")) == (1, 1, 1)


async def test_without_it_leases_end_and_that_is_told(governor: World) -> None:
    """Though the stream lives: a client that has forgotten them holds nothing up."""
    peer = await Peer.begin(governor)
    lease = await peer.acquire(1)

    governor.clock.advance(30 * SECOND)

    heard = await peer.hears(lambda heard: bool(heard.ended))
    assert _told(list(heard.ended)) == [(lease.id, ENDED, "expired")]
    done = await peer.do(keep_alive=True, releases=[lease.id])
    assert _told(list(done.results)) == [(lease.id, ENDED, "expired")]
    assert governor.in_use() == 0


async def test_what_a_keep_alive_counts_for_is_told_when_it_changes(governor: World) -> None:
    """A reload allows less than before, and later as much again."""
    peer = await Peer.begin(governor, acquires=[want(1), want(2, "pool")])
    shorter = (replace(RESOURCES[0], max_lease=10 * SECOND, lease=10 * SECOND), *RESOURCES[1:])

    governor.driver.reconfigure(shorter)
    done = await peer.do(keep_alive=True)
    assert [(result.state, length(result.remaining)) for result in done.results] == [(RENEWED, 10 * SECOND)]
    assert not (await peer.do(keep_alive=True)).results

    governor.driver.reconfigure(RESOURCES)
    done = await peer.do(keep_alive=True)
    assert [(result.state, length(result.remaining)) for result in done.results] == [(RENEWED, 30 * SECOND)]


async def test_thousands_are_kept_alive_together(governor: World) -> None:
    """In several steps, as one."""
    peer = await Peer.begin(governor)
    for start in range(1, 2501, 500):
        await peer.do(acquires=[want(op, "open") for op in range(start, start + 500)])
    governor.clock.advance(20 * SECOND)
    assert (await peer.do(keep_alive=True)).kept_alive
    governor.clock.advance(20 * SECOND)
    assert governor.in_use("open") == 2500
    assert not peer.heard.ended


# --- letting go and taking over ---------------------------------------------------------------------------------


async def test_what_is_detached_is_nobodys(governor: World) -> None:
    """It is not kept alive, it outlives the stream, and its end is nobody's news; of what is gone it is told."""
    peer = await Peer.begin(governor)
    kept, let_go = await peer.acquire(1), await peer.acquire(2)

    done = await peer.do(detaches=[let_go.id, 4711], keep_alive=True)
    assert _told(list(done.results)) == [(4711, UNKNOWN, "")]
    await peer.do(releases=[kept.id])
    done = await peer.do(detaches=[kept.id])
    assert _told(list(done.results)) == [(kept.id, ENDED, "released")]
    await peer.vanish()
    governor.clock.advance(29 * SECOND)
    assert governor.in_use() == 1
    governor.clock.advance(SECOND)
    assert governor.in_use() == 0


async def test_a_lease_is_adopted_by_its_id(governor: World) -> None:
    """Whoever had taken it: a detached one of another program, or one of a call. It is renewed, and kept alive."""
    peer, other = await Peer.begin(governor, hello(client="you")), await Peer.begin(governor)
    detached = await peer.acquire(1, "pool")
    await peer.do(detaches=[detached.id])
    alone = (await governor.stub.Acquire(ask())).lease
    governor.clock.advance(20 * SECOND)

    done = await other.do(
        adopts=[pb.SessionAdopt(op=1, lease_id=detached.id), pb.SessionAdopt(op=2, lease_id=alone.id)]
    )

    assert [(grant.op, grant.lease.id) for grant in done.grants] == [(1, detached.id), (2, alone.id)]
    assert done.grants[0].lease.grants == detached.grants
    assert [length(grant.lease.remaining) for grant in done.grants] == [30 * SECOND] * 2
    governor.clock.advance(20 * SECOND)
    await other.do(keep_alive=True)
    governor.clock.advance(20 * SECOND)
    assert list((await other.do(releases=[detached.id, alone.id])).released) == [detached.id, alone.id]


async def test_what_is_gone_cannot_be_adopted(governor: World) -> None:
    """Ended and unknown are told apart, as in a call."""
    peer = await Peer.begin(governor)
    lease = await peer.acquire(1)
    await peer.do(releases=[lease.id])

    done = await peer.do(adopts=[pb.SessionAdopt(op=2, lease_id=lease.id), pb.SessionAdopt(op=3, lease_id=4711)])

    assert [(refusal.op, refusal.code, refusal.reason) for refusal in done.refusals] == [
        (2, grpc.StatusCode.FAILED_PRECONDITION.value[0], "LEASE_ENDED"),
        (3, grpc.StatusCode.NOT_FOUND.value[0], "UNKNOWN_LEASE"),
    ]
    assert done.refusals[0].message.startswith(f"lease {lease.id}: released")


async def test_whose_lease_is_adopted_is_told_that_it_is_gone(governor: World) -> None:
    """Two that keep one alive, each believing it its own, would be worse than either losing it."""
    peer, other = await Peer.begin(governor, hello(client="you")), await Peer.begin(governor)
    lease = await peer.acquire(1)

    done = await other.do(adopts=[pb.SessionAdopt(op=1, lease_id=lease.id)])

    assert [grant.lease.id for grant in done.grants] == [lease.id]
    heard = await peer.hears(lambda heard: bool(heard.ended))
    assert _told(list(heard.ended)) == [(lease.id, UNKNOWN, "")]
    assert not (await peer.do(detaches=[lease.id])).results
    await peer.vanish()
    governor.clock.advance(10 * SECOND)
    assert governor.in_use() == 1


async def test_to_adopt_ones_own_changes_nothing(governor: World) -> None:
    """But that it is renewed, and told whole."""
    peer = await Peer.begin(governor)
    lease = await peer.acquire(1)

    done = await peer.do(adopts=[pb.SessionAdopt(op=2, lease_id=lease.id)])

    assert [(grant.op, grant.lease) for grant in done.grants] == [(2, lease)]
    assert not done.ended
    # It is still what op 1 was granted, and op 2 is no ask that could be cancelled.
    await peer.do(cancels=[2])
    assert governor.in_use() == 1
    await peer.do(cancels=[1])
    assert governor.in_use() == 0


async def test_what_was_adopted_was_not_asked_for_by_this_process(governor: World) -> None:
    """So a cancel of the op under which another process had asked for it is about an ask of one's own."""
    peer, other = await Peer.begin(governor, hello(client="you")), await Peer.begin(governor)
    lease = await peer.acquire(7)
    await other.do(adopts=[pb.SessionAdopt(op=1, lease_id=lease.id)])

    await other.do(cancels=[7])

    assert governor.in_use() == 1


@pytest.mark.parametrize("resources", [1, 3])
async def test_a_lease_over_several_resources_is_one_lease(governor: World, resources: int) -> None:
    """Told once when it ends."""
    names = [f"part-{number}" for number in range(resources)]
    governor.driver.reconfigure((*RESOURCES, *[declared(name, SemaphoreSpec(1)) for name in names]))
    peer = await Peer.begin(governor)
    claims = [pb.Claim(resource=name, permits=1) for name in names]
    done = await peer.do(acquires=[pb.SessionAcquire(op=1, claims=claims)])
    lease = done.grants[0].lease

    governor.driver.release((LeaseId(lease.id),))

    heard = await peer.hears(lambda heard: bool(heard.ended))
    assert [result.lease_id for result in heard.ended] == [lease.id]
