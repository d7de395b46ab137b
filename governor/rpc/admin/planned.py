"""What a config would change, before it is in force: Diff.

It knows how a file comes in parts, and how its differences are told. It must never put anything into force.
"""

import asyncio
from typing import Final

from google.protobuf.message import DecodeError

from governor.aside import aside
from governor.config import Config, ConfigError, Problem
from governor.config.change import SettingChange
from governor.config.document import MAX_BYTES
from governor.config.settings import at_next_start, at_once
from governor.config.written import changes, declared
from governor.core.differences import Difference, Fate
from governor.driver import Driver
from governor.rpc import status, translate
from governor.rpc.admin.desk import Desk
from governor.rpc.calls import Answer, Context
from governor.rpc.fields import MAX_TEXT_BYTES, Malformed, bounded
from governor.rpc.reading import LOOK_SECONDS
from governor.rpc.status import Hindrance
from governor.v1 import admin_pb2

# Files that are being read, each of a megabyte at most.
AT_ONCE: Final = 4
# Messages after the first. Even of 4 KiB, which is little, a file of the largest size has no more.
MAX_PARTS: Final = 256
# Of one turn of the event loop; of a resource that is added, all that will hold is told.
_TOLD_AT_ONCE: Final = 50
# What to call a file that has no name.
_NAMELESS: Final = "config"

_WHATS: Final = {
    Fate.ADDED: admin_pb2.Difference.ADDED,
    Fate.CHANGED: admin_pb2.Difference.CHANGED,
    Fate.REMOVED: admin_pb2.Difference.REMOVED,
}


class Planned:
    """Configs that are compared with the one in force."""

    def __init__(self, driver: Driver, desk: Desk) -> None:
        self._driver = driver
        self._desk = desk
        self._under_way = 0

    async def diff(self, raw: bytes, context: Context) -> Answer:
        """What would change; raises `Malformed`."""
        if self._under_way == AT_ONCE:
            return status.hindered(Hindrance.BUSY, most=AT_ONCE, what="files are being compared")
        self._under_way += 1
        try:
            return await self._diff(raw, context)
        finally:
            self._under_way -= 1

    async def _diff(self, raw: bytes, context: Context) -> Answer:
        request = _request(raw)
        bounded("name", request.name, MAX_TEXT_BYTES)
        data = request.yaml + await _rest(context, len(request.yaml))
        name = request.name or _NAMELESS
        try:
            config = await aside(lambda: self._desk.read(data, name), "governor-diff")
        except ConfigError as error:
            return admin_pb2.DiffResponse(problems=map(_problem, error.problems)).SerializeToString()
        return (await self._compared(config)).SerializeToString()

    async def _compared(self, config: Config) -> admin_pb2.DiffResponse:
        """A step in each turn of the event loop, so that nobody is held up."""
        comparison = self._driver.compare(config.resources)
        all_of_it = False
        while not all_of_it:
            all_of_it = comparison.step(self._driver.now())
            await asyncio.sleep(0)
        running, started = self._desk.running()
        answer = admin_pb2.DiffResponse(
            settings=map(_told, at_once(running, config)), at_next_start=map(_told, at_next_start(started, config))
        )
        for number, found in enumerate(comparison.differences):
            if number % _TOLD_AT_ONCE == 0:
                await asyncio.sleep(0)
            answer.differences.append(_difference(found))
        return answer


def _request(raw: bytes) -> admin_pb2.DiffRequest:
    try:
        return admin_pb2.DiffRequest.FromString(raw)
    except DecodeError:
        expected = translate.undecodable(admin_pb2.DiffRequest)
        raise Malformed(expected.field, expected.expected) from None


async def _rest(context: Context, size: int) -> bytes:
    """What comes after the first message; the size of all is bounded, and so is the time that it may take."""
    parts: list[bytes] = []
    while True:
        if size > MAX_BYTES:
            raise Malformed("yaml", f"at most {MAX_BYTES} bytes in all")
        try:
            async with asyncio.timeout(2 * LOOK_SECONDS):
                # The stubs say bytes, but at the end of a stream it is aio.EOF.
                raw: object = await context.read()
        except TimeoutError:
            raise Malformed("yaml", "the rest of the file, or its end, and nothing came") from None
        if not isinstance(raw, bytes):
            return b"".join(parts)
        part = _request(raw).yaml
        if not part or len(parts) == MAX_PARTS:
            raise Malformed("yaml", f"at most {MAX_PARTS} parts after the first, and something in each of them")
        parts.append(part)
        size += len(parts[-1])


def _problem(problem: Problem) -> str:
    return str(problem)


def _difference(found: Difference) -> admin_pb2.Difference:
    before, after = found.before, found.after
    told: list[SettingChange] = []
    if after is not None:
        told = declared(after) if before is None else changes(before, after)
    spec = after or before
    assert spec is not None, "nothing differs from nothing"
    return admin_pb2.Difference(
        resource=found.resource,
        kind=spec.kind,
        what=_WHATS[found.what],
        changes=map(_told, told),
        in_use=found.in_use,
        leases=found.leases,
        waiters=found.waiters,
        over_limit=found.over_limit,
        refused_waiters=found.refused,
        most_asked=found.most_asked,
        granted_waiters=found.granted,
        problem=found.problem,
    )


def _told(change: SettingChange) -> admin_pb2.SettingChange:
    return admin_pb2.SettingChange(name=change.name, before=change.before, after=change.after)
