"""What it means to be known: names, leases of others, caps, and clients that change while they are there."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from grpc import aio
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from governor.access import Client, Verb, digest_of
from governor.address import UnixAddress
from governor.config.clients import asked_at
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.types import SECOND, Claim, Denial, LeaseId
from governor.rpc.admin import Where
from governor.units import Rate
from governor.v1 import admin_pb2
from governor.v1 import governor_pb2 as pb
from governor.v1.admin_pb2_grpc import AdminStub
from governor.v1.governor_pb2_grpc import GovernorStub
from tests.rpc.conftest import RESOURCES, ask, declared, world
from tests.rpc.operators import operated
from tests.rpc.peer import INSTANCE, Peer, ended, hello, length, want
from tests.rpc.refusals import refused, status_of

if TYPE_CHECKING:
    from governor.v1.admin_pb2_grpc import AdminAsyncStub

    Watching = aio.UnaryStreamCall[admin_pb2.WatchRequest, admin_pb2.WatchResponse]
    from governor.v1.governor_pb2_grpc import GovernorAsyncStub

A: Final = Client("a", (digest_of(b"token of a"), digest_of(b"next token of a")))
B: Final = Client("b", (digest_of(b"token of b"),))
BOSS: Final = Client("boss", (digest_of(b"token of boss"),), verbs=frozenset(Verb))
DENIED: Final = grpc.StatusCode.PERMISSION_DENIED
SERVING: Final = health_pb2.HealthCheckResponse.SERVING
UNKNOWN: Final = grpc.StatusCode.UNAUTHENTICATED


def known(name: str) -> tuple[tuple[str, str], ...]:
    """What a call of this client says."""
    return (("authorization", f"Bearer token of {name}"),)


async def end_of(peer: Peer) -> grpc.StatusCode:
    """How the stream of a peer ends."""
    error = await ended(peer.stream)
    return grpc.StatusCode.OK if error is None else error.code()


def with_id(request_id: str, client: str = "", resource: str = "open") -> pb.AcquireRequest:
    """An ask that may be repeated."""
    return pb.AcquireRequest(claims=[pb.Claim(resource=resource, permits=1)], client=client, request_id=request_id)


# --- who --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        ["token of b"],
        ["Bearer"],
        ["Bearer "],
        ["Bearer token of A"],
        ["Basic dG9rZW4gb2YgYQ=="],
        ["Bearer token of a", "Bearer token of a"],
        ["Bearer token of b", "Basic x"],
        [f"Bearer {digest_of(b'token of a').hex()}"],
        [f"Bearer {'x' * 5000}"],
    ],
)
async def test_what_is_no_token_of_anybody_is_refused(folder: Path, said: list[str]) -> None:
    """Two are none: which of them counts must not depend on who reads them. Nor does a digest let anybody in."""
    async with world(folder, *RESOURCES, clients=(A, B)) as governor:
        metadata = tuple(("authorization", each) for each in said)
        refusal = await refused(governor.stub.Acquire(ask("open"), metadata=metadata))

    assert (refusal.code, refusal.reason) == (UNKNOWN, "UNAUTHENTICATED")
    assert not any(each in str(refusal.metadata) for each in said)


@pytest.mark.parametrize("said", ["Bearer token of a", "bearer token of a", "BEARER   next token of a "])
async def test_a_scheme_is_no_matter_of_case(folder: Path, said: str) -> None:
    """As HTTP has it; and each of its tokens will do."""
    async with world(folder, *RESOURCES, clients=(A, B)) as governor:
        granted = await governor.stub.Acquire(ask("open"), metadata=(("authorization", said),))
        assert governor.driver.client_of(LeaseId(granted.lease.id)) == "a"


async def test_health_and_reflection_are_for_everybody(folder: Path) -> None:
    """A probe has no token; and what there is to call is no secret."""
    async with world(folder, *RESOURCES, clients=()) as governor:
        assert await status_of(governor.stub.ListResources(pb.ListResourcesRequest())) is UNKNOWN
        check: aio.UnaryUnaryMultiCallable[bytes, bytes] = governor.channel.unary_unary("/grpc.health.v1.Health/Check")
        assert health_pb2.HealthCheckResponse.FromString(await check(b"")).status == SERVING
        asked: aio.StreamStreamCall[bytes, bytes] = governor.channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        )()
        await asked.write(reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString())
        answer: object = await asked.read()
        assert isinstance(answer, bytes)
        assert b"governor.v1.Governor" in answer
        await asked.done_writing()


async def test_the_declared_name_is_the_name(folder: Path) -> None:
    """Whatever a caller calls itself: so no client gets another's lease by its request id."""
    async with world(folder, *RESOURCES, clients=(A, B)) as governor:
        stub = governor.stub
        leases = [
            (await stub.Acquire(with_id("1", name), metadata=known(client))).lease.id
            for client in ("a", "b")
            for name in ("", "a", "b")
        ]
        names = [governor.driver.client_of(LeaseId(lease)) for lease in leases]

    assert len(set(leases)) == 2
    assert names == ["a"] * 3 + ["b"] * 3


