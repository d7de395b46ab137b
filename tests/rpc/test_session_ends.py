"""How a session ends, from either side, and what becomes of what it had."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.types import SECOND
from governor.rpc.outbox import Outbox
from governor.session import Session
from governor.v1 import governor_pb2 as pb
from tests.rpc.conftest import MAX_WAITERS, RESOURCES, World, declared, until, world
from tests.rpc.peer import Peer, hello, length, nobodys, want

AT_ONCE = replace(declared("at-once", SemaphoreSpec(2)), on_disconnect=0)
GRACE = declared("grace", SemaphoreSpec(2))
KEEP = replace(declared("keep", SemaphoreSpec(2)), on_disconnect=None)


@pytest.fixture
async def governor(folder: Path) -> AsyncIterator[World]:
    """What there always is, and one semaphore of each answer to a holder that is gone."""
    async with world(folder, *RESOURCES, AT_ONCE, GRACE, KEEP) as made:
        yield made


async def _gone(peer: Peer, how: str) -> None:
    if how == "cut":
        peer.cut()
    elif how == "goodbye":
        await peer.stream.done_writing()
        assert await peer.end() is None
    else:
        await peer.say(hello=hello())
        assert await peer.end() is not None


@pytest.mark.parametrize("how", ["cut", "goodbye", "broken"])
async def test_leases_go_as_their_resources_say(governor: World, how: str) -> None:
    """At once, after a grace, or when they would have; however the stream ended."""
    peer = await Peer.begin(governor, acquires=[want(1, "at-once"), want(2, "grace"), want(3, "keep")])
    governor.clock.advance(SECOND)

    await _gone(peer, how)

    await until(lambda: governor.in_use("at-once") == 0)
    assert (governor.in_use("grace"), governor.in_use("keep")) == (1, 1)
    governor.clock.advance(2 * SECOND)
    assert (governor.in_use("grace"), governor.in_use("keep")) == (0, 1)
    governor.clock.advance(27 * SECOND)
    assert governor.in_use("keep") == 0


@pytest.mark.parametrize(
    "more",
    [
        {"held": range(1, 20_000)},
        {"acquires": [want(op, "") for op in range(1, 20_000)]},
        {"releases": range(1, 20_000)},
    ],
    ids=["held", "acquires", "releases"],
)
async def test_whoever_is_cut_off_in_its_first_message_is_told_why(governor: World, more: dict[str, Any]) -> None:
    """Though nothing has been said on the stream by then; and nothing is left of the session."""
    said = hello(held=more.pop("held", ()))
    peer = Peer(governor)
    await peer.say(hello=said, **more)

    error = await peer.end()
    assert error is not None
    assert (error.code(), "reads too slowly" in (error.details() or "")) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
    assert len(governor.sessions) == 0


async def test_a_client_is_told_how_long_its_leases_outlive_the_stream(governor: World) -> None:
    """It must stop working on a lease before somebody else is granted it, and then it cannot be told any more."""
    peer = await Peer.begin(
        governor, acquires=[want(1, "at-once"), want(2, "grace"), want(3, "keep"), want(4, "at-once")]
    )

    grants = {grant.op: grant for grant in peer.heard.grants}

    assert length(peer.heard.welcome.on_disconnect) == 2 * SECOND
    assert [grants[op].HasField("on_disconnect") for op in (1, 2, 3, 4)] == [True, False, False, True]
    assert length(grants[1].on_disconnect) == length(grants[4].on_disconnect) == 0
    assert [grants[op].keeps for op in (1, 2, 3)] == [False, False, True]


async def test_a_reload_changes_what_is_told(governor: World) -> None:
    """Grants after it say what holds from then on."""
    peer = await Peer.begin(governor, acquires=[want(1, "grace")])
    governor.driver.reconfigure((*RESOURCES, AT_ONCE, replace(GRACE, on_disconnect=None), KEEP))

    await peer.do(acquires=[want(2, "grace")])

    assert [grant.keeps for grant in peer.heard.grants] == [False, True]


async def test_a_client_may_rely_on_what_it_was_told(governor: World) -> None:
    """Cut off, it hears of no reload: what it holds is nobody else's for as long as it was told, and no longer."""
    peer = await Peer.begin(governor, acquires=[want(1, "grace"), want(2, "keep")])
    lower = (replace(AT_ONCE, name=spec.name) for spec in (GRACE, KEEP))
    governor.driver.reconfigure((*RESOURCES, AT_ONCE, *lower))
    other = await Peer.begin(governor, acquires=[want(1, "grace")])

    peer.cut()
    other.cut()

    await until(lambda: len(governor.server.sessions) == 1)
    assert (governor.in_use("grace"), governor.in_use("keep")) == (1, 1)
    governor.clock.advance(2 * SECOND)
    assert (governor.in_use("grace"), governor.in_use("keep")) == (0, 1)


