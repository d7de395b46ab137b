"""`python -m tests.bench.echo`: the least that a unary call can cost on the daemon's own server settings.

It knows how to give back the bytes it was given. It must never know what they mean. It prints its port, and ends when
its standard input does.
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

SERVICE: Final = "governor.bench.Echo"
METHOD: Final = "Echo"


async def _echo(request: bytes, _: aio.ServicerContext[bytes, bytes]) -> bytes:
    return request


async def _serve() -> None:
    server = aio.server(options=OPTIONS)
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(_echo)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),))
    address = await bind_tcp(server, TcpAddress("127.0.0.1", 0))
    await server.start()
    gc.collect()
    gc.freeze()
    print(address.port, flush=True)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, ended.set)
    await ended.wait()
    await server.stop(None)


if __name__ == "__main__":
    asyncio.run(_serve())