async def test_a_lists_reader_sees_its_own_resources(folder: Path) -> None:
    """What else there is has no name for it."""
    narrow = Client("n", (digest_of(b"token of n"),), resources=("p*", "sem"))
    async with world(folder, *RESOURCES, clients=(narrow,)) as governor:
        listed = await governor.stub.ListResources(pb.ListResourcesRequest(), metadata=known("n"))
        refusals = [
            await refused(governor.stub.Acquire(ask(name), metadata=known("n"))) for name in ("open", "no such thing")
        ]

    assert [each.name for each in listed.resources] == ["sem", "pool"]
    assert [(each.code, each.reason) for each in refusals] == [(DENIED, "PERMISSION_DENIED")] * 2


@pytest.mark.parametrize("of", ["", "pool"])
@pytest.mark.parametrize("what", ["leases", "waiters", "sessions", "what happens"])
async def test_a_look_that_is_refused_says_what_it_needs(folder: Path, what: str, of: str) -> None:
    """That it is a look, and which verb is missing; of who has that, which resources."""
    narrow = Client("n", (digest_of(b"token of n"),), frozenset(Verb), ("sem",))
    async with operated(folder, *RESOURCES, clients=(A, narrow)) as operator:
        stub = operator.admin

        async def why(name: str) -> str:
            said = known(name)
            match what:
                case "leases":
                    look = stub.ListLeases(admin_pb2.ListLeasesRequest(resource=of), metadata=said).read()
                case "waiters":
                    look = stub.ListWaiters(admin_pb2.ListWaitersRequest(resource=of), metadata=said).read()
                case "sessions":
                    look = stub.ListSessions(admin_pb2.ListSessionsRequest(), metadata=said).read()
                case _:
                    look = stub.Watch(admin_pb2.WatchRequest(resources=[of] if of else []), metadata=said).read()
            return (await refused(look)).message

        reader, other = await why("a"), await why("n")

    named = bool(of) and what != "sessions"
    assert f" may not look at {what}: that needs the verb admin; " in reader
    assert f" may not look at {what}{'' if named else ' of all resources'}; " in other


# --- leases of others -------------------------------------------------------------------------------------------


async def test_a_lease_is_touched_by_its_owner_alone(folder: Path) -> None:
    """Of several in one call each has its own answer, in the order asked."""
    async with world(folder, *RESOURCES, clients=(A, B, BOSS)) as governor:
        stub = governor.stub
        first, second, third = [
            (await stub.Acquire(ask("open"), metadata=known(name))).lease.id for name in ("a", "b", "a")
        ]
        one = await refused(stub.Release(pb.ReleaseRequest(lease_ids=[second]), metadata=known("a")))
        renewed = await stub.Renew(pb.RenewRequest(lease_ids=[first, second, third, 99]), metadata=known("a"))
        released = await stub.Release(pb.ReleaseRequest(lease_ids=[second, third, first]), metadata=known("a"))
        boss = await stub.Release(pb.ReleaseRequest(lease_ids=[second]), metadata=known("boss"))

    assert (one.code, one.info.metadata["lease"]) == (DENIED, str(second))
    result = pb.LeaseResult
    assert [(each.lease_id, each.state) for each in renewed.results] == [
        (first, result.RENEWED),
        (second, result.REFUSED),
        (third, result.RENEWED),
        (99, result.UNKNOWN),
    ]
    assert [each.state for each in released.results] == [result.REFUSED, result.RELEASED, result.RELEASED]
    assert boss.results[0].state == result.RELEASED


async def test_an_operator_of_some_resources_touches_leases_of_those_alone(folder: Path) -> None:
    """A lease that also covers another resource is not his."""
    some = Client("some", (digest_of(b"token of some"),), frozenset({Verb.ADMIN}), ("sem",))
    both = pb.AcquireRequest(claims=[pb.Claim(resource=name, permits=1) for name in ("sem", "open")])
    async with world(folder, *RESOURCES, clients=(A, some)) as governor:
        stub = governor.stub
        within = (await stub.Acquire(ask("sem"), metadata=known("a"))).lease.id
        beyond = (await stub.Acquire(both, metadata=known("a"))).lease.id
        released = await stub.Release(pb.ReleaseRequest(lease_ids=[within, beyond]), metadata=known("some"))

    assert [each.state for each in released.results] == [pb.LeaseResult.RELEASED, pb.LeaseResult.REFUSED]


async def test_a_session_touches_no_lease_of_another_client(folder: Path) -> None:
    """Not by giving it back, nor by adopting it, nor by saying that it holds it."""
    async with world(folder, *RESOURCES, clients=(A, B)) as governor:
        theirs = (await governor.stub.Acquire(ask("open"), metadata=known("b"))).lease.id
        peer = await Peer.begin(governor, hello(held=[theirs]), by="token of a")
        mine = (await governor.stub.Acquire(ask("open"), metadata=known("a"))).lease.id
        heard = await peer.do(
            releases=[theirs],
            outcomes=[pb.SessionRelease(lease_id=theirs, outcome=pb.OUTCOME_OK)],
            adopts=[pb.SessionAdopt(op=1, lease_id=theirs), pb.SessionAdopt(op=2, lease_id=mine)],
        )

        assert [(each.lease_id, each.state) for each in peer.messages[0].ended] == [(theirs, pb.LeaseResult.UNKNOWN)]
        assert [(each.lease_id, each.state) for each in heard.results] == [(theirs, pb.LeaseResult.REFUSED)] * 2
        assert [(each.op, each.reason) for each in heard.refusals] == [(1, "PERMISSION_DENIED")]
        assert 'client "a" may not touch a lease of another client' in heard.refusals[0].message
        assert [each.op for each in heard.grants] == [2]
        assert governor.driver.client_of(LeaseId(theirs)) == "b"


