"""What was granted, read: the bytes of a lease, but for its id, say the same again and again.

It knows how a lease is on the wire. It must never know who asked for it.
"""

from dataclasses import dataclass, field
from typing import Final

from governor.client.asks import SECOND, Claims
from governor.client.held import Member, safe
from governor.unopened import leading, unopened
from governor.v1 import governor_pb2 as pb

# SessionResponse as it comes, but that the lease of each grant is bytes.
Unopened: Final = unopened(pb.SessionResponse, {("SessionGrant", "lease")})

# What is remembered is bounded; when that is full, all of it is forgotten.
MAX_KNOWN: Final = 256
MAX_BYTES: Final = 512


@dataclass(slots=True, frozen=True)
class Terms:
    """All of a lease but its id. ``length`` is None when nothing was lent. Lengths in nanoseconds.

    ``lasts``: for how much of its length it is safe to rely on.
    """

    claims: Claims
    members: tuple[Member, ...]
    length: int | None
    waited: int
    lasts: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lasts", 0 if self.length is None else safe(self.length))


class Grants:
    """The leases of one client, as they are told."""

    def __init__(self) -> None:
        self._known: dict[bytes, Terms] = {}

    def __len__(self) -> int:
        return len(self._known)

    def read(self, raw: bytes) -> tuple[int, Terms]:
        """The id of a lease and the rest of it. Raises DecodeError."""
        number, rest = leading(pb.Lease.ID_FIELD_NUMBER, raw)
        known = self._known.get(rest) if number else None
        if known is not None:
            return number, known
        lease = pb.Lease.FromString(raw)
        terms = _terms(lease)
        if 0 < number == lease.id:
            self._know(rest, terms)
        return lease.id, terms

    def read_alike(self, raw: bytes) -> Terms:
        """All that is said of several leases at once, which is without an id. Raises DecodeError."""
        terms = self._known.get(raw)
        if terms is None:
            terms = _terms(pb.Lease.FromString(raw))
            self._know(raw, terms)
        return terms

    def _know(self, raw: bytes, terms: Terms) -> None:
        # A wait is hardly ever the same, and members have attributes that a program might write to.
        if not (terms.members or terms.waited) and len(raw) <= MAX_BYTES:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[raw] = terms


def _terms(lease: pb.Lease) -> Terms:
    members: list[Member] = []
    for grant in lease.grants:
        pool = grant.resource
        members += [Member(m.id, dict(m.attributes), m.generation, pool) for m in grant.members]
    length = None
    if lease.HasField("remaining"):
        length = lease.remaining.seconds * SECOND + lease.remaining.nanos
    waited = lease.waited.seconds * SECOND + lease.waited.nanos
    claims = tuple([(grant.resource, grant.permits) for grant in lease.grants])
    return Terms(claims, tuple(members), length, waited)
