"""The gRPC server: its options, its addresses, its start and its end.

It knows sockets and streams. It must never know what a permit is; and it stops at once what it serves, so whoever
wants to drain has drained before.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, assert_never

from governor.address import Address, TcpAddress, UnixAddress
from governor.bounds import Bound, Bounds
from governor.certificates import Certificates
from governor.clock import Clock
from governor.core.types import MILLISECOND, Nanos
from governor.descriptors import connections_each
from governor.driver import Driver
from governor.lock import BindError
from governor.rpc.admin import ADMIN, INSTEAD, AdminService, Desk, Where, anybody, nobody, unix_only
from governor.rpc.arrivals import Methods, Server
from governor.rpc.bind import UnixSocket, bind_tcp
from governor.rpc.certificates import credentials
from governor.rpc.companions import Health, Reflection
from governor.rpc.guard import Guard
from governor.rpc.listing import Listing
from governor.rpc.servicer import SERVICE, GovernorServicer
from governor.rpc.session import MESSAGE_BYTES, NO_MORE, SessionService
from governor.sessions import Sessions

# Every option that is not grpc's default, and why. There is no maximum_concurrent_rpcs on purpose: under it, asks
# that wait in line would keep out the very Release that they wait for.
OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    # Two servers must never share a port by accident.
    ("grpc.so_reuseport", 0),
    # The largest legal ask has 64 claims with names and keys, and labels: 40 KiB. Answers have no bound of ours: a
    # long list of resources is the operator's own doing.
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    # What a client may send before it is read. By default gRPC guesses what the line would bear, and takes megabytes of
    # each call from whoever sends faster than he is served. Programs send some kilobytes at a time.
    ("grpc.http2.bdp_probe", 0),
    # Calls that have arrived and that Python has not yet picked up. By default grpc refuses some at random from 1,000
    # on, as CANCELLED and without details, which a burst of asks reaches in milliseconds; our own lines say line_full.
    ("grpc.server.max_pending_requests", 65_536),
    ("grpc.server.max_pending_requests_hard_limit", 131_072),
    # A client that is frozen, or whose host is gone, is noticed within 10 s: it leaves its lines, and its leases do as
    # their resources say. On a unix socket it takes ping_timeout as well to notice. Pings also go over connections
    # without calls: a dead one is closed.
    ("grpc.keepalive_time_ms", 4_000),
    ("grpc.keepalive_timeout_ms", 4_000),
    ("grpc.http2.ping_timeout_ms", 4_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # A blocked Acquire carries no data. By default, clients that ping meanwhile more than once in five minutes are
    # sent away with too_many_pings.
    ("grpc.http2.min_ping_interval_without_data_ms", 500),
)


def _options(bounds: Bounds, connections: int) -> tuple[tuple[str, int], ...]:
    """Those, and what the config says of how much of a server clients may take."""
    return (
        *OPTIONS,
        ("grpc.max_allowed_incoming_connections", min(connections, bounds.connections or connections)),
        # Of one connection. A blocked Acquire is a stream, and a Release on the same connection needs one more, so this
        # is above what all lines of a sane config hold (max_waiters each). It also bounds what one hostile client can
        # pile up: gRPC counts calls that were reset and are still in its queues, so this many are what it can have
        # before others in line, and at 20 to 40 KB each, what it can have in memory.
        ("grpc.max_concurrent_streams", bounds.streams),
        # Whoever connects and then says nothing.
        ("grpc.server_handshake_timeout_ms", max(1, bounds.handshake // MILLISECOND)),
    )


class _Place:
    """One server of gRPC, at some addresses, with its companions. ``addresses``: where, once it is bound."""

    def __init__(
        self,
        listen: Sequence[Address],
        options: tuple[tuple[str, int], ...],
        certificates: Certificates | None,
        health: Health,
        services: tuple[str, ...],
    ) -> None:
        """``services``: those that it lists."""
        self._certificates = certificates
        self.health = health
        self.addresses: tuple[Address, ...] = ()
        self._listen = listen
        self._reflection = Reflection(services)
        self._sockets: list[UnixSocket] = []
        self._server = Server(options)
        self.add(health.handlers(), *self._reflection.handlers())

    def add(self, *answered: Methods) -> None:
        """Have these answered as well; before it is bound."""
        for methods in answered:
            self._server.add(methods)

    async def bind(self) -> None:
        """Bind all of its addresses; raises `BindError`."""
        for address in self._listen:
            match address:
                case UnixAddress():
                    socket = UnixSocket(address)
                    self._sockets.append(socket)
                    socket.bind(self._server.transport)
                    self.addresses += (address,)
                case TcpAddress():
                    shown = credentials(self._certificates) if address.tls and self._certificates else None
                    self.addresses += (await bind_tcp(self._server.transport, address, shown),)
                case _:
                    assert_never(address)

    async def start(self) -> None:
        """Answer; raises `BindError` if a socket cannot be put in its place."""
        await self._server.start()
        for socket in self._sockets:
            socket.publish()

    async def undo(self) -> None:
        """Leave no trace of a start that has failed, at whatever point."""
        # A server that was bound and never started keeps its ports, whatever is done to it.
        await self._server.start()
        await self._server.stop(None)
        self.withdraw()

    def hang_up(self) -> None:
        """End the streams of its companions."""
        self.health.stop()
        self._reflection.stop()

    async def stop(self, grace: float) -> None:
        """Refuse new calls now, and give running ones ``grace`` seconds; safe twice."""
        await self._server.stop(grace)

    def withdraw(self) -> None:
        """Remove its sockets; safe twice."""
        for socket in self._sockets:
            socket.withdraw()


class GrpcServer:
    """A server that is bound and answers.

    ``addresses``: where, with real port numbers. ``admin``: where operators are served, and ``why_not`` if nowhere.
    """

    def __init__(self, places: Sequence[_Place], sessions: SessionService, admin: AdminService | None) -> None:
        self.addresses = places[0].addresses
        self.admin, self.why_not = ((), "") if admin is None else (admin.places, admin.why_not)
        self._places = places
        self._sessions = sessions
        self._admin = admin

    @property
    def sessions(self) -> Sessions:
        """Those of all clients."""
        return self._sessions.sessions

    def set_serving(self, serving: bool) -> None:  # noqa: FBT001 - the one thing it sets
        """What the health service says of the server as a whole and of Governor; not serving until told."""
        for place in self._places:
            place.health.set_serving(serving)

    def drain(self) -> None:
        """Tells every session that the daemon is about to end; all calls go on."""
        self._sessions.drain()

    async def stop(self, grace: float) -> None:
        """Refuses new calls now, gives running ones ``grace`` seconds, then removes the sockets; safe twice."""
        for place in self._places:
            place.hang_up()
        if self._admin is not None:
            self._admin.stop()
        self._sessions.stop()
        await asyncio.gather(*(place.stop(grace) for place in self._places))
        self._sessions.close()
        for place in self._places:
            place.withdraw()


async def serve(  # noqa: PLR0913 - all that a server is made of comes together here
    driver: Driver,
    clock: Clock,
    listen: Sequence[Address],
    *,
    restart_grace: Nanos = 0,
    desk: Desk | None = None,
    guard: Guard | None = None,
    bounds: Bounds = NO_MORE,
    reached: Callable[[Bound], None] = lambda _bound: None,
    certificates: Certificates | None = None,
    bound: Callable[[], Awaitable[None]] | None = None,
) -> GrpcServer:
    """Binds all of ``listen``, or none and raises `BindError`; when it returns, clients can call.

    ``restart_grace``: what sessions are promised should this process die; 0 is nothing. ``desk``: for operators; with
    None they are not served. ``guard``: asked before every call; None lets everybody through. ``certificates``: for the
    addresses where TLS is spoken.

    ``bounds``: how much of it clients may take; ``reached`` is told whenever one is refused or cut off for that.
    ``bound``: awaited when nothing of ``listen`` is in anybody's way any more, and nobody has been answered there yet.
    """
    _quieten()
    guard = guard or Guard(driver)
    sessions = SessionService(driver, guard, restart_grace, bounds, reached)
    listing = Listing(driver, clock, guard, None if desk is None else desk.config, reached)
    governor = GovernorServicer(driver, clock, sessions, guard, listing)
    if desk is None:
        options = _options(bounds, _connections_each(listen, bounds))
        main = _Place(listen, options, certificates, Health((SERVICE,)), (SERVICE,))
        main.add(governor.handlers())
        await _open(main, bound)
        return GrpcServer([main], sessions, None)
    where = desk.where
    admin = AdminService(driver, clock, sessions, desk, guard)
    shared = where == Where()
    options = _options(bounds, _connections_each((*listen, *where.own), bounds))
    steady = (ADMIN,) if shared else ()
    main = _Place(listen, options, certificates, Health((SERVICE,), steady), (SERVICE, *steady))
    main.add(governor.handlers(), admin.handlers(unix_only if shared else nobody))
    places = [main]
    # Before anybody can ask where they are.
    if where.own:
        apart = _Place(where.own, options, certificates, Health((), (ADMIN,)), (ADMIN,))
        apart.add(admin.handlers(anybody), governor.operators_handlers())
        try:
            await _open(apart)
        except BindError as error:
            if not where.implied:
                raise
            admin.why_not = f"{INSTEAD}: {error}"
        else:
            admin.places = apart.addresses
            places.append(apart)
    try:
        await main.bind()
        if bound is not None:
            await bound()
        admin.addresses = main.addresses
        if shared:
            admin.places = tuple(address for address in main.addresses if isinstance(address, UnixAddress))
        await main.start()
    except BaseException:
        for place in places:
            await place.undo()
        raise
    return GrpcServer(places, sessions, admin)


async def _open(place: _Place, bound: Callable[[], Awaitable[None]] | None = None) -> None:
    """Bind it and have it answer, or leave no trace of it."""
    try:
        await place.bind()
        if bound is not None:
            await bound()
        await place.start()
    except BaseException:
        await place.undo()
        raise


def _connections_each(listen: Sequence[Address], bounds: Bounds) -> int:
    """What gRPC counts for each listener on its own; a host such as localhost may stand for two."""
    listeners = sum(2 if isinstance(address, TcpAddress) else 1 for address in listen)
    return connections_each(listeners, bounds.http_connections)


class _Noise(logging.Filter):
    """Drops what grpc.aio says with a traceback, and any client can have it say.

    About replies that did not leave: `delivery` acts on each of them. About headers that are no UTF-8: all of such a
    header is told, and it may be a token.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is worth a line."""
        said = str(record.msg)
        return not said.startswith(("ExecuteBatchError raised in core by servicer method", "Invalid encoding on"))


_NOISE: Final = _Noise()


def _quieten() -> None:
    """Keeps grpc.aio from writing a traceback whenever a client goes away."""
    # The same filter is added once, however often this runs.
    logging.getLogger("grpc._cython.cygrpc").addFilter(_NOISE)
