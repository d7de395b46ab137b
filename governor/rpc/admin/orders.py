"""Orders: an operator revokes leases, and steers resources and the members of pools.

It knows what each order means for the driver, and when it is put on record who gave it. It must never know how it came.

What is ordered is in force at once, and on record before it is answered. While the state cannot be written it is in
force all the same: an operator who steps in then has reasons.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final

from governor.clock import Clock
from governor.config.override import SettingError, overridden
from governor.core.effects import LeaseResult, LeaseState, Steered, SteerProblem, SteerRefused
from governor.core.limit import LimitSpec
from governor.core.resource import ResourceSpec
from governor.core.types import SECOND, Denial, LeaseId, Nanos, Reason, Said, Standing
from governor.driver import Driver
from governor.entries import Act, What
from governor.rpc import status, translate
from governor.rpc.admin import views
from governor.rpc.calls import Answer
from governor.rpc.fields import MAX_NAME_BYTES, MAX_TEXT_BYTES, Malformed, bounded, length_of
from governor.rpc.status import Hindrance
from governor.sessions import Sessions
from governor.units import DAY, format_duration
from governor.v1 import admin_pb2
from governor.wording import count

SHORTEST: Final[Nanos] = SECOND
LONGEST: Final[Nanos] = 30 * DAY
# Leases that are ended in one turn of the event loop: with all that follows from it, two milliseconds.
AT_ONCE: Final = 250
# Settings of one override; no limit has as many.
MAX_SETTINGS: Final = 16
# Ids that are named in words.
_TOLD: Final = 20

_STEERED: Final = {
    SteerProblem.REMOVED: Hindrance.REMOVED,
    SteerProblem.OTHER_KIND: Hindrance.OTHER_KIND,
    SteerProblem.POOL: Hindrance.A_POOL,
    SteerProblem.NOT_A_POOL: Hindrance.NOT_A_POOL,
    SteerProblem.UNKNOWN_MEMBER: Hindrance.UNKNOWN_MEMBER,
}
_STANDINGS: Final = {
    Standing.PAUSED: What.PAUSED,
    Standing.DRAINING: What.DRAINING,
    Standing.OPEN: What.RESUMED,
}


class Orders:
    """What operators may order of one daemon. Each is answered with a message, or with why it changed nothing.

    All raise `Malformed` for what makes no sense; ``said``: who says he gives the order, and why.
    """

    def __init__(self, driver: Driver, clock: Clock, sessions: Sessions, act: Act) -> None:
        self._driver = driver
        self._clock = clock
        self._sessions = sessions
        self._act = act

    # --- leases ---------------------------------------------------------------------------------------------

    async def revoke(self, request: admin_pb2.RevokeRequest, said: Said) -> Answer:
        """End leases: those that are named, or all of a client or a session."""
        named = bool(request.lease_ids) + bool(request.client) + bool(request.session)
        if named != 1:
            raise Malformed("lease_ids", "exactly one of lease_ids, client and session")
        if request.lease_ids:
            return await self._revoke_named(translate.lease_ids(request.lease_ids), said)
        if request.client:
            bounded("client", request.client, MAX_TEXT_BYTES)
            return await self._revoke_all(self._of_client(request.client), f"client {request.client}", said)
        bounded("session", request.session, MAX_TEXT_BYTES)
        session = self._sessions.named(request.session)
        if session is None:
            return status.hindered(Hindrance.UNKNOWN_SESSION, session=request.session)
        whose = f"session {session.name} of {session.client or 'no name'}"
        return await self._revoke_all(_slices(list(session.leases)), whose, said)

    async def _revoke_named(self, leases: tuple[LeaseId, ...], said: Said) -> Answer:
        results: list[LeaseResult] = []
        covered: set[str] = set()
        try:
            async for some in _slices(leases):
                covered |= self._covered(some)
                results += self._driver.revoke(some, said)
        finally:
            # Also if the caller has gone in the midst of it: what has been done is told.
            if ended := _ended(results):
                self._act(What.REVOCATION, sorted(covered), _leases(ended), said)
        await on_record(self._driver)
        if len(results) == 1 and (refused := status.failed(results[0])) is not None:
            return refused
        response = admin_pb2.RevokeResponse(revoked=len(ended))
        for result in results:
            translate.fill_result(response.results.add(), result)
        return response.SerializeToString()

    async def _revoke_all(self, slices: AsyncIterator[tuple[LeaseId, ...]], whose: str, said: Said) -> Answer:
        covered: set[str] = set()
        revoked = 0
        try:
            async for leases in slices:
                covered |= self._covered(leases)
                revoked += len(_ended(self._driver.revoke(leases, said)))
        finally:
            # As above.
            if revoked:
                self._act(What.REVOCATION, sorted(covered), f"{count(revoked, 'lease')} of {whose}", said)
        await on_record(self._driver)
        return admin_pb2.RevokeResponse(revoked=revoked).SerializeToString()

    async def _of_client(self, client: str) -> AsyncIterator[tuple[LeaseId, ...]]:
        async for leases in _slices(self._driver.lease_ids()):
            views = [self._driver.lease(lease) for lease in leases]
            if theirs := tuple([view.id for view in views if view is not None and view.client == client]):
                yield theirs

    def _covered(self, leases: tuple[LeaseId, ...]) -> set[str]:
        views = [self._driver.lease(lease) for lease in leases]
        return {grant.resource for view in views if view is not None for grant in view.grants}

    # --- resources ------------------------------------------------------------------------------------------

    async def stand(self, resource: str, standing: Standing, said: Said) -> Answer:
        """Pause it, drain it, or open it again."""
        steered = self._steer(resource, "", lambda: self._driver.set_standing(resource, standing, said))
        if isinstance(steered, status.Refusal):
            return steered
        if steered.changed:
            self._act(_STANDINGS[standing], (resource,), said=said)
        await on_record(self._driver)
        return self._answered(resource, admin_pb2.StandingResponse(changed=steered.changed))

    async def set_override(self, request: admin_pb2.SetOverrideRequest, said: Said) -> Answer:
        """Another limit, for a while."""
        resource, length = request.resource, _length(request, "" if request.HasField("length") else ", and none is set")
        declared = self._declared(resource)
        if isinstance(declared, status.Refusal):
            return declared
        if not declared.limit.overridable:
            return status.hindered(Hindrance.A_POOL, resource=resource)
        limit = _limit(declared.limit, request.settings)
        steered = self._steer(resource, "", lambda: self._driver.set_override(resource, limit, length, said))
        if isinstance(steered, status.Refusal):
            return steered
        if steered.changed:
            told = ", ".join([f"{name} {text}" for name, text in sorted(request.settings.items())])
            self._act(What.OVERRIDDEN, (resource,), f"{told} for {format_duration(length)}", said)
        await on_record(self._driver)
        return self._answered(resource, admin_pb2.OverrideResponse(changed=steered.changed))

    async def clear_override(self, request: admin_pb2.ClearOverrideRequest, said: Said) -> Answer:
        """The declared limit again, now."""
        resource = request.resource
        declared = self._declared(resource)
        if isinstance(declared, status.Refusal):
            return declared
        if not declared.limit.overridable:
            return status.hindered(Hindrance.A_POOL, resource=resource)
        steered = self._steer(resource, "", lambda: self._driver.set_override(resource, None))
        if isinstance(steered, status.Refusal):
            return steered
        if steered.changed:
            self._act(What.OVERRIDE_OVER, (resource,), "cleared", said)
        await on_record(self._driver)
        return self._answered(resource, admin_pb2.OverrideResponse(changed=steered.changed))

    # --- members --------------------------------------------------------------------------------------------

    async def recycle(self, request: admin_pb2.RecycleMembersRequest, said: Said) -> Answer:
        """One member, or all."""
        resource, member = request.resource, request.member
        order = self._steer(resource, member, lambda: self._driver.recycle(resource, member or None))
        return await self._members(order, What.RECYCLED, resource, member or "all members", said)

    async def quarantine(self, request: admin_pb2.QuarantineMemberRequest, said: Said) -> Answer:
        """One member, for a while or until it is restored."""
        resource, member, length = request.resource, request.member, None
        bounded("member", member, MAX_NAME_BYTES, 1)
        if request.HasField("length"):
            length = _length(request, ", or none, which lasts until the member is restored")
        order = self._steer(resource, member, lambda: self._driver.quarantine(resource, member, length, said))
        until = "until it is restored" if length is None else f"for {format_duration(length)}"
        return await self._members(order, What.QUARANTINED, resource, f"{member} {until}", said)

    async def restore(self, request: admin_pb2.RestoreMemberRequest, said: Said) -> Answer:
        """One member."""
        resource, member = request.resource, request.member
        bounded("member", member, MAX_NAME_BYTES, 1)
        order = self._steer(resource, member, lambda: self._driver.readmit(resource, member))
        return await self._members(order, What.RESTORED, resource, member, said)

    async def _members(
        self, steered: Steered | status.Refusal, what: What, resource: str, detail: str, said: Said
    ) -> Answer:
        if isinstance(steered, status.Refusal):
            return steered
        if steered.changed:
            self._act(what, (resource,), detail, said)
        await on_record(self._driver)
        about, now = frozenset(steered.members), self._clock.now()
        members = [views.member(view, now) for view in self._driver.members(resource) if view.id in about]
        return admin_pb2.MembersResponse(members=members, changed=steered.changed).SerializeToString()

    # --- all of them ----------------------------------------------------------------------------------------

    def _steer(
        self, resource: str, member: str, order: Callable[[], Steered | SteerRefused]
    ) -> Steered | status.Refusal:
        bounded("resource", resource, MAX_NAME_BYTES, 1)
        bounded("member", member, MAX_NAME_BYTES)
        steered = order()
        if isinstance(steered, Steered):
            return steered
        if steered.problem is SteerProblem.UNKNOWN_RESOURCE:
            return status.refusal(Denial(Reason.UNKNOWN_RESOURCE, resource))
        if steered.problem is SteerProblem.OVER:
            raise Malformed("length", "a time that is not over at once")
        return status.hindered(_STEERED[steered.problem], resource=resource, **({"member": member} if member else {}))

    def _declared(self, resource: str) -> ResourceSpec | status.Refusal:
        bounded("resource", resource, MAX_NAME_BYTES, 1)
        declared = self._driver.declared(resource)
        if declared is not None:
            return declared
        if self._driver.resource(resource) is None:
            return status.refusal(Denial(Reason.UNKNOWN_RESOURCE, resource))
        return status.hindered(Hindrance.REMOVED, resource=resource)

    def _answered(self, resource: str, response: admin_pb2.StandingResponse | admin_pb2.OverrideResponse) -> Answer:
        """With the resource as it is now; it may be gone again."""
        seen = self._driver.resource(resource)
        if seen is not None:
            response.resource.CopyFrom(translate.resource(seen, self._clock.now()))
        return response.SerializeToString()


async def on_record(driver: Driver) -> None:
    """All that has been ordered so far is on record, this time or before; or that cannot be.

    Also for an order that changed nothing: it may be the same as one that is only on its way to the disk.
    """
    recorded = driver.commit()
    if not isinstance(recorded, bool):
        await recorded


def _length(request: admin_pb2.SetOverrideRequest | admin_pb2.QuarantineMemberRequest, also: str) -> Nanos:
    """How long it is to last; ``also`` is what else is to be said to whoever gave none that will do."""
    length = length_of("length", request.length)
    if not SHORTEST <= length <= LONGEST:
        expected = f"a duration from {format_duration(SHORTEST)} to {format_duration(LONGEST)}"
        raise Malformed("length", expected + also)
    return length


def _limit(declared: LimitSpec, settings: Mapping[str, str]) -> LimitSpec:
    if len(settings) > MAX_SETTINGS:
        raise Malformed("settings", f"at most {MAX_SETTINGS} settings", len(settings))
    for name in settings:
        bounded("settings", name, MAX_TEXT_BYTES)
    try:
        return overridden(declared, settings)
    except SettingError as error:
        field = f"settings.{status.shown(error.name)}" if error.name else "settings"
        raise Malformed(field, error.expected) from None


def _ended(results: Sequence[LeaseResult]) -> list[LeaseId]:
    return [result.lease for result in results if result.state is LeaseState.REVOKED]


def _leases(ended: Sequence[LeaseId]) -> str:
    named = ", ".join(map(str, ended[:_TOLD]))
    more = f" and {len(ended) - _TOLD} more" if len(ended) > _TOLD else ""
    return f"lease{'s' if len(ended) > 1 else ''} {named}{more}"


async def _slices(leases: Sequence[LeaseId]) -> AsyncIterator[tuple[LeaseId, ...]]:
    """As many as are done in one turn of the event loop, which is given back in between."""
    for start in range(0, len(leases), AT_ONCE):
        if start:
            await asyncio.sleep(0)
        yield tuple(leases[start : start + AT_ONCE])
