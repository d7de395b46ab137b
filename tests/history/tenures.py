"""Tenures: each lease as its clients know it, from what they logged alone, and until when they may rely on it.

It knows what a client may conclude from what it was told. It must never know whether a daemon is right.
"""

from dataclasses import dataclass, field

from tests.history.log import GRANTED, NEVER, RENEWED, Call, History, Nanos


@dataclass(slots=True)
class Tenure:
    """One lease as its clients know it, by the first ``call`` that was told of it, at ``answered``.

    ``asked`` is when it was first asked for, and ``named`` are the calls that named it afterwards.
    """

    id: int
    call: Call
    asked: Nanos
    answered: Nanos
    named: list[Call] = field(default_factory=list)
    # All that were told of it, the first among them.
    told: list[Call] = field(default_factory=list)

    @property
    def lent(self) -> bool:
        """Whether there is anything to hold; what was only spent has no time."""
        return self.call.remaining is not None

    def until(self) -> Nanos:
        """When its time is over at the earliest, if nobody lets it go.

        A renewal that was answered well proves that it lived until then, whatever was known before. One that says how
        long may have made it shorter, also if it was not answered, and of two at one time either may have been the
        last. One that does not say takes nothing away.

        Cut off, its holder has it for as long as he was told that it outlives him, until a renewal undoes that. If the
        daemon dies that gave it or renewed it last, it has that much more, once.
        """
        if self.call.remaining is None:
            return NEVER
        until, settled, alone = self.call.asked + self.call.remaining, self.answered, False
        last_word: Call | None = None if self.call.again else self.call
        for call in sorted(self.named, key=lambda call: call.asked):
            if call.verb == "gone":
                until, alone = min(until, call.asked + self._outlives(call.asked)), True
            elif call.verb == "died" and last_word is not None and last_word.boot == call.boot:
                until, last_word = until + (last_word.spare if call.asked < until else 0), None
            if call.verb != "renew" or call.result not in {"", RENEWED}:
                continue
            last = call.result == RENEWED and call.asked >= settled
            settled = max(settled, call.asked if call.answered is None else call.answered)
            length = call.remaining if call.remaining is not None else call.length
            if length is None:
                continue
            if call.length is not None:
                until = call.asked + length if last else min(until, call.asked + length)
            elif last:
                until = call.asked + length if alone else max(until, call.asked + length)
            last_word, alone = (call, False) if last else (None, alone)
        return until

    def _outlives(self, at: Nanos) -> Nanos:
        """For how long it outlives its holder, by what he had been told then."""
        return max([call.outlives for call in self.told if (call.answered or NEVER) <= at], default=0)

    def let_go(self, but_for: Call | None = None) -> Nanos:
        """When somebody first set out to give it back, other than by this call."""
        return min([call.asked for call in self.named if call is not but_for and call.verb == "release"], default=NEVER)

    def sure(self) -> tuple[Nanos, Nanos]:
        """When it is held for certain; empty if its end comes before its beginning."""
        return self.answered, min(self.until(), self.let_go())


def tenures(history: History) -> dict[int, Tenure]:
    """Every lease that anybody was told of, by its id."""
    first_asked: dict[tuple[str, str], Nanos] = {}
    for call in history.calls:
        if call.verb == "acquire" and call.request_id:
            first_asked[request(call)] = min(call.asked, first_asked.get(request(call), NEVER))
    found: dict[int, Tenure] = {}
    for call in grants(history):
        if call.lease is not None and call.answered is not None and call.lease not in found:
            asked = first_asked.get(request(call), call.asked)
            found[call.lease] = Tenure(call.lease, call, asked, call.answered)
        if call.lease in found:
            found[call.lease].told.append(call)
    for call in history.calls:
        if call.verb in {"release", "renew", "died"} and call.lease in found:
            found[call.lease].named.append(call)
        elif call.verb == "gone":
            for tenure in found.values():
                theirs = call.lease == tenure.id if call.lease is not None else call.client == tenure.call.client
                if theirs and tenure.asked <= call.asked:
                    tenure.named.append(call)
    return found


def grants(history: History) -> list[Call]:
    """The asks that were granted, in the order of the answers."""
    calls = [call for call in history.calls if call.verb == "acquire" and call.result == GRANTED]
    return sorted(calls, key=lambda call: call.answered or 0)


def request(call: Call) -> tuple[str, str]:
    """What it is known by; nothing else has the same, unless its request id is empty."""
    return call.client, call.request_id
