"""gRPC: the wire contract served over unix sockets and TCP.

It knows how asks and answers travel. It must never decide about a permit: that is the engine's, behind the driver.
"""

from governor.rpc.server import GrpcServer, serve
from governor.rpc.status import code_of

__all__ = ["GrpcServer", "code_of", "serve"]
