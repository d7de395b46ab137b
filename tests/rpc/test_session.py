"""What a session is asked and what it answers, with a real engine behind and a clock that stands still."""

import asyncio
import gc
import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from governor import __version__, session
from governor.chronicle import Chronicle
from governor.core.types import SECOND
from governor.entries import Asker, Entry, What
from governor.process import this
from governor.rpc import reading
from governor.v1 import governor_pb2 as pb
from tests.rpc.conftest import RESOURCES, World, ask, until, world
from tests.rpc.peer import INSTANCE, Peer, ended, hello, length, want
from tests.rpc.refusals import Refused

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from grpc import aio

MALFORMED = grpc.StatusCode.INVALID_ARGUMENT


# --- the beginning ----------------------------------------------------------------------------------------------


async def test_a_hello_is_answered_with_who_the_daemon_is(governor: World) -> None:
    """Which session it is, how often to speak, which start of the daemon, and what is allowed."""
    first, second = await Peer.begin(governor), await Peer.begin(governor)

    welcome = first.heard.welcome
    assert (len(welcome.session), welcome.resumed, welcome.version) == (32, False, __version__)
    assert length(welcome.keep_alive) == 10 * SECOND
    assert welcome.limits == pb.SessionLimits(message_bytes=256 * 1024, waiting=10_000, unread=16_384)
    assert second.session != first.session
    assert second.heard.welcome.start == welcome.start
    assert not welcome.HasField("restart_grace")
    assert not welcome.HasField("process")


async def test_a_daemon_that_promises_something_says_which_process_does(folder: Path) -> None:
    """So that whoever runs beside it can tell when it is dead."""
    async with world(folder, *RESOURCES, restart_grace=5 * SECOND) as governor:
        welcome = (await Peer.begin(governor)).heard.welcome

    assert length(welcome.restart_grace) == 5 * SECOND
    me = this()
    assert me is not None
    told = welcome.process
    assert (told.boot, told.pid_namespace, told.pid, told.started) == (me.boot, me.namespace, os.getpid(), me.started)
    assert me.boot
    assert me.started > 0


async def test_the_first_message_may_ask_as_well(governor: World) -> None:
    """One message each way from nothing to a lease."""
    peer = await Peer.begin(governor, acquires=[want(1)])

    assert [grant.op for grant in peer.messages[0].grants] == [1]
    assert peer.messages[0].HasField("welcome")


@pytest.mark.parametrize(
    ("said", "field"),
    [
        (None, "hello"),
        (pb.Hello(instance=INSTANCE), "hello.client"),
        (hello(client="x" * 257), "hello.client"),
        (hello(instance="short"), "hello.instance"),
        (hello(instance="x" * 65), "hello.instance"),
        (hello(resume="x" * 257), "hello.resume"),
        (hello(held=[7, 0]), "hello.held[1]"),
        (pb.Hello(client="me", instance=INSTANCE, pid=-1), "hello.pid"),
        (pb.Hello(client="me", instance=INSTANCE, host="é" * 129), "hello.host"),
        (pb.Hello(client="me", instance=INSTANCE, labels={"x": "y" * 257}), "hello.labels"),
        (pb.Hello(client="me", instance=INSTANCE, labels={str(n): "" for n in range(17)}), "hello.labels"),
    ],
)
async def test_a_wrong_hello_ends_the_stream(governor: World, said: "Message | None", field: str) -> None:
    """It says which field, and nothing of the message was done."""
    peer = Peer(governor)
    await peer.say(hello=said, acquires=[want(1)])

    refused = await _refused(peer)

    assert (refused.code, refused.info.metadata["field"]) == (MALFORMED, field)
    assert (governor.in_use(), governor.waiters) == (0, 0)


async def test_a_second_hello_ends_the_stream(governor: World) -> None:
    """Who somebody is does not change."""
    peer = await Peer.begin(governor)
    await peer.say(hello=hello())

    refused = await _refused(peer)

    assert (refused.code, refused.info.metadata["field"]) == (MALFORMED, "hello")


