"""What the engine answers, in the plain values in which the model states it.

It knows which of an effect's numbers the model can tell, too. It must never know the model's rules.
"""

from governor.core.effects import (
    Abandoned,
    Denied,
    Effect,
    Frozen,
    Granted,
    LeaseEnded,
    LeaseExtended,
    LeaseOrphaned,
    LeaseResult,
    LeaseState,
    OverrideOver,
    Queued,
    Reconfigured,
    ReconfigureRefused,
    Refunded,
    Released,
    Renewed,
    Restored,
    RestoreRefused,
    Revoked,
    Steered,
    SteerRefused,
)
from governor.core.types import Reason
from tests.core.model import Fact


def fact(effect: Effect) -> Fact:
    """One effect as the model states it."""
    match effect:
        case Granted():
            again = "repeated" if effect.repeated else "new"
            return ("granted", effect.ticket, effect.lease, effect.deadline, again)
        case Denied():
            return ("denied", effect.ticket, effect.denial.reason, *numbers(effect))
        case Abandoned():
            return ("abandoned", effect.ticket)
        case Queued():
            return ("queued", effect.ticket, effect.ahead, effect.not_before)
        case Released():
            return ("released", *map(result, effect.results))
        case Renewed():
            return ("renewed", *map(result, effect.results))
        case Revoked():
            return ("revoked", *map(result, effect.results))
        case Reconfigured():
            return ("reconfigured", *map(frozenset, (effect.added, effect.changed, effect.removed)))
        case ReconfigureRefused():
            return ("refused", len(effect.problems))
        case _:
            return _of_leases(effect)


def _of_leases(
    effect: LeaseEnded
    | LeaseExtended
    | LeaseOrphaned
    | Refunded
    | Restored
    | RestoreRefused
    | Frozen
    | Steered
    | SteerRefused
    | OverrideOver,
) -> Fact:
    match effect:
        case LeaseEnded():
            return ("ended", effect.lease, effect.reason, effect.held, effect.left)
        case LeaseExtended():
            return ("extended", effect.lease, effect.left, effect.deadline)
        case LeaseOrphaned():
            return ("orphaned", effect.lease, effect.deadline)
        case Refunded():
            return ("refunded", effect.lease)
        case Frozen():
            return ("frozen", effect.length, effect.leases)
        case Steered():
            return ("steered", effect.resource, effect.changed, *effect.members)
        case SteerRefused():
            return ("not steered", effect.resource, effect.problem)
        case OverrideOver():
            return ("override over", effect.resource)
        case Restored() | RestoreRefused():
            raise AssertionError("the model itself lives on")


def numbers(denied: Denied) -> tuple[object, ...]:
    """The numbers that explain a refusal, for the reasons that have any."""
    denial = denied.denial
    match denial.reason:
        case Reason.MALFORMED:
            return (denial.field,)
        case Reason.UNKNOWN_RESOURCE:
            # Whoever waited for several that a reload removed is told one of them.
            assert denial.resource in {claim.resource for claim in denied.claims}
            return ()
        case Reason.ABOVE_CAPACITY:
            return (denial.resource, denial.asked, denial.limit)
        case Reason.PAUSED | Reason.DRAINING:
            return (denial.resource,) if denial.resource else ()
        case Reason.NONE_FREE | Reason.HOPELESS:
            return (denial.retry_after,)
        case Reason.LEASE_ENDED:
            assert denial.ended is not None
            return (denial.ended.reason, denial.ended.ago)
        case _:
            return ()


def result(one: LeaseResult) -> Fact:
    """The answer for one lease as the model states it."""
    match one.state:
        case LeaseState.RELEASED | LeaseState.REVOKED | LeaseState.UNKNOWN:
            return (one.lease, one.state.value)
        case LeaseState.RENEWED:
            return (one.lease, one.state.value, one.remaining)
        case LeaseState.ENDED:
            assert one.ended is not None
            return (one.lease, one.state.value, one.ended.reason, one.ended.ago)
        case LeaseState.REFUSED:
            assert one.denial is not None
            assert (one.denial.reason, one.denial.field) == (Reason.MALFORMED, "lease")
            return (one.lease, one.state.value)