async def test_a_session_is_resumed_by_its_own_client_alone(folder: Path) -> None:
    """Also by one that knows its id and its instance, and calls itself by its name."""
    async with world(folder, *RESOURCES, clients=(A, B)) as governor:
        first = await Peer.begin(governor, hello("x", INSTANCE), by="token of a")
        thief = await Peer.begin(governor, hello("a", INSTANCE, resume=first.session), by="token of b")
        own = await Peer.begin(governor, hello("b", INSTANCE, resume=first.session), by="next token of a")
        names = sorted(each.client for name in governor.sessions.names() if (each := governor.sessions.named(name)))

    assert (thief.heard.welcome.resumed, own.heard.welcome.resumed) == (False, True)
    assert names == ["a", "b"]


async def test_a_session_asks_for_its_own_resources(folder: Path) -> None:
    """One by one and told together; what it may not does not end it."""
    narrow = Client("n", (digest_of(b"token of n"),), resources=("open",))
    async with world(folder, *RESOURCES, clients=(narrow,)) as governor:
        peer = await Peer.begin(governor, by="token of n")
        heard = await peer.do(
            acquires=[want(1, "sem"), want(2, "open")],
            alike=[
                pb.SessionAcquires(ops=[3, 4], ask=pb.SessionAcquire(claims=[pb.Claim(resource="pool", permits=1)])),
                pb.SessionAcquires(ops=[5, 6], ask=pb.SessionAcquire(claims=[pb.Claim(resource="open", permits=1)])),
            ],
        )

    assert [(each.op, each.code, each.resource) for each in heard.refusals] == [
        (1, DENIED.value[0], "sem"),
        (3, DENIED.value[0], "pool"),
        (4, DENIED.value[0], "pool"),
    ]
    assert sorted(each.op for each in heard.grants) == [2, 5, 6]


# --- caps -------------------------------------------------------------------------------------------------------


async def test_caps_hold_in_calls_and_on_sessions_together(folder: Path) -> None:
    """It is the client that has them, not one way in."""
    capped = Client("c", (digest_of(b"token of c"),), max_permits=3)
    async with world(folder, *RESOURCES, clients=(capped,)) as governor:
        first = await governor.stub.Acquire(ask("open", 2), metadata=known("c"))
        peer = await Peer.begin(governor, by="token of c")
        heard = await peer.do(acquires=[want(1, "open"), want(2, "open")])
        call = await refused(governor.stub.Acquire(ask("open"), metadata=known("c")))
        await governor.stub.Release(pb.ReleaseRequest(lease_ids=[first.lease.id]), metadata=known("c"))
        alike = pb.SessionAcquires(ops=[3, 4, 5], ask=pb.SessionAcquire(claims=want(0, "open").claims))
        again = await peer.do(alike=[alike])

    assert [each.op for each in heard.grants] == [1]
    assert [(each.op, each.reason) for each in heard.refusals] == [(2, "CLIENT_LIMIT")]
    assert (call.code, call.reason, call.info.metadata["limit"]) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "CLIENT_LIMIT",
        "3",
    )
    assert [each.op for each in again.grants] == [3, 4]
    assert [each.op for each in again.refusals] == [5]


async def test_whoever_asks_too_often_is_told_when_to_come_back(folder: Path) -> None:
    """And can always give back and keep alive."""
    quick = Client("c", (digest_of(b"token of c"),), max_rate=asked_at(Rate(2, SECOND)))
    async with world(folder, *RESOURCES, clients=(quick,)) as governor:
        stub, metadata = governor.stub, known("c")
        granted = [await stub.Acquire(ask("open"), metadata=metadata) for _ in range(2)]
        refusal = await refused(stub.ListResources(pb.ListResourcesRequest(), metadata=metadata))
        for each in granted:
            await stub.Renew(pb.RenewRequest(lease_ids=[each.lease.id]), metadata=metadata)
            await stub.Release(pb.ReleaseRequest(lease_ids=[each.lease.id]), metadata=metadata)

    assert (refusal.reason, refusal.metadata["grpc-retry-pushback-ms"]) == ("CLIENT_LIMIT", "500")


async def test_a_lease_is_no_longer_than_its_client_may_have_it(folder: Path) -> None:
    """One that says nothing gets so much, one that says more is refused; a renewal, too."""
    brief = Client("c", (digest_of(b"token of c"),), max_lease=5 * SECOND)
    async with world(folder, *RESOURCES, clients=(brief,)) as governor:
        stub, metadata = governor.stub, known("c")
        usual = await stub.Acquire(ask("open"), metadata=metadata)
        long = ask("open")
        long.lease.FromSeconds(6)
        refusal = await refused(stub.Acquire(long, metadata=metadata))
        renewal = pb.RenewRequest(lease_ids=[usual.lease.id], lease=Duration(seconds=6))
        again = await refused(stub.Renew(renewal, metadata=metadata))

    assert usual.lease.remaining.ToNanoseconds() == 5 * SECOND
    assert (refusal.code, again.code) == (DENIED, DENIED)
    assert "longer than 5s" in refusal.message


