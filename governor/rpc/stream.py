"""One session stream: it is read, message by message, and told what there is to tell, until either side ends it.

It knows its one reader and its one writer, whose it is, and its end. It must never know how a permit is decided, or
what a session is owed.

A message is done before the next is read, bit by bit, and as a rule in one go: one that takes long goes on in later
turns of the event loop. What one turn brought leaves as one message: a gRPC message costs both sides more than all that
is done in it. Nothing else ever writes to a stream: two writers at once would leave both waiting for ever.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar, cast

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from governor.access import ANOTHERS_LEASE, Verb
from governor.belongings import Hello
from governor.core.types import Claim, Denial, LeaseId, Outcome
from governor.driver import Driver
from governor.rpc import outbox, requests, status, translate
from governor.rpc.answers import Answers
from governor.rpc.fields import OUTCOMES, Malformed, Terms
from governor.rpc.guard import Caller, Context, Guard
from governor.rpc.outbox import Outbox
from governor.rpc.room import Room
from governor.rpc.traces import NO_TRACE, Trace, traces_of
from governor.rpc.turns import Turns
from governor.session import MAX_WAITING, Session
from governor.tracing import SESSION
from governor.v1 import governor_pb2 as pb

T = TypeVar("T")

# How much is one bit of a message: leases in one step of the engine, and claims of asks that are alike.
AT_ONCE: Final = 64
# Asks and cancels, each a step of its own. To look at the clock for each would cost a hundredth of it.
FEW: Final = 4

_UNTRACED: Final[Mapping[int, Trace]] = {}

_LOG: Final = logging.getLogger(__name__)

_SLOW: Final = status.Refusal(
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    f"session: its client reads too slowly, with {outbox.MAX_UNREAD} answers unread; read, or ask for less at once",
    (),
)
_SUPERSEDED: Final = status.Refusal(
    grpc.StatusCode.ABORTED, "session: resumed on another stream; use that one, or begin a session of your own", ()
)
STOPPING: Final = status.Refusal(
    grpc.StatusCode.UNAVAILABLE, "governor: stopping; connect again when it is back, and resume the session", ()
)
_LESS: Final = status.Refusal(
    grpc.StatusCode.UNAVAILABLE,
    "session: its client may do less than before; connect again, and resume the session",
    (),
)
UNDECODABLE: Final = status.refusal(translate.undecodable(pb.SessionRequest))
_LAST: Final = pb.SessionResponse(notice=pb.Notice(stopping=True))
_AGAIN: Final = status.refusal(Malformed("hello", "nothing: it is only in the first message of a stream").denial)


class Stream:
    """One stream, from its hello on."""

    def __init__(  # noqa: PLR0913 - all that a stream is made of comes together here
        self,
        session: Session,
        asks: requests.Asks,
        answers: Answers,
        driver: Driver,
        guard: Guard,
        caller: Caller | None,
        *,
        alike: bool,
        room: Room,
        turns: Turns,
    ) -> None:
        """``caller``: whose it is, if anybody was asked. ``alike``: its client reads grants that are told together.

        ``room``: for all that lies unread. ``turns``: of all streams together.
        """
        self._turns = turns
        self._guard = guard
        self._caller = caller
        self._follower = driver.follower
        # Only while a message is done: what its asks follow from, by op, where anybody wants to know.
        self._traces = _UNTRACED
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._session = session
        self._asks = asks
        self._end: status.Refusal | None = None
        # The first message, until it is done.
        self._unheard: tuple[Hello, pb.SessionRequest, int] | None = None
        self.outbox = Outbox(
            answers,
            commit=driver.commit,
            overflowed=lambda: self.end(_SLOW),
            superseded=lambda: self.end(_SUPERSEDED),
            alike=alike,
            room=room,
        )

    def begin(self, hello: Hello, request: pb.SessionRequest, size: int) -> None:
        """Its client is there, and has said this, in so many bytes, which are done when it is `run`."""
        self._bound()
        self._session.begin(hello, self.outbox)
        self._unheard = hello, request, size

    def end(self, refusal: status.Refusal) -> None:
        """The client is told why, and nothing more."""
        if self._end is None:
            self._end = refusal
            self.outbox.drop()
            self._task.cancel()

    def ask_again(self) -> None:
        """The clients have changed. One that may do less now must come again, or stay away; others go on."""
        caller = self._guard.again(self._caller, Verb.ACQUIRE)
        if isinstance(caller, Denial):
            self.end(status.refusal(caller))
        elif caller is not None and self._caller is not None and self._caller.client.lost_any(caller.client):
            self.end(_LESS)
        else:
            self._caller = caller
            self._bound()

    def _bound(self) -> None:
        """What it is lent lasts no longer from now on than its client may have it."""
        self._session.longest = None if self._caller is None else self._caller.client.max_lease

    def stop(self) -> None:
        """The client is told what it has yet to be told, such as of its last release, and that the daemon ends.

        From here on the client is not taken for gone any more, however the stream ends, and may rely on that.
        """
        if self._end is None:
            self._end = STOPPING
            self.outbox.say(_LAST)
            self.outbox.close()
            self._task.cancel()

    async def run(self, context: Context) -> status.Refusal | None:
        """Until either side ends it; why, if it is we who do."""
        session = self._session
        writer: asyncio.Task[None] | None = None
        try:
            writer = asyncio.create_task(self._write(context))
            refusal = await self._listen(context)
            session.leave(self.outbox)
            if refusal is None:
                self.outbox.close()
                await writer
        except asyncio.CancelledError:
            if self._end is None or self._task.uncancel():
                raise  # the client is gone, or gRPC cuts the stream off: there is nobody to tell
            if writer is not None and self._end is STOPPING:
                await writer  # for as long as the server gives it
            return self._end
        else:
            return refusal
        finally:
            session.leave(self.outbox, disconnected=self._end is not STOPPING)
            if writer is not None:
                writer.cancel()
            # Nobody reads any more what lies there, which takes room from those who do.
            self.outbox.drop()

    async def _listen(self, context: Context) -> status.Refusal | None:
        turns = self._turns
        if not await self._hear_first():
            return UNDECODABLE
        while True:
            # The stubs say bytes, but at the end of a stream it is aio.EOF.
            raw: object = await context.read()
            if not isinstance(raw, bytes):
                return None
            size = len(raw)
            if not turns.may(size):
                await turns.wait(size)
            try:
                request = requests.Unopened.FromString(raw)
                if request.HasField("hello"):
                    return _AGAIN
                await self._do(self._bits(request))
            except DecodeError:
                return UNDECODABLE
            finally:
                turns.done(size)
            # The next may be long in coming, and what was read of 250 kB may take 8 MB.
            del raw, request

    async def _hear_first(self) -> bool:
        """Do the first message; whether it can be read."""
        assert self._unheard is not None, "a stream runs that has not begun"
        (hello, request, size), self._unheard = self._unheard, None
        try:
            await self._do(self._first_bits(hello, request))
        except DecodeError:
            return False
        finally:
            self._turns.done(size)
        return True

    async def _do(self, bits: Iterator[None]) -> None:
        """One bit after the other, with the turns of others between them where it takes long. Raises DecodeError.

        Nothing more is done for a client that is cut off in the midst of it: else one message that names the same
        unknown lease a hundred thousand times would be done to its end, and nobody would be told.
        """
        turns = self._turns
        for _ in bits:
            if self._end is not None:
                return
            if turns.over():
                await turns.pause()

    async def _write(self, context: Context) -> None:
        try:
            while (message := await self.outbox.message()) is not None:
                await context.write(message)
        except aio.BaseError:
            pass  # the stream has ended, and its reader knows
        except Exception:  # noqa: BLE001 - as in `serve`
            _LOG.exception("Session failed to answer")
            self.end(status.FAULT)

    # --- a message, bit by bit ----------------------------------------------------------------------------------
    #
    # Between two bits anything may happen: leases of this session end, those who wait are granted, its client may do
    # less than before. It is still the same voice that the session speaks with: of two streams the older one ends.

    def _first_bits(self, hello: Hello, request: pb.SessionRequest) -> Iterator[None]:
        for leases in _some(tuple(dict.fromkeys(hello.held))):
            self._session.claim(leases)
            yield
        yield from self._session.spare(MAX_WAITING)
        yield from self._bits(request)
        yield from self._session.settle()

    def _bits(self, request: pb.SessionRequest) -> Iterator[None]:
        """What it gives back is free for what it asks."""
        session = self._session
        late: list[int] = []
        for ops in _some(request.cancels, FEW):
            late += [op for op in ops if not session.cancel(op)]
            yield
        for ops in _some(late):
            session.take_back(ops)
            yield
        for leases in _some(cast("Sequence[LeaseId]", request.releases)):
            self._give_back(leases)
            yield
        for releases in _some(request.outcomes):
            self._release(releases)
            yield
        for lease in cast("Sequence[LeaseId]", request.detaches):
            session.detach(lease)
            yield
        for adopt in request.adopts:
            self._adopt(adopt.op, LeaseId(adopt.lease_id))
            yield
        yield from self._asks_of(request)
        if request.keep_alive:
            for leases in _some(tuple(session.leases)):
                session.keep_alive(leases)
                yield
            session.kept_alive()
        # Once each, and not as often as it is named: that would cost its sender a byte or two each time.
        for op in dict.fromkeys(request.places):
            session.place(op)
            yield
        self.outbox.handled()

    def _asks_of(self, request: pb.SessionRequest) -> Iterator[None]:
        follows = self._follower is not None
        if follows:
            self._traces = traces_of(request)
        read, acquire = self._asks.read, self._session.acquire
        for some in _some(cast("Sequence[bytes]", request.acquires), FEW):
            caller = self._caller
            for raw in some:
                op, terms = read(raw)
                if follows:
                    self._follow(op)
                if isinstance(terms, Denial):
                    self._refused(op, terms)
                elif caller is None:
                    acquire(op, *terms)
                else:
                    self._acquire_as(caller, op, terms)
            yield
        for alike in request.alike:
            yield from self._ask_alike(list(alike.ops), cast("bytes", alike.ask))
            yield  # to read it takes a while, also for no op at all
        if follows:
            self._traces = _UNTRACED  # the next message may be long in coming

    def _ask_alike(self, ops: list[int], raw: bytes) -> Iterator[None]:
        terms = self._asks.read_alike(ops, raw)
        if isinstance(terms, Denial):
            for op in ops:
                self._follow(op)
                self._refused(op, terms)
                yield
        elif self._caller is not None or self._traces:
            for op in ops:
                self._follow(op)
                if self._caller is None:
                    self._session.acquire(op, *terms)
                else:
                    self._acquire_as(self._caller, op, terms)
                yield
        else:
            for some in _some(ops, AT_ONCE // (len(terms[0]) or 1)):
                self._follow(0)  # none of them from anything
                self._session.acquire_alike(some, *terms)
                yield

    def _follow(self, op: int) -> None:
        """Whoever traces is told of the next ask."""
        if self._follower is not None:
            self._follower.asked(SESSION, *self._traces.get(op, NO_TRACE))

    def _refused(self, op: int, denial: Denial, claims: Sequence[Claim] = ()) -> None:
        """An ask that does not get to the session."""
        if self._follower is not None:
            self._follower.refused(denial, claims, self._session.client)
        self.outbox.refused(op, denial)

    # --- where it is known whose it is --------------------------------------------------------------------------

    def _acquire_as(self, caller: Caller, op: int, terms: Terms) -> None:
        claims, wait, lease, labels = terms
        denial = self._guard.refusal_of_ask(caller, claims, lease, self._session.request_id(op))
        if denial is None:
            self._session.acquire(op, claims, wait, self._guard.length(caller, claims, lease), labels)
        else:
            self._refused(op, denial, claims)

    def _give_back(self, leases: Sequence[LeaseId], outcome: Outcome = Outcome.UNKNOWN) -> None:
        """Those of these that he may give back; of the others he is told."""
        named = tuple(leases)
        if self._caller is not None and (foreign := self._guard.foreign(self._caller, named)):
            for result in foreign.values():
                self.outbox.result(result)
            named = tuple(lease for lease in named if lease not in foreign)
        self._session.release(named, outcome)

    def _adopt(self, op: int, lease: LeaseId) -> None:
        foreign = {} if self._caller is None else self._guard.foreign(self._caller, (lease,), renew=True)
        if (result := foreign.get(lease)) is None:
            self._session.adopt(op, lease)
        else:
            self.outbox.refused(op, result.denial or ANOTHERS_LEASE, lease=lease)

    # --- parts of a message -------------------------------------------------------------------------------------

    def _release(self, releases: Sequence[pb.SessionRelease]) -> None:
        """One step for each outcome; what cannot be read is unknown, since a lease given back must never be lost."""
        by_outcome: dict[Outcome, list[LeaseId]] = {}
        for release in releases:
            outcome = OUTCOMES.get(release.outcome, Outcome.UNKNOWN)
            by_outcome.setdefault(outcome, []).append(LeaseId(release.lease_id))
        for outcome, leases in by_outcome.items():
            self._give_back(leases, outcome)


def _some(named: Sequence[T], at_once: int = AT_ONCE) -> Iterator[Sequence[T]]:
    """So many of them at a time."""
    for start in range(0, len(named), at_once):
        yield named[start : start + at_once]
