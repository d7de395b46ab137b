"""The service Admin: each call is let in or sent elsewhere, read, carried out, and answered.

It knows who may call, and who says who he is. It must never know what an order does.
"""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from governor import __version__
from governor.access import Client
from governor.clock import Clock
from governor.core.types import Denial, Reason, Said, Standing
from governor.driver import Driver
from governor.rpc import status, translate
from governor.rpc.admin import views
from governor.rpc.admin.desk import Desk
from governor.rpc.admin.lists import Lists
from governor.rpc.admin.orders import Orders, on_record
from governor.rpc.admin.planned import Planned
from governor.rpc.admin.rights import refusal_of
from governor.rpc.admin.where import Gate, anybody, elsewhere, unix_only
from governor.rpc.arrivals import Methods, methods_of
from governor.rpc.calls import Answer, Context, Method, Telling, Tellings, Told, unary
from governor.rpc.fields import MAX_NAME_BYTES, MAX_TEXT_BYTES, Malformed, bounded
from governor.rpc.guard import Guard
from governor.rpc.reading import Reading
from governor.rpc.session import SessionService
from governor.v1 import admin_pb2

if TYPE_CHECKING:
    from governor.address import Address

ADMIN: Final = admin_pb2.DESCRIPTOR.services_by_name["Admin"].full_name
# Where an operator says who he is.
ACTOR_KEY: Final = "governor-actor"

Request = TypeVar("Request", bound=Message)
# A look is answered at once; an order when it is on record, and it is known who gives it.
Look = Callable[[Request], Answer]
Order = Callable[[Request, Said], Awaitable[Answer]]

_LESS: Final = status.Refusal(
    grpc.StatusCode.UNAVAILABLE, "governor.v1.Admin: its caller may see less than before; call again", ()
)


