"""Entries: what has happened, each as one record that can be told to anybody.

It knows effects, and puts them into words. It must never know who is told. One invariant: no entry carries a label of a
client or an attribute of a member, since those may be secrets.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from governor.core.effects import (
    Abandoned,
    Denied,
    Effect,
    Granted,
    LeaseEnded,
    LeaseExtended,
    LeaseOrphaned,
    Queued,
    Refunded,
)
from governor.core.snapshot import Held
from governor.core.types import UNSAID, Claim, EndReason, Grant, LeaseId, Nanos, Reason, Said


class What(StrEnum):
    """All that can be told; the names are those of ``Event.what`` on the wire."""

    # Asks.
    QUEUED = "queued"
    REFUSED = "refused"
    GIVEN_UP = "given_up"
    # Leases.
    CARRIED = "carried"
    GRANTED = "granted"
    RENEWED = "renewed"
    ORPHANED = "orphaned"
    REFUNDED = "refunded"
    RELEASED = "released"
    EXPIRED = "expired"
    REVOKED = "revoked"
    DISCONNECTED = "disconnected"
    # What operators do, and the daemon itself.
    REVOCATION = "revocation"
    STARTED = "started"
    RELOADED = "reloaded"
    RELOAD_REFUSED = "reload_refused"
    PAUSED = "paused"
    RESUMED = "resumed"
    DRAINING = "draining"
    OVERRIDDEN = "overridden"
    OVERRIDE_OVER = "override_over"
    RECYCLED = "recycled"
    QUARANTINED = "quarantined"
    RESTORED = "restored"
    FROZEN = "frozen"
    STOPPING = "stopping"
    # About the telling.
    WATCHING = "watching"
    MISSED = "missed"


ASKS: Final = frozenset((What.QUEUED, What.REFUSED, What.GIVEN_UP))
LEASES: Final = frozenset(
    (
        What.CARRIED,
        What.GRANTED,
        What.RENEWED,
        What.ORPHANED,
        What.REFUNDED,
        What.RELEASED,
        What.EXPIRED,
        What.REVOKED,
        What.DISCONNECTED,
    )
)
# Why who is known, or is not, may not do what he wants: such a refusal is no answer to an ask that the engine gives.
ACCESS: Final = frozenset((Reason.UNAUTHENTICATED, Reason.PERMISSION_DENIED, Reason.CLIENT_LIMIT))
# Told by whoever carries it out; no effect of the engine says it.
ACTS: Final = frozenset(What) - ASKS - LEASES - {What.WATCHING, What.MISSED}

# What the core calls an end, as it is called here.
_ENDS: Final[dict[EndReason, What]] = {
    reason: What(reason.value) for reason in EndReason if reason is not EndReason.SPENT
}
# Looking up a member of an enum costs half as much as making a record.
_GRANTED: Final = What.GRANTED
_RENEWED: Final = What.RENEWED


class Asker(NamedTuple):
    """The client process whose session has asked for a lease, as it says itself."""

    session: str
    pid: int
    host: str


# Not frozen, which triples the cost of making one: there are several for each call that is told of.
@dataclass(slots=True)
class Entry:
    """One thing that happened, ``at`` an instant of the wall clock, in nanoseconds of Unix time.

    ``claims``: of an ask, or the grants of a lease. ``lease`` is 0 where it is about none. ``remaining`` is until the
    deadline. ``asker``: of a grant, if it was asked for on a session. ``reason`` is of a refusal, or why somebody gave
    an order, in his own words. ``detail`` and ``actor``: the rest in words, and who says he did it; ``actor_client``:
    as which client of the config he is known. ``times``: it stands for so many that are alike; 0 is itself alone.
    """

    at: Nanos
    what: What
    resources: tuple[str, ...] = ()
    client: str = ""
    lease: int = 0
    claims: tuple[Claim | Grant, ...] = ()
    reason: str = ""
    waited: Nanos | None = None
    held: Nanos | None = None
    remaining: Nanos | None = None
    detail: str = ""
    actor: str = ""
    missed: int = 0
    asker: Asker | None = None
    actor_client: str = ""
    times: int = 0


class Act(Protocol):
    """Puts on record what has been done to the daemon; as `Chronicle.act`."""

    def __call__(
        self, what: What, resources: Collection[str] = (), detail: str = "", said: Said = UNSAID, *, client: str = ""
    ) -> None:
        """``detail`` is the rest of it in words, ``said`` who says he did it, and why; ``client`` if a client did."""
        ...


def entries(
    effects: Sequence[Effect],
    *,
    at: Nanos,
    now: Nanos,
    held: Callable[[LeaseId], Held | None],
    asker: Callable[[LeaseId, str], Asker | None],
) -> Iterator[Entry]:
    """What one step of the engine, made at ``now``, has to tell.

    ``held`` looks up a lease that lives after it, ``asker`` who has asked for one, by the name of the client.
    """
    for effect in effects:
        # Not a match: in Python 3.11 it costs more than twice as much.
        if isinstance(effect, Granted):
            # One that is repeated was told when it was made.
            if not effect.repeated:
                left = None if effect.deadline is None else effect.deadline - now
                granted = _of_lease(at, _GRANTED, effect, waited=effect.waited, remaining=left)
                granted.asker = asker(effect.lease, effect.client)
                yield granted
        elif isinstance(effect, LeaseEnded):
            yield _of_lease(at, _ENDS[effect.reason], effect, held=effect.held)
        elif isinstance(effect, LeaseExtended):
            yield _of_lease(at, _RENEWED, effect, remaining=effect.deadline - now)
        elif (entry := _seldom(effect, at, now, held)) is not None:
            yield entry


def carried(held: Held, *, at: Nanos, now: Nanos) -> Entry:
    """Of a lease that a daemon goes on with when it starts: nobody may have been told of it yet, and it is held."""
    so_far, left = now - held.granted_at, held.deadline - now
    names = _names(held.grants)
    return Entry(at, What.CARRIED, names, held.client, held.id, held.grants, held=so_far, remaining=left)


def _of_lease(
    at: Nanos,
    what: What,
    effect: Granted | LeaseEnded | LeaseExtended | Refunded,
    *,
    waited: Nanos | None = None,
    held: Nanos | None = None,
    remaining: Nanos | None = None,
) -> Entry:
    grants = effect.grants
    names = (grants[0].resource,) if len(grants) == 1 else _names(grants)
    return Entry(at, what, names, effect.client, effect.lease, grants, "", waited, held, remaining)


def _seldom(effect: Effect, at: Nanos, now: Nanos, held: Callable[[LeaseId], Held | None]) -> Entry | None:
    """Of what most steps have nothing of."""
    match effect:
        case Queued():
            return Entry(at, What.QUEUED, _names(effect.claims), effect.client, claims=effect.claims)
        case Denied():
            names, reason = _names(effect.claims), effect.denial.reason.value
            return Entry(at, What.REFUSED, names, effect.client, 0, effect.claims, reason, effect.waited)
        case Abandoned():
            names = _names(effect.claims)
            return Entry(at, What.GIVEN_UP, names, effect.client, claims=effect.claims, waited=effect.waited)
        case Refunded():
            return _of_lease(at, What.REFUNDED, effect)
        case LeaseOrphaned(lease, deadline):
            lives = held(lease)
            grants, client = ((), "") if lives is None else (lives.grants, lives.client)
            return Entry(at, What.ORPHANED, _names(grants), client, lease, grants, remaining=deadline - now)
        case _:
            return None  # an answer to whoever asked, or an act, which is told by whoever carries it out


def _names(named: Sequence[Claim | Grant]) -> tuple[str, ...]:
    """Each once: a malformed ask may name a resource twice."""
    return tuple(dict.fromkeys([each.resource for each in named]))