async def test_what_lends_nothing_has_no_say_in_how_long_a_lease_is(folder: Path) -> None:
    """A rate limit has a `lease` like all else, and what is lent beside it is lent for no longer than a client may."""
    long = replace(declared("long", SemaphoreSpec(2)), lease=60 * SECOND)
    claims = [pb.Claim(resource="rate", permits=1), pb.Claim(resource="long", permits=1)]
    brief = Client("c", (digest_of(b"token of c"),), max_lease=40 * SECOND)
    async with world(folder, *RESOURCES, long, clients=(brief,)) as governor:
        called = await governor.stub.Acquire(pb.AcquireRequest(claims=claims), metadata=known("c"))
        governor.clock.advance(SECOND)
        peer = await Peer.begin(governor, acquires=[pb.SessionAcquire(op=1, claims=claims)], by="token of c")

    assert called.lease.remaining.ToNanoseconds() == 40 * SECOND
    assert [each.lease.remaining.ToNanoseconds() for each in peer.heard.grants] == [40 * SECOND]


async def test_an_ask_that_is_known_is_answered_whatever_its_client_may_have_since(folder: Path) -> None:
    """It has the lease: to refuse the repeat would lose it. Only what was asked for already is, and only by who may."""
    held = pb.AcquireRequest(claims=[pb.Claim(resource="open", permits=4)], lease=Duration(seconds=60), request_id="r")
    other = pb.AcquireRequest(claims=[pb.Claim(resource="open", permits=4)], lease=Duration(seconds=60), request_id="s")
    token = (digest_of(b"token of c"),)
    async with world(folder, *RESOURCES, clients=(Client("c", token),)) as governor:
        stub, metadata = governor.stub, known("c")
        first = await stub.Acquire(held, metadata=metadata)
        for less in (Client("c", token, max_permits=2), Client("c", token, max_lease=5 * SECOND)):
            governor.guard.declare((less,))
            again = await stub.Acquire(held, metadata=metadata)
            assert again.lease.id == first.lease.id
            assert (await refused(stub.Acquire(other, metadata=metadata))).code is DENIED
        governor.guard.declare((Client("c", token, resources=("sem",)),))
        assert (await refused(stub.Acquire(held, metadata=metadata))).code is DENIED


async def test_a_resumed_session_asks_for_what_it_waits_for_and_for_no_more(folder: Path) -> None:
    """Its asks are the same asks, so it may have beside them what it could before."""
    capped = Client("c", (digest_of(b"token of c"),), max_permits=3)
    async with world(folder, *RESOURCES, clients=(B, capped)) as governor:
        await governor.stub.Acquire(ask("sem", 2), metadata=known("b"))
        first = await Peer.begin(governor, hello("c", INSTANCE), acquires=[want(1, "sem", 2)], by="token of c")
        asked = [want(1, "sem", 2), want(2, "open"), want(3, "open")]
        back = await Peer.begin(governor, hello("c", INSTANCE, first.session), acquires=asked, by="token of c")

        assert [each.op for each in back.heard.grants] == [2]
        assert [(each.op, each.reason) for each in back.heard.refusals] == [(3, "CLIENT_LIMIT")]
        assert governor.waiters == 1


async def test_what_is_refused_was_asked_all_the_same(folder: Path) -> None:
    """Whoever tries what it may not has as many tries as it has asks: of each kind of call."""
    capped = Client("c", (digest_of(b"token of c"),), resources=("open",), max_rate=asked_at(Rate(3, SECOND)))
    async with world(folder, *RESOURCES, clients=(capped,)) as governor:
        stub, metadata = governor.stub, known("c")
        tries = [(await refused(stub.Acquire(ask("sem"), metadata=metadata))).reason for _ in range(5)]
        governor.clock.advance(SECOND)
        peer = await Peer.begin(governor, by="token of c")
        heard = await peer.do(acquires=[want(op, "sem") for op in range(1, 5)])

    assert tries == ["PERMISSION_DENIED"] * 3 + ["CLIENT_LIMIT"] * 2
    assert [each.reason for each in heard.refusals] == ["PERMISSION_DENIED"] * 2 + ["CLIENT_LIMIT"] * 2


async def test_a_renewal_gives_no_more_than_its_client_may_have_by_then(folder: Path) -> None:
    """Of a lease that was granted when it could have more: one that says nothing, and a session that is there.

    What a session adopts, and what it asks for once more, is renewed, too.
    """
    token = (digest_of(b"token of c"),)
    long = want(1, "open")
    long.lease.FromSeconds(60)
    async with world(folder, *RESOURCES, clients=(Client("c", token),)) as governor:
        stub, metadata = governor.stub, known("c")
        lease = (await stub.Acquire(ask("open"), metadata=metadata)).lease.id
        peer = await Peer.begin(governor, acquires=[long], by="token of c")
        theirs = peer.heard.grants[0].lease.id
        governor.guard.declare((Client("c", token, max_lease=5 * SECOND),))
        renewed = (await stub.Renew(pb.RenewRequest(lease_ids=[lease]), metadata=metadata)).results[0]
        heard = await peer.do(keep_alive=True)
        told = [each for each in heard.results if each.lease_id == theirs]
        heard = await peer.do(acquires=[long], adopts=[pb.SessionAdopt(op=2, lease_id=lease)])
        again = {each.lease.id: each.lease.remaining.ToNanoseconds() for each in heard.grants}

        assert again == {lease: 5 * SECOND, theirs: 5 * SECOND}
        assert renewed.remaining.ToNanoseconds() == 5 * SECOND
        assert [each.remaining.ToNanoseconds() for each in told] == [5 * SECOND]


