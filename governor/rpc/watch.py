"""The method Watch: an operator is told what happens, as it happens, for as long as he likes.

It knows how a watcher says what he wants, and how an entry reads on the wire. It must never know where entries come
from.

What lies there for a watcher leaves in few messages, none of them long: a message costs as much as dozens of events,
and whoever asks for anything meanwhile waits for no more than one of them.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import replace
from typing import Final

from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio

from governor.access import Client
from governor.chronicle import Chronicle, Entry, Wanted, What
from governor.core.types import SECOND, Denial, Reason
from governor.driver import Driver
from governor.rpc import status
from governor.rpc.fields import MAX_NAME_BYTES, MAX_TEXT_BYTES, Malformed, bounded
from governor.rpc.status import Hindrance
from governor.rpc.translate import fill_duration, undecodable
from governor.v1 import admin_pb2 as pb

# How many may watch at once: each has a buffer of its own.
MAX_WATCHERS: Final = 32
# How many words of one kind a watcher may name.
MAX_NAMED: Final = 256
# How long a message becomes before the next one is begun, in bytes: a millisecond's work.
_LONG: Final = 16_384
# What nobody has to ask for.
_UNASKED: Final = frozenset((What.WATCHING, What.MISSED))


class Watch:
    """Those who watch one daemon."""

    def __init__(self, chronicle: Chronicle, driver: Driver) -> None:
        self._chronicle = chronicle
        self._driver = driver

    async def watch(
        self, raw: bytes, _context: aio.ServicerContext[bytes, bytes], watcher: Client | None = None
    ) -> AsyncGenerator[bytes | status.Refusal, None]:
        """All messages of one call, until the daemon ends or whoever iterates does; a refusal is the only one.

        ``watcher``: who is told no name of a resource that is not his; None is told all.
        """
        wanted = self._wanted(raw)
        if isinstance(wanted, Denial):
            yield status.refusal(wanted)
            return
        if self._chronicle.readers >= MAX_WATCHERS:
            yield status.hindered(Hindrance.BUSY, most=MAX_WATCHERS, what="are watching")
            return
        reader = self._chronicle.read(wanted)
        try:
            while (entries := await reader.read()) is not None:
                for message in messages(entries if watcher is None else [_of(watcher, each) for each in entries]):
                    yield message
        finally:
            self._chronicle.forget(reader)

    def _wanted(self, raw: bytes) -> Wanted | Denial:
        try:
            request = pb.WatchRequest.FromString(raw)
        except DecodeError:
            return undecodable(pb.WatchRequest)
        try:
            wanted = Wanted(
                _named("resources", request.resources, MAX_NAME_BYTES),
                _named("clients", request.clients, MAX_TEXT_BYTES),
                _whats(request.what),
            )
        except Malformed as malformed:
            return malformed.denial
        unknown = [name for name in request.resources if self._driver.resource(name) is None]
        return Denial(Reason.UNKNOWN_RESOURCE, unknown[0]) if unknown else wanted


def _named(field: str, names: Sequence[str], most: int) -> frozenset[str]:
    if len(names) > MAX_NAMED:
        raise Malformed(field, f"at most {MAX_NAMED} names", len(names))
    for index, name in enumerate(names):
        bounded(f"{field}[{index}]", name, most, 1)
    return frozenset(names)


def _whats(words: Sequence[str]) -> frozenset[str]:
    known = [what.value for what in What if what not in _UNASKED]
    for index, word in enumerate(words):
        if word not in known:
            raise Malformed(f"what[{index}]", f"one of {', '.join(known)}")
    return frozenset(words)


def _of(watcher: Client, entry: Entry) -> Entry:
    """As much of it as is about his resources."""
    if all(map(watcher.covers, entry.resources)):
        return entry
    own = tuple(filter(watcher.covers, entry.resources))
    # In words it may be about any of them.
    return replace(entry, resources=own, claims=tuple(each for each in entry.claims if each.resource in own), detail="")


def messages(entries: Sequence[Entry]) -> Iterator[bytes]:
    """All these entries, each once, in messages that are not long."""
    # Messages that are written one after the other are one message with all that they repeat.
    parts: list[bytes] = []
    size = 0
    for entry in entries:
        part = pb.WatchResponse(events=(event(entry),)).SerializeToString()
        parts.append(part)
        size += len(part)
        if size > _LONG:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


def event(entry: Entry) -> pb.Event:
    """An entry, as it is told."""
    made = pb.Event(
        at=Timestamp(seconds=entry.at // SECOND, nanos=entry.at % SECOND),
        what=entry.what,
        resources=entry.resources,
        client=entry.client,
        lease_id=entry.lease,
        reason=entry.reason,
        detail=entry.detail,
        actor=entry.actor,
        missed=entry.missed,
        actor_client=entry.actor_client,
        times=entry.times,
    )
    if entry.asker is not None:
        made.session, made.pid, made.host = entry.asker
    for each in entry.claims:
        claim = made.claims.add()
        claim.resource, claim.permits, claim.key = each.resource, each.permits, each.key
    if entry.waited is not None:
        fill_duration(made.waited, entry.waited)
    if entry.held is not None:
        fill_duration(made.held, entry.held)
    if entry.remaining is not None:
        fill_duration(made.remaining, max(0, entry.remaining))
    return made
