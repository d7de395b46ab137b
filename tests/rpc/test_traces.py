"""What an ask follows from comes with it, as metadata of a call or in a message of a session, and stays with it."""

import asyncio
import sys
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from grpc import aio
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler

from governor.access import Client, Verb, digest_of
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.types import SECOND
from governor.rpc.traces import MAX_TRACED, NO_TRACE, trace_of, traces_of
from governor.tracewords import MAX_TRACEPARENT, MAX_TRACESTATE
from governor.v1 import governor_pb2 as pb
from tests.rpc.conftest import RESOURCES, World, ask, declared, until, world
from tests.rpc.peer import Peer, hello, want
from tests.trace.books import PARENT, TRACE_ID, Books, books, id_of, linked, parent, said
from tests.trace.books import trace_of as trace

A = Client("a", (digest_of(b"token of a"),), frozenset({Verb.ACQUIRE}), ("sem", "open"))


@asynccontextmanager
async def traced(folder: Path, *clients: Client, sampler: Sampler | None = None) -> AsyncIterator[tuple[World, Books]]:
    """A daemon's inside that traces."""
    some = [each for each in RESOURCES if each.name != "sem"]
    async with world(folder, declared("sem", SemaphoreSpec(1)), *some, clients=clients or None) as governor:
        with books(governor.driver, governor.clock, sampler=sampler) as kept:
            yield governor, kept


def following(number: int) -> tuple[tuple[str, str], ...]:
    """The metadata of a call within this trace."""
    return (("traceparent", parent(number)), ("tracestate", "a=1"), ("tracestate", "b=2"))


def of(number: int, *ops: int) -> pb.TraceContext:
    """That asks of a session are within this trace."""
    return pb.TraceContext(ops=ops, traceparent=parent(number))


def numbers(kept: Books) -> list[int]:
    """The traces of all asks, in the order of their ends; those that the daemon began are 0."""
    return [0 if (number := int(trace(span), 16)) > 1000 else number for span in kept.asks]


