"""Listing: what ListResources answers.

It knows who sees which resources, and how much of what it says may lie unread. It must never know what a number means.

All who ask in one turn of the event loop are told the same, and where it takes milliseconds to take the numbers of
thousands of resources, in which nobody else is served, all who ask in a while after that wait for the next look: one
client can ask thousands of times at once.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Final

from google.protobuf.message import DecodeError

from governor.access import Client, Verb
from governor.bounds import Bound
from governor.clock import Clock
from governor.config import ConfigState
from governor.core.snapshot import Snapshot
from governor.core.types import MILLISECOND, Denial, Nanos
from governor.driver import Driver
from governor.rpc import status, translate
from governor.rpc.calls import Answer, Context
from governor.rpc.guard import Guard
from governor.v1 import governor_pb2 as pb

# In bytes, of all clients together. A list of 2,000 resources has a quarter of a megabyte.
MAX_UNREAD: Final = 64 * 2**20
# A look that took longer than this is followed by a rest that is so many times as long.
_LONG: Final[Nanos] = 2 * MILLISECOND
_REST: Final = 10


class Listing:
    """The lists of one daemon. ``unread``: bytes on their way to clients."""

    def __init__(
        self,
        driver: Driver,
        clock: Clock,
        guard: Guard,
        config: Callable[[], ConfigState] | None,
        reached: Callable[[Bound], None],
    ) -> None:
        """``config``: which one is in force, if that is to be told. ``reached`` is told when a list is refused."""
        self._driver = driver
        self._clock = clock
        self._guard = guard
        self._config = config
        self._reached = reached
        self._seen: Snapshot | None = None
        # Of this turn of the loop, by whose resources they are of; None is all.
        self._made: dict[str | None, bytes] = {}
        self._rested = asyncio.Event()
        self._rested.set()
        self.unread = 0

    def tell(self, raw: bytes, context: Context) -> AsyncGenerator[Answer, None]:
        """The one message, or why there is none."""
        return self._tell(raw, context, known=False)

    def tell_operator(self, raw: bytes, context: Context) -> AsyncGenerator[Answer, None]:
        """The same where operators alone are served: of whoever comes by a socket, its mode has said that he may."""
        return self._tell(raw, context, known=context.peer().startswith("unix"))

    async def _tell(self, raw: bytes, context: Context, *, known: bool) -> AsyncGenerator[Answer, None]:
        client: Client | None = None
        if self._guard.policy is not None and not known:
            caller = self._guard.caller(context)
            denial = caller if isinstance(caller, Denial) else self._guard.refusal(caller, Verb.READ)
            if denial is not None:
                yield status.refusal(denial)
                return
            assert not isinstance(caller, Denial), "nobody in particular is let through"
            client = caller.client
        try:
            pb.ListResourcesRequest.FromString(raw)
        except DecodeError:
            yield status.refusal(translate.undecodable(pb.ListResourcesRequest))
            return
        # Above it by one list at most, so that there is always one.
        if self.unread >= MAX_UNREAD:
            self._reached(Bound.UNREAD)
            yield status.hindered(status.Hindrance.BUSY, most=f"{self.unread >> 20} MiB", what="of lists are unread")
            return
        answer = await self._answer(client)
        self.unread += len(answer)
        try:
            yield answer
        finally:
            self.unread -= len(answer)

    async def _answer(self, client: Client | None) -> bytes:
        while self._seen is None and not self._rested.is_set():
            await self._rested.wait()
        name = None if client is None else client.name
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._look(client)
        return made

    def _look(self, client: Client | None) -> bytes:
        began = self._clock.now()
        if self._seen is None:
            self._seen = self._driver.snapshot()
            asyncio.get_running_loop().call_soon(self._forget)
        seen = self._seen if client is None else _of(client, self._seen)
        config = None if self._config is None else translate.config_state(self._config())
        made = translate.resources(seen, self._clock.now(), config).SerializeToString()
        took = (now := self._clock.now()) - began
        if took > _LONG and self._rested.is_set():
            self._rested.clear()
            self._clock.call_at(now + took * _REST, self._rested.set)
        return made

    def _forget(self) -> None:
        self._seen = None
        self._made = {}


def _of(client: Client, seen: Snapshot) -> Snapshot:
    """What there is of its resources."""
    return replace(seen, resources=tuple(each for each in seen.resources if client.covers(each.name)))
