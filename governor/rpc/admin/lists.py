"""Lists: who holds what, who waits for what, and which sessions there are, a page at a time.

It knows how long it may look before others have their turn, and how many lists may be under way. It must never know
where they are sent.

What is listed is named at the start; whoever is gone when his turn comes is left out. Between two pages, and now and
then while nothing fits, the event loop is given back, and no page is made before the last one has been written: so a
list of a hundred thousand leases holds nobody up, and a client that does not read costs one page. All lists together
look in one turn of the loop as much as one does: many of them take longer, and hold nobody up either.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Generic, TypeVar

from governor.access import Client
from governor.clock import Clock
from governor.core.snapshot import LeaseView
from governor.core.types import Denial, LeaseId, Reason, TicketId
from governor.driver import Driver
from governor.rpc import status
from governor.rpc.admin import views
from governor.rpc.calls import Answer
from governor.rpc.fields import MAX_NAME_BYTES, MAX_TEXT_BYTES, Malformed, at_least, bounded
from governor.rpc.status import Hindrance
from governor.sessions import Sessions
from governor.v1 import admin_pb2

# So many make one message, and so many are looked at in one turn of the event loop: a millisecond or two of work.
PAGE: Final = 200
LOOKED_AT: Final = 250
# Each has its names in memory.
AT_ONCE: Final = 16

Row = TypeVar("Row")
Name = TypeVar("Name")


class Lists:
    """The lists of one daemon."""

    def __init__(self, driver: Driver, clock: Clock, sessions: Sessions) -> None:
        self._driver = driver
        self._clock = clock
        self._sessions = sessions
        self._under_way = 0
        # Whoever holds it may look: one list in each turn of the loop, however many there are.
        self._turn = asyncio.Lock()

    async def leases(
        self, request: admin_pb2.ListLeasesRequest, reader: Client | None = None
    ) -> AsyncGenerator[Answer, None]:
        """By rising id. What is not of the ``reader``'s resources is left out of each; None reads all."""
        refused = self._filters(request.resource, request.client, request.session, request.limit)
        if refused is not None:
            yield refused
            return
        resource, client = request.resource, request.client

        def row(lease: LeaseId) -> admin_pb2.LeaseState | None:
            view = self._driver.lease(lease)
            if view is None or (client and view.client != client) or (resource and not _covers(view, resource)):
                return None
            if reader is not None:
                view = replace(view, grants=tuple(each for each in view.grants if reader.covers(each.resource)))
            return views.lease(view, self._sessions.owners.get(lease), self._clock.now())

        with self._one_more():
            owner = self._sessions.named(request.session) if request.session else None
            pages = _Pages(
                lambda: self._driver.lease_ids() if owner is None else sorted(owner.leases),
                row,
                request.limit,
                self._turn,
            )
            async for page in pages.told():
                yield admin_pb2.ListLeasesResponse(leases=page).SerializeToString()

    async def waiters(
        self, request: admin_pb2.ListWaitersRequest, reader: Client | None = None
    ) -> AsyncGenerator[Answer, None]:
        """First in line first; as above."""
        refused = self._filters(request.resource, request.client, request.session, request.limit)
        if refused is not None:
            yield refused
            return
        client, session = request.client, request.session
        # How many were seen in each line: of a long one, the engine itself counts the first few only.
        ahead: dict[str, int] = {}
        place = 0

        def row(ticket: TicketId) -> admin_pb2.WaiterState | None:
            nonlocal place
            view = self._driver.waiter(ticket)
            if view is None:
                return None
            place += 1
            before = max([ahead.get(claim.resource, 0) for claim in view.claims])
            ahead.update({claim.resource: ahead.get(claim.resource, 0) + 1 for claim in view.claims})
            if client and view.client != client:
                return None
            owner = self._sessions.of_request(view.client, view.request_id)
            if session and (owner is None or owner.name != session):
                return None
            now = self._clock.now()
            standing = self._driver.place(ticket)
            at_least = 0 if standing is None else standing[1]
            paused, expected = self._driver.paused(view.claims), None
            if not paused:
                expected = self._sessions.expected(view.claims, before, at_least, waited=now - view.since, now=now)
            if reader is not None:
                view = replace(view, claims=tuple(each for each in view.claims if reader.covers(each.resource)))
                paused = tuple(filter(reader.covers, paused))
            return views.waiter(place, view, owner, expected, paused, now)

        with self._one_more():
            pages = _Pages(lambda: self._driver.waiting(request.resource or None), row, request.limit, self._turn)
            async for page in pages.told():
                yield admin_pb2.ListWaitersResponse(waiters=page).SerializeToString()

    async def sessions(
        self, request: admin_pb2.ListSessionsRequest, _reader: Client | None = None
    ) -> AsyncGenerator[Answer, None]:
        """In the order in which they began; only for who reads all."""
        refused = self._filters("", request.client, "", 0)
        if refused is not None:
            yield refused
            return
        client = request.client

        def row(name: str) -> admin_pb2.SessionState | None:
            session = self._sessions.named(name)
            if session is None or (client and session.client != client):
                return None
            return views.session(session, self._clock.now())

        with self._one_more():
            async for page in _Pages(self._sessions.names, row, 0, self._turn).told():
                yield admin_pb2.ListSessionsResponse(sessions=page).SerializeToString()

    def _filters(self, resource: str, client: str, session: str, limit: int) -> status.Refusal | None:
        """Why there is no such list."""
        try:
            bounded("resource", resource, MAX_NAME_BYTES)
            bounded("client", client, MAX_TEXT_BYTES)
            bounded("session", session, MAX_TEXT_BYTES)
            at_least("limit", limit, 0)
        except Malformed as malformed:
            return status.refusal(malformed.denial)
        if resource and self._driver.resource(resource) is None:
            return status.refusal(Denial(Reason.UNKNOWN_RESOURCE, resource))
        if session and self._sessions.named(session) is None:
            return status.hindered(Hindrance.UNKNOWN_SESSION, session=session)
        if self._under_way == AT_ONCE:
            return status.hindered(Hindrance.BUSY, most=AT_ONCE, what="lists are being told")
        return None

    @contextmanager
    def _one_more(self) -> Iterator[None]:
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1