class TestCalls:
    """By metadata, as every library of OpenTelemetry sends it."""

    async def test_an_ask_its_hold_and_its_caller_are_in_one_trace(self, folder: Path) -> None:
        """From a call to the end of the lease."""
        async with traced(folder) as (governor, kept):
            answer = await governor.stub.Acquire(ask(), metadata=following(7))
            await governor.stub.Release(pb.ReleaseRequest(lease_ids=[answer.lease.id]))
            made, hold = kept.made

            assert trace(made) == trace(hold) == f"{7:032x}"
            assert linked(hold) == [id_of(made)]
            assert made.context is not None
            assert made.context.trace_state.to_header() == "a=1,b=2"
            assert made.attributes is not None
            assert made.attributes["rpc.method"] == "governor.v1.Governor/Acquire"

    async def test_the_next_call_does_not_follow_from_the_last(self, folder: Path) -> None:
        """One without metadata begins a trace of its own."""
        async with traced(folder) as (governor, kept):
            await governor.stub.Acquire(ask("open"), metadata=following(7))
            await governor.stub.Acquire(ask("open"))

            assert numbers(kept) == [7, 0]

    async def test_each_of_many_that_wait_keeps_its_own(self, folder: Path) -> None:
        """Whoever is granted, and in whose step."""
        async with traced(folder) as (governor, kept):
            first = await governor.stub.Acquire(ask(), metadata=following(1))
            calls = []
            for number in range(2, 6):
                calls.append(governor.stub.Acquire(ask(), metadata=following(number)))
                await governor.until_waiting(number - 1)
            lease = first.lease.id
            for call in calls:
                await governor.stub.Release(pb.ReleaseRequest(lease_ids=[lease]))
                lease = (await call).lease.id

            assert numbers(kept) == [1, 2, 3, 4, 5]
            assert [trace(hold) for hold in kept.holds] == [f"{number:032x}" for number in range(1, 5)]

    async def test_a_call_that_is_cancelled_while_it_waits_is_abandoned(self, folder: Path) -> None:
        """The client gives up; nothing is left of it."""
        async with traced(folder) as (governor, kept):
            await governor.stub.Acquire(ask())
            call = governor.stub.Acquire(ask(), metadata=following(2))
            await governor.until_waiting(1)
            call.cancel()
            await governor.until_waiting(0)

            assert (kept.outcomes, numbers(kept)) == (["granted", "abandoned"], [0, 2])
            assert not kept.spans._waiting

    async def test_a_client_that_is_gone_is_too(self, folder: Path) -> None:
        """Its connection breaks."""
        async with traced(folder) as (governor, kept):
            await governor.stub.Acquire(ask())
            wire = await governor.wire()
            wire.call("Acquire", ask().SerializeToString())
            await governor.until_waiting(1)
            await wire.close()
            await governor.until_waiting(0)

            assert kept.outcomes == ["granted", "abandoned"]

    async def test_a_deadline_ends_a_wait_with_a_reason(self, folder: Path) -> None:
        """A little before, by the clock of the daemon."""
        async with traced(folder) as (governor, kept):
            await governor.stub.Acquire(ask())
            call = governor.stub.Acquire(ask(), metadata=following(2), timeout=20)
            await governor.until_waiting(1)
            governor.clock.advance(20 * SECOND)
            with pytest.raises(aio.AioRpcError):
                await call

            assert kept.outcomes == ["granted", "wait_over"]

    @pytest.mark.parametrize(
        ("request_", "outcome"),
        [
            (ask("nowhere"), "unknown_resource"),
            (ask("sem", 0), "malformed"),
            (pb.AcquireRequest(claims=[pb.Claim(resource="x" * 300, permits=1)]), "malformed"),
            (pb.AcquireRequest(claims=ask().claims, request_id="1"), "malformed"),
            (ask("sem", 9), "above_capacity"),
        ],
    )
    async def test_one_that_is_refused_says_why(self, folder: Path, request_: pb.AcquireRequest, outcome: str) -> None:
        """Whoever found out, the daemon's reading or its engine."""
        async with traced(folder) as (governor, kept):
            with pytest.raises(aio.AioRpcError):
                await governor.stub.Acquire(request_, metadata=following(3))

            assert (kept.outcomes, numbers(kept)) == ([outcome], [3])

    async def test_bytes_that_are_no_ask_are_malformed(self, folder: Path) -> None:
        """They have a trace all the same."""
        async with traced(folder) as (governor, kept):
            call: aio.UnaryUnaryMultiCallable[bytes, bytes] = governor.channel.unary_unary(
                "/governor.v1.Governor/Acquire"
            )
            with pytest.raises(aio.AioRpcError):
                await call(b"\xff", metadata=following(3))

            assert (kept.outcomes, numbers(kept)) == (["malformed"], [3])

    async def test_while_it_drains_all_are_told_of(self, folder: Path) -> None:
        """Whoever waited, and whoever comes then."""
        async with traced(folder) as (governor, kept):
            await governor.stub.Acquire(ask())
            call = governor.stub.Acquire(ask(), metadata=following(2))
            await governor.until_waiting(1)
            governor.driver.drain()
            for refused in (call, governor.stub.Acquire(ask(), metadata=following(3))):
                with pytest.raises(aio.AioRpcError):
                    await refused

            assert (kept.outcomes, numbers(kept)) == (["granted", "draining", "draining"], [0, 2, 3])

    async def test_whoever_may_not_is_told_of(self, folder: Path) -> None:
        """By a name if he has one."""
        async with traced(folder, A) as (governor, kept):
            token = (("authorization", "Bearer token of a"),)
            for metadata, resource in (((), "sem"), (token, "pool")):
                with pytest.raises(aio.AioRpcError):
                    await governor.stub.Acquire(ask(resource), metadata=(*metadata, *following(4)))
            await governor.stub.Acquire(ask("sem"), metadata=(*token, *following(4)))

            assert kept.outcomes == ["unauthenticated", "permission_denied", "granted"]
            assert [said(span, "client") for span in kept.asks] == ["", "a", "a"]
            assert numbers(kept) == [0, 4, 4]

    async def test_a_stranger_does_not_decide_what_is_traced(self, folder: Path) -> None:
        """Though whoever is known does, by a call and on a session."""
        async with traced(folder, A, sampler=ParentBased(ALWAYS_OFF)) as (governor, kept):
            token = (("authorization", "Bearer token of a"),)
            for stranger in ((), (("authorization", "Bearer nobody"),), (*token, *token)):
                with pytest.raises(aio.AioRpcError):
                    await governor.stub.Acquire(ask("open"), metadata=(*stranger, *following(4)))
            unknown = Peer(governor, "nobody")
            await unknown.say(hello=hello(), acquires=[want(1, "open")], traces=[of(4, 1)])
            assert await unknown.end() is not None
            assert not kept.made

            await governor.stub.Acquire(ask("open"), metadata=(*token, *following(5)))
            await Peer.begin(governor, by="token of a", acquires=[want(1, "open")], traces=[of(6, 1)])
            assert numbers(kept) == [5, 6]


