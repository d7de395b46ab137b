"""Long lists: in pages, with turns for others, and bounded whoever reads them."""

import asyncio

import grpc
import pytest

from governor.core.snapshot import LeaseView
from governor.core.types import Claim, LeaseId
from governor.rpc import calls
from governor.rpc.admin import views
from governor.rpc.admin.lists import AT_ONCE, LOOKED_AT, PAGE, Lists
from governor.rpc.calls import Answer
from governor.sessions import Sessions
from governor.v1 import admin_pb2 as admin
from governor.v1 import governor_pb2 as pb
from tests.rpc.conftest import ask, until
from tests.rpc.operators import Operated

# What makes a page of 800 KB.
LONG = tuple((f"{number:02}", "x" * 250) for number in range(16))


def hold(operators: Operated, leases: int, labels: tuple[tuple[str, str], ...] = ()) -> None:
    """So many leases of an unlimited semaphore."""
    for _ in range(leases):
        operators.world.driver.ask((Claim("open", 1),), client="web", labels=labels)


def made(operators: Operated) -> Lists:
    """Lists of their own, whose pages a test can take one by one."""
    world = operators.world
    return Lists(world.driver, world.clock, Sessions(world.driver, reconfigured=lambda: None))


def ids(page: Answer) -> list[int]:
    """Of the leases on it."""
    assert isinstance(page, bytes)
    return [lease.id for lease in admin.ListLeasesResponse.FromString(page).leases]


async def test_a_long_list_comes_in_pages(operators: Operated) -> None:
    """All of it, in order, none twice."""
    hold(operators, 3 * PAGE + 1)

    call = operators.admin.ListLeases(admin.ListLeasesRequest())
    pages = [[lease.id for lease in page.leases] async for page in call]

    assert [len(page) for page in pages] == [PAGE, PAGE, PAGE, 1]
    assert [lease for page in pages for lease in page] == list(range(1, 3 * PAGE + 2))


@pytest.mark.parametrize(("limit", "pages"), [(1, [1]), (PAGE, [PAGE]), (PAGE + 1, [PAGE, 1]), (0, [PAGE, PAGE])])
async def test_a_list_ends_where_it_is_told_to(operators: Operated, limit: int, pages: list[int]) -> None:
    """At a full page, too, and without an empty one."""
    hold(operators, 2 * PAGE)

    call = operators.admin.ListLeases(admin.ListLeasesRequest(limit=limit))

    assert [len(page.leases) async for page in call] == pages


async def test_an_empty_list_has_no_page(operators: Operated) -> None:
    """It only ends."""
    assert [page async for page in operators.admin.ListLeases(admin.ListLeasesRequest())] == []


async def test_who_goes_meanwhile_is_left_out(operators: Operated) -> None:
    """And who comes, is not in it."""
    hold(operators, 2 * PAGE)
    told = made(operators).leases(admin.ListLeasesRequest())
    first = ids(await anext(told))
    await operators.world.stub.Release(pb.ReleaseRequest(lease_ids=[PAGE + 1, PAGE + 3]))
    hold(operators, 1)

    rest = ids(await anext(told))

    assert first == list(range(1, PAGE + 1))
    assert rest == [PAGE + 2, *range(PAGE + 4, 2 * PAGE + 1)]
    with pytest.raises(StopAsyncIteration):
        await anext(told)


async def test_a_resource_that_is_removed_meanwhile(operators: Operated) -> None:
    """Its waiters are gone, and the list ends."""
    await operators.world.stub.Acquire(ask("sem", 2))
    for _ in range(PAGE + 5):
        answer = operators.world.driver.ask((Claim("sem", 1),))
        operators.world.driver.tell(answer.ticket, lambda _answer: None)
    told = made(operators).waiters(admin.ListWaitersRequest(resource="sem"))
    first = await anext(told)
    assert isinstance(first, bytes)
    assert len(admin.ListWaitersResponse.FromString(first).waiters) == PAGE

    operators.world.driver.reconfigure(())

    assert [page async for page in told] == []


async def test_others_have_their_turn_while_nothing_fits(operators: Operated) -> None:
    """A filter that finds nothing in many leases looks at some in each turn of the event loop."""
    hold(operators, 5 * LOOKED_AT)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    assert [page async for page in made(operators).leases(admin.ListLeasesRequest(client="nobody"))] == []
    counting.cancel()

    assert turns >= 4


