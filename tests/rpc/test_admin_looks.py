"""What operators see: the daemon, a resource, leases, waiters and sessions."""

import asyncio

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from governor import __version__
from governor.core.types import SECOND, LeaseId, Outcome
from governor.v1 import admin_pb2 as admin
from governor.v1 import governor_pb2 as pb
from tests.rpc.conftest import ask, until
from tests.rpc.operators import ABOUT, CONFIG, Operated
from tests.rpc.peer import Peer, hello, want
from tests.rpc.refusals import refused


async def leases(operators: Operated, **filters: object) -> list[admin.LeaseState]:
    """All pages as one."""
    call = operators.admin.ListLeases(admin.ListLeasesRequest(**filters))  # type: ignore[arg-type]
    return [lease async for page in call for lease in page.leases]


async def waiters(operators: Operated, **filters: object) -> list[admin.WaiterState]:
    """All pages as one."""
    call = operators.admin.ListWaiters(admin.ListWaitersRequest(**filters))  # type: ignore[arg-type]
    return [waiter async for page in call for waiter in page.waiters]


async def sessions(operators: Operated, client: str = "") -> list[admin.SessionState]:
    """All pages as one."""
    call = operators.admin.ListSessions(admin.ListSessionsRequest(client=client))
    return [session async for page in call for session in page.sessions]


async def test_the_daemon(operators: Operated) -> None:
    """What it is, where it is, how it is; the start is what sessions are told."""
    peer = await Peer.begin(operators.world)
    await peer.acquire(1, permits=2)
    await peer.do(acquires=[want(2)])

    info = await operators.admin.GetInfo(admin.GetInfoRequest())

    assert (info.version, info.host, info.http) == (__version__, ABOUT.host, ABOUT.http)
    assert info.start == peer.heard.welcome.start
    assert info.started_at.ToNanoseconds() == ABOUT.started_at
    assert list(info.addresses) == [str(address) for address in operators.world.server.addresses]
    assert list(info.admin_addresses) == list(info.addresses)[:1]
    assert (info.state_folder, info.durability, info.state_problem) == ("/var/lib/governor", "process", "")
    assert info.audit_problem == "the audit file cannot be written"
    assert info.tracing == "http://127.0.0.1:4317, all asks"
    assert (info.config.source, info.config.hash) == (CONFIG.source, CONFIG.hash)
    assert info.config.since.ToNanoseconds() == CONFIG.since
    assert not info.draining
    assert (info.resources, info.leases, info.waiters, info.sessions) == (4, 1, 1, 1)
    assert (info.revoked, info.expired, info.last_lease_id) == (3, 4, 1)


async def test_a_list_of_resources_says_which_config_is_in_force(operators: Operated) -> None:
    """To whoever may list them, also where operators are not served."""
    seen = await operators.world.stub.ListResources(pb.ListResourcesRequest())

    assert (seen.config.source, seen.config.hash) == (CONFIG.source, CONFIG.hash)
    assert seen.config.since.ToNanoseconds() == CONFIG.since
    assert not seen.draining
    operators.world.driver.drain()
    assert (await operators.world.stub.ListResources(pb.ListResourcesRequest())).draining


async def test_what_covers_several_resources_is_one_lease(operators: Operated) -> None:
    """Each of them counts it, and all together once: the same number wherever it is shown."""
    both = pb.AcquireRequest(claims=[pb.Claim(resource="sem", permits=2), pb.Claim(resource="pool", permits=1)])
    await operators.world.stub.Acquire(both)
    waiting = asyncio.ensure_future(operators.world.stub.Acquire(both))
    await operators.world.until_waiting(1)

    seen = await operators.world.stub.ListResources(pb.ListResourcesRequest())
    info = await operators.admin.GetInfo(admin.GetInfoRequest())

    assert sum(each.leases for each in seen.resources) == sum(each.waiters for each in seen.resources) == 2
    assert (seen.leases, seen.waiters) == (info.leases, info.waiters) == (1, 1)
    waiting.cancel()


async def test_a_semaphore(operators: Operated) -> None:
    """Its numbers are those of the list, its settings those of the config."""
    await operators.world.stub.Acquire(ask())

    seen = await operators.admin.GetResource(admin.GetResourceRequest(resource="sem"))

    (listed, *_) = (await operators.world.stub.ListResources(pb.ListResourcesRequest())).resources
    assert seen.resource == listed
    assert dict(seen.settings) == {
        "permits": "2",
        "lease": "30s",
        "max_lease": "1h",
        "on_disconnect": "2s",
        "max_wait": "30s",
        "max_waiters": "2000",
    }
    assert (list(seen.members), list(seen.windows)) == ([], [])


