"""One message of a session, however long it takes: others have their turn in the midst of it, and it means the same.

Where every bit is a slice of its own, what is done in one turn of the event loop is counted; where something happens in
the midst of a message, that stops there until it has happened.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import pytest

from governor.access import Client, Verb, digest_of
from governor.core.effects import Denied, Effect, Granted, Queued
from governor.core.events import Event, Release, Renew
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.types import SECOND, Denial, LeaseId
from governor.driver import Driver
from governor.rpc import requests
from governor.rpc.fields import Terms
from governor.rpc.outbox import Outbox
from governor.rpc.stream import AT_ONCE
from governor.rpc.turns import SLICE, Turns
from governor.v1 import governor_pb2 as pb
from tests.rpc.conftest import RESOURCES, World, ask, declared, until, world
from tests.rpc.peer import Peer, hello, nobodys, want

MANY = 600
# Each of so many asks that are repeated has a step of its own, one that renews, and one for its former ticket.
MOST = 3 * AT_ONCE
SHUT = declared("shut", SemaphoreSpec(0))


@pytest.fixture
async def governor(folder: Path) -> AsyncIterator[World]:
    """What there always is, and a semaphore of which nobody ever gets anything."""
    async with world(folder, *RESOURCES, SHUT) as made:
        yield made


def turns_of(governor: World) -> Turns:
    """Those of all its sessions."""
    return governor.server._sessions._turns


def slice_all(governor: World) -> None:
    """From now on each look at the clock finds that a slice is over."""
    turns_of(governor)._now = count(0, SLICE).__next__


class Stop:
    """A message stops in the midst of it, after so many of its bits or once something holds, until it is to go on."""

    def __init__(self, governor: World, after: int = 3, *, once: Callable[[], bool] | None = None) -> None:
        turns = turns_of(governor)
        self._left, self._once = after, once
        self.there, self._go = asyncio.Event(), asyncio.Event()
        turns.over = self._over  # type: ignore[method-assign]
        turns.pause = self._pause  # type: ignore[method-assign]

    def _over(self) -> bool:
        if self._once is not None:
            return self._once()
        self._left -= 1
        return self._left == 0

    async def _pause(self) -> None:
        self.there.set()
        await self._go.wait()

    async def reached(self) -> None:
        """Returns when it has stopped."""
        async with asyncio.timeout(60):
            await self.there.wait()

    def go_on(self) -> None:
        """It is to."""
        self._go.set()


def together(ops: Iterable[int], resource: str, permits: int = 1) -> pb.SessionAcquires:
    """The same ask for each of these."""
    return pb.SessionAcquires(ops=ops, ask=pb.SessionAcquire(claims=want(0, resource, permits).claims))


OPS = range(1, MANY + 1)
WAITING = {"acquires": [want(MANY + 1, permits=2)], "alike": [together(OPS, "sem")]}
HELD = {"alike": [together(OPS, "open")]}


@pytest.mark.parametrize(
    ("before", "message"),
    [
        (WAITING, {"cancels": OPS}),
        (HELD, {"cancels": OPS}),
        (HELD, {"releases": range(1, MANY + 1)}),
        ({}, {"releases": nobodys(MANY)}),
        (HELD, {"outcomes": [pb.SessionRelease(lease_id=lease, outcome=lease % 3) for lease in OPS]}),  # type: ignore[arg-type]
        ({}, {"detaches": nobodys(MANY)}),
        ({}, {"adopts": [pb.SessionAdopt(op=op, lease_id=op) for op in nobodys(MANY)]}),
        ({}, {"acquires": [want(op, "open") for op in OPS]}),
        ({}, {"acquires": [pb.SessionAcquire(op=op) for op in OPS]}),
        ({}, {"alike": [together(OPS, "open")]}),
        ({}, {"alike": [together(OPS, "shut")]}),
        ({}, {"alike": [together(OPS, "sem", 2)]}),
        ({}, {"alike": [together(OPS, "sem", 0)]}),
        ({}, {"alike": [pb.SessionAcquires(ops=OPS, ask=pb.SessionAcquire())]}),
        ({}, {"alike": [together((), "open")] * MANY}),
        ({}, {"alike": [pb.SessionAcquires()] * MANY}),
        (WAITING, {"alike": [together(OPS, "sem")]}),
        (HELD, {"alike": [together(OPS, "open")]}),
        (HELD, {"keep_alive": True}),
        (WAITING, {"places": OPS}),
    ],
)
async def test_whatever_there_is_much_of_in_a_message_others_have_their_turn(
    governor: World, before: dict[str, Any], message: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No turn of the loop makes more than a few steps of the engine or answers, though there are hundreds."""
    peer = await Peer.begin(governor, **before)
    slice_all(governor)
    units = _Units(monkeypatch)

    await peer.do(**message)

    assert units.total >= MANY
    assert units.most <= MOST