class AdminService:
    """Answers the operators of one daemon.

    ``addresses`` and ``places``: where all others, and they, are served. ``why_not``: why they are served nowhere.
    """

    def __init__(self, driver: Driver, clock: Clock, sessions: SessionService, desk: Desk, guard: Guard) -> None:
        self._guard = guard
        self.addresses: tuple[Address, ...] = ()
        self.places: tuple[Address, ...] = ()
        self.why_not = desk.where.why_not
        self._driver = driver
        self._clock = clock
        self._sessions = sessions
        self._desk = desk
        self._lists = Lists(driver, clock, sessions.sessions)
        self._orders = Orders(driver, clock, sessions.sessions, desk.act)
        self._planned = Planned(driver, desk)
        self._reading = Reading()
        self._tellings = Tellings(self._reading)
        guard.changed.append(self._tellings.ask_again)

    def stop(self) -> None:
        """End every list; what is watched ends by itself."""
        self._tellings.stop()
        self._reading.stop()

    def handlers(self, gate: Gate) -> Methods:
        """What a server is given; ``gate`` says who may call there."""
        orders, lists = self._orders, self._lists
        methods: dict[str, Method] = {
            "GetInfo": _look(admin_pb2.GetInfoRequest, self._info),
            "GetResource": self._get_resource,
            "Revoke": self._order(admin_pb2.RevokeRequest, orders.revoke),
            "PauseResource": self._order(
                admin_pb2.PauseResourceRequest,
                lambda request, said: orders.stand(request.resource, Standing.PAUSED, said),
            ),
            "ResumeResource": self._order(
                admin_pb2.ResumeResourceRequest,
                lambda request, said: orders.stand(request.resource, Standing.OPEN, said),
            ),
            "DrainResource": self._order(
                admin_pb2.DrainResourceRequest,
                lambda request, said: orders.stand(request.resource, Standing.DRAINING, said),
            ),
            "SetOverride": self._order(admin_pb2.SetOverrideRequest, orders.set_override),
            "ClearOverride": self._order(admin_pb2.ClearOverrideRequest, orders.clear_override),
            "RecycleMembers": self._order(admin_pb2.RecycleMembersRequest, orders.recycle),
            "QuarantineMember": self._order(admin_pb2.QuarantineMemberRequest, orders.quarantine),
            "RestoreMember": self._order(admin_pb2.RestoreMemberRequest, orders.restore),
            "Reload": self._order(admin_pb2.ReloadRequest, self._reload),
            "Diff": self._planned.diff,
        }
        tellings: dict[str, Told] = {
            "ListLeases": _list(admin_pb2.ListLeasesRequest, lists.leases),
            "ListWaiters": _list(admin_pb2.ListWaitersRequest, lists.waiters),
            "ListSessions": _list(admin_pb2.ListSessionsRequest, lists.sessions),
        }
        streams = {
            name: self._tellings.handler(name, self._let_in_to(name, telling, gate))
            for name, telling in tellings.items()
        }
        # It is told of the end, and ends then.
        watch = self._tellings.handler("Watch", self._let_in_to("Watch", self._desk.watch, gate), cut=False)
        calls = {name: unary(name, self._let_in(name, method, gate), self._reading) for name, method in methods.items()}
        return methods_of(ADMIN, {**calls, **streams, "Watch": watch})

    def _let_in(self, name: str, method: Method, gate: Gate) -> Method:
        async def call(raw: bytes, context: Context) -> Answer:
            admitted = self._admitted(name, raw, context, gate)
            if isinstance(admitted, status.Refusal):
                return admitted
            try:
                made = method(raw, context)
                return made if isinstance(made, (bytes, status.Refusal)) else await made
            except Malformed as malformed:
                return status.refusal(malformed.denial)

        return call

    def _let_in_to(self, name: str, told: Told, gate: Gate) -> Telling:
        def tell(raw: bytes, context: Context) -> AsyncGenerator[Answer, None]:
            admitted = self._admitted(name, raw, context, gate)
            if isinstance(admitted, status.Refusal):
                return _only(admitted)

            def again() -> status.Refusal | None:
                now = self._admitted(name, raw, context, gate, asked=False)
                if isinstance(now, status.Refusal):
                    return now
                # What is told from now on would be less: he may ask for that.
                less = admitted is not None and now is not None and admitted.lost_any(now)
                return _LESS if less else None

            self._tellings.of_this_call(again)
            return told(raw, context, admitted)

        return tell

    def _admitted(
        self, name: str, raw: bytes, context: Context, gate: Gate, *, asked: bool = True
    ) -> Client | status.Refusal | None:
        """Who calls that here, or why he may not; None is somebody who may see everything."""
        peer = context.peer()
        if self._guard.policy is None:
            return None if gate(peer) else self._elsewhere()
        if gate is anybody and unix_only(peer):
            return None  # a socket for operators alone: its mode has said that he may
        if not gate(peer) and self._guard.says_nothing(context):
            return self._elsewhere()  # where whoever may open the socket needs to prove nothing
        caller = self._guard.caller(context)
        if isinstance(caller, Denial):
            return status.refusal(caller)
        denial = refusal_of(name, raw, caller, self._guard, asked=asked)
        return caller.client if denial is None else status.refusal(denial)

    def _elsewhere(self) -> status.Refusal:
        return elsewhere(self.places, self.why_not, self._sessions.start)

    def _order(self, request: type[Request], order: Order[Request]) -> Method:
        async def call(raw: bytes, context: Context) -> Answer:
            try:
                asked = request.FromString(raw)
            except DecodeError:
                return status.refusal(translate.undecodable(request))
            said = Said(actor_of(context), reason_of(asked), self._guard.name_of(context))
            return await order(asked, said)

        return call

    # --- looks ----------------------------------------------------------------------------------------------

    def _info(self, _request: admin_pb2.GetInfoRequest) -> Answer:
        about, seen = self._desk.about(), self._driver.snapshot()
        made = admin_pb2.GetInfoResponse(
            version=__version__,
            pid=os.getpid(),
            host=about.host,
            start=self._sessions.start,
            addresses=map(str, self.addresses),
            admin_addresses=map(str, self.places),
            http=about.http,
            state_folder=about.state_folder,
            durability=about.durability,
            state_problem=about.state_problem,
            audit_problem=about.audit_problem,
            config=translate.config_state(self._desk.config()),
            draining=seen.draining,
            resources=len(seen.resources),
            leases=seen.leases,
            waiters=seen.waiters,
            sessions=len(self._sessions.sessions),
            revoked=about.revoked,
            expired=about.expired,
            tracing=about.tracing,
            last_lease_id=self._driver.last_id,
        )
        translate.fill_instant(made.started_at, about.started_at)
        return made.SerializeToString()

    def _get_resource(self, raw: bytes, context: Context) -> Answer | Awaitable[Answer]:
        secrets = self._guard.sees_secrets(context)
        look = partial(self._resource, secrets=secrets)
        return _look(admin_pb2.GetResourceRequest, look)(raw, context)

    def _resource(self, request: admin_pb2.GetResourceRequest, *, secrets: bool) -> Answer:
        name = request.resource
        bounded("resource", name, MAX_NAME_BYTES, 1)
        seen = self._driver.resource(name)
        if seen is None:
            return status.refusal(Denial(Reason.UNKNOWN_RESOURCE, name))
        members, windows = self._driver.members(name), self._driver.windows(name)
        made = views.resource(seen, members, windows, self._clock.now())
        if not secrets:
            for member in made.members:
                member.attributes.clear()
        return made.SerializeToString()

    # --- the config -----------------------------------------------------------------------------------------

    async def _reload(self, _request: admin_pb2.ReloadRequest, said: Said) -> Answer:
        by = f"{said.actor or 'somebody'} (client {said.client})" if said.client else said.actor
        outcome = await self._desk.reload(by)
        await on_record(self._driver)
        return admin_pb2.ReloadResponse(
            problems=outcome.problems,
            added=outcome.added,
            changed=outcome.changed,
            removed=outcome.removed,
            at_next_start=outcome.at_next_start,
            config=translate.config_state(outcome.state),
        ).SerializeToString()