async def test_a_pool(operators: Operated) -> None:
    """Each member with what it is, and what became of it."""
    world = operators.world
    lease = (await world.stub.Acquire(ask("pool"))).lease
    world.driver.release((LeaseId(lease.id),), Outcome.BROKEN)
    await world.stub.Acquire(ask("pool"))

    seen = await operators.admin.GetResource(admin.GetResourceRequest(resource="pool"))

    broken, lent = seen.members
    assert (broken.id, broken.state, broken.generation) == ("primary", admin.MemberState.QUARANTINED, 2)
    assert (broken.failures, broken.by_operator, broken.quarantined_for) == (1, False, Duration(seconds=1))
    assert dict(broken.attributes) == {"endpoint": "db1:5432"}
    assert (lent.id, lent.state, lent.max_leases, lent.lent, lent.lendings) == (
        "spare",
        admin.MemberState.LENT,
        1,
        1,
        1,
    )
    assert seen.settings["members"] == "primary, spare"


async def test_a_rate_limit(operators: Operated) -> None:
    """Each window with what it has now, and when the next permit comes."""
    await operators.world.stub.Acquire(ask("rate"))
    operators.world.clock.advance(SECOND // 4)

    seen = await operators.admin.GetResource(admin.GetResourceRequest(resource="rate"))

    (window,) = seen.windows
    assert (window.rate, window.burst, window.available) == ("1/s", 1, 0)
    assert window.next.ToNanoseconds() == 3 * SECOND // 4
    operators.world.clock.advance(SECOND)
    (window,) = (await operators.admin.GetResource(admin.GetResourceRequest(resource="rate"))).windows
    assert (window.available, window.HasField("next")) == (1, False)


async def test_a_lease_of_a_session(operators: Operated) -> None:
    """Whose it is, what it lends, and how long it was waited for, is held and will last."""
    world = operators.world
    blocks = (await world.stub.Acquire(ask("pool", 2))).lease.id
    peer = await Peer.begin(world, hello("web"))
    asked = want(1, "pool", 1)
    asked.labels["job"] = "nightly"
    await peer.do(acquires=[asked])
    world.clock.advance(3 * SECOND)
    await world.stub.Release(pb.ReleaseRequest(lease_ids=[blocks]))
    granted = await peer.hears(lambda heard: bool(heard.grants))
    world.clock.advance(5 * SECOND)
    await peer.do(keep_alive=True)
    world.clock.advance(SECOND)

    (lease,) = await leases(operators)

    assert lease.id == granted.grants[0].lease.id
    assert (lease.client, lease.session, lease.pid, lease.host) == ("web", peer.session[:8], 1, "here")
    assert dict(lease.labels) == {"job": "nightly"}
    assert list(lease.grants) == list(granted.grants[0].lease.grants)
    assert lease.grants[0].members[0].id in {"primary", "spare"}
    assert (lease.waited, lease.age) == (Duration(seconds=3), Duration(seconds=6))
    assert (lease.remaining, lease.renewals, lease.orphaned) == (Duration(seconds=29), 1, False)

    await peer.vanish()
    (lease,) = await leases(operators)
    assert (lease.orphaned, lease.session, lease.remaining) == (True, peer.session[:8], Duration(seconds=2))


async def test_a_lease_of_nobody(operators: Operated) -> None:
    """One of a single call has no session; what was spent at once is no lease."""
    await operators.world.stub.Acquire(ask())
    await operators.world.stub.Acquire(ask("rate"))

    (lease,) = await leases(operators)

    assert (lease.id, lease.client, lease.session, lease.pid, lease.host) == (1, "", "", 0, "")


async def test_leases_are_filtered(operators: Operated) -> None:
    """By what they cover, by client, by session, by all of that together, and by number."""
    world = operators.world
    web, job = await Peer.begin(world, hello("web")), await Peer.begin(world, hello("job"))
    for op, resource in enumerate(("open", "sem", "open"), 1):
        await web.acquire(op, resource)
    await job.acquire(1, "open")
    await job.acquire(2, "pool")

    async def ids(**filters: object) -> list[int]:
        return [lease.id for lease in await leases(operators, **filters)]

    assert await ids() == [1, 2, 3, 4, 5]
    assert await ids(resource="open") == [1, 3, 4]
    assert await ids(client="job") == [4, 5]
    assert await ids(session=web.session[:8]) == [1, 2, 3]
    assert await ids(session=web.session[:8], resource="open", client="web") == [1, 3]
    assert await ids(session=web.session[:8], client="job") == []
    assert await ids(resource="open", limit=2) == [1, 3]
    assert await ids(resource="rate") == []


async def test_a_place_in_line(operators: Operated) -> None:
    """Who waits there, for what, since when, until when, and how long it is likely to take."""
    world = operators.world
    held = [(await world.stub.Acquire(ask("sem"))).lease.id for _ in range(2)]
    peer = await Peer.begin(world, hello("web"))
    first = want(1)
    first.labels["job"] = "nightly"
    await peer.do(acquires=[first])
    world.clock.advance(2 * SECOND)
    await peer.do(acquires=[want(2, wait=5 * SECOND)])
    world.clock.advance(SECOND)

    one, two = await waiters(operators)

    assert (one.place, one.client, one.session, one.pid, one.host) == (1, "web", peer.session[:8], 1, "here")
    assert dict(one.labels) == {"job": "nightly"}
    assert [(claim.resource, claim.permits) for claim in one.claims] == [("sem", 1)]
    assert (one.waited, one.remaining, one.tickets) == (Duration(seconds=3), Duration(seconds=27), 1)
    assert not one.HasField("expected")
    assert (two.place, two.waited, two.remaining) == (2, Duration(seconds=1), Duration(seconds=4))

    # Two were granted one second after another: that is how fast the line moves.
    for lease in held:
        await world.stub.Release(pb.ReleaseRequest(lease_ids=[lease]))
        await peer.hears(lambda heard: bool(heard.grants))
        world.clock.advance(SECOND)
    done = await peer.do(acquires=[want(3), want(4)])
    assert {place.op: place.expected.seconds for place in done.queued} == {3: 1, 4: 2}
    assert {waiter.place: waiter.expected.seconds for waiter in await waiters(operators)} == {1: 1, 2: 2}


async def test_nothing_is_foretold_of_a_line_that_has_not_moved(
    operators: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by a clock that goes on between two looks at it, as every clock does."""
    world = operators.world

    def now() -> int:
        world.clock.time += 1_000
        return world.clock.time

    monkeypatch.setattr(world.clock, "now", now)
    for _ in range(2):
        await world.stub.Acquire(ask("sem"))
    peer = await Peer.begin(world, hello("web"), acquires=[want(1)])
    again = await peer.do(places=[1])

    told = [*peer.heard.queued, *again.queued]
    assert len(told) >= 2
    assert not any(place.HasField("expected") for place in told)
    (waiter,) = await waiters(operators)
    assert not waiter.HasField("expected")


async def test_a_wait_for_a_rate_is_known(operators: Operated) -> None:
    """Each stands behind those ahead of it, whoever asks for the list."""
    await operators.world.stub.Acquire(ask("rate"))
    calls = []
    for waiting in (1, 2):
        calls.append(asyncio.ensure_future(operators.world.stub.Acquire(ask("rate"))))
        await operators.world.until_waiting(waiting)

    seen = await waiters(operators, resource="rate")

    assert [(waiter.place, waiter.expected.seconds, waiter.session) for waiter in seen] == [(1, 1, ""), (2, 2, "")]
    operators.world.clock.advance(2 * SECOND)
    await asyncio.gather(*calls)


async def test_nothing_is_foretold_while_it_is_paused(operators: Operated) -> None:
    """Neither by a rate nor from how the line went: which of what is asked for is paused is said instead."""
    world = operators.world
    await world.stub.Acquire(ask("rate"))
    calls = [asyncio.ensure_future(world.stub.Acquire(ask("rate")))]
    await world.until_waiting(1)
    both = pb.AcquireRequest(claims=[pb.Claim(resource=name, permits=1) for name in ("rate", "sem")])
    calls.append(asyncio.ensure_future(world.stub.Acquire(both)))
    await world.until_waiting(2)
    peer = await Peer.begin(world, hello("web"), acquires=[want(1, "rate")])
    assert peer.heard.queued[0].HasField("expected")

    await operators.admin.PauseResource(admin.PauseResourceRequest(resource="rate"))
    paused = await waiters(operators)
    place = await peer.do(places=[1])
    await operators.admin.ResumeResource(admin.ResumeResourceRequest(resource="rate"))
    resumed = await waiters(operators)

    assert [list(waiter.paused) for waiter in paused] == [["rate"]] * 3
    assert not any(waiter.HasField("expected") for waiter in paused)
    assert not place.queued[0].HasField("expected")
    assert [(waiter.expected.seconds, list(waiter.paused)) for waiter in resumed] == [(1, []), (2, []), (3, [])]
    world.clock.advance(3 * SECOND)
    await asyncio.gather(*calls)


async def test_waiters_are_filtered(operators: Operated) -> None:
    """Their places are those in the line that is asked for, whoever is left out."""
    world = operators.world
    await world.stub.Acquire(ask("sem", 2))
    await world.stub.Acquire(ask("pool", 2))
    web, job = await Peer.begin(world, hello("web")), await Peer.begin(world, hello("job"))
    for peer, op, resource in ((web, 1, "sem"), (job, 1, "pool"), (job, 2, "sem"), (web, 2, "pool")):
        await peer.do(acquires=[want(op, resource)])

    async def seen(**filters: object) -> list[tuple[int, str, str]]:
        found = await waiters(operators, **filters)
        return [(waiter.place, waiter.client, waiter.claims[0].resource) for waiter in found]

    assert await seen() == [(1, "web", "sem"), (2, "job", "pool"), (3, "job", "sem"), (4, "web", "pool")]
    assert await seen(resource="sem") == [(1, "web", "sem"), (2, "job", "sem")]
    assert await seen(resource="pool", client="web") == [(2, "web", "pool")]
    assert await seen(session=job.session[:8]) == [(2, "job", "pool"), (3, "job", "sem")]
    assert await seen(limit=1, client="job") == [(2, "job", "pool")]


async def test_a_repeated_ask_is_one_place(operators: Operated) -> None:
    """With as many tickets as calls wait for it."""
    await operators.world.stub.Acquire(ask("sem", 2))
    twice = pb.AcquireRequest(claims=[pb.Claim(resource="sem", permits=1)], client="me", request_id="a/1")
    calls = [operators.world.stub.Acquire(twice) for _ in range(2)]
    driver = operators.world.driver

    def tickets() -> list[int]:
        views = [driver.waiter(ticket) for ticket in driver.waiting("sem")]
        return [len(view.tickets) for view in views if view is not None]

    await until(lambda: tickets() == [2])
    assert [waiter.tickets for waiter in await waiters(operators, resource="sem")] == [2]
    for call in calls:
        call.cancel()


async def test_sessions(operators: Operated) -> None:
    """Each by a name that does not let anybody resume it; connected or not, and since when."""
    world = operators.world
    said = hello("web")
    said.labels["version"] = "7"
    web, job = await Peer.begin(world, said), await Peer.begin(world, hello("job"))
    await web.acquire(1, permits=2)
    await web.acquire(2, "open")
    await job.do(acquires=[want(1)])
    world.clock.advance(4 * SECOND)

    one, two = await sessions(operators)

    assert (one.session, one.client, one.pid, one.host) == (web.session[:8], "web", 1, "here")
    assert len(one.session) == 8
    assert dict(one.labels) == {"version": "7"}
    assert (one.connected, one.since, one.leases, one.waiters) == (True, Duration(seconds=4), 2, 0)
    assert (two.client, two.leases, two.waiters) == ("job", 0, 1)
    assert [each.client for each in await sessions(operators, "job")] == ["job"]

    await web.vanish()
    world.clock.advance(SECOND)
    (one,) = await sessions(operators, "web")
    assert (one.connected, one.since, one.leases) == (False, Duration(seconds=1), 2)
    world.clock.advance(SECOND)
    assert [each.client for each in await sessions(operators)] == ["job"]


async def test_a_session_that_comes_back_keeps_its_name(operators: Operated) -> None:
    """It counts anew since when it is there."""
    world = operators.world
    web = await Peer.begin(world)
    lease = await web.acquire(1)
    await web.vanish()
    world.clock.advance(SECOND)
    again = await Peer.begin(world, hello(instance=web.hello.instance, resume=web.session, held=[lease.id]))
    assert again.heard.welcome.resumed
    world.clock.advance(2 * SECOND)

    (one,) = await sessions(operators)

    assert (one.session, one.connected, one.since) == (web.session[:8], True, Duration(seconds=2))


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("GetResource", admin.GetResourceRequest(resource="nothing")),
        ("PauseResource", admin.PauseResourceRequest(resource="nothing")),
        ("ResumeResource", admin.ResumeResourceRequest(resource="nothing")),
        ("DrainResource", admin.DrainResourceRequest(resource="nothing")),
        ("ClearOverride", admin.ClearOverrideRequest(resource="nothing")),
        ("SetOverride", admin.SetOverrideRequest(resource="nothing", length=Duration(seconds=5))),
        ("RecycleMembers", admin.RecycleMembersRequest(resource="nothing")),
        ("QuarantineMember", admin.QuarantineMemberRequest(resource="nothing", member="x")),
        ("RestoreMember", admin.RestoreMemberRequest(resource="nothing", member="x")),
    ],
)
async def test_a_resource_that_is_unknown(operators: Operated, method: str, request_: object) -> None:
    """Is not found, by its name, and nothing is put on record."""
    said = await refused(getattr(operators.admin, method)(request_))

    assert (said.code, said.reason) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_RESOURCE")
    assert said.info.metadata["resource"] == "nothing"
    assert operators.acts == []