@pytest.mark.parametrize("way", ["adopted", "asked for again"])
async def test_a_lease_that_comes_to_a_session_is_renewed_for_no_longer_than_its_client_may_have_it(
    folder: Path, way: str
) -> None:
    """Of one that was granted when it could have more, when it is adopted and when it is asked for once more."""
    token = (digest_of(b"token of c"),)
    long = want(1, "open")
    long.lease.FromSeconds(60)
    async with world(folder, *RESOURCES, clients=(Client("c", token),)) as governor:
        first = await Peer.begin(governor, hello("c", INSTANCE), acquires=[long], by="token of c")
        lease = first.heard.grants[0].lease.id
        await first.do(detaches=[lease])
        governor.clock.advance(58 * SECOND)
        governor.guard.declare((Client("c", token, max_lease=5 * SECOND),))
        again = {"adopts": [pb.SessionAdopt(op=2, lease_id=lease)]} if way == "adopted" else {"acquires": [long]}
        heard = await first.do(**again)

        assert [(each.lease.id, length(each.lease.remaining)) for each in heard.grants] == [(lease, 5 * SECOND)]
        held = governor.driver.lease(LeaseId(lease))
        assert held is not None
        assert held.deadline - governor.clock.now() == 5 * SECOND


# --- clients that change ----------------------------------------------------------------------------------------


async def test_a_session_whose_token_is_gone_ends(folder: Path) -> None:
    """Its asks leave the line and its leases do as after any end of a session; those of others go on."""
    async with world(folder, *RESOURCES, clients=(A, B)) as governor:
        held = await Peer.begin(governor, hello("a", INSTANCE), acquires=[want(1), want(2), want(3)], by="token of a")
        other = await Peer.begin(governor, by="next token of a")
        assert governor.waiters == 1
        governor.guard.declare((Client("a", A.tokens[1:]), B))

        assert await end_of(held) is UNKNOWN
        assert (await other.do(acquires=[want(1, "open")])).grants
        assert (governor.waiters, governor.in_use()) == (0, 2)
        # With its new token it is the client that it was.
        back = await Peer.begin(governor, hello("a", INSTANCE, held.session, [1, 2]), by="next token of a")
        assert back.heard.welcome.resumed
        governor.clock.advance(10 * SECOND)
        assert governor.in_use() == 2


async def test_a_session_that_may_do_less_comes_again(folder: Path) -> None:
    """One that may do more, or has another token beside its own, goes on, and may do it at once."""
    async with world(folder, *RESOURCES, clients=(A, Client("b", B.tokens, resources=("sem",)))) as governor:
        less = await Peer.begin(governor, by="token of a")
        more = await Peer.begin(governor, by="token of b")
        governor.guard.declare((Client("a", (*A.tokens, b"x" * 32), resources=("sem",)), B))

        assert await end_of(less) is grpc.StatusCode.UNAVAILABLE
        assert (await more.do(acquires=[want(1, "open")])).grants


async def test_what_an_operator_is_told_ends_when_he_may_not_know_it(folder: Path) -> None:
    """His token is gone, his verb, or some of his resources; whoever may see as much as before goes on."""
    changes = {
        UNKNOWN: (),
        DENIED: (Client("boss", BOSS.tokens),),
        grpc.StatusCode.UNAVAILABLE: (Client("boss", BOSS.tokens, frozenset(Verb), ("sem", "open")),),
    }
    for code, after in changes.items():
        (folder / code.name).mkdir()
        async with operated(folder / code.name, *RESOURCES, clients=(A, BOSS)) as operators:
            watching = operators.admin.Watch(admin_pb2.WatchRequest(resources=["sem"]), metadata=known("boss"))
            event = await watching.read()
            assert isinstance(event, admin_pb2.WatchResponse)
            operators.world.guard.declare((BOSS,))
            operators.world.guard.declare((Client("boss", (b"x" * 32, *BOSS.tokens), BOSS.verbs),))
            granted = await operators.world.stub.Acquire(ask("sem"), metadata=known("boss"))
            heard = await watching.read()
            assert isinstance(heard, admin_pb2.WatchResponse)
            assert [each.lease_id for each in heard.events] == [granted.lease.id]
            operators.world.guard.declare(after)
            error = await ended(watching)
            assert error is not None
            assert error.code() is code


async def test_a_long_list_ends_when_its_reader_may_not_know_it(folder: Path) -> None:
    """It is read slowly, and what it would tell then is not for him any more."""
    async with operated(folder, *RESOURCES, clients=(A, BOSS)) as operators:
        for start in range(0, 20_000, 4000):
            await Peer.begin(
                operators.world,
                acquires=[],
                alike=[
                    pb.SessionAcquires(
                        ops=list(range(1, 4001)),
                        ask=pb.SessionAcquire(
                            claims=[pb.Claim(resource="open", permits=1)], labels={"l": f"{start}" + "x" * 200}
                        ),
                    )
                ],
                by="token of a",
            )
        listing = operators.admin.ListLeases(admin_pb2.ListLeasesRequest(), metadata=known("boss"))
        assert isinstance(await listing.read(), admin_pb2.ListLeasesResponse)
        operators.world.guard.declare((A,))
        error = await ended(listing)
        assert error is not None
        assert error.code() is UNKNOWN


