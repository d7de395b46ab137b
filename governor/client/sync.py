"""`Client`: for programs of threads.

It knows how a thread waits. It must never know how an answer comes.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from types import TracebackType
from typing import ParamSpec, Self, TypeVar, cast

from governor.client.asks import Ask, OnQueued
from governor.client.credentials import Cert, Credentials, File
from governor.client.errors import GovernorError, NotGranted, Unavailable, UsageError
from governor.client.held import Held
from governor.client.lease import Lease, watch
from governor.client.settings import Settings, Unavail

P = ParamSpec("P")
T = TypeVar("T")

# How many come before an ask in line, and the seconds that it is likely to take yet.
_Place = tuple[int, float | None]


class Client:
    """One program's way to the daemon, for any number of threads.

    Nothing happens before the first ask. It may be made at import time, pickled, and used across forks: a child has a
    session of its own.

    Args:
        address: ``host:port``, ``tls://host:port`` or ``unix:/path``; else GOVERNOR_ADDRESS, else the usual socket
            where there is one, else 127.0.0.1:7411.
        name: The program's name in the daemon's tables; else that of its script.
        labels: Free words about the program: at most 16, of 256 bytes each.
        unavailable: What to do when the daemon is away: ``raise`` `Unavailable`, ``wait`` for it as long as the ask
            waits, or ``allow``: go on without a permit, counted in `let_through` and logged.
        token: What proves who the program is, where the daemon asks for that. A pickle of the client holds it.
        token_file: The file with that token, read anew for each connection; else GOVERNOR_TOKEN_FILE names one, or
            there is none.
        ca: The file with the certificates of whom the program trusts to say which daemon it is, for ``tls://host:port``;
            else GOVERNOR_CA names one, or those count that the system trusts.
        cert: The program's own certificate and its key, where the daemon asks for one: a file with both, or a pair of
            files; else GOVERNOR_CERT and GOVERNOR_KEY.
        tracing: In a program that has set up a tracer provider of OpenTelemetry, each ask and each hold is a span, and
            the daemon is told of the trace; False: not here.

    Example:
        >>> gov = Client("127.0.0.1:1")
        >>> gov.acquire("orders-db", wait=1)
        Traceback (most recent call last):
        ...
        governor.client.errors.Unavailable: no governor daemon at 127.0.0.1:1: Connection refused
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
        on_loss: Callable[[Lease], None] | None = None,
        on_queued: OnQueued | None = None,
    ) -> Lease:
        """Wait in line for permits; all of several claims, or none.

        Args:
            claims: The name of a resource, or permits by resource.
            permits: How many of the one resource; 1 when not said.
            wait: Seconds to stand in line at most; 0 is not at all, None as long as the resource lets one wait.
            lease: Seconds for which it is lent if this process dies; None: as the resource says.
            labels: Free words about this ask, kept with its lease.
            on_loss: Called with the lease, in a thread of its own, when it is lost.
            on_queued: Called about once a second while in line, in this thread, with how many come before and the
                seconds that it is likely to take yet (None: not known). What it raises ends the wait.

        Returns:
            The lease: use it as a block, or release it.

        Raises:
            NotGranted: Not now, or never; it says which, why and when.
            Unavailable: The daemon cannot be reached.
            UsageError: The ask makes no sense.

        Example:
            >>> with gov.acquire("orders-db", wait=5) as lease:
            ...     connect(lease.member.attributes["endpoint"])
        """
        ask = self._settings.ask(claims, permits, wait, lease, labels)
        return self._wait(ask, on_loss, on_queued)

    def try_acquire(
        self,
        claims: str | Mapping[str, int],
        permits: int | None = None,
        *,
        lease: float | None = None,
        labels: Mapping[str, str] | None = None,
        on_loss: Callable[[Lease], None] | None = None,
    ) -> Lease | None:
        """`acquire` without waiting in line; None when it is not granted at once.

        Raises:
            NotGranted: It will never be.
            Unavailable: The daemon cannot be reached.
            UsageError: The ask makes no sense.

        Example:
            >>> if lease := gov.try_acquire("orders-db"):
            ...     with lease:
            ...         print("ours")
            ours
        """
        try:
            return self.acquire(claims, permits, wait=0, lease=lease, labels=labels, on_loss=on_loss)
        except NotGranted as refusal:
            if refusal.never:
                raise
            return None

    def adopt(self, lease_id: int, *, on_loss: Callable[[Lease], None] | None = None) -> Lease:
        """Keep alive, and give back, a lease that was detached here or elsewhere.

        Args:
            lease_id: What `Lease.detach` returned.
            on_loss: As of `acquire`.

        Raises:
            LeaseLost: It has ended, or never was.
            Unavailable: The daemon cannot be reached; the lease is as it was.
            UsageError: It is no lease id.

        Example:
            >>> number = gov.acquire("orders-db").detach()
            >>> with gov.adopt(number) as lease:
            ...     lease.claims
            {'orders-db': 1}
        """
        return self._wait(self._settings.adoption(lease_id), on_loss)

    def limit(
        self,
        claims: str | Mapping[str, int],
        permits: int | None = None,
        *,
        wait: float | None = None,
        lease: float | None = None,
        on_loss: Callable[[Lease], None] | None = None,
    ) -> Callable[[Callable[P, T]], Callable[P, T]]:
        """A decorator: each call of the function is made under a lease of its own, with the arguments of `acquire`.

        A call raises what `acquire` raises.

        Raises:
            UsageError: The ask makes no sense; or it is a coroutine function, or one that yields: it would have given
                back the lease before it began to run.

        Example:
            >>> @gov.limit("payments-api", wait=10)
            ... def charge(order):
            ...     return f"charged {order}"
            >>> charge(7)
            'charged 7'
        """
        self._settings.check_limit(claims, permits, wait=wait, lease=lease)

        def decorate(function: Callable[P, T]) -> Callable[P, T]:
            if inspect.iscoroutinefunction(function):
                raise UsageError(f"{function.__qualname__} is a coroutine function: limit it by an AsyncClient")
            if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                raise UsageError(f"{function.__qualname__} yields: acquire within it, for as long as it is to be held")

            @functools.wraps(function)
            def limited(*args: P.args, **kwargs: P.kwargs) -> T:
                with self.acquire(claims, permits, wait=wait, lease=lease, on_loss=on_loss):
                    return function(*args, **kwargs)

            return limited

        return decorate

    def close(self) -> None:
        """Give back what is held, and hang up; waits for half a second at most. The next ask begins anew."""
        self._settings.link.close()

    def _wait(self, ask: Ask, on_loss: Callable[[Lease], None] | None, on_queued: OnQueued | None = None) -> Lease:
        if not (on_loss is None or callable(on_loss)):
            raise UsageError(f"on_loss is a function of the lease, or None, not {on_loss!r}")
        link = self._settings.link
        told: SimpleQueue[Held | GovernorError | _Place] = SimpleQueue()
        ask.settle = told.put
        if on_queued is not None:
            ask.on_queued = lambda ahead, expected: told.put((ahead, expected))
        asked = self._settings.follow(ask)
        try:
            link.submit(ask)
            # The program's own code runs in the program's own thread, where it may take its time.
            while isinstance(answer := told.get(), tuple):
                if on_queued is not None:
                    on_queued(*answer)
            if isinstance(answer, Held):
                if asked is not None:
                    asked.granted(answer)
                made = Lease(link, answer)
                watch(made, on_loss)
                return made
        except BaseException:
            link.give_up(ask)
            if asked is not None:
                asked.given_up()
            raise
        if isinstance(answer, Unavailable) and ask.fail_open:
            self._settings.let_through(answer)
            if asked is not None:
                asked.let_through()
            return Lease(link, None)
        if asked is not None:
            asked.refused(answer)
        raise answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        return cast("tuple[object, ...]", (_rebuild, (type(self), self._settings.arguments())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"


def _rebuild(kind: type[Client], arguments: Mapping[str, object]) -> Client:
    return kind(**arguments)  # type: ignore[arg-type]  # what `arguments` gave