async def test_whoever_adopts_an_older_lease_makes_no_word_of_it_for_others(governor: World) -> None:
    """What is granted from then on is told for as long as that outlives its stream, however the lease looks alike."""
    peer = await Peer.begin(governor, acquires=[want(1, "keep")])
    lease = peer.heard.grants[0].lease.id
    await peer.do(detaches=[lease])
    governor.driver.reconfigure((*RESOURCES, AT_ONCE, GRACE, replace(KEEP, on_disconnect=0)))

    adopted = await peer.do(adopts=[pb.SessionAdopt(op=2, lease_id=lease)])
    granted = await peer.do(acquires=[want(3, "keep")])

    assert [each.keeps for each in (*adopted.grants, *granted.grants)] == [True, False]
    assert [each.HasField("on_disconnect") for each in granted.grants] == [True]


@pytest.mark.parametrize("how", ["cut", "goodbye", "broken"])
async def test_its_waiters_leave_the_line(governor: World, how: str) -> None:
    """So whoever comes after them is granted what they stood in the way of, and they leave nothing behind."""
    holder = await Peer.begin(governor, acquires=[want(1, "keep")])
    peer = await Peer.begin(governor, acquires=[want(op, "keep", permits=2) for op in range(1, 51)])
    behind = await Peer.begin(governor, acquires=[want(1, "keep")])
    assert governor.waiters == 51

    await _gone(peer, how)

    heard = await behind.hears(lambda heard: bool(heard.grants))
    assert heard.grants[0].op == 1
    assert (governor.in_use("keep"), governor.waiters) == (2, 0)
    holder.cut()


async def test_those_who_leave_grant_each_other_nothing(governor: World) -> None:
    """The first in line leaves, the next could be granted, and is as gone as the first."""
    await Peer.begin(governor, acquires=[want(1, "keep")])
    peer = await Peer.begin(governor, acquires=[want(1, "keep", permits=2), want(2, "keep"), want(3, "keep")])

    peer.cut()

    await until(lambda: not governor.waiters)
    assert governor.in_use("keep") == 1


async def test_what_was_asked_before_a_goodbye_is_still_answered(governor: World) -> None:
    """A client that gives back and goes learns that it was given back."""
    peer = await Peer.begin(governor)
    lease = await peer.acquire(1, "keep")
    await peer.say(releases=[lease.id])
    await peer.stream.done_writing()

    heard = await peer.hears(lambda heard: heard.handled == 3)

    assert list(heard.released) == [lease.id]
    assert await peer.end() is None


async def test_a_session_with_nothing_left_is_forgotten(governor: World) -> None:
    """One that has leases is remembered for as long as they live."""
    peer = await Peer.begin(governor, acquires=[want(1, "at-once")])
    other = await Peer.begin(governor, acquires=[want(1, "grace")])
    for each in (peer, other):
        await each.vanish()
    assert len(governor.sessions) == 1
    governor.clock.advance(2 * SECOND)
    assert len(governor.sessions) == 0
    assert not governor.sessions.owners


async def test_whoever_does_not_read_is_cut_off(governor: World) -> None:
    """At a bound that was told, as if its client had gone; others are unharmed meanwhile and afterwards."""
    other = await Peer.begin(governor, hello(client="you"), acquires=[want(1, "keep")])
    slow = await Peer.begin(governor, acquires=[want(1, "at-once", permits=2), want(2, "at-once")])

    async with asyncio.timeout(60):
        while governor.in_use("at-once"):
            await slow.say(releases=nobodys(2000))

    assert governor.waiters == 0
    assert len((await other.do(acquires=[want(2, "keep")])).grants) == 1
    # Once it does read, it finds out.
    error = await slow.end()
    assert error is not None
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "reads too slowly" in (error.details() or "")


