"""A client of one session, which says what a test makes it say and keeps what it hears."""

import asyncio
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from grpc import aio

from governor.core.types import Nanos
from governor.v1 import governor_pb2 as pb
from tests.rpc.conftest import World, until

INSTANCE: Final = "0123456789abcdef"

_instances = count(1)


def hello(client: str = "me", instance: str = "", resume: str = "", held: Iterable[int] = ()) -> pb.Hello:
    """Somebody who is in order; another process each time, unless ``instance`` says which."""
    instance = instance or f"{next(_instances):016}"
    return pb.Hello(client=client, instance=instance, pid=1, host="here", resume=resume, held=held)


def want(op: int, resource: str = "sem", permits: int = 1, wait: Nanos | None = None) -> pb.SessionAcquire:
    """An ask with one claim; it waits as long as it may unless ``wait`` says how long."""
    made = pb.SessionAcquire(op=op, claims=[pb.Claim(resource=resource, permits=permits)])
    if wait is not None:
        made.wait.FromNanoseconds(wait)
    return made


def nobodys(number: int) -> range:
    """So many leases that nobody has; whoever gives them back is told of each, for two bytes or three."""
    return range(1000, 1000 + number)


def length(duration: Duration) -> Nanos:
    """In nanoseconds."""
    return duration.ToNanoseconds()


class Peer:
    """One stream, ``by`` whoever has this token. ``heard`` is all that it was told so far, as one message."""

    def __init__(self, governor: World, by: str = "") -> None:
        self._governor = governor
        self.stream: aio.StreamStreamCall[pb.SessionRequest, pb.SessionResponse] = governor.stub.Session(
            timeout=60, metadata=(("authorization", f"Bearer {by}"),) if by else ()
        )
        self.hello = pb.Hello()
        self.heard = pb.SessionResponse()
        self.messages: list[pb.SessionResponse] = []
        self._said = 0

    @classmethod
    async def begin(cls, governor: World, said: pb.Hello | None = None, *, by: str = "", **more: object) -> "Peer":
        """One that has said hello, and more in the same message, and has been answered."""
        peer = cls(governor, by)
        peer.hello = said or hello()
        await peer.do(hello=peer.hello, **more)
        return peer

    @property
    def session(self) -> str:
        """What to resume."""
        return self.heard.welcome.session

    async def say(self, **fields: object) -> None:
        """Send a message."""
        await self.stream.write(pb.SessionRequest(**fields))  # type: ignore[arg-type]
        self._said += 1

    async def do(self, **fields: object) -> pb.SessionResponse:
        """Send a message; all that is heard until it has been done."""
        await self.say(**fields)
        return await self.hears(lambda heard: heard.handled == self._said)

    async def hears(self, condition: Callable[[pb.SessionResponse], bool]) -> pb.SessionResponse:
        """Listen until ``condition`` holds of what was heard meanwhile; that."""
        heard = pb.SessionResponse()
        async with asyncio.timeout(60):
            while not condition(heard):
                message = await self.stream.read()
                assert isinstance(message, pb.SessionResponse), "the stream has ended"
                self.messages.append(message)
                heard.MergeFrom(message)
                self.heard.MergeFrom(message)
        return heard

    async def acquire(self, op: int, resource: str = "sem", permits: int = 1) -> pb.Lease:
        """What is granted at once."""
        done = await self.do(acquires=[want(op, resource, permits)])
        (grant,) = done.grants
        assert grant.op == op
        return grant.lease

    async def end(self) -> aio.AioRpcError | None:
        """How the daemon ends the stream, whatever it says before; None is well."""
        return await ended(self.stream)

    def cut(self) -> None:
        """Go without a word."""
        self.stream.cancel()

    async def vanish(self) -> None:
        """Go without a word; returns when the daemon knows."""
        session = self._governor.sessions.find(self.session)
        assert session is not None
        self.cut()
        await until(lambda: session.voice is None)


async def ended(stream: "aio.StreamStreamCall[Any, Any] | aio.UnaryStreamCall[Any, Any]") -> aio.AioRpcError | None:
    """How a stream ends, whatever comes before; None is well."""
    async with asyncio.timeout(60):
        try:
            while await stream.read() is not aio.EOF:
                pass
        except aio.AioRpcError as error:
            return error
    return None
