"""Belongings: who a client process is, and what it holds.

It knows that a lease is of one session or of none. It must never know what is asked, or why a lease goes from one to
another.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from governor.core.effects import LeaseEnded, LeaseResult, LeaseState
from governor.core.types import Ended, LeaseId, Nanos, TicketId
from governor.driver import Driver
from governor.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Callable

    from governor.voice import Voice

# How many characters of its id are a session's name.
NAME: Final = 8
# What a session knows of its lease: the op that it was asked for with (0: it was not, but adopted), the ticket of that
# ask, and for how long a keep-alive is known to make it last.
Known = tuple[int, TicketId, Nanos]


@dataclass(slots=True, frozen=True)
class Hello:
    """Who a client says it is, and what it believes to have."""

    client: str
    instance: str
    pid: int = 0
    host: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    resume: str = ""
    held: tuple[LeaseId, ...] = ()


@dataclass(slots=True, frozen=True)
class Shared:
    """What the sessions of one daemon have in common.

    ``owners``: whose each lease is that is anybody's. ``forget`` is called by one that has nothing left, and nobody
    to tell.
    """

    driver: Driver
    pace: Pace
    owners: "dict[LeaseId, Belongings]"
    forget: "Callable[[Belongings], None]"


class Belongings:
    """What one session holds. ``voice``: how its ``client`` is told, None while that is away."""

    __slots__ = (
        "_driver",
        "_leases",
        "_owners",
        "_shared",
        "_unclaimed",
        "client",
        "host",
        "id",
        "instance",
        "labels",
        "longest",
        "pid",
        "voice",
    )

    def __init__(self, shared: Shared, session_id: str, hello: Hello) -> None:
        self._shared = shared
        self._driver = shared.driver
        self._owners = shared.owners
        self.id = session_id
        self.client, self.instance = hello.client, hello.instance
        self.pid, self.host, self.labels = hello.pid, hello.host, hello.labels
        self.voice: Voice | None = None
        # How long its client may be lent anything, where that is bounded.
        self.longest: Nanos | None = None
        self._leases: dict[LeaseId, Known] = {}
        # Only while the first message of a resumed session is done: what nobody has spoken of yet.
        self._unclaimed: set[LeaseId] = set()

    @property
    def name(self) -> str:
        """What others may call it by: enough of its id to tell it from all others, too little to resume it."""
        return self.id[:NAME]

    @property
    def leases(self) -> Collection[LeaseId]:
        """What it holds."""
        return self._leases.keys()

    def lost(self, ended: LeaseEnded) -> None:
        """A lease of its own has ended, and not by its doing."""
        self._leases.pop(ended.lease, None)
        self._unclaimed.discard(ended.lease)
        if self.voice is not None:
            self.voice.ended(LeaseResult(ended.lease, LeaseState.ENDED, ended=Ended(ended.reason, 0)))
        elif not self._leases:
            self._shared.forget(self)

    def _may_claim(self, lease: LeaseId) -> bool:
        """Whether a lease that its client says to hold can be its own.

        One that does not live may be, too: what has become of it is what is answered.
        """
        owner = self._owners.get(lease)
        if owner is not None:
            return owner is self or (owner.voice is None and owner.client == self.client)
        held = self._driver.held(lease)
        return held is None or held.client == self.client

    def _own(self, lease: LeaseId, op: int, ticket: TicketId, length: Nanos) -> None:
        self._leases[lease] = (op, ticket, length)
        self._owners[lease] = self

    def _take(self, lease: LeaseId) -> Known | None:
        """It is nobody's now; what its session knew of it, which is told if it is another that can be told."""
        owner = self._owners.get(lease)
        return None if owner is None else owner.let_go(lease, by=self)

    def let_go(self, lease: LeaseId, by: "Belongings | None" = None) -> Known | None:
        """It is nobody's now; what was known of it. When another takes it, its client is told that it is gone."""
        held = self._leases.pop(lease, None)
        if held is None:
            return None
        del self._owners[lease]
        self._unclaimed.discard(lease)
        if by not in (None, self):
            if self.voice is not None:
                self.voice.ended(LeaseResult(lease, LeaseState.UNKNOWN))
            elif not self._leases:
                self._shared.forget(self)
        return held

    def _disown(self, leases: Iterable[LeaseId]) -> None:
        """Those of these that are its own are nobody's: what now becomes of them is its own doing."""
        held, owners = self._leases, self._owners
        for lease in leases:
            if held.pop(lease, None) is not None:
                del owners[lease]

    def _renew(self, leases: Sequence[LeaseId]) -> tuple[LeaseResult, ...]:
        """Renew a few."""
        return self._driver.renew(tuple(leases), most=self.longest) if leases else ()
