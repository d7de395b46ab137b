"""Session: one client process, what it holds and what it waits for.

It knows what a client may want, and what becomes of it all when that client is gone. It must never know how a client is
reached, nor decide anything about permits. In one sentence: a lease is of one session or of none, and an ask that
waits is of one that can be told.

Each move is synchronous. Between two of one message anything may happen, if that takes long.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from governor.belongings import Belongings, Hello, Shared
from governor.core.effects import Denied, Granted, LeaseResult, LeaseState, Queued
from governor.core.types import Claim, Denial, LeaseId, Nanos, Outcome, Reason, TicketId
from governor.driver import Answer
from governor.voice import Voice

# How many asks of one session may wait. A program with more than that has lost count.
MAX_WAITING: Final = 10_000

_RELEASED: Final = LeaseState.RELEASED
_NO_TICKET: Final = TicketId(0)


class Session(Belongings):
    """One client process: what it holds and what it waits for. ``voice`` is None while it is away.

    ``since``: the instant at which it began, came back, or went away.
    """

    __slots__ = ("_former", "_prefix", "_waiting", "since")

    def __init__(self, shared: Shared, session_id: str, hello: Hello) -> None:
        super().__init__(shared, session_id, hello)
        self.since = shared.driver.now()
        self._prefix = f"{hello.instance}/"
        # Of each op that waits: its ticket, and what it waits for.
        self._waiting: dict[int, tuple[TicketId, tuple[Claim, ...]]] = {}
        # Only while the first message of a resumed session is done: the places of asks that may be repeated.
        self._former: list[TicketId] = []

    @property
    def waiters(self) -> int:
        """How many of its asks wait."""
        return len(self._waiting)

    def request_id(self, op: int) -> str:
        """What an ask under this op is known by, beside the name of the client."""
        return self._prefix + str(op)

    def ticket(self, op: int) -> TicketId | None:
        """That of an ask which waits."""
        known = self._waiting.get(op)
        return None if known is None else known[0]

    # --- coming and going ----------------------------------------------------------------------------------

    def begin(self, hello: Hello, voice: Voice) -> None:
        """Its client is there; what it says to hold is claimed next."""
        if self.voice is not None:
            self.voice.superseded()
        self.voice = voice
        self.since = self._driver.now()
        # They stand in line until `settle`, so that the same asks find their places again. There are some already if
        # whoever came back before has not got so far.
        self._former += [ticket for ticket, _ in self._waiting.values()]
        self._waiting = {}
        self._unclaimed = set(self._leases)

    def claim(self, leases: Iterable[LeaseId]) -> None:
        """Its client holds these, it says."""
        voice = self.voice
        assert voice is not None, "somebody claims who is not there"
        claimed = []
        for lease in leases:
            if self._may_claim(lease):
                claimed.append(lease)
            else:
                voice.ended(LeaseResult(lease, LeaseState.UNKNOWN))
        for result in self._renew(claimed):
            lease, length = result.lease, result.remaining
            if length is None:
                voice.ended(result)
                continue
            former = self._take(lease) or (0, _NO_TICKET, None)
            self._own(lease, former[0], former[1], length)
            if former[2] != length:
                voice.result(result)

    def settle(self) -> Iterator[None]:
        """The first message has been done: what it did not speak of is taken back, for its client never got it.

        One after the other.
        """
        yield from self.spare(0)
        while self._unclaimed:
            lease = self._unclaimed.pop()
            held = self.let_go(lease)
            if held is not None:
                self._driver.abandon(held[1])
            # An adopted one has no ticket, and one that was asked for twice has two.
            if self._driver.held(lease) is not None:
                self._driver.release((lease,), settled=True)
            yield

    def spare(self, most: int) -> Iterator[None]:
        """Give up former places until there are no more than ``most``, which new asks would be added to.

        Whoever comes back again and again in the midst of it would have more each time. The last in line go first, so
        that none is granted because another left, and of asks that were repeated the repetitions.
        """
        while len(self._former) > most:
            self._driver.abandon(self._former.pop())
            yield

    def leave(self, voice: Voice, *, disconnected: bool = True) -> None:
        """Nobody listens to ``voice`` any more: what waits leaves the line, and leases do as their resources say.

        Not ``disconnected``: the daemon itself ends the conversation, and leases are left alone.
        """
        if self.voice is not voice:
            return
        self.voice = None
        self.since = self._driver.now()
        tickets = self._former + [ticket for ticket, _ in self._waiting.values()]
        self._waiting, self._former, self._unclaimed = {}, [], set()
        # One that is granted because another left is taken back as its turn comes.
        for ticket in tickets:
            self._driver.abandon(ticket)
        if disconnected and self._leases:
            self._driver.disconnect(tuple(self._leases))
        if not self._leases:
            self._shared.forget(self)

    # --- what a client may want -----------------------------------------------------------------------------

    def acquire(
        self,
        op: int,
        claims: tuple[Claim, ...],
        wait: Nanos | None,
        lease: Nanos | None,
        labels: tuple[tuple[str, str], ...],
    ) -> None:
        """Ask; the same op of the same instance is the same ask."""
        assert self.voice is not None, "somebody asks who is not there"
        known = self._waiting.get(op)
        if known is not None:
            self.place(op)
            return
        if len(self._waiting) >= MAX_WAITING:
            if (follower := self._driver.follower) is not None:
                follower.refused(Denial(Reason.LINE_FULL), claims, self.client)
            self.voice.crowded(op)
            return
        request_id = self._prefix + str(op)
        answer = self._driver.ask(
            claims, client=self.client, wait=wait, lease=lease, request_id=request_id, labels=labels
        )
        self._answer(op, claims, answer)

    def acquire_alike(
        self,
        ops: Sequence[int],
        claims: tuple[Claim, ...],
        wait: Nanos | None,
        lease: Nanos | None,
        labels: tuple[tuple[str, str], ...],
    ) -> None:
        """The same ask once for each op, as if one after the other."""
        waiting = self._waiting
        if len(waiting) + len(ops) > MAX_WAITING or len(set(ops)) < len(ops) or not waiting.keys().isdisjoint(ops):
            for op in ops:
                self.acquire(op, claims, wait, lease, labels)
            return
        prefix = self._prefix
        request_ids = iter([prefix + str(op) for op in ops])
        done = 0
        while done < len(ops):
            answers = self._driver.ask_alike(request_ids, claims, self.client, wait, lease, labels)
            told = ops[done : done + len(answers)]
            done += len(answers)
            if not self._hold_all(told, answers):
                for op, answer in zip(told, answers, strict=True):
                    self._answer(op, claims, answer)

    def _answer(self, op: int, claims: tuple[Claim, ...], answer: Granted | Denied | Queued) -> None:
        assert self.voice is not None, "somebody is answered who is not there"
        if isinstance(answer, Granted):
            if answer.repeated and answer.deadline is not None:
                self._again(op, answer)
            else:
                self._hold(op, answer)
        elif isinstance(answer, Queued):
            self._waiting[op] = (answer.ticket, claims)
            self._driver.tell(answer.ticket, partial(self._answered, op))
            now = self._driver.stepped_at
            self._queued(op, claims, answer.ahead, answer.not_before - now, waited=0, now=now)
        else:
            self.voice.refused(op, answer.denial, waited=answer.waited)

    def cancel(self, op: int) -> bool:
        """It is not wanted any more: it leaves the line. False if it does not wait, since it was granted meanwhile."""
        known = self._waiting.pop(op, None)
        if known is None:
            return False
        self._driver.abandon(known[0])
        return True

    def take_back(self, ops: Iterable[int]) -> None:
        """What these were granted is given back: its own, and nobody's, which a daemon before us granted as it died."""
        found = [self._driver.lease_of(self.client, self._prefix + str(op)) for op in ops]
        granted = tuple([lease for lease in found if lease is not None and self._owners.get(lease, self) is self])
        if granted:
            self._disown(granted)
            self._driver.release(granted, settled=True)

    def release(self, leases: tuple[LeaseId, ...], outcome: Outcome = Outcome.UNKNOWN) -> None:
        """Give back. Whose lease it is does not matter: whoever knows its id may."""
        assert self.voice is not None, "somebody gives back who is not there"
        self._disown(leases)
        released = []
        for result in self._driver.release(leases, outcome, settled=True):
            if result.state is _RELEASED:
                released.append(result.lease)
            else:
                self.voice.result(result)
        self.voice.released(released)

    def detach(self, lease: LeaseId) -> None:
        """It is nobody's from now on, and lives until its deadline."""
        assert self.voice is not None, "somebody lets go who is not there"
        if self.let_go(lease) is None and self._driver.held(lease) is None:
            # A renewal of what does not live changes nothing, and says what has become of it.
            self.voice.result(self._driver.renew((lease,), most=self.longest)[0])

    def adopt(self, op: int, lease: LeaseId) -> None:
        """This one is its own from now on, and renewed; whoever had it is told that it is gone."""
        assert self.voice is not None, "somebody adopts who is not there"
        result = self._driver.renew((lease,), most=self.longest)[0]
        held = self._driver.held(lease)
        if held is None or result.remaining is None:
            ended = result.ended
            reason = Reason.UNKNOWN_LEASE if ended is None else Reason.LEASE_ENDED
            self.voice.refused(op, Denial(reason, ended=ended), lease=lease)
            return
        former = self._take(lease)
        asked, ticket = (0, _NO_TICKET) if former is None else former[:2]
        self._own(lease, asked, ticket, result.remaining)
        grant = Granted(_NO_TICKET, lease, held.grants, held.deadline, 0, held.client, repeated=True)
        self.voice.granted(op, grant, result.remaining)

    def keep_alive(self, leases: Iterable[LeaseId]) -> None:
        """Renew those of these that it holds."""
        assert self.voice is not None, "somebody keeps alive who is not there"
        for result in self._renew([lease for lease in leases if lease in self._leases]):
            lease, length = result.lease, result.remaining
            held = self._leases.get(lease)
            # What has ended at this very instant has been told as ended.
            if length is not None and held is not None and held[2] != length:
                self._leases[lease] = (held[0], held[1], length)
                self.voice.result(result)

    def kept_alive(self) -> None:
        """All that it holds has been renewed."""
        assert self.voice is not None, "somebody has kept alive who is not there"
        self.voice.kept_alive()

    def place(self, op: int) -> None:
        """Say again where it stands, if it waits."""
        known = self._waiting.get(op)
        if known is None:
            return
        place, waiter = self._driver.place(known[0]), self._driver.waiter(known[0])
        if place is not None and waiter is not None:
            now = self._driver.now()
            self._queued(op, known[1], *place, waited=now - waiter.since, now=now)

    # --- what happens to it ---------------------------------------------------------------------------------

    def _answered(self, op: int, answer: Answer) -> None:
        """An ask that waited has its answer. In a step of the engine, so nothing may be asked of it here."""
        known = self._waiting.get(op)
        if known is None or known[0] != answer.ticket or self.voice is None:
            return
        del self._waiting[op]
        if isinstance(answer, Denied):
            self.voice.refused(op, answer.denial, waited=answer.waited)
        else:
            self._hold(op, answer)

    def _again(self, op: int, granted: Granted) -> None:
        """An ask was repeated whose lease is there: it counts from now, as its client will believe."""
        assert self.voice is not None, "somebody repeats an ask who is not there"
        lease = granted.lease
        result = self._driver.renew((lease,), most=self.longest)[0]
        if result.remaining is None:
            self.voice.refused(op, Denial(Reason.LEASE_ENDED, ended=result.ended), lease=lease)
            return
        former = self._take(lease)
        self._own(lease, op, granted.ticket, result.remaining)
        self.voice.granted(op, granted, result.remaining)
        if former is not None and former[1] != granted.ticket:
            # The new ticket stands for it, so this takes nothing back.
            self._driver.abandon(former[1])

    def _hold(self, op: int, granted: Granted) -> None:
        """What the last step has granted is its own."""
        assert self.voice is not None, "somebody is granted something who is not there"
        deadline = granted.deadline
        if deadline is None:
            self.voice.granted(op, granted, None)
            return
        if granted.repeated:
            self._take(granted.lease)
        length = deadline - self._driver.stepped_at
        self._own(granted.lease, op, granted.ticket, length)
        self.voice.granted(op, granted, length)

    def _hold_all(self, ops: Sequence[int], answers: Sequence[Granted | Denied | Queued]) -> bool:
        """As `_hold`, if each of these asks that are alike was granted just now, and something lent; whether so."""
        assert self.voice is not None, "somebody is granted something who is not there"
        granted: list[Granted] = []
        for answer in answers:
            if not isinstance(answer, Granted) or answer.repeated or answer.deadline is None:
                return False
            granted.append(answer)
        held, owners = self._leases, self._owners
        assert granted[0].deadline is not None, "nothing was lent"
        length = granted[0].deadline - self._driver.stepped_at
        for op, each in zip(ops, granted, strict=True):
            held[each.lease] = (op, each.ticket, length)
            owners[each.lease] = self
        self.voice.all_granted(ops, granted, length)
        return True

    def _queued(
        self, op: int, claims: tuple[Claim, ...], ahead: int, at_least: Nanos, *, waited: Nanos, now: Nanos
    ) -> None:
        assert self.voice is not None, "somebody stands in line who is not there"
        expected = None
        if not self._driver.paused(claims):
            expected = self._shared.pace.expected(claims, ahead, at_least, waited=waited, now=now)
        self.voice.queued(op, ahead, expected)
