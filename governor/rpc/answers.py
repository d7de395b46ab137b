"""Answers on a session: what each thing that a session is told looks like on the wire, as bytes of its own.

It knows that a message of repeated fields is its entries one after the other, so that the bytes of several answers
joined are one message with all of them. It must never know when they are sent, or to whom.

To make a message costs several times what it costs to change one, so grants, which are most of all answers, are
written into the same messages again and again.
"""

from collections.abc import Callable, Sequence
from typing import Final

from google.protobuf.duration_pb2 import Duration

from governor.core.effects import Granted, LeaseResult
from governor.core.types import SECOND, Denial, LeaseId, Nanos, Reason
from governor.rpc import status, translate
from governor.session import MAX_WAITING
from governor.v1 import governor_pb2 as pb

# One for each resource, number of permits and length, of which programs use few. When full, all are made anew.
MAX_FORMS: Final = 1024

# What `Welcome.on_disconnect` says, so that most grants need not: the default of a config that does not say otherwise.
USUAL_GRACE: Final[Nanos] = 2 * SECOND

_CROWDED: Final = f"session: {MAX_WAITING} of its asks wait already; try again when some are answered, or cancel some"

# An answer with one grant, and the two parts of it that change.
_Form = tuple[pb.SessionResponse, pb.SessionGrant, pb.Lease]
# All that a plain grant says but for its op and the id of its lease.
Terms = tuple[str, int, Nanos | None]


class Answers:
    """The answers of one daemon."""

    def __init__(self, grace: Callable[[LeaseId], Nanos | None]) -> None:
        """``grace``: how long a live lease outlives its holder, None is until its deadline; asked for each new form."""
        self._grace = grace
        self._forms: dict[Terms, _Form] = {}
        self._examples: dict[Terms, pb.SessionGrant] = {}

    def __len__(self) -> int:
        return len(self._forms) + len(self._examples)

    def grant(self, op: int, granted: Granted, remaining: Nanos | None) -> bytes:
        """What was asked for as ``op`` is there."""
        key = terms(granted, remaining)
        if key is None:
            response, made, lease = self._form(granted, remaining)
        else:
            form = self._forms.get(key)
            if form is None:
                form = self._form(granted, remaining)
                # An older lease may outlive its session for longer than what is granted now.
                if not granted.repeated:
                    if len(self._forms) >= MAX_FORMS:
                        self._forms.clear()
                    self._forms[key] = form
            response, made, lease = form
        made.op = op
        lease.id = granted.lease
        return response.SerializeToString()

    def alike(self, key: Terms, granted: Granted, ops: Sequence[int], leases: Sequence[LeaseId]) -> bytes:
        """What was asked for as each of ``ops`` is there, with a lease each.

        ``granted`` is one of them, and the ``key`` is its `terms`.
        """
        example = self._examples.get(key)
        if example is None:
            if len(self._examples) >= MAX_FORMS:
                self._examples.clear()
            _, example, lease = self._form(granted, key[2])
            lease.ClearField("id")
            self._examples[key] = example
        made = pb.SessionGrants(ops=ops, lease_ids=leases, grant=example)
        return pb.SessionResponse(alike=[made]).SerializeToString()

    def forget(self) -> None:
        """Resources are declared anew, and how long leases outlive their session with them."""
        self._forms.clear()
        self._examples.clear()

    def _form(self, granted: Granted, remaining: Nanos | None) -> _Form:
        response = pb.SessionResponse()
        made = response.grants.add()
        translate.fill_lease(made.lease, granted, remaining)
        if remaining is not None:
            grace = self._grace(granted.lease)
            if grace is None:
                made.keeps = True
            elif grace != USUAL_GRACE:
                translate.fill_duration(made.on_disconnect, grace)
        return response, made, made.lease

    @staticmethod
    def refusal(op: int, denial: Denial, *, waited: Nanos, lease: LeaseId | None) -> bytes:
        """It is not, and will not be."""
        made = pb.SessionRefusal(
            op=op,
            code=status.TABLE[denial.reason].code.value[0],
            reason=denial.reason.name,
            message=status.sentence(denial, lease=lease, waited=waited),
            resource=status.shown(denial.resource),
            retry_after=_duration(status.retry_after(denial)),
            waited=_duration(waited or None),
        )
        return pb.SessionResponse(refusals=[made]).SerializeToString()

    @staticmethod
    def crowded(op: int) -> bytes:
        """It is not, for its session has enough that wait. As of a line that is full, but of no resource's."""
        reason = Reason.LINE_FULL
        made = pb.SessionRefusal(op=op, code=status.TABLE[reason].code.value[0], reason=reason.name, message=_CROWDED)
        return pb.SessionResponse(refusals=[made]).SerializeToString()

    @staticmethod
    def place(op: int, ahead: int, expected: Nanos | None) -> bytes:
        """It stands in line."""
        made = pb.SessionPlace(op=op, ahead=ahead, expected=_duration(expected))
        return pb.SessionResponse(queued=[made]).SerializeToString()

    @staticmethod
    def result(result: LeaseResult) -> bytes:
        """What became of a lease that was named."""
        response = pb.SessionResponse()
        translate.fill_result(response.results.add(), result)
        return response.SerializeToString()

    @staticmethod
    def ended(result: LeaseResult) -> bytes:
        """A lease is lost."""
        response = pb.SessionResponse()
        translate.fill_result(response.ended.add(), result)
        return response.SerializeToString()


def terms(granted: Granted, remaining: Nanos | None) -> Terms | None:
    """What a grant says that others are likely to say, too; None if there is more to it."""
    grants = granted.grants
    first = grants[0]
    if granted.waited or first.members or first.key or len(grants) > 1:
        return None
    return (first.resource, first.permits, remaining)


def _duration(length: Nanos | None) -> Duration | None:
    if length is None:
        return None
    made = Duration()
    translate.fill_duration(made, length)
    return made
