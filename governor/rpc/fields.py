"""Fields of requests: what each may hold, whichever message it stands in.

It knows the bounds of texts, lengths and numbers, and raises `Malformed` for what is beyond them. It must never
know which call a message came with, and never refuse for a reason that depends on a resource.
"""

from collections.abc import Mapping
from typing import Final

from google.protobuf.duration_pb2 import Duration

from governor.core.types import MAX_CLAIMS, SECOND, Claim, Denial, Nanos, Outcome, Reason
from governor.v1 import governor_pb2 as pb

MAX_NAME_BYTES: Final = 200
MAX_TEXT_BYTES: Final = 256
MAX_LABELS: Final = 16

# A UTF-8 character has at most four bytes: a text of fewer characters than this needs no counting.
SURELY_SHORT: Final = MAX_NAME_BYTES // 4
# What google.protobuf.Duration allows: 10,000 years, and nanoseconds of the same sign.
_MAX_SECONDS: Final = 315_576_000_000

OUTCOMES: Final = {
    pb.OUTCOME_UNSPECIFIED: Outcome.UNKNOWN,
    pb.OUTCOME_OK: Outcome.OK,
    pb.OUTCOME_BROKEN: Outcome.BROKEN,
    pb.OUTCOME_UNKNOWN: Outcome.UNKNOWN,
}

# The claims, the wait, the length of the lease and the labels of an ask.
Terms = tuple[tuple[Claim, ...], Nanos | None, Nanos | None, tuple[tuple[str, str], ...]]


class Malformed(Exception):  # noqa: N818 - it never leaves the reading of a message
    """Carries the refusal out of a nested reading."""

    def __init__(self, field: str, expected: str, found: int | None = None) -> None:
        self.denial = Denial(Reason.MALFORMED, field=field, expected=expected, asked=found)


def terms_of(request: pb.AcquireRequest | pb.SessionAcquire) -> Terms:
    """What is asked for, and how."""
    labels = request.labels
    return (
        claims_of(request),
        length_of("wait", request.wait) if request.HasField("wait") else None,
        length_of("lease", request.lease) if request.HasField("lease") else None,
        labels_of(labels) if labels else (),
    )


def claims_of(request: pb.AcquireRequest | pb.SessionAcquire) -> tuple[Claim, ...]:
    """Its claims; how many there must be is the engine's business, but not what too many cost."""
    claims = request.claims
    count = len(claims)
    if count > MAX_CLAIMS:
        raise Malformed("claims", f"at most {MAX_CLAIMS} claims", count)
    made = []
    # By index: to iterate over a repeated field costs twice as much.
    for index in range(count):
        claim = claims[index]
        resource, key = claim.resource, claim.key
        if len(resource) > SURELY_SHORT:
            bounded(f"claims[{index}].resource", resource, MAX_NAME_BYTES)
        if key:
            bounded(f"claims[{index}].key", key, MAX_TEXT_BYTES)
        made.append(Claim(resource, claim.permits, key))
    return tuple(made)


def labels_of(labels: Mapping[str, str], field: str = "labels") -> tuple[tuple[str, str], ...]:
    """Free words, in one order."""
    if len(labels) > MAX_LABELS:
        raise Malformed(field, f"at most {MAX_LABELS} labels", len(labels))
    for name, value in labels.items():
        bounded(field, name, MAX_TEXT_BYTES)
        bounded(field, value, MAX_TEXT_BYTES)
    # A map has no order on the wire; sorted, the same ask always reads the same.
    return tuple(sorted(labels.items()))


def outcome_of(number: pb.Outcome.ValueType, field: str = "outcome") -> Outcome:
    """How a pool's member was."""
    outcome = OUTCOMES.get(number)
    if outcome is None:
        raise Malformed(field, "OUTCOME_OK, OUTCOME_BROKEN or OUTCOME_UNKNOWN", number)
    return outcome


def bounded(field: str, text: str, most: int, least: int = 0) -> None:
    """Refuse a text that is too long, or too short."""
    size = len(text) if text.isascii() else len(text.encode())
    if size > most or size < least:
        range_of = f"{least} to {most}" if least else f"at most {most}"
        raise Malformed(field, f"{range_of} bytes of text", size)


def at_least(field: str, number: int, least: int) -> None:
    """Refuse a number that is too small."""
    if number < least:
        raise Malformed(field, f"a number of at least {least}", number)


def nothing(field: str, number: int, why: str) -> None:
    """Refuse a number that is there."""
    if number:
        raise Malformed(field, f"nothing: {why}", number)


def length_of(field: str, duration: Duration) -> Nanos:
    """Nanoseconds of a Duration that is one, and not negative."""
    seconds, nanos = duration.seconds, duration.nanos
    if not (0 <= seconds <= _MAX_SECONDS and 0 <= nanos < SECOND):
        expected = f"a duration: 0 to {_MAX_SECONDS} seconds and 0 to {SECOND - 1} nanos"
        raise Malformed(field, f"{expected}, not {seconds} and {nanos}")
    return seconds * SECOND + nanos
