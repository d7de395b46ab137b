"""The service Governor: each call is read, carried to the driver, and answered, whatever happens.

It knows the life of a call: its deadline, its cancellation, its reply that may not arrive. It must never know how
a permit is decided.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from google.protobuf.message import DecodeError

from governor.access import Verb
from governor.clock import Clock
from governor.core.effects import Denied, Granted, LeaseResult, Queued
from governor.core.types import SECOND, Claim, Denial, LeaseId, Nanos, Reason, TicketId
from governor.driver import Driver
from governor.rpc import status, translate
from governor.rpc.arrivals import Methods, methods_of
from governor.rpc.asks import Asks
from governor.rpc.calls import Answer, Context, Method, Tellings, unary
from governor.rpc.delivery import Delivery
from governor.rpc.gathering import Gathering
from governor.rpc.guard import Caller, Guard
from governor.rpc.listing import Listing
from governor.rpc.reading import Reading
from governor.rpc.replies import Replies
from governor.rpc.session import SessionService
from governor.rpc.traces import NO_TRACE, trace_of
from governor.tracing import ACQUIRE
from governor.v1 import governor_pb2 as pb

SERVICE: Final = pb.DESCRIPTOR.services_by_name["Governor"].full_name

# A call's wait ends a little before its deadline: the answer then says what the matter was, where DEADLINE_EXCEEDED
# would not, and no grant is made that nobody stays to receive. The deadline we see is later than the caller's: gRPC
# rounds it up by as much as 1 % on the wire, and sends one from before again if that is at most 3 % longer. The rest
# is for the answer's way, a tenth at most of what is left.
_WIRE_SHARE: Final = 0.04
_ANSWER_SECONDS: Final = 0.02
_ANSWER_SHARE: Final = 0.1


class GovernorServicer:
    """Answers the calls of one daemon."""

    def __init__(
        self,
        driver: Driver,
        clock: Clock,
        sessions: SessionService,
        guard: Guard,
        listing: Listing,
    ) -> None:
        self._guard = guard
        self._sessions = sessions
        self._listing = listing
        self._driver = driver
        self._clock = clock
        self._delivery = Delivery(driver.abandon)
        self._gathering = Gathering(driver)
        self._asks = Asks()
        self._replies = Replies()

    def handlers(self) -> Methods:
        """What a server is given."""
        methods: dict[str, Method] = {
            "Acquire": self._acquire,
            "Release": self._release,
            "Renew": self._renew,
        }
        reading = Reading()
        handlers = {name: unary(name, method, reading) for name, method in methods.items()}
        lists = Tellings(reading).handler("ListResources", self._listing.tell, cut=False)
        return methods_of(SERVICE, handlers | {"ListResources": lists, "Session": self._sessions.handler()})

    def operators_handlers(self) -> Methods:
        """What a server for operators alone is given: they look first at what there is."""
        lists = Tellings(Reading()).handler("ListResources", self._listing.tell_operator, cut=False)
        return methods_of(SERVICE, {"ListResources": lists})

    def _acquire(self, raw: bytes, context: Context) -> Answer | Awaitable[Answer]:
        follower = self._driver.follower
        if self._guard.policy is not None:
            caller = self._guard.caller(context)
            if follower is not None:
                # What is traced is not for a stranger to decide.
                known = not isinstance(caller, Denial)
                follower.asked(ACQUIRE, *(trace_of(context.invocation_metadata() or ()) if known else NO_TRACE))
            return self._acquire_as(caller, raw, context)
        if follower is not None:
            follower.asked(ACQUIRE, *trace_of(context.invocation_metadata() or ()))
        ask = self._asks.read(raw)
        if isinstance(ask, Denial):
            return self._refused(ask)
        if ask.request_id and not ask.client:
            return self._refused(translate.NAMELESS, ask)
        answer = self._driver.ask(
            ask.claims,
            client=ask.client,
            wait=_patience(ask.wait, context.time_remaining()),
            lease=ask.lease,
            request_id=ask.request_id,
            labels=ask.labels,
        )
        if isinstance(answer, Queued):
            return self._answered_later(answer.ticket)
        return self._answered(answer)

    def _acquire_as(self, caller: Caller | Denial, raw: bytes, context: Context) -> Answer | Awaitable[Answer]:
        """The same for a client that is known, under the name by which it is."""
        if isinstance(caller, Denial):
            return self._refused(caller)
        ask = self._asks.read(raw)
        if isinstance(ask, Denial):
            return self._refused(ask, client=caller.client.name)
        denial = self._guard.refusal_of_ask(caller, ask.claims, ask.lease, ask.request_id)
        if denial is not None:
            return self._refused(denial, ask, caller.client.name)
        answer = self._driver.ask(
            ask.claims,
            client=caller.client.name,
            wait=_patience(ask.wait, context.time_remaining()),
            lease=self._guard.length(caller, ask.claims, ask.lease),
            request_id=ask.request_id,
            labels=ask.labels,
        )
        if isinstance(answer, Queued):
            return self._answered_later(answer.ticket, caller, ask.claims)
        return self._answered(answer)

    def _refused(self, denial: Denial, ask: translate.Ask | None = None, client: str = "") -> Answer:
        """An ask that does not get to the driver."""
        if self._driver.follower is not None:
            self._driver.follower.refused(
                denial, () if ask is None else ask.claims, client or (ask.client if ask else "")
            )
        return status.refusal(denial)

    async def _answered_later(
        self, ticket: TicketId, caller: Caller | None = None, claims: tuple[Claim, ...] = ()
    ) -> Answer:
        policy = self._guard.policy
        answer = await self._driver.answer(ticket)
        if policy is not self._guard.policy:
            # What he was allowed when he asked is not what he is now that it is his turn.
            denial = self._guard.again(caller, Verb.ACQUIRE, [claim.resource for claim in claims])
            if isinstance(denial, Denial):
                self._driver.abandon(ticket)
                return status.refusal(denial)
        answered = self._answered(answer)
        return answered if isinstance(answered, (bytes, status.Refusal)) else await answered

    def _answered(self, answer: Granted | Denied) -> Answer | Awaitable[Answer]:
        """What the caller is told, once it is on record; for the last step of a handler only."""
        if isinstance(answer, Denied):
            return status.refusal(answer.denial, waited=answer.waited)
        recorded = self._gathering.commit()
        if recorded is True:
            return self._granted(answer)
        if recorded is False:
            return self._taken_back(answer)
        return self._recorded(answer, recorded)

    async def _recorded(self, answer: Granted, recorded: Awaitable[bool]) -> Answer:
        """The same, when that takes its time."""
        try:
            good = await recorded
        except asyncio.CancelledError:
            self._driver.abandon(answer.ticket)
            raise
        return self._granted(answer) if good else self._taken_back(answer)

    def _taken_back(self, answer: Granted) -> Answer:
        """Nothing can be put on record; of leases that are, it may be repeated that they were granted."""
        stands = self._driver.past if answer.deadline is None else self._driver.held
        if answer.repeated and stands(answer.lease) is not None:
            return self._granted(answer)
        self._driver.abandon(answer.ticket)
        return status.refusal(Denial(Reason.STATE_UNWRITABLE, answer.grants[0].resource))

    def _granted(self, answer: Granted) -> Answer:
        try:
            reply = self._replies.acquired(answer, now=self._clock.now())
        except BaseException:
            self._driver.abandon(answer.ticket)
            raise
        self._delivery.watch(answer.ticket)
        return reply

    def _release(self, raw: bytes, context: Context) -> Answer | Awaitable[Answer]:
        caller = None if self._guard.policy is None else self._guard.caller(context)
        if isinstance(caller, Denial):
            return status.refusal(caller)
        try:
            request = pb.ReleaseRequest.FromString(raw)
        except DecodeError:
            return status.refusal(translate.undecodable(pb.ReleaseRequest))
        ask = translate.release(request)
        if isinstance(ask, Denial):
            return status.refusal(ask)
        leases, outcome = ask
        if caller is None:
            results = self._driver.release(leases, outcome)
        else:
            foreign = self._guard.foreign(caller, leases)
            results = _but_for(foreign, leases, lambda own: self._driver.release(own, outcome))
        refused = _refused(results)
        if refused is not None:
            return refused
        reply = self._replies.released(results)
        # Whether or not it can be put on record: what was given back is given back.
        recorded = self._gathering.commit()
        return reply if isinstance(recorded, bool) else _after(recorded, reply)

    def _renew(self, raw: bytes, context: Context) -> Answer | Awaitable[Answer]:
        caller = None if self._guard.policy is None else self._guard.caller(context)
        if isinstance(caller, Denial):
            return status.refusal(caller)
        try:
            request = pb.RenewRequest.FromString(raw)
        except DecodeError:
            return status.refusal(translate.undecodable(pb.RenewRequest))
        ask = translate.renew(request)
        if isinstance(ask, Denial):
            return status.refusal(ask)
        leases, length = ask
        if caller is None:
            results = self._driver.renew(leases, length)
        else:
            if (denial := self._guard.refusal_of_length(caller, length)) is not None:
                return status.refusal(denial)
            foreign, most = self._guard.foreign(caller, leases, renew=True), caller.client.max_lease
            results = _but_for(foreign, leases, lambda own: self._driver.renew(own, length, most))
        refused = _refused(results)
        if refused is not None:
            return refused
        reply = translate.renewed(results).SerializeToString()
        recorded = self._gathering.commit()
        return reply if isinstance(recorded, bool) else _after(recorded, reply)


def _but_for(
    foreign: Mapping[LeaseId, LeaseResult],
    leases: tuple[LeaseId, ...],
    do: Callable[[tuple[LeaseId, ...]], tuple[LeaseResult, ...]],
) -> tuple[LeaseResult, ...]:
    """What becomes of each of these: it is done to those that are not ``foreign``."""
    if not foreign:
        return do(leases)
    own = tuple(lease for lease in leases if lease not in foreign)
    done = iter(do(own) if own else ())
    return tuple(foreign[lease] if lease in foreign else next(done) for lease in leases)


async def _after(recorded: Awaitable[bool], reply: bytes) -> Answer:
    await recorded
    return reply


def _patience(wait: Nanos | None, left: float | None) -> Nanos | None:
    """How long to stand in line: as asked, but no longer than the call has ``left`` (seconds; None: no deadline)."""
    if left is None:
        return wait
    early = left * _WIRE_SHARE + min(_ANSWER_SECONDS, left * _ANSWER_SHARE)
    most = int((left - early) * SECOND)
    return most if wait is None else min(wait, most)


def _refused(results: tuple[LeaseResult, ...]) -> status.Refusal | None:
    """The failure of the one lease that a call was about; of several, each result says its own."""
    return status.failed(results[0]) if len(results) == 1 else None
