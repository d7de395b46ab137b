"""Refusals: what clients may not do is told of each that tries, and not more often than anybody reads.

It knows which refusals are alike, and when they are to be told. It must never decide one, nor know who is told. The
invariant: each is told once, by itself or in a number; so what was told and what is yet to be told add up.

Alike are those of one client, for one reason, of the same resources. The first is told at once; those that follow are
counted, and told together a second later, then two, four, eight, and from then on every ten, for as long as they go
on; ten seconds without one make the next one the first again. A client that is refused in more ways than are told
apart, as one that invents names may be, is told of once more, without names. A timer runs only while there is something
to be told.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from governor.clock import Clock, Timer
from governor.core.types import SECOND, Claim, Denial, Nanos, Reason

# Ways of being refused that are told apart, of one client; beside them one for each reason.
APART: Final = 16
# The longest that what is counted waits to be told; when nothing has come for as long after that, all begins anew.
LONGEST: Final[Nanos] = 10 * SECOND
# Clients of a config are no more than that: with more, those of configs before it are looked through.
_CLIENTS: Final = 256
# What a caller names before anybody has looked at it may be as long as a message. No resource has a longer name.
_MAX_NAME: Final = 200
_MAX_NAMES: Final = 8

OTHERS: Final = "in more ways than are told apart"


class Tell(Protocol):
    """Tells of so many refusals that are alike, as `Chronicle.refused`."""

    def __call__(
        self, client: str, resources: tuple[str, ...], reason: Reason, detail: str, claims: Sequence[Claim], times: int
    ) -> None:
        """``claims`` of the last of them, if they were asks."""
        ...


@dataclass(slots=True, eq=False)
class _Alike:
    """Refusals that are alike: ``times`` so many are to be told, not before ``due``; ``apart``: how far apart."""

    client: str
    resources: tuple[str, ...]
    reason: Reason
    detail: str
    claims: Sequence[Claim] = ()
    times: int = 0
    apart: Nanos = 0
    due: Nanos = -LONGEST


class Refusals:
    """Those of one daemon. A client has the name that it is known by, and a caller whom nobody knows has none."""

    def __init__(self, clock: Clock, tell: Tell) -> None:
        self._clock = clock
        self._tell = tell
        self._clients: dict[str, dict[object, _Alike]] = {}
        # Of them, those that have something to be told.
        self._untold: list[_Alike] = []
        self._timer: Timer | None = None
        self._timer_at: Nanos = 0

    def refused(self, denial: Denial, claims: Sequence[Claim] = (), origin: str = "") -> None:
        """One was; ``claims``: what was asked for. ``origin``: whence somebody came whom nobody knows."""
        now = self._clock.now()
        alike = self._alike(denial, claims, origin, now)
        alike.claims = claims
        alike.times += 1
        if alike.times > 1:
            return
        if alike.due <= now:
            self._say(alike, now)
        else:
            self._untold.append(alike)
            self._wake_at(alike.due)

    def tell_all(self) -> None:
        """Whatever has been counted is told now."""
        now, untold = self._clock.now(), self._untold
        self._untold = []
        for alike in untold:
            self._say(alike, now)

    def close(self) -> None:
        """The same, and no timer is left behind."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.tell_all()

    # --- which are alike ------------------------------------------------------------------------------------

    def _alike(self, denial: Denial, claims: Sequence[Claim], origin: str, now: Nanos) -> _Alike:
        ways = self._clients.get(denial.client)
        if ways is None:
            ways = self._new_client(denial.client, now)
        # One that names a resource is about that one, whatever else was asked for along with it.
        named = [denial.resource] if denial.resource else [claim.resource for claim in claims[:_MAX_NAMES]]
        names = tuple([name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}…" for name in named])
        key = denial.reason, denial.expected, names, origin
        alike = ways.get(key)
        if alike is not None:
            return alike
        if len(ways) >= APART:
            _forget(ways, now)
        if len(ways) < APART:
            each_once = tuple(dict.fromkeys(names))
            alike = ways[key] = _Alike(denial.client, each_once, denial.reason, _words(denial, origin))
            return alike
        if (others := ways.get(denial.reason)) is None:
            others = ways[denial.reason] = _Alike(denial.client, (), denial.reason, OTHERS)
        return others

    def _new_client(self, client: str, now: Nanos) -> dict[object, _Alike]:
        if len(self._clients) > _CLIENTS:
            for ways in self._clients.values():
                _forget(ways, now)
            self._clients = {name: ways for name, ways in self._clients.items() if ways}
        made = self._clients[client] = {}
        return made

    # --- when they are told ---------------------------------------------------------------------------------

    def _say(self, alike: _Alike, now: Nanos) -> None:
        quiet = now - alike.due >= LONGEST
        alike.apart = SECOND if quiet else min(2 * alike.apart, LONGEST)
        # On a whole second, so that however many there are, the loop is woken once a second.
        alike.due = -(-(now + alike.apart) // SECOND) * SECOND
        # Of what else was asked for along with it nothing is wrong, and not everybody may hear of it.
        claims = [claim for claim in alike.claims if claim.resource in alike.resources]
        times, alike.claims, alike.times = alike.times, (), 0
        self._tell(alike.client, alike.resources, alike.reason, alike.detail, claims, times)

    def _wake_at(self, when: Nanos) -> None:
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer, self._timer_at = self._clock.call_at(when, self._wake), when

    def _wake(self) -> None:
        self._timer = None
        # A loop may call a hair too early.
        now = max(self._clock.now(), self._timer_at)
        due = [alike for alike in self._untold if alike.due <= now]
        self._untold = [alike for alike in self._untold if alike.due > now]
        for alike in due:
            self._say(alike, now)
        if self._untold:
            self._wake_at(min([alike.due for alike in self._untold]))


def _forget(ways: dict[object, _Alike], now: Nanos) -> None:
    """Those that have been quiet for so long that they begin anew."""
    for key in [key for key, alike in ways.items() if not alike.times and now - alike.due >= LONGEST]:
        del ways[key]


def _words(denial: Denial, origin: str) -> str:
    match denial.reason:
        case Reason.PERMISSION_DENIED:
            return f"may not {denial.expected}"
        case Reason.CLIENT_LIMIT:
            return f"may {denial.expected} at most"
        case _ if denial.client:
            return "is no longer known by what it came with"
        case _:
            return f"from {origin}" if origin else ""
