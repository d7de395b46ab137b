"""The standard services beside ours: health for probes, reflection for grpcurl and its kin.

They know whether the daemon serves, and which services there are. They must never know about permits. Both end
their open streams when told to: one that stays open would hold up a stop for the whole of its grace.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, cast

import grpc
from grpc import aio
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

HEALTH: Final = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
# Equal on the wire to v1alpha, which is what the library carries; newer clients ask for this name first.
_REFLECTION_V1: Final = "grpc.reflection.v1.ServerReflection"

_Status = health_pb2.HealthCheckResponse
_HealthContext = aio.ServicerContext[health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse]
_Requests = AsyncIterator[reflection_pb2.ServerReflectionRequest]
_Answers = AsyncIterator[reflection_pb2.ServerReflectionResponse]


class Health:
    """One answer for the server as a whole ("") and for each named service.

    Not the library's servicer: nothing ends the streams of its Watch, and its setters have to be awaited.
    """

    def __init__(self, services: tuple[str, ...]) -> None:
        self._services = frozenset(("", *services))
        self._serving = False
        self._stopping = False
        self._changed = asyncio.Event()

    def set_serving(self, serving: bool) -> None:  # noqa: FBT001 - the one thing it sets
        """What probes are told from now on."""
        self._serving = serving
        self._notify()

    def stop(self) -> None:
        """Ends every Watch; not serving, and for good."""
        self._serving = False
        self._stopping = True
        self._notify()

    def handlers(self) -> grpc.GenericRpcHandler:
        """What a server is given."""
        decode = health_pb2.HealthCheckRequest.FromString
        encode = health_pb2.HealthCheckResponse.SerializeToString
        return grpc.method_handlers_generic_handler(
            HEALTH,
            {
                "Check": grpc.unary_unary_rpc_method_handler(self._check, decode, encode),
                "Watch": grpc.unary_stream_rpc_method_handler(self._watch, decode, encode),
            },
        )

    async def _check(self, request: health_pb2.HealthCheckRequest, context: _HealthContext) -> _Status:
        if request.service not in self._services:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service; ask for one that reflection lists")
        return self._answer(request.service)

    async def _watch(self, request: health_pb2.HealthCheckRequest, context: _HealthContext) -> None:
        told = None
        while True:
            changed, answer = self._changed, self._answer(request.service)
            if answer != told:
                await context.write(answer)
                told = answer
            if self._stopping:
                break
            await changed.wait()
        await context.abort(grpc.StatusCode.UNAVAILABLE, "governor is stopping; watch again when it is back")

    def _answer(self, service: str) -> _Status:
        if service not in self._services:
            return _Status(status=_Status.SERVICE_UNKNOWN)
        return _Status(status=_Status.SERVING if self._serving else _Status.NOT_SERVING)

    def _notify(self) -> None:
        # A fresh event for each change: whoever waits has the old one, and none can miss a change between.
        self._changed.set()
        self._changed = asyncio.Event()


class Reflection:
    """The library's answers, on streams that end when told to."""

    def __init__(self, services: tuple[str, ...]) -> None:
        self._library = reflection.aio.ReflectionServicer((*services, HEALTH, reflection.SERVICE_NAME))
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Ends every stream."""
        self._stopping.set()

    def handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """What a server is given, under both names."""
        info = grpc.stream_stream_rpc_method_handler(
            self._info,
            reflection_pb2.ServerReflectionRequest.FromString,
            reflection_pb2.ServerReflectionResponse.SerializeToString,
        )
        return tuple(
            grpc.method_handlers_generic_handler(name, {"ServerReflectionInfo": info})
            for name in (reflection.SERVICE_NAME, _REFLECTION_V1)
        )

    async def _info(self, requests: _Requests, context: object) -> _Answers:
        answers = self._library.ServerReflectionInfo(self._until_stop(requests), context)
        # The stubs call it a coroutine; it is an asynchronous generator.
        async for answer in cast("_Answers", answers):
            yield answer

    async def _until_stop(self, requests: _Requests) -> _Requests:
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            while True:
                coming = asyncio.ensure_future(anext(requests, None))
                try:
                    await asyncio.wait((coming, stopping), return_when=asyncio.FIRST_COMPLETED)
                    request = coming.result() if coming.done() else None
                finally:
                    coming.cancel()
                if request is None:
                    return
                yield request
        finally:
            stopping.cancel()
