"""An acquire on its way, and what it may become.

It knows what was asked and who waits for the answer. It must never know how it travels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from governor.client.errors import GovernorError, UsageError
from governor.v1 import governor_pb2 as pb

if TYPE_CHECKING:
    import asyncio

    from governor.client.held import Held
    from governor.client.tracing import Trace

SECOND: Final = 1_000_000_000
# How long an ask is given to get into line, also again after a connection broke.
PATIENCE: Final = 5 * SECOND
# Not to wait in line still takes the time of an answer.
LEAST: Final = SECOND
# The daemon takes messages of 256 KiB.
_MOST_BYTES: Final = 64 * 1024
# What travels with each text, such as the number of permits.
_BESIDE: Final = 16
_MOST_PERMITS: Final = (1 << 63) - 1
# Thirty years, in seconds: longer than any wait or lease, and short enough to be told in nanoseconds.
_LONGEST: Final = 1e9

# What an answer is handed to; called once, from the client's own thread, and never blocks.
Settle = Callable[["Held | GovernorError"], None]
OnQueued = Callable[[int, float | None], None]

Claims = tuple[tuple[str, int], ...]


@dataclass(slots=True, frozen=True)
class Shape:
    """What is the same in all asks of one place in a program; a program has few. Lengths in nanoseconds."""

    claims: Claims
    wait: int | None = None
    lease: int | None = None
    labels: tuple[tuple[str, str], ...] = ()

    def message(self) -> pb.SessionRequest:
        """A message of this ask alone, its op left open."""
        ask = pb.SessionAcquire(labels=dict(self.labels))
        for resource, permits in self.claims:
            ask.claims.add(resource=resource, permits=permits)
        if self.wait is not None:
            ask.wait.FromNanoseconds(self.wait)
        if self.lease is not None:
            ask.lease.FromNanoseconds(self.lease)
        return pb.SessionRequest(acquires=[ask])


@dataclass(slots=True, eq=False)
class Ask:
    """One acquire, or one adoption of the lease ``adopt``. Instants in nanoseconds of the monotonic clock.

    ``fail_open`` and ``patient`` say what becomes of it when the daemon is away. ``deadline``: before this nobody gives
    it up; None is never.
    """

    shape: Shape
    # Called in the client's own thread; None: an event loop's ``waiter`` is settled instead.
    settle: Settle | None
    asked_at: int
    patient: bool = False
    fail_open: bool = False
    adopt: int = 0
    # It never blocks either.
    on_queued: OnQueued | None = None
    waiter: "asyncio.Future[Held | GovernorError] | None" = None
    # Where ``waiter`` is settled and ``on_queued`` is called; None: in the client's own thread.
    loop: "asyncio.AbstractEventLoop | None" = None
    op: int = 0
    # When the client's own thread learned of it.
    taken_at: int = 0
    # The number of the message that it went in, on this connection; 0 while it waits to go.
    message: int = 0
    sent_at: int = 0
    queued: bool = False
    # It was sent before, on a connection that broke; and if the daemon had greeted us on it, when that was, else 0.
    repeated: bool = False
    broke_at: int = 0
    given_up: bool = False
    # What it follows from, if anything.
    trace: "Trace | None" = None
    held: "Held | None" = None
    deadline: int | None = field(init=False)

    def __post_init__(self) -> None:
        wait = self.shape.wait
        if wait is not None:
            self.deadline = self.asked_at + (max(LEAST, wait))  # `max` is a call, for each ask
        else:
            self.deadline = None if self.patient else self.asked_at + PATIENCE


def is_whole(number: object) -> bool:
    """Whether it is a whole number, which True is not, whatever its type claims."""
    return isinstance(number, int) and not isinstance(number, bool)


def _is(value: object, *types: type) -> bool:
    # A program without type checks may pass anything.
    return isinstance(value, types)


def claims_of(claims: str | Mapping[str, int], permits: int | None) -> Claims:
    """What was asked for, from the two ways to say it. Raises UsageError."""
    if isinstance(claims, str):
        pairs: Claims = ((claims, 1 if permits is None else permits),)
    elif permits is not None:
        raise UsageError("permits is for a single resource; with several, give each its number")
    elif _is(claims, Mapping):
        pairs = tuple(claims.items())
    else:
        raise UsageError(f"what to acquire is the name of a resource, or permits by resource, not {claims!r}")
    if not pairs:
        raise UsageError("nothing to acquire: name at least one resource")
    for resource, number in pairs:
        if not (_is(resource, str) and resource):
            raise UsageError(f"a resource is named by a text that is not empty, not by {resource!r}")
        if not (is_whole(number) and 1 <= number <= _MOST_PERMITS):
            raise UsageError(f"{resource}: permits are a whole number from 1, not {number!r}")
    bounded("the resources", [resource for resource, _ in pairs])
    return pairs


def words(labels: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Labels, in an order that is always the same. Raises UsageError."""
    if not labels:
        return ()
    for word in [*labels.keys(), *labels.values()]:
        if not _is(word, str):
            raise UsageError(f"labels are texts by name, not {word!r}")
    bounded("labels", [*labels.keys(), *labels.values()])
    return tuple(sorted(labels.items()))


def bounded(what: str, texts: Sequence[str]) -> None:
    """Raise UsageError when these texts cannot travel. How long each may be is for the daemon to say."""
    try:
        size = sum([len(text.encode()) + _BESIDE for text in texts])
    except UnicodeEncodeError as error:
        raise UsageError(f"{what}: {error.object!r} is no text: {error.reason}") from error
    if size > _MOST_BYTES:
        raise UsageError(f"{what} take {size} bytes; at most {_MOST_BYTES} can be sent, so say less")


def nanos(name: str, seconds: float | None) -> int | None:
    """A length as it travels. Raises UsageError."""
    if seconds is None:
        return None
    if not (_is(seconds, int, float) and not _is(seconds, bool) and 0 <= seconds < _LONGEST):
        raise UsageError(f"{name} is a number of seconds, 0 or more, not {seconds!r}")
    return int(seconds * SECOND)
