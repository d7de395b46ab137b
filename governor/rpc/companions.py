"""The standard services beside ours: health for probes, reflection for grpcurl and its kin.

They know whether the daemon serves, and which services there are. They must never know about permits. Both end
their open streams when told to: one that stays open would hold up a stop for the whole of its grace.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Final, NoReturn, cast

import grpc
from google.protobuf.message import DecodeError
from grpc import aio
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from governor.core.types import Denial
from governor.rpc import status, translate
from governor.rpc.arrivals import Methods, methods_of
from governor.rpc.reading import Reading

HEALTH: Final = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
# Equal on the wire to v1alpha, which is what the library carries; newer clients ask for this name first.
_REFLECTION_V1: Final = "grpc.reflection.v1.ServerReflection"

_Status = health_pb2.HealthCheckResponse
# Raw messages, and requests as if they came in a stream: for the reasons that the servicer of Governor has.
_Context = aio.ServicerContext[bytes, bytes]
_Question = reflection_pb2.ServerReflectionRequest
_Answers = AsyncIterator[reflection_pb2.ServerReflectionResponse]


class Health:
    """One answer for the server as a whole ("") and for each named service; the ``steady`` ones serve until the stop.

    Not the library's servicer: nothing ends the streams of its Watch, and its setters have to be awaited.
    """

    def __init__(self, services: tuple[str, ...], steady: tuple[str, ...] = ()) -> None:
        self._services = frozenset(("", *services, *steady))
        self._steady = frozenset(steady)
        self._serving = False
        self._stopping = False
        self._changed = asyncio.Event()
        self._reading = Reading()

    def set_serving(self, serving: bool) -> None:  # noqa: FBT001 - the one thing it sets
        """What probes are told from now on."""
        self._serving = serving
        self._notify()

    def stop(self) -> None:
        """Ends every Watch; not serving, and for good."""
        self._serving = False
        self._stopping = True
        self._notify()

    def handlers(self) -> Methods:
        """What a server is given."""
        return methods_of(
            HEALTH,
            {
                "Check": grpc.stream_unary_rpc_method_handler(self._check),
                "Watch": grpc.stream_stream_rpc_method_handler(self._watch),
            },
        )

    async def _check(self, _requests: object, context: _Context) -> bytes:
        service = await self._service(context)
        if service not in self._services:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service; ask for one that reflection lists")
        return self._answer(service).SerializeToString()

    async def _watch(self, _requests: object, context: _Context) -> None:
        service = await self._service(context)
        told = None
        while True:
            changed, answer = self._changed, self._answer(service)
            if answer != told:
                await context.write(answer.SerializeToString())
                told = answer
            if self._stopping:
                break
            await changed.wait()
        await context.abort(grpc.StatusCode.UNAVAILABLE, "governor is stopping; watch again when it is back")

    async def _service(self, context: _Context) -> str:
        """Which one a call asks about; refuses the call if that cannot be read."""
        raw = await self._reading.message(context)
        if raw is None:
            await _refuse(context, translate.NO_MESSAGE)
        try:
            return health_pb2.HealthCheckRequest.FromString(raw).service
        except DecodeError:
            await _refuse(context, translate.undecodable(health_pb2.HealthCheckRequest))

    def _answer(self, service: str) -> _Status:
        if service not in self._services:
            return _Status(status=_Status.SERVICE_UNKNOWN)
        serving = self._serving or (service in self._steady and not self._stopping)
        return _Status(status=_Status.SERVING if serving else _Status.NOT_SERVING)

    def _notify(self) -> None:
        # A fresh event for each change: whoever waits has the old one, and none can miss a change between.
        self._changed.set()
        self._changed = asyncio.Event()


class Reflection:
    """The library's answers, on streams that end when told to."""

    def __init__(self, services: tuple[str, ...]) -> None:
        self._library = reflection.aio.ReflectionServicer((*services, HEALTH, reflection.SERVICE_NAME))
        self._stopping = asyncio.Event()
        self._reading = Reading()

    def stop(self) -> None:
        """Ends every stream."""
        self._stopping.set()

    def handlers(self) -> tuple[Methods, ...]:
        """What a server is given, under both names."""
        info: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(self._info)
        return tuple(
            methods_of(name, {"ServerReflectionInfo": info}) for name in (reflection.SERVICE_NAME, _REFLECTION_V1)
        )

    async def _info(self, _requests: object, context: _Context) -> None:
        answers = self._library.ServerReflectionInfo(self._questions(context), context)
        try:
            # The stubs call it a coroutine; it is an asynchronous generator.
            async for answer in cast("_Answers", answers):
                await context.write(answer.SerializeToString())
        except DecodeError:
            await _refuse(context, translate.undecodable(_Question))

    async def _questions(self, context: _Context) -> AsyncIterator[_Question]:
        """Until its sender or the daemon has come to an end; only the first must come soon. Raises DecodeError."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        reading: Coroutine[None, None, object] = self._reading.message(context)
        try:
            while True:
                coming = asyncio.ensure_future(reading)
                try:
                    await asyncio.wait((coming, stopping), return_when=asyncio.FIRST_COMPLETED)
                    raw = coming.result() if coming.done() else None
                finally:
                    coming.cancel()
                if not isinstance(raw, bytes):
                    return
                yield _Question.FromString(raw)
                reading = _read(context)
        finally:
            stopping.cancel()


async def _read(context: _Context) -> object:
    return await context.read()


async def _refuse(context: _Context, denial: Denial) -> NoReturn:
    refusal = status.refusal(denial)
    await context.abort(refusal.code, refusal.message, refusal.metadata)
