"""Asks and grants that are told together: all is as if they were told one by one."""

import random
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from governor.core.kinds.pool import MemberSpec, PoolSpec
from governor.core.kinds.rate_limit import RateLimitSpec, Window
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.types import SECOND, Nanos
from governor.rpc.outbox import MAX_UNREAD
from governor.session import MAX_WAITING
from governor.v1 import governor_pb2 as pb
from tests.rpc.conftest import World, declared, world
from tests.rpc.peer import Peer, hello, want

_RESOURCES = (
    declared("sem", SemaphoreSpec(20)),
    declared("pool", PoolSpec(tuple([MemberSpec(f"m{number}") for number in range(9)]))),
    declared("rate", RateLimitSpec((Window(5, SECOND, 5),))),
    declared("open", SemaphoreSpec(None)),
)


def _who(client: str = "me") -> pb.Hello:
    """Somebody who reads what is told together."""
    said = hello(client)
    said.alike = True
    return said


def _alike(*ops: int, resource: str = "sem", permits: int = 1, wait: Nanos | None = None) -> pb.SessionAcquires:
    return pb.SessionAcquires(ops=ops, ask=want(0, resource, permits, wait))


def _one_by_one(told: pb.SessionResponse) -> list[pb.SessionGrant]:
    """All grants, in the order of their ops."""
    grants = list(told.grants)
    for alike in told.alike:
        assert not alike.grant.op
        assert not alike.grant.lease.id
        for op, lease in zip(alike.ops, alike.lease_ids, strict=True):
            grant = pb.SessionGrant(op=op, lease=pb.Lease(id=lease))
            grant.MergeFrom(alike.grant)
            grants.append(grant)
    return sorted(grants, key=lambda grant: grant.op)


def _runs(rng: random.Random, next_op: int) -> list[pb.SessionAcquires]:
    """Some asks: mostly many of the same, sometimes of what is not there or for too much."""
    runs = []
    for _ in range(rng.randint(0, 4)):
        number = rng.choice([1, 1, 2, 5, 12])
        resource = rng.choice(["sem", "sem", "pool", "rate", "open", "nowhere"])
        wait = rng.choice([None, 0, SECOND, 3 * SECOND])
        permits = rng.choice([1, 1, 1, 2, 1000])
        runs.append(_alike(*range(next_op, next_op + number), resource=resource, permits=permits, wait=wait))
        next_op += number
    return runs


