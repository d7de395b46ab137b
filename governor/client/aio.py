"""`AsyncClient`: for programs of asyncio.

It knows how a task waits. It must never know how an answer comes: the client's own thread does that, so that nothing
a program does to its event loop keeps a lease from being kept alive.
"""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar, cast

from governor.client.asks import Ask, OnQueued
from governor.client.credentials import Cert, Credentials, File
from governor.client.errors import NotGranted, Unavailable, UsageError
from governor.client.held import Held
from governor.client.lease import AsyncLease, OnLoss
from governor.client.settings import Settings, Unavail

P = ParamSpec("P")
T = TypeVar("T")


class AsyncClient:
    """One program's way to the daemon, for any number of tasks and event loops.

    As `Client`: the same arguments, the same names.

    Example:
        >>> async def work():
        ...     async with agov.acquire({"orders-db": 1, "payments-api": 3}, wait=5) as lease:
        ...         return lease.permits
        >>> asyncio.run(work())
        4
    """

    def __init__(  # noqa: PLR0913 - all are named by whoever needs one
        self,
        address: str | None = None,
        *,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        unavailable: Unavail = "raise",
        token: str | None = None,
        token_file: File = None,
        ca: File = None,
        cert: Cert = None,
        tracing: bool = True,
    ) -> None:
        credentials = Credentials(token, token_file, ca=ca, cert=cert)
        self._settings = Settings(address, name, dict(labels or {}), unavailable, credentials, tracing=tracing)

    @property
    def address(self) -> str:
        """Where the daemon is looked for."""
        return str(self._settings.link.address)

    @property
    def let_through(self) -> int:
        """How many asks went on without a permit since the daemon was away."""
        return self._settings.link.let_through

    def acquire(
        self,
        claims: str | Mapping[str, int],
        permits: int | None = None,
        *,
        wait: float | None = None,
        lease: float | None = None,
        labels: Mapping[str, str] | None = None,
        on_loss: OnLoss = None,
        on_queued: OnQueued | None = None,
    ) -> "Acquiring":
        """As `Client.acquire`, to be awaited or used in ``async with``.

        ``on_loss``: called with the lease, in the event loop, when it is lost; ``"cancel"`` cancels the task that
        acquired it, and leaving the block raises `LeaseLost`. ``on_queued``: called in the event loop, too.
        """
        ask = self._settings.ask(claims, permits, wait, lease, labels)
        ask.on_queued = on_queued
        return Acquiring(self._settings, ask, on_loss)

    async def try_acquire(
        self,
        claims: str | Mapping[str, int],
        permits: int | None = None,
        *,
        lease: float | None = None,
        labels: Mapping[str, str] | None = None,
        on_loss: OnLoss = None,
    ) -> AsyncLease | None:
        """As `Client.try_acquire`.

        Example:
            >>> async def work():
            ...     if lease := await agov.try_acquire("orders-db"):
            ...         async with lease:
            ...             return "ours"
            >>> asyncio.run(work())
            'ours'
        """
        try:
            return await self.acquire(claims, permits, wait=0, lease=lease, labels=labels, on_loss=on_loss)
        except NotGranted as refusal:
            if refusal.never:
                raise
            return None

    def adopt(self, lease_id: int, *, on_loss: OnLoss = None) -> "Acquiring":
        """As `Client.adopt`, to be awaited or used in ``async with``.

        Example:
            >>> async def work():
            ...     number = (await agov.acquire("orders-db")).detach()
            ...     async with agov.adopt(number) as lease:
            ...         return lease.claims
            >>> asyncio.run(work())
            {'orders-db': 1}
        """
        return Acquiring(self._settings, self._settings.adoption(lease_id), on_loss)

    def limit(
        self,
        claims: str | Mapping[str, int],
        permits: int | None = None,
        *,
        wait: float | None = None,
        lease: float | None = None,
        on_loss: OnLoss = None,
    ) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
        """A decorator: each call of the coroutine function runs under a lease of its own.

        A call raises what `acquire` raises.

        Raises:
            UsageError: The ask makes no sense, or it is no coroutine function.

        Example:
            >>> @agov.limit("payments-api", wait=10)
            ... async def charge(order):
            ...     return f"charged {order}"
            >>> asyncio.run(charge(7))
            'charged 7'
        """
        self._settings.check_limit(claims, permits, wait=wait, lease=lease)

        def decorate(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
            if not inspect.iscoroutinefunction(function):
                raise UsageError(f"{function!r} is no coroutine function: limit it by a Client")

            @functools.wraps(function)
            async def limited(*args: P.args, **kwargs: P.kwargs) -> T:
                async with self.acquire(claims, permits, wait=wait, lease=lease, on_loss=on_loss):
                    return await cast("Awaitable[T]", function(*args, **kwargs))

            return limited

        return decorate

    async def close(self) -> None:
        """Give back what is held, and hang up; waits for half a second at most. The next ask begins anew."""
        link = self._settings.link
        # Before the thread is told to end: what was given back just now must not begin another one.
        link.flush(asyncio.get_running_loop())
        await asyncio.to_thread(link.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __reduce__(self) -> tuple[object, ...]:
        return cast("tuple[object, ...]", (_rebuild, (type(self), self._settings.arguments())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"


class Acquiring:
    """An acquire that begins when it is awaited or entered."""

    __slots__ = ("_ask", "_lease", "_on_loss", "_settings")

    def __init__(self, settings: Settings, ask: Ask, on_loss: OnLoss) -> None:
        if not (on_loss is None or on_loss == "cancel" or callable(on_loss)):
            raise UsageError(f'on_loss is a function of the lease, "cancel" or None, not {on_loss!r}')
        self._settings = settings
        self._ask = ask
        self._on_loss = on_loss
        self._lease: AsyncLease | None = None

    def __await__(self) -> Generator[Any, None, AsyncLease]:
        settings, ask = self._settings, self._ask
        if ask.loop is not None:
            raise UsageError("an acquire is awaited or entered once; call acquire again")
        link = settings.link
        loop = asyncio.get_running_loop()
        ask.waiter = waiter = loop.create_future()
        ask.loop = loop
        asked = settings.follow(ask)
        link.submit_soon(loop, ask)
        try:
            answer = yield from waiter
            if asked is not None and isinstance(answer, Held):
                asked.granted(answer)
        except BaseException:
            link.give_up(ask)
            if asked is not None:
                asked.given_up()
            raise
        if isinstance(answer, Held):
            self._lease = lease = AsyncLease(link, answer)
            if self._on_loss is not None:
                lease.watch(loop, asyncio.current_task(loop), self._on_loss)
            return lease
        if isinstance(answer, Unavailable) and ask.fail_open:
            settings.let_through(answer)
            if asked is not None:
                asked.let_through()
            self._lease = AsyncLease(link, None)
            return self._lease
        if asked is not None:
            asked.refused(answer)
        raise answer

    # Not coroutines, of which two would be made for each block: what is awaited is at hand.

    def __aenter__(self) -> Self:
        return self

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> "_Done":
        assert self._lease is not None
        self._lease.leave(error)
        return _DONE


class _Done:
    """Something to await that has been done."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        return cast("Generator[Any, None, None]", iter(()))


_DONE: Final = _Done()


def _rebuild(kind: type[AsyncClient], arguments: Mapping[str, object]) -> AsyncClient:
    return kind(**arguments)  # type: ignore[arg-type]  # what `arguments` gave