async def test_whoever_steps_in_is_told_of_as_the_client_that_he_is(folder: Path) -> None:
    """Beside what he calls himself: of an order, of each lease that it ends, and of a reload."""
    said = (("governor-actor", "eve@desk"), *known("boss"))
    async with operated(folder, *RESOURCES, clients=(A, BOSS)) as operators:
        watching = operators.admin.Watch(admin_pb2.WatchRequest(), metadata=known("boss"))
        await watching.read()  # that it has begun: what happens before that, it need not tell
        lease = await operators.world.stub.Acquire(ask("sem"), metadata=known("a"))
        await operators.admin.PauseResource(admin_pb2.PauseResourceRequest(resource="sem"), metadata=said)
        await operators.admin.Revoke(admin_pb2.RevokeRequest(lease_ids=[lease.lease.id]), metadata=said)
        await operators.admin.Reload(admin_pb2.ReloadRequest(), metadata=said)
        events: list[admin_pb2.Event] = []
        while not events or events[-1].what != "revocation":
            heard = await watching.read()
            assert isinstance(heard, admin_pb2.WatchResponse)
            events += heard.events

        override = admin_pb2.SetOverrideRequest(resource="open", settings={"permits": "5"}, length=Duration(seconds=9))
        await operators.admin.SetOverride(override, metadata=said)
        quarantine = admin_pb2.QuarantineMemberRequest(resource="pool", member="spare")
        out = await operators.admin.QuarantineMember(quarantine, metadata=said)
        listing = await operators.world.stub.ListResources(pb.ListResourcesRequest(), metadata=known("a"))
        listed = {each.name: each for each in listing.resources}

    told = {each.what: (each.client, each.actor, each.actor_client) for each in events}
    assert told["granted"] == ("a", "", "")
    assert told["paused"] == told["revocation"] == ("", "eve@desk", "boss")
    assert told["revoked"] == ("a", "eve@desk", "boss")
    assert operators.reloads == ["eve@desk (client boss)"]
    # It stands beside what is ordered, too.
    for ordered in (listed["sem"], listed["open"].override, out.members[0]):
        assert (ordered.actor, ordered.actor_client) == ("eve@desk", "boss")


async def told(watching: "Watching", number: int) -> list[admin_pb2.Event]:
    """So many events."""
    events: list[admin_pb2.Event] = []
    while len(events) < number:
        heard = await watching.read()
        assert isinstance(heard, admin_pb2.WatchResponse)
        events += heard.events
    return events


async def test_what_a_client_may_not_do_is_told(folder: Path) -> None:
    """By way of a call, of a session and to operators: under the name that it has proved; in words to itself, too."""
    capped = Client("c", (digest_of(b"token of c"),), resources=("open",), max_permits=2, max_lease=SECOND)
    async with operated(folder, *RESOURCES, clients=(A, capped, BOSS)) as operators:
        stub, admin = operators.world.stub, operators.admin
        watching = admin.Watch(admin_pb2.WatchRequest(what=["refused"]), metadata=known("boss"))
        await told(watching, 1)
        theirs = (await stub.Acquire(ask("open"), metadata=known("a"))).lease.id
        claimed = pb.AcquireRequest(claims=[pb.Claim(resource="sem", permits=1)], client="boss")
        by = known("c")
        refusals = [
            await refused(call)
            for call in (
                stub.Acquire(claimed, metadata=by),
                stub.Acquire(ask("no such thing"), metadata=by),
                stub.Acquire(ask("open", 3), metadata=by),
                stub.Renew(pb.RenewRequest(lease_ids=[1], lease=Duration(seconds=60)), metadata=by),
                stub.Release(pb.ReleaseRequest(lease_ids=[theirs]), metadata=by),
                admin.PauseResource(admin_pb2.PauseResourceRequest(resource="open"), metadata=by),
                admin.Reload(admin_pb2.ReloadRequest(), metadata=by),
                stub.Acquire(ask("open"), metadata=known("nobody")),
            )
        ]
        peer = await Peer.begin(operators.world, by="token of c")
        heard = await peer.do(acquires=[want(1, "open", 2), want(2, "open")])
        events = await told(watching, 9)

    assert [(each.client, list(each.resources), each.reason, each.detail, each.times) for each in events] == [
        ("c", ["sem"], "permission_denied", "may not acquire it", 0),
        ("c", ["no such thing"], "permission_denied", "may not acquire it", 0),
        ("c", ["open"], "permission_denied", "may not have more than 2 permits at once", 0),
        ("c", [], "permission_denied", "may not be lent anything for longer than 1s", 0),
        ("c", [], "permission_denied", "may not touch a lease of another client", 0),
        ("c", ["open"], "permission_denied", "may not step in (PauseResource)", 0),
        ("c", [], "permission_denied", "may not step in for the whole daemon (Reload)", 0),
        ("", [], "unauthenticated", "from a unix socket", 0),
        ("c", ["open"], "client_limit", "may hold and wait for 2 permits at most", 0),
    ]
    assert [[(claim.resource, claim.permits) for claim in each.claims] for each in events if each.claims] == [
        [("sem", 1)],
        [("no such thing", 1)],
        [("open", 3)],
        [("open", 1)],
    ]
    assert [each.message.split(";")[0] for each in refusals] == [
        'sem: client "c" may not acquire it',
        'no such thing: client "c" may not acquire it',
        'governor: client "c" may not have more than 2 permits at once',
        'governor: client "c" may not be lent anything for longer than 1s',
        'governor: client "c" may not touch a lease of another client',
        'open: client "c" may not step in (PauseResource)',
        'governor: client "c" may not step in for the whole daemon (Reload)',
        "governor: it is not known who is asking",
    ]
    assert [each.info.metadata["client"] for each in refusals[:-1]] == ["c"] * 7
    assert "GOVERNOR_TOKEN_FILE names the file" in refusals[-1].message
    assert [each.message.split(",")[0] for each in heard.refusals] == [
        'governor: client "c" may hold and wait for 2 permits at most'
    ]
    assert "token of" not in f"{events}{refusals}"


