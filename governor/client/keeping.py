"""The leases of a session: kept alive while they are held, given back until the daemon says so, reported when lost.

It knows until when each is safe to rely on, from what the daemon said and when it was last heard of. It must never
know who asked for them. In one sentence: whatever the daemon may have lent to somebody else, we no longer say is ours.

Instants and lengths in nanoseconds of the monotonic clock.
"""

from collections import deque
from itertools import islice
from typing import Final

from governor.client.asks import SECOND
from governor.client.held import Held, State
from governor.v1 import governor_pb2 as pb

NEVER: Final = 1 << 62
_HELD: Final = State.HELD
# A daemon that does not hear of us ends our session after this long without an answer to its ping.
NOTICED: Final = 4 * SECOND

_OFTEN_ENOUGH: Final = 10 * SECOND
_TOO_OFTEN: Final = SECOND // 20
# In one message. Who holds more loses the rest when a connection breaks. Each may be answered by its end, and all
# answers to what is under way must be less than the daemon lets lie unread.
_MOST_CLAIMED: Final = 10_000
_MOST_SAID: Final = 800
_KEEP_ALIVE: Final = pb.SessionRequest(keep_alive=True).SerializeToString()


class Keeping:
    """What is held, and what is on its way back. ``losses`` are for those who held: whoever drives this takes them."""

    def __init__(self) -> None:
        self.losses: list[Held] = []
        self._held: dict[int, Held] = {}
        # Given back by the program: not said yet, and said without an answer so far.
        self._unsaid: dict[int, Held] = {}
        self._said: dict[int, Held] = {}
        # Let go by the program, with the number of the message that says so; 0 while none does.
        self._detached: dict[int, int] = {}
        # The keep-alives under way, oldest first: the message each is in, and when that was sent. The hello is one.
        self._keeping: deque[tuple[int, int]] = deque()
        self._keep_at = NEVER
        self._interval = self._period = _OFTEN_ENOUGH
        self._shortest = NEVER
        # How long the daemon lets leases outlive the stream, unless a grant says otherwise; None: to their end.
        self._outlives: int | None = 2 * SECOND
        # How much longer it lets them live if it dies.
        self._grace = 0
        # Nobody sees us go who knew us: the daemon has said that it ends, or its process is dead.
        self._gone = False
        # From when on somebody may have seen us go who knows us by a hello that was not answered; `NEVER`: nobody has.
        self._missed_at = NEVER
        # When this stream's hello was said; 0 while it was not, and when it was answered.
        self._hello_at = 0
        # Nothing is lost before this; it may be too early, never too late. Any thread may look at it.
        self.look_at = NEVER

    def __len__(self) -> int:
        return len(self._held)

    @property
    def busy(self) -> bool:
        """Whether anything depends on the daemon, or has yet to reach it."""
        return bool(self._held or self._unsaid or self._said or self._detached)

    @property
    def next_loss(self) -> int:
        """Nothing is lost before this; `NEVER` while nothing can be."""
        return self.look_at if self._held else NEVER

    # --- what the program does ----------------------------------------------------------------------------------

    def release(self, held: Held) -> None:
        """Give it back; safe in any state."""
        if self._held.get(held.id) is held:
            del self._held[held.id]
            if held.state is _HELD:
                held.state = State.RELEASED
            self._unsaid[held.id] = held

    def release_all(self) -> None:
        """Give everything back."""
        for held in list(self._held.values()):
            self.release(held)

    def detach(self, held: Held) -> None:
        """Keep it alive no longer; it lives on until its deadline."""
        if self._held.get(held.id) is held:
            del self._held[held.id]
            held.state = State.DETACHED
            self._detached[held.id] = 0

    def let_go(self, lease_id: int) -> None:
        """Somebody gave up adopting it: it is nobody's, unless it is held."""
        if lease_id not in self._held:
            self._detached[lease_id] = 0

    def fail(self) -> None:
        """Nobody keeps them alive any more."""
        for held in self._held.values():
            self._lose(held, "unreachable")
        self._unsaid.update(self._held)
        self._held.clear()

    def disown(self) -> None:
        """Another process has all of them: we are a fork of it."""
        for held in [*self._held.values(), *self._unsaid.values(), *self._said.values()]:
            held.state = State.DETACHED

    # --- what is said -------------------------------------------------------------------------------------------

    def wants_to_speak(self, now: int) -> bool:
        """Whether there is anything to say."""
        if self._unsaid or (now >= self._keep_at and self._held):
            return True
        return bool(self._detached) and 0 in self._detached.values()

    def greet(self, number: int, now: int) -> list[int]:
        """A hello goes out in the message of this number: the leases to claim, since they are ours.

        Those given back or let go are so until the daemon knows it. Held ones beyond what a message can say are lost.
        """
        self._keeping.append((number, now))
        self._hello_at = now
        self._missed_at = min(self._missed_at, now + NOTICED)
        self.look_at = min(self.look_at, now + NOTICED)
        for held in list(islice(self._held.values(), _MOST_CLAIMED, None)):
            # The daemon takes back what is not claimed, and would say no more of it.
            del self._held[held.id]
            self._lose(held, "unclaimed")
        return [*self._held, *self._unsaid, *self._detached][:_MOST_CLAIMED]

    def say(self, parts: list[bytes], number: int, now: int) -> None:
        """Add what there is to say to the message of this number."""
        if self._unsaid:
            now_said = self._unsaid
            if len(now_said) <= _MOST_SAID:
                self._unsaid = {}
            else:
                now_said = dict(islice(now_said.items(), _MOST_SAID))
                for lease_id in now_said:
                    del self._unsaid[lease_id]
            given = pb.SessionRequest(releases=[held.id for held in now_said.values() if not held.outcome])
            for held in now_said.values():
                if held.outcome:
                    given.outcomes.add(lease_id=held.id, outcome=held.outcome)
            self._said.update(now_said)
            parts.append(given.SerializeToString())
        if self._detached:
            detached = [lease_id for lease_id, message in self._detached.items() if not message][:_MOST_SAID]
            if detached:
                parts.append(pb.SessionRequest(detaches=detached).SerializeToString())
                self._detached.update(dict.fromkeys(detached, number))
        if now >= self._keep_at and self._held:
            parts.append(_KEEP_ALIVE)
            self._keeping.append((number, now))
            self._keep_at = now + self._period

    def _set_pace(self, *, shortest: int) -> None:
        """How often to keep alive what is held, the ``shortest`` of which is so long."""
        self._shortest = shortest
        self._period = max(_TOO_OFTEN, min(self._interval, shortest // 3))

    # --- what is heard ------------------------------------------------------------------------------------------

    def welcomed(self, welcome: pb.Welcome) -> None:
        """The daemon told its terms."""
        if welcome.HasField("keep_alive"):
            self._interval = welcome.keep_alive.ToNanoseconds()
            self._set_pace(shortest=self._shortest)
        self._outlives = welcome.on_disconnect.ToNanoseconds() if welcome.HasField("on_disconnect") else None
        self._grace = welcome.restart_grace.ToNanoseconds()
        # What its first message claimed it has renewed before it said so.
        self._gone, self._hello_at, self._missed_at = False, 0, NEVER

    def stopping(self) -> None:
        """The daemon has said that it ends, and that it takes nobody for gone any more."""
        self._gone, self.look_at = True, 0

    def hear(self, said: pb.SessionResponse) -> None:
        """Take in what a message says of leases; its grants are told one by one, by `hold`."""
        given = self._said
        for lease_id in list(said.released):
            given.pop(lease_id, None)
        for results in (said.results, said.ended):
            for result in results:
                self._told(result)
        if said.handled:
            self._done(said.handled)

    def outlives(self, granted: pb.SessionGrant) -> int | None:
        """How long a lease lives on when the stream ends."""
        if granted.HasField("on_disconnect"):
            return granted.on_disconnect.ToNanoseconds()
        return None if granted.keeps else self._outlives

    def hold(self, held: Held, length: int, *, since: int, firm: bool, heard_at: int, now: int) -> None:
        """It was granted, and the daemon counts its length from ``since`` or later: for sure, if that is ``firm``.

        By that it is ours ``until``. ``heard_at``: until then at least, whoever granted it had not missed us.
        """
        former = self._held.get(held.id)
        if former is not None:
            former.state = State.DETACHED  # adopted from ourselves
        self._held[held.id] = held
        # Without a call for each: this is done for every grant.
        until = held.until
        if held.outlives is not None:
            alone_until = heard_at + NOTICED + held.outlives - held.outlives // 10
            if alone_until < until:  # noqa: PLR1730
                until = alone_until
        if until <= now:
            self._give_up(held)
            return
        if until < self.look_at:  # noqa: PLR1730 - `min` is a call
            self.look_at = until
        if length < self._shortest:
            self._set_pace(shortest=length)
        # Not from now: the answer may have been long on its way, and a third of its length must be left for the next.
        keep_at = since + self._period if firm else now
        if keep_at < self._keep_at:  # noqa: PLR1730
            self._keep_at = keep_at

    def _told(self, result: pb.LeaseResult) -> None:
        """What became of a lease, other than that it was given back as asked."""
        if result.state == pb.LeaseResult.RENEWED:
            held = self._held.get(result.lease_id)
            if held is not None and self._keeping:
                _, since = self._keeping[0]
                held.shorten(result.remaining.ToNanoseconds(), since)
                self.look_at = 0
                self._set_pace(shortest=min(self._shortest, held.length or NEVER))
                self._keep_at = min(self._keep_at, since + self._period)
            return
        self._said.pop(result.lease_id, None)
        held = self._held.pop(result.lease_id, None)
        if held is not None:
            self._lose(held, result.ended.reason if result.HasField("ended") else "unknown")

    def _done(self, handled: int) -> None:
        """So many of our messages are done: what they let go is gone, and what we hold was renewed by the last of them.

        By their number, since the daemon says ``kept_alive`` once however many keep-alives it has done by then.
        """
        for lease_id in [each for each, message in self._detached.items() if 0 < message <= handled]:
            del self._detached[lease_id]
        since: int | None = None
        while self._keeping and self._keeping[0][0] <= handled:
            _, since = self._keeping.popleft()
        if since is not None:
            for held in self._held.values():
                held.extend(since)
            self.look_at = 0

    def disconnected(self, now: int) -> None:
        """The stream is gone."""
        self._unsaid = {**self._said, **self._unsaid}
        self._said = {}
        self._detached = dict.fromkeys(self._detached, 0)
        self._keeping.clear()
        if self._hello_at:
            self._missed_at = min(self._missed_at, self._hello_at)
            self._hello_at = 0
        self.look_at = now

    def died(self, now: int, heard_at: int) -> None:
        """The process of the daemon that welcomed us last is dead, and our stream to it is gone.

        What it let live until now it can end no more: that lives on, and by the grace longer, when the next one begins.
        """
        self.look_at = now
        self.look(now, heard_at, connected=False)
        for held in self._held.values():
            held.spare(self._until(held, heard_at), self._grace)
        for given in self._unsaid.values():
            given.spare(given.until, self._grace)
        self._gone, self.look_at = True, now

    # --- time ---------------------------------------------------------------------------------------------------

    def next_deadline(self, *, may_speak: bool) -> int:
        """When `look` must be called or, if one may speak, something has to be said; `NEVER` when not at all."""
        return min(self.look_at, self._keep_at if may_speak and self._held else NEVER)

    def look(self, now: int, heard_at: int, *, connected: bool) -> None:
        """Those past their deadline are lost, and so are those that the daemon may have taken for abandoned."""
        if now < self.look_at:
            return
        first, shortest = NEVER, NEVER
        alone = _alone(heard_at, connected=connected)
        for held in list(self._held.values()):
            until = self._until(held, alone)
            # Somebody who looked at the clock may have been told that it is lost.
            if until <= now or held.state is State.LOST:
                self._give_up(held)
                continue
            first = min(first, until)
            shortest = min(shortest, held.length or NEVER)
        if not self._held:
            self._keep_at = NEVER
        for given in (self._unsaid, self._said):
            # These have ended by themselves by now: the daemon need not be told.
            for held in list(given.values()):
                if held.ends_at <= now:
                    del given[held.id]
                else:
                    first = min(first, held.ends_at)
        self.look_at = first
        self._set_pace(shortest=shortest)

    def ours_until(self, held: Held, heard_at: int, *, connected: bool) -> int:
        """Until when `look` leaves it ours if nothing more is heard; for any thread."""
        return self._until(held, _alone(heard_at, connected=connected))

    def _until(self, held: Held, alone: int) -> int:
        """Until when a lease is ours for sure, of which whoever granted it may have taken us for gone at ``alone``."""
        return min(held.until, (self._missed_at if self._gone else alone) + _relied_on(held.outlives))

    def _give_up(self, held: Held) -> None:
        """The daemon may have lent it to somebody else."""
        del self._held[held.id]
        self._lose(held, "unreachable")
        # If it lives after all, nobody may keep it alive with the others.
        self._unsaid[held.id] = held

    def _lose(self, held: Held, reason: str) -> None:
        if held.state is State.HELD:  # and not just given back, which is on its way to us
            held.lose(reason)
        if held.state is State.LOST:
            self.losses.append(held)


def _alone(heard_at: int, *, connected: bool) -> int:
    """When the daemon may have taken us for gone, at the earliest."""
    return heard_at + (NOTICED if connected else 0)


def _relied_on(outlives: int | None) -> int:
    """For how long after the daemon may have seen us go a lease is still ours for sure."""
    return NEVER if outlives is None else outlives - outlives // 10
