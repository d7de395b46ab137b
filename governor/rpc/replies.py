"""Replies as they leave: those of the usual shapes are written into the same messages again and again.

It knows that to make a message costs several times what it costs to change one. It must never know when a reply is
due, and never hold a message that somebody else can see: what leaves is bytes.

`translate` says what a reply is. Here the same is said in less time for two shapes, which are most of all calls: one
grant that nobody waited for, and one lease given back.
"""

from collections.abc import Sequence
from typing import Final

from google.protobuf.duration_pb2 import Duration

from governor.core.effects import Granted, LeaseResult, LeaseState
from governor.core.types import SECOND, Nanos
from governor.rpc import translate
from governor.v1 import governor_pb2 as pb

# One for each resource and number of permits, of which programs use few. When full, all are forgotten and made anew.
MAX_FORMS: Final = 1024

# Python 3.11 takes as long to look up a member of an enum as to call a function.
_RELEASED: Final = LeaseState.RELEASED

# A reply and the parts of it that change, held because each look at a part costs as well.
_Form = tuple[pb.AcquireResponse, pb.Lease, Duration]


class Replies:
    """The replies of one daemon."""

    def __init__(self) -> None:
        self._forms: dict[tuple[str, int], _Form] = {}
        self._released = pb.ReleaseResponse(results=[pb.LeaseResult(state=pb.LeaseResult.RELEASED)])
        self._result = self._released.results[0]

    def __len__(self) -> int:
        return len(self._forms)

    def acquired(self, granted: Granted, *, now: Nanos) -> bytes:
        """The lease, with what is left of it by ``now``."""
        grant = granted.grants[0]
        deadline = granted.deadline
        if deadline is None or granted.waited or grant.members or grant.key or len(granted.grants) > 1:
            return translate.acquired(granted, now=now).SerializeToString()
        form = self._forms.get((grant.resource, grant.permits))
        if form is None:
            form = self._form(granted, now)
        response, lease, remaining = form
        lease.id = granted.lease
        remaining.seconds, remaining.nanos = divmod(max(0, deadline - now), SECOND)
        return response.SerializeToString()

    def released(self, results: Sequence[LeaseResult]) -> bytes:
        """What became of each lease."""
        result = results[0]
        if len(results) > 1 or result.state is not _RELEASED:
            return translate.released(results).SerializeToString()
        self._result.lease_id = result.lease
        return self._released.SerializeToString()

    def _form(self, granted: Granted, now: Nanos) -> _Form:
        """What is the same in all replies of this shape, and the parts that are not."""
        if len(self._forms) >= MAX_FORMS:
            self._forms.clear()
        response = translate.acquired(granted, now=now)
        form = (response, response.lease, response.lease.remaining)
        grant = granted.grants[0]
        self._forms[grant.resource, grant.permits] = form
        return form
