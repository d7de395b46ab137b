"""The library that programs import: `Client` for threads, `AsyncClient` for asyncio.

It knows the protocol and no module of the server. It needs h2 and protobuf, and no gRPC: grpcio does not live through
a fork.
"""

from governor.client.aio import AsyncClient
from governor.client.errors import GovernorError, LeaseLost, NotGranted, Unavailable, UsageError
from governor.client.held import Member
from governor.client.lease import AsyncLease, Lease
from governor.client.sync import Client

__all__ = [
    "AsyncClient",
    "AsyncLease",
    "Client",
    "GovernorError",
    "Lease",
    "LeaseLost",
    "Member",
    "NotGranted",
    "Unavailable",
    "UsageError",
]