@pytest.mark.parametrize("seed", range(8))
async def test_all_is_as_if_they_were_told_one_by_one(tmp_path: Path, seed: int) -> None:
    """Two daemons and the same day, told in two ways: the same leases, refusals and places, with the same message."""
    rng = random.Random(seed)
    folders = [tmp_path / "1", tmp_path / "2"]
    for folder in folders:
        folder.mkdir()
    async with world(folders[0], *_RESOURCES) as plain, world(folders[1], *_RESOURCES) as other:
        peers = [await Peer.begin(plain), await Peer.begin(other, _who())]
        held: list[int] = []
        ops: list[int] = [0]
        for _ in range(25):
            runs = _runs(rng, max(ops) + 1)
            if len(ops) > 1 and rng.random() < 0.3:
                runs.append(_alike(*rng.sample(ops[1:], min(3, len(ops) - 1))))  # repeated, or used for something else
            ops += [op for run in runs for op in run.ops]
            back = [held.pop(rng.randrange(len(held))) for _ in range(rng.randint(0, len(held)))]
            length = rng.choice([0, SECOND // 10, SECOND, 31 * SECOND])
            acquires = []
            for run in runs:
                for op in run.ops:
                    acquires.append(pb.SessionAcquire(op=op))
                    acquires[-1].MergeFrom(run.ask)
            told = [
                await peers[0].do(releases=back, acquires=acquires),
                await peers[1].do(releases=back, alike=runs),
            ]
            assert not told[0].alike
            assert _one_by_one(told[1]) == _one_by_one(told[0])
            assert told[1].refusals == told[0].refusals
            assert told[1].queued == told[0].queued
            assert told[1].released == told[0].released
            for each in (plain, other):
                each.clock.advance(length)
            assert plain.driver.snapshot() == other.driver.snapshot()
            held += [grant.lease.id for grant in _one_by_one(told[0]) if grant.lease.HasField("remaining")]


async def test_grants_that_are_alike_are_told_together_to_who_reads_that(governor: World) -> None:
    """Others are told each by itself, however they asked; members of a pool are told to everybody by themselves."""
    one, other = await Peer.begin(governor, _who()), await Peer.begin(governor, hello("you"))

    told = await one.do(alike=[_alike(1, 2, 3, resource="open"), _alike(4, 5, resource="pool")])
    assert [list(alike.ops) for alike in told.alike] == [[1, 2, 3]]
    assert [grant.op for grant in told.grants] == [4, 5]
    told = await other.do(alike=[_alike(1, 2, 3, resource="open")])
    assert not told.alike
    assert [grant.op for grant in told.grants] == [1, 2, 3]


@pytest.mark.parametrize("ops", [[1, 0, 2], [-1]])
async def test_an_op_that_is_none_is_refused_with_those_beside_it(governor: World, ops: list[int]) -> None:
    """What cannot be read is not done in part."""
    peer = await Peer.begin(governor, _who())

    told = await peer.do(alike=[_alike(*ops), _alike(7)])

    assert [(refusal.op, refusal.reason) for refusal in told.refusals] == [(op, "MALFORMED") for op in ops]
    assert f"ops[{ops.index(min(ops))}]" in told.refusals[0].message
    assert [grant.op for grant in _one_by_one(told)] == [7]


async def test_an_op_in_what_all_of_them_ask_is_refused(governor: World) -> None:
    """Nobody could tell whether it was meant as one more."""
    peer = await Peer.begin(governor, _who())

    told = await peer.do(alike=[pb.SessionAcquires(ops=[1, 2], ask=want(3))])

    assert [refusal.op for refusal in told.refusals] == [1, 2]
    assert "ask.op" in told.refusals[0].message
    assert not governor.in_use()


async def test_no_ops_ask_for_nothing(governor: World) -> None:
    """It is handled, and that is all."""
    peer = await Peer.begin(governor, _who())

    assert await peer.do(alike=[_alike()]) == pb.SessionResponse(handled=2)


async def test_an_op_that_is_named_twice_is_one_ask(governor: World) -> None:
    """In the same message, and in the next one while it waits."""
    peer = await Peer.begin(governor, _who())

    told = await peer.do(alike=[_alike(1, 1, permits=2), _alike(2, 3, 2)])
    assert {grant.op for grant in _one_by_one(told)} == {1}
    assert [place.op for place in told.queued] == [2, 3, 2]
    assert (governor.in_use(), governor.waiters) == (2, 2)
    told = await peer.do(alike=[_alike(3, 4)])
    assert [place.op for place in told.queued] == [3, 4]
    assert governor.waiters == 3


async def test_more_than_may_wait_are_refused_one_by_one(folder: Path) -> None:
    """Those that come first wait."""
    async with world(folder, replace(declared("sem", SemaphoreSpec(1)), max_waiters=2 * MAX_WAITING)) as governor:
        peer = await Peer.begin(governor, _who())
        told = await peer.do(alike=[_alike(*range(MAX_WAITING - 1, 0, -1))])
        assert [grant.op for grant in _one_by_one(told)] == [MAX_WAITING - 1]
        assert governor.waiters == MAX_WAITING - 2

        told = await peer.do(alike=[_alike(*range(MAX_WAITING, MAX_WAITING + 4))])

        assert [place.op for place in told.queued] == [MAX_WAITING, MAX_WAITING + 1]
        refused = [(refusal.op, refusal.reason) for refusal in told.refusals]
        assert refused == [(MAX_WAITING + 2, "LINE_FULL"), (MAX_WAITING + 3, "LINE_FULL")]


async def test_a_client_that_asks_for_more_than_it_may_be_told_is_cut_off_in_the_midst(governor: World) -> None:
    """Each grant counts, however few bytes it takes."""
    peer = await Peer.begin(governor, _who())
    await peer.say(alike=[_alike(*range(1, 3 * MAX_UNREAD), resource="open")])
    error = await peer.end()

    assert error is not None
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    await governor.until_hung_up()
    granted = governor.driver.last_id
    assert MAX_UNREAD <= granted < MAX_UNREAD + 1000
