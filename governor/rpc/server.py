"""The gRPC server: its options, its addresses, its start and its end.

It knows sockets and streams. It must never know what a permit is; and it stops at once what it serves, so whoever
wants to drain has drained before.
"""

import logging
from collections.abc import Sequence
from typing import Final, assert_never

from grpc import aio

from governor.address import Address, TcpAddress, UnixAddress
from governor.clock import Clock
from governor.core.types import Nanos
from governor.descriptors import connections_each
from governor.driver import Driver
from governor.rpc.bind import UnixSocket, bind_tcp
from governor.rpc.companions import Health, Reflection
from governor.rpc.servicer import SERVICE, GovernorServicer
from governor.rpc.session import MESSAGE_BYTES, SessionService
from governor.sessions import Sessions

# Every option that is not grpc's default, and why. There is no maximum_concurrent_rpcs on purpose: under it, asks
# that wait in line would keep out the very Release that they wait for.
OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    # Two servers must never share a port by accident.
    ("grpc.so_reuseport", 0),
    # The largest legal ask has 64 claims with names and keys, and labels: 40 KiB. Answers have no bound of ours: a
    # long list of resources is the operator's own doing.
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    # Of one connection. A blocked Acquire is a stream, and a Release on the same connection needs one more, so this
    # is above what all lines of a sane config hold (max_waiters each). It bounds what one broken client can pile up:
    # a stream of nothing but headers costs 21 KB, so 350 MB at most.
    ("grpc.max_concurrent_streams", 16_384),
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
    # Whoever connects and then says nothing.
    ("grpc.server_handshake_timeout_ms", 10_000),
)


class GrpcServer:
    """A server that is bound and answers. ``addresses``: where, with real port numbers."""

    def __init__(
        self,
        server: aio.Server,
        addresses: tuple[Address, ...],
        sockets: Sequence[UnixSocket],
        health: Health,
        reflection: Reflection,
        sessions: SessionService,
    ) -> None:
        self.addresses = addresses
        self._server = server
        self._sockets = sockets
        self._health = health
        self._reflection = reflection
        self._sessions = sessions

    @property
    def sessions(self) -> Sessions:
        """Those of all clients."""
        return self._sessions.sessions

    def set_serving(self, serving: bool) -> None:  # noqa: FBT001 - the one thing it sets
        """What the health service says of the server as a whole and of Governor; not serving until told."""
        self._health.set_serving(serving)

    def drain(self) -> None:
        """Tells every session that the daemon is about to end; all calls go on."""
        self._sessions.drain()

    async def stop(self, grace: float) -> None:
        """Refuses new calls now, gives running ones ``grace`` seconds, then removes the sockets; safe twice."""
        self._health.stop()
        self._reflection.stop()
        self._sessions.stop()
        await self._server.stop(grace)
        self._sessions.close()
        for socket in self._sockets:
            socket.withdraw()


async def serve(driver: Driver, clock: Clock, listen: Sequence[Address], *, restart_grace: Nanos = 0) -> GrpcServer:
    """Binds all of ``listen``, or none and raises `BindError`; when it returns, clients can call.

    ``restart_grace``: what sessions are promised should this process die; 0 is nothing.
    """
    _quieten()
    health, reflection, sessions = Health((SERVICE,)), Reflection((SERVICE,)), SessionService(driver, restart_grace)
    server = aio.server(options=(*OPTIONS, ("grpc.max_allowed_incoming_connections", _connections_each(listen))))
    server.add_generic_rpc_handlers(
        (GovernorServicer(driver, clock, sessions).handlers(), health.handlers(), *reflection.handlers())
    )
    sockets: list[UnixSocket] = []
    addresses: list[Address] = []
    try:
        for address in listen:
            match address:
                case UnixAddress():
                    socket = UnixSocket(address)
                    sockets.append(socket)
                    socket.bind(server)
                    addresses.append(address)
                case TcpAddress():
                    addresses.append(await bind_tcp(server, address))
                case _:
                    assert_never(address)
        await server.start()
        for socket in sockets:
            socket.publish()
    except BaseException:
        # A server that was bound and never started keeps its ports, whatever is done to it.
        await server.start()
        await server.stop(None)
        for socket in sockets:
            socket.withdraw()
        raise
    return GrpcServer(server, tuple(addresses), sockets, health, reflection, sessions)


def _connections_each(listen: Sequence[Address]) -> int:
    """What gRPC counts for each listener on its own; a host such as localhost may stand for two."""
    return connections_each(sum(2 if isinstance(address, TcpAddress) else 1 for address in listen))


class _Undelivered(logging.Filter):
    """Drops grpc.aio's tracebacks about replies that did not leave: `delivery` acts on each of them."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is worth a line."""
        return not record.getMessage().startswith("ExecuteBatchError raised in core by servicer method")


_UNDELIVERED: Final = _Undelivered()


def _quieten() -> None:
    """Keeps grpc.aio from writing a traceback whenever a client goes away."""
    # The same filter is added once, however often this runs.
    logging.getLogger("grpc._cython.cygrpc").addFilter(_UNDELIVERED)
