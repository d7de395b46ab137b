"""Access: who may do what, decided in one place.

It knows the clients that the config declares, and what each of them may do to which resources. It must never know how a
caller proves who it is, nor count what it has: see `Allowance`. A refusal is data, and has changed nothing.
"""

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from governor.core.limit import LimitSpec
from governor.core.types import Denial, Nanos, Reason

ALL: Final = "*"


class Verb(StrEnum):
    """What a client may do. Who may step in may also read."""

    ACQUIRE = "acquire"
    READ = "read"
    ADMIN = "admin"


# In the sentence of a refusal, after "may not": of one resource, of none in particular, of the daemon as a whole.
_TOLD: Final = {
    Verb.ACQUIRE: ("acquire it", "acquire", "acquire"),
    Verb.READ: ("look at it", "look at resources", "look at the whole daemon"),
    Verb.ADMIN: ("step in", "step in", "step in for the whole daemon"),
}


@dataclass(slots=True, frozen=True)
class Rate:
    """So many ``asks`` in a ``period``, and the ``limit`` that counts them."""

    asks: int
    period: Nanos
    limit: LimitSpec


@dataclass(slots=True, frozen=True)
class Client:
    """One client, and what it may do. ``resources`` are names with any number of ``*``.

    ``tokens`` are SHA-256 digests, ``sans`` names in certificates: of hosts, or URIs.

    The caps are None where there is none. ``max_permits``: what its live leases and its asks in line have together;
    ``max_waiters``: its asks in line; ``max_lease``: how long it may be lent anything; ``max_rate``: how often it may
    ask and look.
    """

    name: str
    tokens: tuple[bytes, ...] = ()
    verbs: frozenset[Verb] = frozenset((Verb.ACQUIRE, Verb.READ))
    resources: tuple[str, ...] = (ALL,)
    max_permits: int | None = None
    max_waiters: int | None = None
    max_lease: Nanos | None = None
    max_rate: Rate | None = None
    sans: tuple[str, ...] = ()

    @property
    def capped(self) -> bool:
        """Whether anything of what it has must be counted."""
        return (self.max_permits, self.max_waiters, self.max_rate) != (None, None, None)

    def covers(self, resource: str) -> bool:
        """Whether this is one of its resources."""
        return any(_matches(glob, resource) for glob in self.resources)

    def may(self, verb: Verb) -> bool:
        """Whether it may do that to its resources."""
        return verb in self.verbs or (verb is Verb.READ and Verb.ADMIN in self.verbs)

    def refusal(self, verb: Verb, resources: Iterable[str] = ()) -> Denial | None:
        """Why it may not do that to all of these; without any, to none in particular."""
        one, none, _ = _TOLD[verb]
        if not self.may(verb):
            name = next(iter(resources), "")
            return self._denied(one if name else none, name)
        for resource in resources:
            if not self.covers(resource):
                return self._denied(one, resource)
        return None

    def refusal_of_all(self, verb: Verb) -> Denial | None:
        """Why it may not do that to the daemon as a whole: its resources must be all that there ever are."""
        if self.may(verb) and ALL in self.resources:
            return None
        _, _, everything = _TOLD[verb]
        return self._denied(everything)

    def _denied(self, what: str, resource: str = "") -> Denial:
        return Denial(Reason.PERMISSION_DENIED, resource, expected=what, client=self.name)

    def lost_any(self, after: "Client") -> bool:
        """Whether it may do less than before, ``after`` something has changed."""
        return not (self.verbs <= after.verbs and (ALL in after.resources or set(self.resources) <= {*after.resources}))


class Policy:
    """The clients of one config."""

    def __init__(self, clients: Sequence[Client]) -> None:
        self.clients = tuple(clients)
        self._by_san = {san: client for client in clients for san in client.sans}
        self._tokens = [(token, client) for client in clients for token in client.tokens]

    def of_token(self, digest: bytes) -> Client | None:
        """Whose token has this digest. It takes as long whoever's it is: all of them are compared, each to its end."""
        found: Client | None = None
        for token, client in self._tokens:
            if hmac.compare_digest(token, digest):
                found = client
        return found

    def of_sans(self, sans: Iterable[str]) -> Client | None:
        """Whose certificate has these names; one that has names of two clients is nobody's."""
        found = {client.name: client for san in sans if (client := self._by_san.get(san)) is not None}
        return found.popitem()[1] if len(found) == 1 else None


def digest_of(token: bytes) -> bytes:
    """What is known of a token: its SHA-256. Tokens are long and random, so nothing slower is needed."""
    return hashlib.sha256(token).digest()


UNKNOWN_CALLER: Final = Denial(Reason.UNAUTHENTICATED)
ANOTHERS_LEASE: Final = Denial(Reason.PERMISSION_DENIED, expected="touch a lease of another client")


def _matches(glob: str, name: str) -> bool:
    """Whether a name is what a glob says, in which ``*`` is any text; in time that grows with both and no faster."""
    first, *rest = glob.split(ALL)
    if not rest:
        return glob == name
    if not name.startswith(first):
        return False
    *between, last = rest
    at = len(first)
    for part in between:
        found = name.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(name) - at >= len(last) and name.endswith(last)