@pytest.mark.parametrize("what", ["held", "lost", "waited for"])
async def test_so_they_have_in_the_first_message(governor: World, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whoever comes back and claims much, or says nothing of it."""
    former = await Peer.begin(governor, **(WAITING if what == "waited for" else HELD))
    if what != "waited for":
        await former.vanish()
    slice_all(governor)
    units = _Units(monkeypatch)

    held = [grant.lease.id for grant in former.heard.grants] if what == "held" else []
    again = hello(former.hello.client, former.hello.instance, former.session, held)
    peer = await Peer.begin(governor, again)
    await peer.do()

    await until(lambda: governor.in_use("open") == len(held) and not governor.waiters)
    assert units.total >= (len(held) or MANY)
    assert units.most <= MOST


class _Units:
    """Steps of the engine, of each lease, or else answers and asks that are read: how many, and at most in one turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.total = self.most = 0
        self._loop = asyncio.get_running_loop()
        self._steps = self._answers = 0
        step, answers, alike = Driver._step, Outbox._count, Driver.ask_alike
        read = requests.Asks.read_alike

        def stepping(driver: Driver, event: Event) -> list[Effect]:
            self._add(len(event.leases) if isinstance(event, (Release, Renew)) else 1, 0)
            return step(driver, event)

        def asking(driver: Driver, *terms: Any) -> list[Granted | Denied | Queued]:  # noqa: ANN401 - they are passed on
            told = alike(driver, *terms)
            self._add(len(told), 0)
            return told

        def answering(outbox: Outbox, entries: int) -> None:
            self._add(0, entries)
            answers(outbox, entries)

        def reading(asks: requests.Asks, ops: Sequence[int], raw: bytes) -> Terms | Denial:
            self._add(0, 1)
            return read(asks, ops, raw)

        monkeypatch.setattr(requests.Asks, "read_alike", reading)
        monkeypatch.setattr(Driver, "_step", stepping)
        monkeypatch.setattr(Driver, "ask_alike", asking)
        monkeypatch.setattr(Outbox, "_count", answering)

    def _add(self, steps: int, answers: int) -> None:
        if not (self._steps or self._answers):
            self._loop.call_soon(self._turn)
        self._steps += steps
        self._answers += answers

    def _turn(self) -> None:
        most, self._steps, self._answers = max(self._steps, self._answers), 0, 0
        self.total += most
        self.most = max(self.most, most)


@pytest.mark.parametrize("seed", range(4))
async def test_a_message_means_the_same_in_slices(folder: Path, seed: int) -> None:
    """In whatever parts it is done, if nobody else asks meanwhile: the same answers, in the same order."""
    heard = []
    for sliced in (False, True):
        (folder / str(sliced)).mkdir()
        async with world(folder / str(sliced), *RESOURCES, SHUT) as governor:
            if sliced:
                slice_all(governor)
            heard.append(await _said(governor, random.Random(seed)))

    assert heard[0] == heard[1]


async def _said(governor: World, rng: random.Random) -> list[dict[str, Any]]:
    """What a client hears of what it says at random, message by message, field by field."""
    peer = await Peer.begin(governor, hello(instance="0" * 16))
    heard, op = list[dict[str, Any]](), 0
    for _ in range(12):
        names = ("sem", "pool", "rate", "open", "open", "shut", "nobody's")
        wanted = [want(op + n, rng.choice(names), rng.choice((1, 1, 2, 9))) for n in range(1, rng.randrange(2, 40))]
        op += len(wanted)
        run = range(op + 1, op + rng.randrange(2, 200))
        op = run[-1]
        known = [grant.lease.id for grant in peer.heard.grants] + [1, 2, 3, 10**6]
        some = rng.sample(known, min(len(known), 100))
        done = await peer.do(
            cancels=rng.sample(range(1, op), min(op - 1, 30)),
            releases=some[:60],
            outcomes=[pb.SessionRelease(lease_id=lease, outcome=lease % 4) for lease in some[60:80]],  # type: ignore[arg-type]
            detaches=some[80:85],
            adopts=[pb.SessionAdopt(op=op + 1, lease_id=lease) for lease in some[85:90]],
            acquires=wanted,
            alike=[together(run, rng.choice(names))],
            keep_alive=rng.random() < 0.3,
            places=rng.choices(range(1, op), k=50),
        )
        op += 1
        heard.append({field.name: str(value) for field, value in done.ListFields()})
    return heard


async def test_a_place_is_told_once_however_often_it_is_asked_for(governor: World) -> None:
    """To ask again costs a byte, and to answer a look at each line that the ask stands in."""
    peer = await Peer.begin(governor, acquires=[want(1, permits=2), want(2), want(3)])

    done = await peer.do(places=[2, 3, 2, 2, 3, 3, 2] * 1000)

    assert [(place.op, place.ahead) for place in done.queued] == [(2, 0), (3, 1)]


async def test_calls_and_other_sessions_are_served_in_the_midst_of_a_message(governor: World) -> None:
    """What was done of it by then is told, and all of it is done in the end."""
    peer, other = await Peer.begin(governor), await Peer.begin(governor)
    stop = Stop(governor)
    await peer.say(acquires=[want(op, "open") for op in range(1, 101)])
    await stop.reached()

    assert (await governor.stub.Acquire(ask("open"))).lease.id
    assert (await other.acquire(1, "open")).id
    before = await peer.hears(lambda heard: bool(heard.grants))
    assert not before.handled
    stop.go_on()

    await peer.hears(lambda heard: heard.handled == 2)
    assert [grant.op for grant in peer.heard.grants] == list(range(1, 101))


@pytest.mark.parametrize("first", [False, True])
async def test_who_goes_in_the_midst_of_a_message_leaves_nothing(governor: World, *, first: bool) -> None:
    """The rest of it is not done."""
    peer = None if first else await Peer.begin(governor, hello("me", "0" * 16))
    stop = Stop(governor)
    message = [want(op) for op in range(1, 101)]
    if peer is None:
        peer = Peer(governor)
        await peer.say(hello=hello(), acquires=message)
    else:
        await peer.say(acquires=message)
    await stop.reached()
    assert 0 < governor.waiters < 50

    peer.cut()

    await governor.until_hung_up()
    assert governor.waiters == 0
    governor.clock.advance(2 * SECOND)
    assert (governor.in_use(), len(governor.sessions)) == (0, 0)
    assert turns_of(governor)._large == 0


async def test_who_comes_back_in_the_midst_of_a_message_ends_it(governor: World) -> None:
    """The older stream does nothing more; what was granted and is not claimed is taken back, what waits is repeated."""
    old = await Peer.begin(governor)
    stop = Stop(governor)
    await old.say(acquires=[want(op) for op in range(1, 101)])
    await stop.reached()
    waiting = governor.waiters

    new = await Peer.begin(governor, hello("me", old.hello.instance, old.session), acquires=[want(op) for op in (3, 4)])
    stop.go_on()

    error = await old.end()
    assert error is not None
    assert error.code() is grpc.StatusCode.ABORTED
    assert waiting > 2
    await new.do()
    assert (governor.in_use(), governor.waiters) == (2, 0)
    assert sorted(grant.op for grant in new.heard.grants) == [3, 4]


async def test_who_comes_back_again_in_the_midst_of_coming_back_loses_nothing(governor: World) -> None:
    """Neither the places that it has repeated already, nor those that it had yet to; and the rest is taken back."""
    first = await Peer.begin(governor, acquires=[want(op) for op in range(1, 101)])
    stop = Stop(governor)
    second = Peer(governor)
    await second.say(
        hello=hello("me", first.hello.instance, first.session), acquires=[want(op) for op in range(50, 90)]
    )
    await stop.reached()
    assert governor.waiters == 98

    held = [grant.lease.id for grant in first.heard.grants]
    third = await Peer.begin(
        governor, hello("me", first.hello.instance, first.session, held), acquires=[want(60), want(10)]
    )
    stop.go_on()
    await third.do()

    assert governor.waiters == 2
    places = {place.op: place.ahead for place in third.heard.queued}
    assert places[10] < places[60], "both have the places that they had"
    done = await third.do(releases=held)
    assert sorted(grant.op for grant in done.grants) == [10, 60]


async def test_who_comes_back_again_and_again_stands_in_line_no_more_often(
    governor: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Than twice as often as a session may: at the places that it had, and at those that it asks for now."""
    monkeypatch.setattr("governor.session.MAX_WAITING", 50)
    monkeypatch.setattr("governor.rpc.stream.MAX_WAITING", 50)
    holder = await Peer.begin(governor, acquires=[want(1, permits=2)])
    peer = await Peer.begin(governor, alike=[together(range(1, 41), "sem")])
    session = governor.sessions.find(peer.session)
    assert session is not None
    again = hello("me", peer.hello.instance, peer.session)
    peers = [Peer(governor) for _ in range(5)]
    for number, each in enumerate(peers, 1):
        stop = Stop(governor, once=lambda: session.waiters == 40)
        # The former one is in the midst of its first message, and has not got so far that it gives up what was before.
        await each.say(hello=again, alike=[together(range(100 * number, 100 * number + 40), "sem")])
        await stop.reached()
        assert governor.waiters <= 100
    Stop(governor, after=0)

    last = await Peer.begin(governor, again, alike=[together(range(1, 41), "sem")])

    assert governor.waiters == 40
    assert [place.ahead for place in last.heard.queued] == list(range(40)), "at the places that it had at first"
    assert len(holder.heard.grants) == 1


@pytest.mark.parametrize("alike", [False, True])
async def test_what_a_client_may_is_asked_anew_in_the_midst_of_a_message(folder: Path, *, alike: bool) -> None:
    """Whose caps are lowered goes on by the new ones, and who may not ask any more is cut off there."""
    known = (digest_of(b"token of c"),)
    message: dict[str, Any] = {"acquires": [want(op, "open") for op in OPS]}
    if alike:
        message = {"alike": [together(OPS, "open")]}
    async with world(folder, *RESOURCES, clients=(Client("c", known),)) as governor:
        peer = await Peer.begin(governor, by="token of c")
        stop = Stop(governor)
        await peer.say(**message)
        await stop.reached()
        before = governor.in_use("open")
        governor.guard.declare((Client("c", known, max_permits=before + 1),))
        stop.go_on()
        heard = await peer.hears(lambda heard: heard.handled == 2)
        assert 0 < before < len(heard.grants) + len(heard.refusals) == MANY
        assert [grant.op for grant in heard.grants] == list(range(1, before + 2))

        governor.guard.declare((Client("c", known),))
        peer = await Peer.begin(governor, by="token of c")
        stop = Stop(governor)
        await peer.say(**message)
        await stop.reached()
        then = governor.in_use("open")
        governor.guard.declare((Client("c", known, verbs=frozenset({Verb.READ})),))
        stop.go_on()
        error = await peer.end()
        assert error is not None
        assert error.code() is grpc.StatusCode.PERMISSION_DENIED
        assert before < then == governor.in_use("open") < MANY


async def test_a_stop_in_the_midst_of_a_message_takes_nothing_back(governor: World) -> None:
    """What was granted by then stays; its client is told that the daemon ends."""
    peer = await Peer.begin(governor)
    stop = Stop(governor)
    await peer.say(acquires=[want(op, "open") for op in range(1, 101)])
    await stop.reached()
    lent = governor.in_use("open")

    async with asyncio.timeout(60):
        await governor.server.stop(3600)

    error = await peer.end()
    assert error is not None
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert 0 < lent == governor.in_use("open") < 100


async def test_what_ends_in_the_midst_of_a_keep_alive_is_not_renewed(governor: World) -> None:
    """It is told as ended, and others go on."""
    peer = await Peer.begin(governor, alike=[together(range(1, 201), "open")])
    leases = [grant.lease.id for grant in peer.heard.grants]
    stop = Stop(governor, after=1)
    await peer.say(keep_alive=True)
    await stop.reached()

    governor.driver.revoke(tuple(LeaseId(lease) for lease in leases[150:160]))
    stop.go_on()

    heard = await peer.hears(lambda heard: heard.kept_alive)
    assert sorted(result.lease_id for result in heard.ended) == leases[150:160]
    governor.clock.advance(29 * SECOND)
    assert governor.in_use("open") == 190