async def test_a_session_that_begins_is_told_whose_it_would_be(folder: Path) -> None:
    """There is no resource to name then."""
    reader = Client("r", (digest_of(b"token of r"),), frozenset({Verb.READ}))
    async with world(folder, *RESOURCES, clients=(reader,)) as governor:
        stream = governor.stub.Session(metadata=known("r"))
        await stream.write(pb.SessionRequest(hello=hello("r")))  # nobody is refused before he has said something
        error = await ended(stream)

    assert error is not None
    assert error.details() == 'governor: client "r" may not acquire; see clients in governor\'s config'


async def test_a_flood_of_what_it_may_not_do_is_told_in_few_words(folder: Path) -> None:
    """Twelve thousand asks of one session within three seconds: all of them are in numbers, and hardly any alone."""
    async with operated(folder, *RESOURCES, clients=(Client("n", A.tokens, resources=("open",)), BOSS)) as operators:
        watching = operators.admin.Watch(admin_pb2.WatchRequest(what=["refused"]), metadata=known("boss"))
        await told(watching, 1)
        peer = await Peer.begin(operators.world, by="token of a")
        refusals = 0
        for second in range(3):
            for start in range(0, 4000, 1000):
                ops = [1 + 4000 * second + start + number for number in range(1000)]
                asked = pb.SessionAcquires(ops=ops, ask=pb.SessionAcquire(claims=[pb.Claim(resource="sem", permits=1)]))
                heard = await peer.do(alike=[asked])
                refusals += len(heard.refusals)
            operators.world.clock.advance(SECOND)
        events = await told(watching, 3)
        granted = await peer.do(acquires=[want(20_000, "open")])
        assert len(granted.grants) == 1

    assert refusals == 12_000
    # At the beginning; after a second; and after two more.
    assert [each.times for each in events] == [0, 3999, 8000]


async def test_a_stream_that_is_cut_off_is_told_by_its_former_name(folder: Path) -> None:
    """The token of whoever has it is gone; it was his when he came."""
    async with operated(folder, *RESOURCES, clients=(A, BOSS)) as operators:
        watching = operators.admin.Watch(admin_pb2.WatchRequest(what=["refused"]), metadata=known("boss"))
        await told(watching, 1)
        peer = await Peer.begin(operators.world, by="token of a")
        operators.world.guard.declare((BOSS,))
        assert await end_of(peer) is UNKNOWN
        (event,) = await told(watching, 1)

    assert (event.client, event.reason, event.detail) == (
        "a",
        "unauthenticated",
        "is no longer known by what it came with",
    )


async def test_an_operator_of_some_resources_is_told_of_no_refusal_of_others(folder: Path) -> None:
    """He watches his own; what somebody tried of others, or of none, is not for him."""
    some = Client("some", (digest_of(b"token of some"),), frozenset({Verb.ADMIN}), ("sem",))
    narrow = Client("n", A.tokens, resources=("open",), max_permits=0)
    async with operated(folder, *RESOURCES, clients=(some, narrow)) as operators:
        stub, by = operators.world.stub, known("a")
        watching = operators.admin.Watch(admin_pb2.WatchRequest(resources=["sem"]), metadata=known("some"))
        await told(watching, 1)
        both = pb.AcquireRequest(claims=[pb.Claim(resource=name, permits=1) for name in ("open", "sem")])
        for call in (ask("pool"), ask("open"), both):
            assert await status_of(stub.Acquire(call, metadata=by)) is DENIED
        (event,) = await told(watching, 1)

    assert (event.client, list(event.resources), [each.resource for each in event.claims]) == ("n", ["sem"], ["sem"])


