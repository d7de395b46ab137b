"""Outbox: what one session has yet to be told, until its stream can take it.

It knows that all of it leaves as one message, and how much may lie there unread. It must never know what the answers
mean. One invariant: it holds no more than ``MAX_UNREAD``, and no more than it has `Room` for, however slowly its client
reads; beyond that the client is given up, and nothing more is kept for it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from governor.core.effects import Granted, LeaseResult
from governor.core.types import Denial, LeaseId, Nanos
from governor.rpc.answers import Answers, terms
from governor.rpc.room import ANYBODYS, Room
from governor.v1 import governor_pb2 as pb

# Answers that may lie unread; a long one counts for one more with each 256 bytes, so this is 4 MiB as well.
MAX_UNREAD: Final = 16_384
_LONG_BITS: Final = 8
# How many of them leave in one message. gRPC keeps what it was given until the client has read it, so a client that has
# stopped reading leaves no more than this behind.
_AT_ONCE: Final = 1024


class Outbox:
    """The voice of one stream. ``overflowed`` is called once, when its client reads too slowly.

    ``commit`` puts on record what the answers tell, before they leave; what it cannot, it takes back, and says so here.
    """

    def __init__(
        self,
        answers: Answers,
        *,
        commit: Callable[[], bool | Awaitable[bool]],
        overflowed: Callable[[], None],
        superseded: Callable[[], None],
        alike: bool = False,
        room: Room | None = None,
    ) -> None:
        """``alike``: the client reads grants that are told together. ``room``: that of all outboxes; None: its own."""
        self._room = Room() if room is None else room
        # How many answers may lie here as it is.
        self._most = ANYBODYS
        self._answers = answers
        self._commit = commit
        self._overflowed = overflowed
        self.superseded = superseded
        # Each with how many it counts for.
        self._entries: list[tuple[int, bytes]] = []
        self._tells_alike = alike
        self._released: list[LeaseId] = []
        self._unread = 0
        self._handled = self._told = 0
        self._kept_alive = False
        self._closed = False
        # What is being put on record.
        self._leaving = b""
        self._wanted: asyncio.Future[None] | None = None

    # --- what a session says --------------------------------------------------------------------------------

    def granted(self, op: int, granted: Granted, remaining: Nanos | None) -> None:
        """As in `Voice`."""
        self._put(self._answers.grant(op, granted, remaining))

    def all_granted(self, ops: Sequence[int], granted: Sequence[Granted], remaining: Nanos) -> None:
        """As in `Voice`."""
        first = granted[0]
        key = terms(first, remaining) if self._tells_alike else None
        if key is None:
            for op, each in zip(ops, granted, strict=True):
                self.granted(op, each, remaining)
        elif not self._closed:
            entry = self._answers.alike(key, first, ops, [each.lease for each in granted])
            self._entries.append((len(ops), entry))
            self._count(len(ops))

    def refused(self, op: int, denial: Denial, *, waited: Nanos = 0, lease: LeaseId | None = None) -> None:
        """As in `Voice`."""
        self._put(self._answers.refusal(op, denial, waited=waited, lease=lease))

    def crowded(self, op: int) -> None:
        """As in `Voice`."""
        self._put(self._answers.crowded(op))

    def queued(self, op: int, ahead: int, expected: Nanos | None) -> None:
        """As in `Voice`."""
        self._put(self._answers.place(op, ahead, expected))

    def released(self, leases: Sequence[LeaseId]) -> None:
        """As in `Voice`."""
        if leases and not self._closed:
            self._released += leases
            self._count(len(leases))

    def result(self, result: LeaseResult) -> None:
        """As in `Voice`."""
        self._put(self._answers.result(result))

    def ended(self, result: LeaseResult) -> None:
        """As in `Voice`."""
        self._put(self._answers.ended(result))

    def kept_alive(self) -> None:
        """As in `Voice`."""
        self._kept_alive = True
        self._wake()

    # --- what the stream says -------------------------------------------------------------------------------

    def handled(self) -> None:
        """One more message of the client has been done."""
        self._handled += 1
        self._wake()

    def say(self, response: pb.SessionResponse) -> None:
        """Something about the stream itself."""
        self._put(response.SerializeToString())

    # --- what leaves ----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Nothing more comes; what is there may still leave."""
        self._closed = True
        self._wake()

    def drop(self) -> None:
        """Nothing more comes, and nothing more leaves."""
        self._entries, self._released = [], []
        self._leaving = b""
        self._unread = 0
        self._leave_room()
        self._told = self._handled
        self._kept_alive = False
        self.close()

    async def message(self) -> bytes | None:
        """The next message to send, when there is any; None when nothing will come any more."""
        while True:
            while not (self._unread or self._kept_alive or self._told != self._handled):
                if self._closed:
                    return None
                self._wanted = asyncio.get_running_loop().create_future()
                try:
                    await self._wanted
                finally:
                    self._wanted = None
            recorded = self._commit()
            if isinstance(recorded, bool):
                return self._take()
            # What is said meanwhile is not waited for: where others always write something, that has no end.
            self._leaving = self._take()
            if not await recorded:
                self._leaving += self._take()  # says what of it has been taken back
            message, self._leaving = self._leaving, b""
            if message:
                return message

    def _take(self) -> bytes:
        """All there is; of too much at once a part, which says last what it all was the answer to."""
        if self._unread <= _AT_ONCE:
            entries, released = [entry for _, entry in self._entries], self._released
            self._entries, self._released = [], []
            self._unread = 0
            if self._most != ANYBODYS:
                self._leave_room()
        else:
            entries, released = self._part()
        if released:
            entries.append(pb.SessionResponse(released=released).SerializeToString())
        if not self._unread:
            last = pb.SessionResponse(kept_alive=self._kept_alive)
            if self._told != self._handled:
                self._told = last.handled = self._handled
            self._kept_alive = False
            entries.append(last.SerializeToString())
        return b"".join(entries)

    def _part(self) -> tuple[list[bytes], list[LeaseId]]:
        """The first of what there is."""
        size = number = 0
        while number < len(self._entries) and size < _AT_ONCE:
            size += self._entries[number][0]
            number += 1
        if not number:
            released, self._released = self._released[:_AT_ONCE], self._released[_AT_ONCE:]
            self._unread -= len(released)
            return [], released
        entries, self._entries = self._entries[:number], self._entries[number:]
        self._unread -= size
        return [entry for _, entry in entries], []

    def _put(self, entry: bytes) -> None:
        if not self._closed:
            size = 1 + (len(entry) >> _LONG_BITS)
            self._entries.append((size, entry))
            self._count(size)

    def _count(self, entries: int) -> None:
        self._unread += entries
        if self._unread > self._most:
            self._want_room()
        self._wake()

    def _want_room(self) -> None:
        if self._unread <= MAX_UNREAD:
            self._most = MAX_UNREAD
            self._room.take(self, self.give_up)
        else:
            self.give_up()

    def _leave_room(self) -> None:
        self._most = ANYBODYS
        self._room.leave(self)

    @property
    def unread(self) -> int:
        """How many answers lie here."""
        return self._unread

    def give_up(self) -> None:
        """Its client does not read."""
        self.drop()
        self._room.given_up()
        self._overflowed()

    def _wake(self) -> None:
        wanted = self._wanted
        if wanted is not None and not wanted.done():
            wanted.set_result(None)