@pytest.mark.parametrize(
    "named",
    [
        {"releases": nobodys(40_000)},
        {"detaches": nobodys(40_000)},
        {"adopts": [pb.SessionAdopt(lease_id=9)] * 40_000},
        {"acquires": [pb.SessionAcquire()] * 40_000},
        {"outcomes": [pb.SessionRelease(lease_id=lease) for lease in nobodys(40_000)]},
    ],
    ids=lambda named: next(iter(named)),
)
async def test_no_message_does_more_than_its_answers_are_kept(
    governor: World, named: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked for beyond them would hold up everybody else, and nobody would be told what became of it."""
    told = 0
    put = Outbox._put

    def counted(outbox: Outbox, entry: bytes) -> None:
        nonlocal told
        told += 1
        put(outbox, entry)

    peer = await Peer.begin(governor, acquires=[want(1, permits=2), want(2)])
    monkeypatch.setattr(Outbox, "_put", counted)
    await peer.say(**named)

    error = await peer.end()
    assert error is not None
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert told <= 16_384 + 1000
    await until(lambda: governor.waiters == 0)


async def test_a_client_that_is_stuck_but_owes_nothing_is_left_alone(governor: World) -> None:
    """Little enough lies there unread."""
    peer = await Peer.begin(governor, acquires=[want(1, permits=2), want(2)])
    for _ in range(6):
        await peer.say(releases=nobodys(2000))

    heard = await peer.hears(lambda heard: heard.handled == 7)

    assert len(heard.results) == 12_000
    assert governor.in_use() == 2


async def test_draining_is_told(governor: World) -> None:
    """To all that are there and to whoever comes; waiters are refused, leases go on."""
    peer = await Peer.begin(governor)
    lease = await peer.acquire(1, permits=2)
    await peer.do(acquires=[want(2)])

    governor.server.drain()
    governor.driver.drain()

    heard = await peer.hears(lambda heard: bool(heard.refusals))
    assert heard.notice.draining
    assert [(refusal.op, refusal.reason) for refusal in heard.refusals] == [(2, "DRAINING")]
    late = await Peer.begin(governor, hello(client="you"), acquires=[want(1)])
    assert late.heard.notice.draining
    assert [refusal.reason for refusal in late.heard.refusals] == ["DRAINING"]
    assert (await peer.do(keep_alive=True)).kept_alive
    assert list((await peer.do(releases=[lease.id])).released) == [lease.id]


async def test_a_stop_ends_every_stream_and_leaves_leases_alone(governor: World) -> None:
    """At once, whatever its grace: idle ones, one that waits. It is not the client that has gone."""
    peers = [await Peer.begin(governor, acquires=[want(1, "at-once", wait=0)]) for _ in range(3)]
    silent = Peer(governor)
    await silent.stream.wait_for_connection()

    async with asyncio.timeout(60):
        await governor.server.stop(3600)

    for peer in peers:
        await peer.hears(lambda heard: heard.notice.stopping)
        error = await peer.end()
        assert error is not None
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert "stopping" in (error.details() or "")
    assert governor.in_use("at-once") == 2


@pytest.mark.parametrize("fault", ["keep_alive", "grant"])
async def test_a_fault_of_its_own_ends_that_session_alone(
    governor: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    """It says so, its log has the rest, what it held goes as if its client had gone, and others are unharmed."""
    other = await Peer.begin(governor, acquires=[want(1, "grace")])
    peer = await Peer.begin(governor, acquires=[want(1, "at-once")])

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(Session if fault == "keep_alive" else Outbox, {"grant": "_take"}.get(fault, fault), fails)
        await peer.say(keep_alive=True)
        error = await peer.end()

    assert error is not None
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "a bug" in caplog.text
    await until(lambda: governor.in_use("at-once") == 0)
    assert len((await other.do(acquires=[want(2, "grace")])).grants) == 1


@pytest.mark.parametrize("seed", range(8))
async def test_a_storm_of_cancels_leaves_nothing_behind(governor: World, seed: int) -> None:
    """Asks, cancels, releases and sudden ends of several sessions, in any order: then nothing is lent or waited for."""
    rng = random.Random(seed)
    for _ in range(4):
        peers = [await Peer.begin(governor) for _ in range(3)]
        await asyncio.gather(*(_rages(peer, random.Random(rng.random())) for peer in peers))
    # It may still have to be told of asks and cuts, so that nobody waits is not enough.
    await governor.until_hung_up()
    assert not governor.waiters
    governor.clock.advance(2 * SECOND)
    assert [governor.in_use(name) for name in ("sem", "pool", "open", "grace", "at-once")] == [0] * 5
    assert not governor.sessions.owners
    assert len(governor.sessions) == 0
    assert governor.clock.pending <= 1


async def _rages(peer: Peer, rng: random.Random) -> None:
    """All that a client can do, at random, and then it is gone."""
    names = ("sem", "sem", "pool", "rate", "open", "grace", "at-once")
    op, asked, listening = 0, list[int](), asyncio.ensure_future(peer.hears(lambda _: False))
    for _ in range(rng.randrange(5, 40)):
        wanted = [want(op + n, rng.choice(names), rng.choice((1, 1, 2))) for n in range(1, rng.randrange(1, 12))]
        op += len(wanted)
        asked += [ask.op for ask in wanted]
        held = [grant.lease.id for grant in peer.heard.grants]
        await peer.say(
            acquires=wanted,
            cancels=rng.sample(asked, min(len(asked), rng.randrange(8))),
            releases=rng.sample(held, min(len(held), rng.randrange(3))),
            places=rng.sample(asked, min(len(asked), 3)),
            keep_alive=rng.random() < 0.2,
        )
        if rng.random() < 0.3:
            await asyncio.sleep(0)
    peer.cut()
    with pytest.raises(asyncio.CancelledError):
        await listening


async def test_ten_thousand_pairs_with_cancels_end_as_they_began(governor: World) -> None:
    """Every second one is cancelled while it waits or just as it is granted."""
    peer = await Peer.begin(governor)
    for start in range(1, 10_001, 500):
        ops = range(start, start + 500)
        done = await peer.do(acquires=[want(op) for op in ops])
        assert len(done.grants) + len(done.queued) == 500
        granted = [grant.op for grant in done.grants]
        heard = await peer.do(cancels=[op for op in ops if op % 2 or op in granted])
        released = 0
        while governor.in_use() or governor.waiters:
            held = [grant.lease.id for grant in heard.grants]
            heard = await peer.do(releases=held)
            assert len(heard.released) == len(held)
            released += len(held)
        assert released >= 249
    assert governor.waiters == 0
    assert MAX_WAITERS >= 500
    peer.cut()
    await until(lambda: len(governor.sessions) == 0)