class TestSessions:
    """By a field of the message, since there is one stream for all asks."""

    async def test_a_daemon_says_whether_it_traces(self, folder: Path) -> None:
        """So that nobody sends it what it does not read."""
        async with world(folder, *RESOURCES) as governor:
            assert not (await Peer.begin(governor)).heard.welcome.traces
            with books(governor.driver, governor.clock):
                assert (await Peer.begin(governor)).heard.welcome.traces

    async def test_each_ask_of_a_message_has_its_own(self, folder: Path) -> None:
        """Or none; whatever is told of ops that are not there."""
        async with traced(folder) as (governor, kept):
            peer = await Peer.begin(governor)
            await peer.do(
                acquires=[want(1, "open"), want(2, "open"), want(3, "open")],
                traces=[of(30, 3), of(10, 1), of(99, 4, 5)],
            )
            await peer.do(acquires=[want(4, "open")])

            assert numbers(kept) == [10, 0, 30, 0]
            (first, *_) = kept.asks
            assert first.attributes is not None
            assert first.attributes["rpc.method"] == "governor.v1.Governor/Session"

    async def test_asks_that_are_told_together_keep_their_own(self, folder: Path) -> None:
        """They are alike in what they ask for, and follow from different things."""
        async with traced(folder) as (governor, kept):
            who = hello()
            who.alike = True
            peer = await Peer.begin(governor, who)
            alike = pb.SessionAcquires(ops=range(1, 7), ask=want(0, "open"))
            done = await peer.do(alike=[alike], traces=[of(10, 1), of(20, 2, 4), of(50, 5)])

            assert numbers(kept) == [10, 20, 0, 20, 50, 0]
            assert [grant.op for grant in done.grants] == [1, 2, 3, 4, 5, 6]

    async def test_asks_that_are_told_together_without_any_begin_their_own(self, folder: Path) -> None:
        """Not that of whoever came before."""
        async with traced(folder) as (governor, kept):
            peer = await Peer.begin(governor)
            await peer.do(acquires=[want(1, "open")], traces=[of(10, 1)])
            await peer.do(alike=[pb.SessionAcquires(ops=range(2, 5), ask=want(0, "open"))])

            assert numbers(kept) == [10, 0, 0, 0]
            assert len({trace(span) for span in kept.asks}) == 4

    async def test_those_of_the_first_message_count(self, folder: Path) -> None:
        """Which comes before anybody can know whether the daemon traces."""
        async with traced(folder) as (governor, kept):
            await Peer.begin(governor, acquires=[want(1, "open")], traces=[of(10, 1)])

            assert numbers(kept) == [10]

    async def test_what_waits_keeps_its_own_until_it_is_granted_or_given_up(self, folder: Path) -> None:
        """Cancelled, left behind by a client that dies, or granted in the step of another."""
        async with traced(folder) as (governor, kept):
            holder, peer = await Peer.begin(governor), await Peer.begin(governor)
            lease = await holder.acquire(1)
            await peer.do(acquires=[want(1), want(2), want(3)], traces=[of(10, 1), of(20, 2), of(30, 3)])
            await peer.do(cancels=[1])
            await holder.do(releases=[lease.id])
            await peer.hears(lambda heard: len(heard.grants) == 1)
            await peer.vanish()
            await until(lambda: not governor.waiters)

            assert kept.outcomes == ["granted", "abandoned", "granted", "abandoned"]
            assert numbers(kept) == [0, 10, 20, 30]
            governor.clock.advance(3 * SECOND)
            assert [(said(hold, "ended"), int(trace(hold), 16)) for hold in kept.holds[1:]] == [("disconnected", 20)]

    async def test_one_that_is_refused_says_why(self, folder: Path) -> None:
        """Also one that cannot be read."""
        async with traced(folder, A) as (governor, kept):
            peer = await Peer.begin(governor, by="token of a")
            bad = want(2)
            bad.wait.seconds = -1
            await peer.do(acquires=[want(1, "pool"), bad, want(3, "sem", 9)], traces=[of(10, 1), of(20, 2), of(30, 3)])

            assert kept.outcomes == ["permission_denied", "malformed", "above_capacity"]
            assert numbers(kept) == [10, 20, 30]
            assert {said(span, "client") for span in kept.asks} == {"a"}

    async def test_one_too_many_of_a_session_says_why(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Told by itself or with others, though it never gets to the driver."""
        monkeypatch.setattr("governor.session.MAX_WAITING", 1)
        async with traced(folder) as (governor, kept):
            peer = await Peer.begin(governor, acquires=[want(1), want(2)])
            await peer.do(acquires=[want(3)], traces=[of(30, 3)])
            await peer.do(alike=[pb.SessionAcquires(ops=[4, 5], ask=want(0))])
            await peer.do(alike=[pb.SessionAcquires(ops=[6], ask=want(0))], traces=[of(60, 6)])

            assert kept.outcomes == ["granted", *["line_full"] * 4]
            assert numbers(kept) == [0, 30, 0, 0, 60]
            assert {said(span, "client") for span in kept.asks} == {"me"}
            assert {said(span, "resources") for span in kept.asks} == {("sem",)}

    async def test_nothing_of_a_message_is_kept_when_it_is_done(self, folder: Path) -> None:
        """The next may be long in coming."""
        async with traced(folder) as (governor, kept):
            peer = await Peer.begin(governor)
            await peer.do(acquires=[want(1, "open")], traces=[of(10, *range(1, 1000))])
            (stream,) = governor.server._sessions._streams

            assert not stream._traces
            assert numbers(kept) == [10]

    async def test_where_nothing_is_traced_what_is_said_of_it_is_nothing(self, governor: World) -> None:
        """Whoever sends it is answered as anybody."""
        peer = await Peer.begin(governor)
        done = await peer.do(acquires=[want(1)], traces=[pb.TraceContext(ops=[1], traceparent="\U0001f98a" * 999)])

        assert [grant.op for grant in done.grants] == [1]

    async def test_nonsense_is_as_if_it_were_not_there(self, folder: Path) -> None:
        """An ask is never refused for it."""
        async with traced(folder) as (governor, kept):
            peer = await Peer.begin(governor)
            nonsense = [
                pb.TraceContext(),
                pb.TraceContext(ops=[1], tracestate="a=1"),
                pb.TraceContext(ops=[-1, 0, 2], traceparent="x" * 100_000, tracestate="\0"),
                pb.TraceContext(ops=[3], traceparent=PARENT, tracestate="=" * 100_000),
            ]
            done = await peer.do(acquires=[want(op, "open") for op in (1, 2, 3)], traces=nonsense)

            assert [grant.op for grant in done.grants] == [1, 2, 3]
            assert [trace(span) == TRACE_ID for span in kept.asks] == [False, False, True]


def test_more_than_can_be_asked_for_is_not_looked_at() -> None:
    """However many ops one message names, in one context or in many."""
    ops = range(1, 100_000)
    assert len(traces_of(pb.SessionRequest(traces=[of(1, *ops)]))) == MAX_TRACED
    assert len(traces_of(pb.SessionRequest(traces=[of(1, *ops[start::50]) for start in range(50)]))) == MAX_TRACED


def test_no_more_contexts_are_looked_at_than_there_may_be() -> None:
    """Empty ones cost two bytes each."""
    looked = 0

    def contexts() -> Iterator[pb.TraceContext]:
        nonlocal looked
        while True:
            looked += 1
            yield pb.TraceContext()

    request = SimpleNamespace(traces=contexts())

    assert not traces_of(cast("pb.SessionRequest", request))
    assert looked == MAX_TRACED


@pytest.mark.parametrize(
    ("parent_", "state", "kept"),
    [
        ("p" * 240_000, "", 0),
        ("", "s" * 240_000, 0),
        (PARENT, "s" * 240_000, 1),
        ("p" * MAX_TRACEPARENT, "s" * MAX_TRACESTATE, 1),
        ("\U0001f98a" * MAX_TRACEPARENT, "\U0001f98a" * MAX_TRACESTATE, 1),
    ],
)
def test_what_is_kept_of_a_message_is_small_whatever_it_says(parent_: str, state: str, kept: int) -> None:
    """In bytes, also while it is read: what thousands of ops follow from is there once."""
    context = pb.TraceContext(ops=range(1, 4096), traceparent=parent_, tracestate=state)
    request = pb.SessionRequest(traces=[context])
    tracemalloc.start()
    try:
        traces = traces_of(request)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len({id(trace) for trace in traces.values()}) == kept
    assert sum(map(sys.getsizeof, {text for trace in traces.values() for text in trace})) < 4096
    assert most < 2 * 1024 * 1024


def test_metadata_that_is_not_text_says_nothing() -> None:
    """As of a header in binary."""
    assert trace_of([("traceparent", b"x"), ("other", "y")]) == NO_TRACE
    assert trace_of([("tracestate", "a=1"), ("traceparent", PARENT)]) == (PARENT, "a=1")


def test_metadata_that_is_too_long_says_nothing() -> None:
    """A state that is so by its parts leaves the parent as it is."""
    long = "a" * (MAX_TRACESTATE // 2)
    assert trace_of([("traceparent", PARENT + "-" * MAX_TRACEPARENT), ("tracestate", "a=1")]) == NO_TRACE
    assert trace_of([("traceparent", PARENT), ("tracestate", long), ("tracestate", long)]) == (PARENT, "")


def test_two_parents_are_none() -> None:
    """Nobody can tell which is right."""
    assert trace_of([("traceparent", parent(1)), ("traceparent", parent(2)), ("tracestate", "a=1")]) == NO_TRACE


async def test_when_tracing_has_ended_asks_are_as_ever(folder: Path) -> None:
    """Whatever they say of traces."""
    async with world(folder, *RESOURCES) as governor:
        with books(governor.driver, governor.clock) as kept:
            await governor.stub.Acquire(ask("open"))
        await asyncio.gather(*(governor.stub.Acquire(ask("open"), metadata=following(1)) for _ in range(5)))

        assert len(kept.asks) == 1
