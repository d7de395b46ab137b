"""Arrivals: how calls come from gRPC to the methods that answer them, whatever they are named.

It knows what grpc.aio does between a call's headers and its handler. It must never know what a method does.

On its own, grpc.aio has one queue for all calls, and decodes the name of the method of each in the one task that takes
them from there. A name that is no UTF-8 ends that task, and with it the server: one call of any client is enough. So
the methods that there are have been registered, each with a queue and a task of its own, in which nothing is decoded;
and what comes to any other name is answered without a look at it. As each method has its own queue, calls of one
that nobody can keep up with hold up no calls of another: what is given back comes in beside any number of asks.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Final, TypeAlias, cast

import grpc
from grpc import aio
from grpc._cython import cygrpc
from grpc.aio import _server

Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"
# By their whole paths, as in the headers of a call.
Methods: TypeAlias = "Mapping[str, Handler]"

# What a call is to grpc.aio; nothing of it can be seen from here.
_Call = object
_UNKNOWN: Final = "unknown"
# How many calls of one method are taken in one turn of the event loop, if so many have come.
_AT_ONCE: Final = 8


def methods_of(service: str, handlers: Mapping[str, Handler]) -> Methods:
    """Those of a service, by their paths."""
    return {f"/{service}/{name}": handler for name, handler in handlers.items()}


class Server(_server.Server):
    """A server of gRPC that answers ``methods``, which are added before it starts, and no others."""

    def __init__(self, options: tuple[tuple[str, int], ...]) -> None:
        # In place of what the base does, which makes an `AioServer` that cannot be exchanged.
        self._loop = cygrpc.get_working_loop()
        self._server = self._arrivals = _Arrivals(self._loop, None, (), (), options, None)

    @property
    def transport(self) -> aio.Server:
        """Itself, as grpc.aio's stubs know it."""
        return cast("aio.Server", self)

    def add(self, methods: Methods) -> None:
        """Have these answered as well."""
        self._arrivals.handlers.update(methods)
        self._arrivals.add_registered_method_handlers(dict(methods))


class _Arrivals(cygrpc.AioServer):  # type: ignore[misc] # as above
    """The calls of one server. Its base asks for each next call by `_make_request_call_future`, and only there."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self.handlers: dict[str, Handler] = {}
        # asyncio itself remembers a task only for as long as something waits for it.
        self._tasks: set[asyncio.Task[None]] = set()

    def _make_request_call_future(self, method: bytes | None) -> "asyncio.Future[Any]":
        """Where the base expects one call of this method; None: of any other. It never gets one."""
        if method is None:
            return asyncio.get_running_loop().create_task(self._take_unknown())
        name = method.decode()
        return asyncio.gather(*(self._take(method, name) for _ in range(_AT_ONCE)))

    async def _take(self, method: bytes, name: str) -> None:
        """Until the server stops, which is an exception that the base knows."""
        resolver = _Resolver(self.handlers[name])
        while True:
            self._begin(await self._request_registered_call(method), name, resolver)

    async def _take_unknown(self) -> None:
        resolver = _Resolver(None)
        while True:
            self._begin(await self._request_call(), _UNKNOWN, resolver)

    def _begin(self, call: _Call, name: str, resolver: "_Resolver") -> None:
        """As the base does. The one coroutine starts the other, when it can hear that its caller is gone."""
        loop = asyncio.get_running_loop()
        too_many = False
        answering: Coroutine[object, object, None] = cygrpc._handle_rpc(  # noqa: SLF001 - see the top
            name, resolver, (), call, loop, too_many
        )
        scheduled: Coroutine[object, object, None] = cygrpc._schedule_rpc_coro(  # noqa: SLF001 - as above
            answering, call, loop, name
        )
        task = loop.create_task(scheduled)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Resolver:
    """Says which handler answers, as grpc.aio asks; None: it says that there is no such method."""

    __slots__ = ("_handler",)

    def __init__(self, handler: "Handler | None") -> None:
        self._handler = handler

    def resolve_handler(self, _details: object) -> "Handler | None":
        """What is known already."""
        return self._handler