class _Pages(Generic[Name, Row]):
    """One list: a ``row`` for each of ``names`` that has one, and no more than ``limit`` of them (0: all)."""

    def __init__(
        self, names: Callable[[], Iterable[Name]], row: Callable[[Name], Row | None], limit: int, turn: asyncio.Lock
    ) -> None:
        self._names = names
        self._row = row
        self._limit = limit
        self._turn = turn

    async def told(self) -> AsyncGenerator[list[Row], None]:
        """Full pages, and the last one."""
        async with self._turn:
            await asyncio.sleep(0)
            rows = self._rows(iter(self._names()))
        page: list[Row] = []
        more = True
        while more:
            # Not kept while a page is written: its client may not read.
            async with self._turn:
                await asyncio.sleep(0)
                page, more = self._add_to(page, rows)
            if len(page) == PAGE or (page and not more):
                yield page
                page = []

    def _rows(self, names: Iterator[Name]) -> Iterator[Row | None]:
        """One for each name, as long as any may be told."""
        told = 0
        for name in names:
            row = self._row(name)
            yield row
            told += row is not None
            if told == self._limit and row is not None:
                return

    def _add_to(self, page: list[Row], rows: Iterator[Row | None]) -> tuple[list[Row], bool]:
        """Until it is full, or this was enough for one turn; whether there may be more."""
        for looked_at, row in enumerate(rows, 1):
            if row is not None:
                page.append(row)
            if len(page) == PAGE or looked_at == LOOKED_AT:
                return page, True
        return page, False


def _covers(view: LeaseView, resource: str) -> bool:
    return any(grant.resource == resource for grant in view.grants)
