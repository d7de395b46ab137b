"""A lease as the client's own thread sees it: until when it is safe to rely on it.

It knows what the daemon said of it and what has been heard since. It must never know whose code relies on it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from governor.client.asks import Claims
from governor.v1 import governor_pb2 as pb

if TYPE_CHECKING:
    from governor.client.spans import Hold

# Whoever relies on a lease stops this share of its length before the daemon may lend it again, at most a second.
_MARGIN_SHARE: Final = 10
_MOST_MARGIN: Final = 1_000_000_000
_UNKNOWN: Final = (
    "unknown to the daemon as one of this process: its state was lost, or it was started on another state folder, or "
    "somebody else has adopted the lease; stop what it was for, and acquire again"
)


class State(Enum):
    """What has become of a lease."""

    HELD = auto()
    RELEASED = auto()
    DETACHED = auto()
    LOST = auto()


@dataclass(slots=True, frozen=True)
class Member:
    """One slot of a pool, as it was lent.

    Attributes:
        id: Its name in the daemon's config.
        attributes: What the operator wrote beside it, such as ``endpoint``.
        generation: Rises when what was opened on it before must be opened anew.
        resource: The pool that it is of.
    """

    id: str
    attributes: Mapping[str, str]
    generation: int
    resource: str


@dataclass(slots=True, eq=False)
class Held:
    """One lease. ``length`` is None when nothing was lent: every claim was on a rate limit.

    ``until``: the client's own deadline, before the daemon's by a margin. ``outlives``: how long it lives on when the
    session breaks off (None: until its own deadline). ``spared``: its daemon has died, and the next has not renewed it
    yet, which it knows to be longer by no more than one grace. Instants and lengths in nanoseconds.
    """

    id: int
    claims: Claims
    members: tuple[Member, ...]
    length: int | None
    waited: int
    until: int
    outlives: int | None
    # The session machine that keeps it alive, by its number: a forked child has another.
    owner: int
    state: State = State.HELD
    reason: str = ""
    outcome: "pb.Outcome.ValueType" = pb.OUTCOME_UNSPECIFIED
    spared: bool = False
    # Of a program that traces.
    span: "Hold | None" = None
    # What to call when it is lost; whoever takes it out calls it.
    watchers: "list[Callable[[], None]] | None" = None

    def watch(self, watcher: "Callable[[], None]") -> None:
        """Have this called when it is lost, also if it is already."""
        self.watchers = [watcher]
        if self.state is State.LOST:
            self.tell_loss()

    def tell_loss(self) -> None:
        """Call whoever watches; each once, whichever thread comes first."""
        watchers = self.watchers
        while watchers:
            try:
                watcher = watchers.pop()
            except IndexError:
                return
            watcher()

    def lose(self, reason: str) -> None:
        """It is ours no more, and whoever holds it does not know yet."""
        self.reason = reason
        self.state = State.LOST  # only now, since others look at it
        # Only now, too: whoever makes a span looks for a loss when it is there.
        if self.span is not None:
            self.span.lost()

    def extend(self, since: int) -> None:
        """The daemon counts its length from ``since`` or later."""
        if self.length is not None:
            until = since + safe(self.length)
            self.until = until if self.spared else max(self.until, until)
            self.spared = False

    def spare(self, until: int, grace: int) -> None:
        """Its daemon is dead, which would have let it live ``until`` then; it lives on after the next one has begun.

        ``grace``: how much longer, if it has not had that before.
        """
        self.until = until if self.spared else until + safe(grace)
        self.spared = True

    @property
    def why(self) -> str:
        """What to tell a person of its loss."""
        return _UNKNOWN if self.reason == "unknown" else self.reason

    @property
    def ends_at(self) -> int:
        """When it has surely ended by itself."""
        return self.until + (self.length or 0) // 2

    def shorten(self, length: int, since: int) -> None:
        """It has another length from now on, counted from ``since`` or later."""
        self.length = length
        self.until = since + safe(length)


def safe(length: int) -> int:
    """For how long of ``length`` a lease is safe to rely on."""
    margin = length // _MARGIN_SHARE
    return length - (min(_MOST_MARGIN, margin))