async def test_many_lists_look_no_more_in_one_turn_than_one_does(
    operators: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for anything meanwhile waits as long as beside one of them."""
    hold(operators, 4 * LOOKED_AT)
    looked = turns = 0
    most = 0
    driver = operators.world.driver
    look = driver.lease

    def counted(lease: LeaseId) -> LeaseView | None:
        nonlocal looked
        looked += 1
        return look(lease)

    monkeypatch.setattr(driver, "lease", counted)
    some = made(operators)

    async def count() -> None:
        nonlocal looked, turns, most
        while True:
            turns, most, looked = turns + 1, max(most, looked), 0
            await asyncio.sleep(0)

    async def whole() -> list[Answer]:
        return [page async for page in some.leases(admin.ListLeasesRequest(client="nobody"))]

    counting = asyncio.ensure_future(count())
    assert await asyncio.gather(*[whole() for _ in range(AT_ONCE)]) == [[]] * AT_ONCE
    counting.cancel()

    assert most == LOOKED_AT
    assert turns >= 4 * AT_ONCE


async def test_a_list_that_nobody_reads_ends_and_makes_room(
    operators: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection is there, and answers pings; it is told so when it reads on."""
    monkeypatch.setattr(calls, "WRITE_SECONDS", 0.2)
    hold(operators, 100 * PAGE, LONG)
    service = operators.world.server._admin
    assert service is not None
    call = operators.admin.ListLeases(admin.ListLeasesRequest())
    await call.read()
    assert service._lists._under_way == 1

    await until(lambda: service._lists._under_way == 0)

    async def rest() -> None:
        while isinstance(await call.read(), admin.ListLeasesResponse):
            pass

    assert await _code(rest()) is grpc.StatusCode.ABORTED
    assert "nobody read this answer for 20s" in await call.details()


async def test_a_client_that_does_not_read_costs_a_few_pages(
    operators: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No page is made before the one before it has been taken; when the client goes, the list ends."""
    told = 0
    make = views.lease

    def counted(*args: object) -> object:
        nonlocal told
        told += 1
        return make(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(views, "lease", counted)
    hold(operators, 100 * PAGE, LONG)
    service = operators.world.server._admin
    assert service is not None
    call = operators.admin.ListLeases(admin.ListLeasesRequest())
    assert isinstance(await call.read(), admin.ListLeasesResponse)

    seen = -1
    while seen != told:
        seen = told
        for _ in range(50):
            await operators.admin.GetInfo(admin.GetInfoRequest())
    assert told < 50 * PAGE
    assert service._lists._under_way == 1

    call.cancel()
    await until(lambda: service._lists._under_way == 0)


async def test_so_many_lists_at_once_and_no_more(operators: Operated) -> None:
    """One more is refused, and told when to come again; each that ends makes room, however it ends."""
    hold(operators, 2 * PAGE)
    some = made(operators)
    under_way = [some.leases(admin.ListLeasesRequest()) for _ in range(AT_ONCE)]
    for told in under_way:
        await anext(told)

    (refusal,) = [answer async for answer in some.sessions(admin.ListSessionsRequest())]

    assert not isinstance(refusal, bytes)
    assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "16 lists are being told already" in refusal.message
    assert dict(refusal.metadata)["grpc-retry-pushback-ms"] == "1000"
    await under_way[0].aclose()
    assert [len(ids(page)) async for page in some.leases(admin.ListLeasesRequest())] == [PAGE, PAGE]
    for told in under_way:
        await told.aclose()
    assert some._under_way == 0


async def test_a_stop_ends_lists(operators: Operated) -> None:
    """Their clients are told so, soon, though they do not read."""
    hold(operators, 100 * PAGE, LONG)
    call = operators.admin.ListLeases(admin.ListLeasesRequest())
    await call.read()

    async with asyncio.timeout(60):
        await operators.world.server.stop(10)

    async def rest() -> None:
        while isinstance(await call.read(), admin.ListLeasesResponse):
            pass

    said = await _code(rest())
    assert said is grpc.StatusCode.UNAVAILABLE


async def test_a_list_that_begins_as_the_daemon_ends(operators: Operated) -> None:
    """Is told so."""
    service = operators.world.server._admin
    assert service is not None
    service.stop()

    said = await _code(operators.admin.ListLeases(admin.ListLeasesRequest()).read())

    assert said is grpc.StatusCode.UNAVAILABLE


async def test_a_watch_is_gated_and_told_like_a_list(operators: Operated) -> None:
    """It is the chronicle's, and says first that it has begun."""
    call = operators.admin.Watch(admin.WatchRequest())

    message = await call.read()

    assert isinstance(message, admin.WatchResponse)
    assert [event.what for event in message.events] == ["watching"]
    call.cancel()


async def _code(call: object) -> grpc.StatusCode:
    try:
        await call  # type: ignore[misc]
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK
