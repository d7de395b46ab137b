"""Leases as a program sees them: what was granted, whether it still holds, and how to give it back.

It knows what leaving a block means. It must never wait for the daemon.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self

from governor.client.asks import SECOND
from governor.client.errors import LeaseLost, UsageError
from governor.client.held import Held, Member, State
from governor.v1 import governor_pb2 as pb

if TYPE_CHECKING:
    from governor.client.link import Link

Outcome = Literal["ok", "broken", "unknown"]

# For what is done for each lease.
_HELD: Final = State.HELD
_RELEASED: Final = State.RELEASED
_NOTHING_SAID: Final = pb.OUTCOME_UNSPECIFIED
_OUTCOMES: Final = {"unknown": pb.OUTCOME_UNSPECIFIED, "ok": pb.OUTCOME_OK, "broken": pb.OUTCOME_BROKEN}


class Lease:
    """Permits that were lent, until they are given back.

    Use it as a block, or call `release`. It is kept alive in the background for as long as the process lives. Leaving
    the block gives it back and does not wait for the daemon; when it was lost meanwhile, leaving raises `LeaseLost`.

    Example:
        >>> with gov.acquire("orders-db") as lease:
        ...     print(lease.member.id, lease.permits, lease.remaining > 4, lease.lost)
        primary 1 True False
    """

    __slots__ = ("__weakref__", "_held", "_link")

    def __init__(self, link: "Link", held: Held | None) -> None:
        self._link = link
        self._held = held

    @property
    def granted(self) -> bool:
        """False when the daemon was away and the client lets everybody through (``unavailable="allow"``)."""
        return self._held is not None

    @property
    def id(self) -> int:
        """The fence: of two leases, the later has the higher id. 0 when not granted."""
        return 0 if self._held is None else self._held.id

    @property
    def claims(self) -> dict[str, int]:
        """Permits by resource."""
        return {} if self._held is None else dict(self._held.claims)

    @property
    def permits(self) -> int:
        """Permits in all."""
        return sum(self.claims.values())

    @property
    def members(self) -> tuple[Member, ...]:
        """The pool members lent, one for each permit of a pool, in the order of the claims."""
        return () if self._held is None else self._held.members

    @property
    def member(self) -> Member:
        """The one pool member lent. Raises ValueError when there is none or more than one."""
        if len(self.members) != 1:
            raise ValueError(f"{self!r} has {len(self.members)} pool members, not one: see members, and granted")
        return self.members[0]

    @property
    def waited(self) -> float:
        """Seconds in line."""
        return 0.0 if self._held is None else self._held.waited / SECOND

    @property
    def remaining(self) -> float | None:
        """Seconds for which it is safe to rely on it if nothing more is heard of the daemon; 0 when it is over.

        The end of its length, or what `on_disconnect` leaves of it when the daemon takes us for gone, whichever is
        sooner; if the connection is seen to break, that begins at once. None when nothing was lent: permits of a rate
        limit are spent, not lent.
        """
        held = self._held
        if held is None or held.length is None:
            return None
        if held.state is not State.HELD:
            return 0.0
        return max(0.0, (self._link.ours_until(held) - time.monotonic_ns()) / SECOND)

    @property
    def lost(self) -> bool:
        """Whether it ended before it was given back: stop working on what it was for."""
        return self._held is not None and self._is_lost(self._held)

    @property
    def ended(self) -> bool:
        """Whether it was given back, detached or lost."""
        return self._held is not None and (self._is_lost(self._held) or self._held.state is not State.HELD)

    def check(self) -> None:
        """Raise `LeaseLost` if it is lost: for long work, between two steps.

        Example:
            >>> with gov.acquire("orders-db") as lease:
            ...     for step in ("read", "write"):
            ...         lease.check()
        """
        held = self._held
        if held is not None and self._is_lost(held):
            names = ", ".join([name for name, _ in held.claims])
            raise LeaseLost(f"lease {held.id} on {names} is lost: {held.why}", lease=held.id, reason=held.reason)

    def release(self, outcome: Outcome = "unknown") -> None:
        """Give it back; safe in any state, also when the daemon is away, and does not wait for it.

        Args:
            outcome: How its pool members were: ``broken`` ones are kept out for a while.

        Raises:
            UsageError: There is no such outcome.

        Example:
            >>> lease = gov.acquire("orders-db")
            >>> lease.release("ok")
            >>> lease.ended
            True
        """
        code = _OUTCOMES.get(outcome)
        if code is None:
            raise UsageError(f'an outcome is "ok", "broken" or "unknown", not {outcome!r}')
        self._give_back(code)

    def _give_back(self, code: "pb.Outcome.ValueType") -> None:
        held = self._held
        if held is None:
            return
        if held.watchers is not None:
            self._stop_watching()
        if held.state is _HELD and held.owner == self._link.pid:
            held.outcome = code
            # In this order, so that one that Ctrl-C keeps from being given back is not taken for given back.
            if held.length is not None:
                self._submit(held)
            held.state = _RELEASED
        if held.span is not None:
            self._end_span()

    def _end_span(self) -> None:
        """Of a program that traces: it is done with this. A forked child has nothing to say of it."""
        held = self._held
        if held is not None and held.span is not None and held.owner == self._link.pid:
            held.span.end(held.state, held.reason)

    def detach(self) -> int:
        """Have it outlive this block and this process: nobody keeps it alive, until somebody adopts it.

        Returns:
            Its id, for `Client.adopt` here or in another process; 0 when not granted.

        Example:
            >>> number = gov.acquire("orders-db").detach()
            >>> gov.adopt(number).release()
        """
        held = self._held
        self._stop_watching()
        if held is not None and held.state is State.HELD and held.owner == self._link.pid:
            self._link.submit(lambda talk: talk.keeping.detach(held))
            held.state = State.DETACHED
            self._end_span()
        return self.id

    def _submit(self, held: Held) -> None:
        self._link.submit(held)

    def _stop_watching(self) -> None:
        """Nobody wants to know any more what becomes of it."""
        if self._held is not None:
            self._held.watchers = None

    def _is_lost(self, held: Held) -> bool:
        """Also when its time is over and nobody has noticed: after a stop, the thread may run later than we do."""
        if held.state is _HELD:
            # Most are well within their time, and one look at the clock says so.
            now = time.monotonic_ns()
            link = self._link
            if now < link.keeping.look_at or held.length is None or now < link.ours_until(held):
                return False
            held.lose("unreachable")
        return held.state is State.LOST

    def _enter(self) -> None:
        """Raise, if it is over: the block would run without a permit."""
        if self.ended:
            self._end_span()  # there will be no end of the block that would
            self.check()
            raise UsageError(f"{self!r} is over, or another process holds it: acquire again")

    def leave(self, error: BaseException | None) -> None:
        """The end of a block, which an ``error`` may have ended. Raises LeaseLost."""
        held = self._held
        if held is None or not self._is_lost(held):
            try:
                self._give_back(_NOTHING_SAID)
            except BaseException:
                self._give_back(_NOTHING_SAID)  # Ctrl-C came in between
                raise
            return
        self._end_span()
        if error is None:
            self.check()
        else:
            error.add_note(f"lease {self.id} was lost meanwhile: {held.why}")

    def __repr__(self) -> str:
        held = self._held
        if held is None:
            return f"<{type(self).__name__} let through>"
        claims = ", ".join([f"{name}: {permits}" for name, permits in held.claims])
        return f"<{type(self).__name__} {held.id} {claims} {held.state.name.lower()}>"

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave(error)


class AsyncLease(Lease):
    """A `Lease` of an asyncio program."""

    __slots__ = ("_cancelled", "_task", "_watched")

    def __init__(self, link: "Link", held: Held | None) -> None:
        # Not by way of `Lease`: one is made for each acquire.
        self._link = link
        self._held = held
        self._task: asyncio.Task[object] | None = None
        self._cancelled = False
        self._watched = True

    def watch(self, loop: asyncio.AbstractEventLoop, task: "asyncio.Task[object] | None", on_loss: "OnLoss") -> None:
        """Have a loss do what the program wants."""
        held = self._held
        if held is None or on_loss is None:
            return
        self._task = task

        def lost() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
                loop.call_soon_threadsafe(self._tell, on_loss)

        held.watch(lost)

    def _tell(self, on_loss: "Callable[[AsyncLease], None] | Literal['cancel']") -> None:
        if not self._watched:
            return  # it was given back meanwhile
        if on_loss != "cancel":
            on_loss(self)
        elif self._task is not None and not self._task.done():
            self._cancelled = True
            self._task.cancel(f"lease {self.id} is lost")

    def _stop_watching(self) -> None:
        super()._stop_watching()
        self._watched = False

    def leave(self, error: BaseException | None) -> None:
        """As `Lease.leave`."""
        if self._task is not None:
            self._uncancel(self._task, error)
        Lease.leave(self, error)  # `super` costs as much as a call

    def _uncancel(self, task: "asyncio.Task[object]", error: BaseException | None) -> None:
        self._task = None  # a loss that is noticed after the block cancels nothing any more
        if self._cancelled:
            self._cancelled = False
            others = task.uncancel()
            if isinstance(error, asyncio.CancelledError) and not others:
                self._end_span()
                self.check()

    def _submit(self, held: Held) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            super()._submit(held)
        else:
            self._link.submit_soon(loop, held)

    async def __aenter__(self) -> Self:
        self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave(error)


OnLoss = Callable[[AsyncLease], None] | Literal["cancel"] | None


def watch(lease: Lease, on_loss: Callable[[Lease], None] | None) -> None:
    """Have ``on_loss`` called when the lease is lost, in a thread of its own: it may block as long as it likes."""
    held = lease._held  # noqa: SLF001
    if on_loss is not None and held is not None:
        thread = threading.Thread(target=on_loss, args=(lease,), name="governor-on-loss", daemon=True)
        held.watch(thread.start)