@pytest.mark.parametrize("garbage", [b"\xff", b"\x3a\x01\xff", b"\x0a\x03\x0a\x01\xff"])
async def test_bytes_that_are_no_message_end_the_stream(governor: World, garbage: bytes) -> None:
    """As the first message and as a later one, also when only an ask in it cannot be read; nobody else notices."""
    other = await Peer.begin(governor)
    method: aio.StreamStreamMultiCallable[bytes, bytes] = governor.channel.stream_stream(
        "/governor.v1.Governor/Session"
    )
    first = pb.SessionRequest(hello=hello()).SerializeToString()
    for messages in ([garbage], [first, garbage], [first + garbage]):
        stream = method(timeout=20)
        for message in messages:
            await stream.write(message)
        error = await ended(stream)
        assert error is not None
        refused = Refused(error)
        assert refused.code is MALFORMED
        assert refused.info.metadata["field"] in {"request", "hello"}
    await other.acquire(1)


async def test_a_stream_without_a_message_ends(governor: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is half closed at once, and one that says nothing for too long."""
    monkeypatch.setattr(reading, "LOOK_SECONDS", 0.05)
    peer = Peer(governor)
    await peer.stream.done_writing()
    assert (await _refused(peer)).code is MALFORMED

    assert (await _refused(Peer(governor))).code is MALFORMED


# --- asking -----------------------------------------------------------------------------------------------------


async def test_what_is_free_is_granted_at_once(governor: World) -> None:
    """Each grant names its op; the whole length of the lease is left at the instant of the grant."""
    peer = await Peer.begin(governor)

    done = await peer.do(acquires=[want(1), want(2, "pool"), want(3, "rate"), want(4, "open", permits=5)])

    assert [grant.op for grant in done.grants] == [1, 2, 3, 4]
    leases = [grant.lease for grant in done.grants]
    assert [length(lease.remaining) for lease in leases] == [30 * SECOND, 30 * SECOND, 0, 30 * SECOND]
    assert not leases[2].HasField("remaining")
    assert leases[0].grants == [pb.Grant(resource="sem", permits=1)]
    assert leases[1].grants[0].members[0].id in {"primary", "spare"}
    assert leases[3].grants == [pb.Grant(resource="open", permits=5)]
    assert not done.refusals
    assert not done.queued


async def test_several_claims_are_granted_together(governor: World) -> None:
    """With a length and labels of their own."""
    claims = [pb.Claim(resource="sem", permits=2), pb.Claim(resource="rate", permits=1)]
    peer = await Peer.begin(governor)

    done = await peer.do(
        acquires=[pb.SessionAcquire(op=9, claims=claims, lease=Duration(seconds=7), labels={"why": "because"})]
    )

    lease = done.grants[0].lease
    assert [grant.resource for grant in lease.grants] == ["sem", "rate"]
    assert length(lease.remaining) == 7 * SECOND


async def test_a_wait_is_told_and_then_its_end(governor: World) -> None:
    """First the place in line; then the grant, with how long it took, in the turn in which another gave back."""
    holder, peer = await Peer.begin(governor), await Peer.begin(governor)
    held = await holder.acquire(1, permits=2)
    done = await peer.do(acquires=[want(1), want(2)])
    assert done.queued == [pb.SessionPlace(op=1), pb.SessionPlace(op=2, ahead=1)]
    assert not done.grants
    governor.clock.advance(3 * SECOND)

    await holder.do(releases=[held.id])

    heard = await peer.hears(lambda heard: len(heard.grants) == 2)
    assert [length(grant.lease.waited) for grant in heard.grants] == [3 * SECOND] * 2
    assert [length(grant.lease.remaining) for grant in heard.grants] == [30 * SECOND] * 2
    assert len(peer.messages[-1].grants) == 2, "what happens in one turn leaves as one message"


async def test_a_refusal_says_what_a_call_would_have_said(governor: World) -> None:
    """Code, reason, sentence, resource and when; the others of the message are unharmed."""
    peer = await Peer.begin(governor, acquires=[want(1, permits=2), want(2, "rate")])
    bad = pb.SessionAcquire(op=7, claims=[pb.Claim(resource="x" * 201, permits=1)])

    done = await peer.do(
        acquires=[
            want(3, "nowhere"),
            want(4, permits=3),
            want(5, wait=0),
            want(6, "rate", wait=0),
            bad,
            want(8, permits=0),
            want(-9),
            pb.SessionAcquire(op=10),
            pb.SessionAcquire(op=11, claims=want(1).claims, wait=Duration(seconds=-1)),
            want(12, "open"),
        ]
    )

    assert [grant.op for grant in done.grants] == [12]
    said = {refusal.op: refusal for refusal in done.refusals}
    assert [(op, refusal.code, refusal.reason) for op, refusal in said.items()] == [
        (3, grpc.StatusCode.NOT_FOUND.value[0], "UNKNOWN_RESOURCE"),
        (4, grpc.StatusCode.OUT_OF_RANGE.value[0], "ABOVE_CAPACITY"),
        (5, grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], "NONE_FREE"),
        (6, grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], "NONE_FREE"),
        (7, MALFORMED.value[0], "MALFORMED"),
        (8, MALFORMED.value[0], "MALFORMED"),
        (-9, MALFORMED.value[0], "MALFORMED"),
        (10, MALFORMED.value[0], "MALFORMED"),
        (11, MALFORMED.value[0], "MALFORMED"),
    ]
    assert said[3].resource == "nowhere"
    assert said[3].message == "nowhere: no such resource; correct the name, or declare it in governor's config"
    assert (said[6].resource, length(said[6].retry_after)) == ("rate", SECOND)
    assert not said[5].HasField("retry_after")
    assert said[7].message == "claims[0].resource: expected at most 200 bytes of text, not 201"


async def test_a_wait_that_is_over_is_refused(governor: World) -> None:
    """With how long it was; the same clock as everywhere."""
    peer = await Peer.begin(governor, acquires=[want(1, permits=2), want(2, wait=2 * SECOND)])
    governor.clock.advance(2 * SECOND)

    heard = await peer.hears(lambda heard: bool(heard.refusals))

    refusal = heard.refusals[0]
    assert (refusal.op, refusal.reason, length(refusal.waited)) == (2, "WAIT_OVER", 2 * SECOND)


async def test_the_same_op_is_the_same_ask(governor: World) -> None:
    """While it waits it keeps its place, once it is granted it has the same lease, which counts from now again."""
    holder, peer = await Peer.begin(governor), await Peer.begin(governor, hello(client="you"))
    held = await holder.acquire(1, permits=2)
    await peer.do(acquires=[want(1)])
    again = await peer.do(acquires=[want(1)])
    assert again.queued == [pb.SessionPlace(op=1)]
    assert governor.waiters == 1
    await holder.do(releases=[held.id])
    first = (await peer.hears(lambda heard: bool(heard.grants))).grants[0].lease
    governor.clock.advance(10 * SECOND)

    second = await peer.do(acquires=[want(1)])

    assert [(grant.op, grant.lease.id) for grant in second.grants] == [(1, first.id)]
    assert length(second.grants[0].lease.remaining) == 30 * SECOND
    other = await peer.do(acquires=[want(1, permits=2)])
    assert [refusal.reason for refusal in other.refusals] == ["REQUEST_ID_REUSED"]
    assert governor.in_use() == 1


async def test_more_asks_than_a_session_may_have_waiting(governor: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is refused as by a full line, until one of them is out of it; another session is unharmed."""
    monkeypatch.setattr(session, "MAX_WAITING", 3)
    peer = await Peer.begin(governor, acquires=[want(1, permits=2)])

    done = await peer.do(acquires=[want(op) for op in (2, 3, 4, 5)])

    assert [(refusal.op, refusal.reason) for refusal in done.refusals] == [(5, "LINE_FULL")]
    assert done.refusals[0].code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
    assert done.refusals[0].message.startswith("session: 10000 of its asks wait already")
    await peer.do(cancels=[3], acquires=[want(6)])
    other = await Peer.begin(governor, hello(client="you"), acquires=[want(1)])
    assert [place.op for place in other.heard.queued] == [1]
    assert governor.waiters == 4


async def test_where_one_stands_can_be_asked_again(governor: World) -> None:
    """Of ops that wait; others are not spoken of."""
    peer = await Peer.begin(governor, acquires=[want(1, permits=2), want(2), want(3), want(4)])

    done = await peer.do(cancels=[2], places=[1, 3, 4, 99])

    assert done.queued == [pb.SessionPlace(op=3), pb.SessionPlace(op=4, ahead=1)]


async def test_how_long_it_will_take(governor: World) -> None:
    """A rate limit knows; what is lent is estimated from how it went, and unknown before two had to wait."""
    peer = await Peer.begin(governor, acquires=[want(1, "rate"), want(2, "rate"), want(3, "rate")])
    assert [length(place.expected) for place in peer.heard.queued] == [SECOND, 2 * SECOND]
    held = await peer.acquire(4, permits=2)
    for op in (5, 6):
        told = await peer.do(acquires=[want(op, permits=2)])
        assert not told.queued[0].HasField("expected")
        governor.clock.advance(4 * SECOND)
        await peer.do(releases=[held.id])
        (held,) = (grant.lease for grant in peer.heard.grants if grant.op == op)

    later = await peer.do(acquires=[want(7, permits=2), want(8)])
    governor.clock.advance(5 * SECOND)
    latest = await peer.do(acquires=[want(9)], places=[7, 8])

    assert [(place.op, length(place.expected)) for place in later.queued] == [(7, 4 * SECOND), (8, 8 * SECOND)]
    # Nobody was granted anything for longer than it took; who comes just now does not know that.
    places = [(place.op, length(place.expected)) for place in latest.queued]
    assert places == [(9, 12 * SECOND), (7, 5 * SECOND), (8, 9 * SECOND)]


async def test_each_grant_is_told_with_the_process_that_asked(governor: World) -> None:
    """Granted at once, after a wait, several alike, or only spent; whoever asks by a single call is no process's."""
    told: list[Entry] = []
    chronicle = Chronicle(governor.driver, lambda: 0)
    chronicle.asker = governor.server.sessions.asker
    chronicle.listen(told.extend)
    peer = await Peer.begin(governor, acquires=[want(1, permits=2), want(2), want(3, "rate")])
    await peer.do(releases=[grant.lease.id for grant in peer.heard.grants if grant.op == 1])
    for request_id in ("", "5", f"{INSTANCE}x/1"):
        call = ask("open")
        call.client, call.request_id = "me", request_id
        await governor.stub.Acquire(call)

    asker = Asker(peer.session[:8], 1, "here")
    granted = [(entry.resources, entry.asker) for entry in told if entry.what is What.GRANTED]
    assert granted == [
        (("sem",), asker),
        (("rate",), asker),
        (("sem",), asker),
        *[(("open",), None)] * 3,
    ]
    assert {entry.asker for entry in told if entry.what is not What.GRANTED} == {None}


# --- not wanting any more ---------------------------------------------------------------------------------------


async def test_what_is_cancelled_leaves_the_line(governor: World) -> None:
    """At once, so that in the same message the next one gets what it stood in the way of; unknown ops are harmless."""
    peer = await Peer.begin(governor, acquires=[want(1), want(2, permits=2)])
    other = await Peer.begin(governor, hello(client="you"), acquires=[want(1)])

    done = await peer.do(cancels=[2, 2, 77, 0])

    assert done == pb.SessionResponse(handled=2)
    await other.hears(lambda heard: [grant.op for grant in heard.grants] == [1])
    assert (governor.in_use(), governor.waiters) == (2, 0)


async def test_what_was_granted_meanwhile_is_given_back(governor: World) -> None:
    """The cancel crossed the grant on its way."""
    peer = await Peer.begin(governor, acquires=[want(1), want(2)])
    assert governor.in_use() == 2

    done = await peer.do(cancels=[2])

    assert governor.in_use() == 1
    assert not done.ended
    assert not done.released


async def test_a_session_that_says_nothing_keeps_nothing_of_what_it_said(governor: World) -> None:
    """Neither of its first message nor of its last: what is read of one may take 8 MB."""
    long = pb.TraceContext(tracestate="x" * 100_000)
    peer = await Peer.begin(governor, traces=[long])
    await peer.do(traces=[long])
    service = governor.server._sessions
    (stream,) = service._streams
    frames = [it.cr_frame for it in gc.get_objects() if inspect.iscoroutine(it)]
    own = [frame for frame in frames if frame is not None and frame.f_locals.get("self") in (stream, service)]
    names = {frame.f_code.co_name: frame.f_locals for frame in own}

    for reader in ("serve", "_run", "run", "_listen"):
        kept = [name for name, it in names[reader].items() if isinstance(it, (bytes, pb.SessionRequest))]
        assert not kept, reader


async def test_messages_are_counted_though_there_is_nothing_to_say(governor: World) -> None:
    """A client that counts never hangs."""
    peer = await Peer.begin(governor)
    for _ in range(3):
        assert not (await peer.do()).grants

    async def some() -> None:
        for _ in range(20):
            await peer.say()

    await asyncio.gather(some(), peer.hears(lambda heard: heard.handled == 24))
    await until(lambda: not governor.in_use())


async def _refused(peer: Peer) -> Refused:
    error = await peer.end()
    assert error is not None
    return Refused(error)