async def _only(answer: Answer) -> AsyncGenerator[Answer, None]:
    yield answer


def _look(request: type[Request], look: Look[Request]) -> Method:
    def call(raw: bytes, _context: Context) -> Answer:
        try:
            asked = request.FromString(raw)
        except DecodeError:
            return status.refusal(translate.undecodable(request))
        return look(asked)

    return call


def reason_of(order: Message) -> str:
    """Why it is given, as far as its giver says. Raises `Malformed`: as of who he is."""
    reason = getattr(order, "reason", "")
    bounded("reason", reason, MAX_TEXT_BYTES)
    return str(reason)


def _list(request: type[Request], told: Callable[[Request, Client | None], AsyncGenerator[Answer, None]]) -> Told:
    def tell(raw: bytes, _context: Context, reader: Client | None) -> AsyncGenerator[Answer, None]:
        try:
            return told(request.FromString(raw), reader)
        except DecodeError:
            return _only(status.refusal(translate.undecodable(request)))

    return tell


def actor_of(context: Context) -> str:
    """Who says he calls; empty when nobody does. Raises `Malformed`: what is on record must be what was said."""
    metadata = context.invocation_metadata() or ()
    said = [value for key, value in metadata if key == ACTOR_KEY]
    if len(said) > 1:
        raise Malformed(ACTOR_KEY, "one value", len(said))
    actor = said[0] if said else ""
    # gRPC lets nothing through but printable ASCII.
    assert isinstance(actor, str), "metadata in text is bytes"
    bounded(ACTOR_KEY, actor, MAX_TEXT_BYTES)
    return actor