async def test_an_operator_of_some_resources_sees_no_name_of_others(folder: Path) -> None:
    """Not in what is held, nor in what is waited for, nor in what happens, of what is his own and others' together."""
    some = Client("some", (digest_of(b"token of some"),), frozenset({Verb.ADMIN}), ("sem",))
    both = pb.AcquireRequest(claims=[pb.Claim(resource=name, permits=2) for name in ("sem", "open")])
    async with operated(folder, *RESOURCES, clients=(A, some, BOSS)) as operators:
        world, admin, by = operators.world, operators.admin, known("some")
        watching = admin.Watch(admin_pb2.WatchRequest(resources=["sem"]), metadata=by)
        told: list[object] = [await watching.read()]
        first = await world.stub.Acquire(both, metadata=known("a"))
        second = asyncio.ensure_future(status_of(world.stub.Acquire(both, metadata=known("a"))))
        await world.until_waiting(1)
        await admin.PauseResource(admin_pb2.PauseResourceRequest(resource="open"), metadata=known("boss"))
        told += [page async for page in admin.ListLeases(admin_pb2.ListLeasesRequest(resource="sem"), metadata=by)]
        told += [page async for page in admin.ListWaiters(admin_pb2.ListWaitersRequest(resource="sem"), metadata=by)]
        await admin.ResumeResource(admin_pb2.ResumeResourceRequest(resource="open"), metadata=known("boss"))
        await world.stub.Release(pb.ReleaseRequest(lease_ids=[first.lease.id]), metadata=known("a"))
        assert await second is grpc.StatusCode.OK
        whats: list[str] = []
        while "released" not in whats:
            told.append(heard := await watching.read())
            assert isinstance(heard, admin_pb2.WatchResponse)
            whats += [each.what for each in heard.events]

    assert {"queued", "granted"} <= set(whats)
    assert str(told).count('"sem"') >= 5
    assert '"open"' not in str(told)


async def test_whoever_waits_in_a_call_is_looked_at_again_when_it_is_his_turn(folder: Path) -> None:
    """What he was allowed when he asked may be so no more; then the permit goes on to the next."""
    async with world(folder, *RESOURCES, clients=(A, B)) as governor:
        stub = governor.stub
        holder = await stub.Acquire(ask("sem", 2), metadata=known("b"))
        late = asyncio.ensure_future(status_of(stub.Acquire(ask("sem"), metadata=known("a"))))
        await governor.until_waiting(1)
        third = asyncio.ensure_future(status_of(stub.Acquire(ask("sem", 2), metadata=known("b"))))
        await governor.until_waiting(2)
        governor.guard.declare((B,))
        await stub.Release(pb.ReleaseRequest(lease_ids=[holder.lease.id]), metadata=known("b"))

        assert await late is UNKNOWN
        assert await third is grpc.StatusCode.OK


async def test_whoever_came_before_there_were_clients_is_asked_then(folder: Path) -> None:
    """Sessions at once, asks in line when it is their turn; and when there are none any more, nobody is asked."""
    async with world(folder, *RESOURCES) as governor:
        stub = governor.stub
        holder = (await stub.Acquire(ask("sem", 2))).lease.id
        waits = asyncio.ensure_future(status_of(stub.Acquire(ask("sem"))))
        peer = await Peer.begin(governor)
        await governor.until_waiting(1)
        governor.guard.declare((A, BOSS))

        assert await end_of(peer) is UNKNOWN
        assert await status_of(stub.Release(pb.ReleaseRequest(lease_ids=[holder]))) is UNKNOWN
        await stub.Release(pb.ReleaseRequest(lease_ids=[holder]), metadata=known("boss"))
        assert await waits is UNKNOWN
        governor.guard.declare(None)
        assert (await stub.Acquire(ask("sem", 2))).lease.id


# --- operators --------------------------------------------------------------------------------------------------


async def test_a_socket_for_operators_asks_nobody_and_a_port_asks_everybody(folder: Path) -> None:
    """Its mode has said who may; elsewhere an operator proves it, or is told of the socket."""
    own = folder / "admin.sock"
    info = admin_pb2.GetInfoRequest()
    async with operated(folder, where=Where((UnixAddress(own),)), clients=(A, BOSS)) as world_:
        assert (await world_.admin.GetInfo(info)).version
        async with aio.insecure_channel(str(world_.world.server.addresses[1])) as channel:
            stub: AdminAsyncStub = AdminStub(channel)
            nothing = await refused(stub.Reload(admin_pb2.ReloadRequest()))
            wrong = await refused(stub.Reload(admin_pb2.ReloadRequest(), metadata=known("nobody")))
            other = await refused(stub.Reload(admin_pb2.ReloadRequest(), metadata=known("a")))
            await stub.Reload(admin_pb2.ReloadRequest(), metadata=known("boss"))
            governor: GovernorAsyncStub = GovernorStub(channel)
            assert await status_of(governor.ListResources(pb.ListResourcesRequest())) is UNKNOWN

    assert (nothing.reason, nothing.info.metadata["admin"]) == ("ADMIN_ELSEWHERE", f"unix:{own}")
    assert [wrong.code, other.code] == [UNKNOWN, DENIED]
    assert len(world_.reloads) == 1


async def test_every_refusal_is_counted(folder: Path) -> None:
    """By why, and nothing else that a caller could choose."""
    counted: list[str] = []

    def refused(denial: Denial, _claims: Sequence[Claim], _origin: str) -> None:
        counted.append(denial.reason)

    async with world(folder, *RESOURCES, clients=(A,), refused=refused) as governor:
        stub = governor.stub
        await status_of(stub.Acquire(ask("open")))
        await status_of(stub.ListResources(pb.ListResourcesRequest(), metadata=known("x")))
        governor.guard.declare((Client("a", A.tokens, frozenset({Verb.READ}), max_rate=asked_at(Rate(2, SECOND))),))
        await status_of(stub.Acquire(ask("open"), metadata=known("a")))
        for _ in range(2):
            await status_of(stub.ListResources(pb.ListResourcesRequest(), metadata=known("a")))

    assert counted == ["unauthenticated", "unauthenticated", "permission_denied", "client_limit"]
