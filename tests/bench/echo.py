"""`python -m tests.bench.echo`: the least that a call or a session can cost on the daemon's own server settings.

It knows how to give back the bytes it was given, and how to say yes to whatever a session asks. It must never decide or
remember anything. It prints its port, and ends when its standard input does.
"""

import asyncio
import gc
import sys
from typing import Final

import grpc
from grpc import aio

from governor.address import TcpAddress
from governor.rpc.bind import bind_tcp
from governor.rpc.server import OPTIONS
from governor.rpc.servicer import SERVICE as OURS
from governor.v1 import governor_pb2 as pb

SERVICE: Final = "governor.bench.Echo"
METHOD: Final = "Echo"


async def _echo(request: bytes, _: aio.ServicerContext[bytes, bytes]) -> bytes:
    return request


async def _agree(_: object, context: aio.ServicerContext[bytes, bytes]) -> None:
    """A session of a daemon that grants everything, and does nothing for it."""
    handled = lease = 0
    while (raw := await _next(context)) is not None:
        request = pb.SessionRequest.FromString(raw)
        handled += 1
        answer = pb.SessionResponse(handled=handled, released=request.releases, kept_alive=request.keep_alive)
        if request.HasField("hello"):
            answer.welcome.session = answer.welcome.start = "echo"
            answer.welcome.keep_alive.seconds = 10
        for acquire in request.acquires:
            lease += 1
            granted = answer.grants.add(op=acquire.op).lease
            granted.id = lease
            granted.remaining.seconds = 3600
            granted.grants.add(resource=acquire.claims[0].resource, permits=1)
        await context.write(answer.SerializeToString())


async def _next(context: aio.ServicerContext[bytes, bytes]) -> bytes | None:
    try:
        raw: object = await context.read()
    except asyncio.CancelledError:  # the client hung up; let out, it would be a traceback
        return None
    return raw if isinstance(raw, bytes) else None


async def _serve() -> None:
    server = aio.server(options=OPTIONS)
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(_echo)
    session: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(_agree)
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),
            grpc.method_handlers_generic_handler(OURS, {"Session": session}),
        )
    )
    address = await bind_tcp(server, TcpAddress("127.0.0.1", 0))
    await server.start()
    gc.collect()
    gc.freeze()
    print(address.port, flush=True)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, ended.set)
    await ended.wait()
    await server.stop(None)
    # A task of grpc's that is cancelled says so, with a traceback.
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others, timeout=0.5)


if __name__ == "__main__":
    asyncio.run(_serve())
