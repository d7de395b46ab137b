"""Refusals: what a program is told of an ask that was refused.

It knows the statuses of gRPC. It must never know whose ask it was, or whether it is asked again.
"""

from typing import Final

from governor.client.asks import SECOND
from governor.client.errors import GovernorError, LeaseLost, NotGranted
from governor.v1 import governor_pb2 as pb

# What no repetition changes: INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, OUT_OF_RANGE, UNAUTHENTICATED.
_FOR_GOOD: Final = frozenset({3, 5, 7, 11, 16})
# Of an adoption, that the lease is no more: NOT_FOUND and FAILED_PRECONDITION.
_NO_MORE: Final = frozenset({5, 9})


def told(refusal: pb.SessionRefusal, adopt: int) -> GovernorError:
    """What to raise; ``adopt``: the lease that was to be adopted, 0 if it was an ask for another."""
    if adopt and refusal.code in _NO_MORE:
        return LeaseLost(refusal.message, lease=adopt, reason=refusal.reason.lower())
    retry_after = refusal.retry_after.ToNanoseconds() / SECOND if refusal.HasField("retry_after") else None
    return NotGranted(
        refusal.message,
        reason=refusal.reason.lower(),
        resource=refusal.resource,
        retry_after=retry_after,
        never=refusal.code in _FOR_GOOD,
    )
