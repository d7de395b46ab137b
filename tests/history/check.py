"""Check: what must be true of a daemon whose clients saw this, whatever it was, and whatever befell it.

It knows what clients were promised. It must never know how a daemon keeps its promises, nor ask it anything. It proves
from a log alone that

- no two leases overlap beyond a limit, nor does a rate limit grant more than its windows allow (I1, I2, I9),
- lease ids only rise (I7),
- nobody is granted twice for one request id (I8),
- no lease is forgotten that somebody was told he has, and none comes back that was given back (I6, I12).

What happened at which instant is not known, only that it was between an ask and its answer. So each rule is about what
is certain: a lease is held *for certain* from the answer that says so until its holder gives it back, or until its time
is over, counted from the ask, if not from that of a later renewal. Whatever breaks a rule is a fault for certain; what
nobody could have seen is not found.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import lcm

from tests.history.log import DEAD, GRANTED, NEVER, RELEASED, RENEWED, Call, Declared, History, Nanos

# Permits, period and burst of a rate limit; and from when until when that may have been in force.
Window = tuple[int, Nanos, int]
Span = tuple[Nanos, Nanos, Window]


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

    @property
    def lent(self) -> bool:
        """Whether there is anything to hold; what was only spent has no time."""
        return self.call.remaining is not None

    def until(self) -> Nanos:
        """When its time is over at the earliest, if nobody lets it go.

        A renewal that was answered well proves that it lived until then, whatever was known before. One that says how
        long may have made it shorter, also if it was not answered, and of two at one time either may have been the
        last. One that does not say takes nothing away.
        """
        if self.call.remaining is None:
            return NEVER
        until, settled = self.call.asked + self.call.remaining, self.answered
        for call in sorted(self.named, key=lambda call: call.asked):
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
                until = max(until, call.asked + length)
        return until

    def let_go(self, but_for: Call | None = None) -> Nanos:
        """When somebody first set out to give it back, or was cut off, other than by this call."""
        calls = [call.asked for call in self.named if call is not but_for and call.verb in {"release", "gone"}]
        return min(calls, default=NEVER)

    def sure(self) -> tuple[Nanos, Nanos]:
        """When it is held for certain; empty if its end comes before its beginning."""
        return self.answered, min(self.until(), self.let_go())


def check(history: History) -> list[str]:
    """Every fault that is certain, as a sentence."""
    known = tenures(history)
    return [
        *_request_ids(history),
        *_ids(known),
        *_lives(known),
        *_repeats(history, known),
        *_overlaps(history, known),
        *_rates(history, known),
    ]


# --- reading the log ----------------------------------------------------------------------------------------------


def tenures(history: History) -> dict[int, Tenure]:
    """Every lease that anybody was told of, by its id."""
    first_asked: dict[tuple[str, str], Nanos] = {}
    for call in history.calls:
        if call.verb == "acquire" and call.request_id:
            first_asked[_request(call)] = min(call.asked, first_asked.get(_request(call), NEVER))
    found: dict[int, Tenure] = {}
    for call in _grants(history):
        if call.lease is not None and call.answered is not None and call.lease not in found:
            asked = first_asked.get(_request(call), call.asked)
            found[call.lease] = Tenure(call.lease, call, asked, call.answered)
    for call in history.calls:
        if call.verb in {"release", "renew"} and call.lease in found:
            found[call.lease].named.append(call)
        elif call.verb == "gone":
            for tenure in found.values():
                theirs = call.lease == tenure.id if call.lease is not None else call.client == tenure.call.client
                if theirs and tenure.asked <= call.asked:
                    tenure.named.append(call)
    return found


def _grants(history: History) -> list[Call]:
    """The asks that were granted, in the order of the answers."""
    calls = [call for call in history.calls if call.verb == "acquire" and call.result == GRANTED]
    return sorted(calls, key=lambda call: call.answered or 0)


def _request(call: Call) -> tuple[str, str]:
    return call.client, call.request_id


# --- the rules ----------------------------------------------------------------------------------------------------


def _request_ids(history: History) -> Iterator[str]:
    """I8: all that is ever granted for one request id is one lease, and a lease is of one request id."""
    by_request: dict[tuple[str, str], Call] = {}
    by_lease: dict[int | None, Call] = {}
    for call in _grants(history):
        other = by_lease.setdefault(call.lease, call)
        if other is not call and (not call.request_id or _request(other) != _request(call)):
            yield f"I7: lease {call.lease} was granted to two: {other} and {call}"
        first = by_request.setdefault(_request(call), call) if call.request_id else call
        if first.lease != call.lease:
            yield f"I8: {_request(call)} was granted twice: {first} and {call}"


def _ids(known: dict[int, Tenure]) -> Iterator[str]:
    """I7: who asked when somebody else had already been answered has the higher id."""
    by_ask = sorted(known.values(), key=lambda tenure: tenure.asked)
    by_answer = sorted(by_ask, key=lambda tenure: tenure.answered)
    highest = list(accumulate([tenure.id for tenure in by_answer], max))
    answered = 0
    for tenure in by_ask:
        while answered < len(by_answer) and by_answer[answered].answered < tenure.asked:
            answered += 1
        if answered and highest[answered - 1] >= tenure.id:
            yield f"I7: lease {tenure.id} was asked for when {highest[answered - 1]} was known: {tenure.call}"


def _lives(known: dict[int, Tenure]) -> Iterator[str]:
    """I6, I12: nobody is told that his lease is dead while it is his for certain, or alive when it was given back."""
    for tenure in known.values():
        back = [call.answered or NEVER for call in tenure.named if call.result == RELEASED]
        until = tenure.until()
        for call in tenure.named:
            if call.result in DEAD and (call.answered or NEVER) < min(until, tenure.let_go(but_for=call)):
                yield f"I12: lease {tenure.id} was forgotten: {tenure.call}, and then {call}"
            if call.result in {RELEASED, RENEWED} and call.asked > min(back, default=NEVER):
                yield f"I6: lease {tenure.id} was given back, and came back: {call}"


def _repeats(history: History, known: dict[int, Tenure]) -> Iterator[str]:
    """I8, I12: while a lease is somebody's for certain, to ask for it again is not answered that it has ended."""
    by_request = {_request(tenure.call): tenure for tenure in known.values() if tenure.call.request_id}
    for call in history.calls:
        tenure = by_request.get(_request(call)) if call.result == "lease_ended" else None
        if tenure is not None:
            begin, end = tenure.sure()
            if begin <= call.asked and (call.answered or NEVER) < end:
                yield f"I12: lease {tenure.id} was forgotten: {tenure.call}, and then {call}"


def _overlaps(history: History, known: dict[int, Tenure]) -> Iterator[str]:
    """I1, I2: what is held for certain at one instant is no more than there was when the last of it was granted."""
    held: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    moves: list[tuple[Nanos, bool, int]] = []
    for tenure in known.values():
        begin, end = tenure.sure()
        if tenure.lent and begin < end:
            moves += [(begin, True, tenure.id), (end, False, tenure.id)]
    for _, begins, lease in sorted(moves):
        for share, permits in _shares(known[lease].call):
            if not begins:
                del held[share][lease]
                continue
            held[share][lease] = permits
            total, holders = sum(held[share].values()), [known[id_] for id_ in held[share]]
            most = _most(history.declared, share, holders)
            if most is not None and total > most:
                yield f"I1: {total} of {share} are lent at once, of at most {most}: {holders}"


def _shares(call: Call) -> Iterator[tuple[tuple[str, str], int]]:
    """How many permits it holds of each resource, and of each member of a pool."""
    for resource, permits in call.claims.items():
        yield (resource, ""), permits
        members = call.members.get(resource, [])
        for member in set(members):
            yield (resource, member), members.count(member)


def _most(declared: list[Declared], share: tuple[str, str], holders: list[Tenure]) -> int | None:
    """The limit when the last of these was granted, whichever that was; None is any number."""
    last_asked = max(holder.asked for holder in holders)
    resource, member = share
    most = 0
    for holder in holders:
        if holder.answered < last_asked:
            continue
        for each in declared:
            if each.since <= holder.answered and each.until >= holder.asked and resource in each.bounds:
                bound = each.bounds[resource]
                if bound.permits is None or bound.windows:
                    return None
                most = max(most, bound.members.get(member, 0) if member else bound.permits)
    return most


def _rates(history: History, known: dict[int, Tenure]) -> Iterator[str]:
    """I9: what was asked for and answered within any stretch of time is no more than a burst and what that time brings.

    Of several declarations that is the largest burst in force, and what the rates in force brought; while it was not
    declared at all, the last one. Only of limits that always had as many windows.
    """
    names = {name for each in history.declared for name, bound in each.bounds.items() if bound.windows}
    for name in sorted(names):
        windows = [each.bounds[name].windows for each in history.declared if name in each.bounds]
        if len({len(some) for some in windows}) == 1:
            spent = [tenure for tenure in known.values() if name in tenure.call.claims]
            for place in range(len(windows[0])):
                yield from _rate(name, list(_spans(history, name, place)), spent)


def _spans(history: History, name: str, place: int) -> Iterator[Span]:
    """This window of the limit in each declaration. While there is no limit, the last one goes on without its burst."""
    last: Window | None = None
    for each in sorted(history.declared, key=lambda declared: declared.since):
        if name in each.bounds:
            last = each.bounds[name].windows[place]
            yield each.since, each.until, last
            last = (*last[:2], 0)
        elif last is not None:
            yield each.since, each.until, last


def _rate(name: str, spans: list[Span], spent: list[Tenure]) -> Iterator[str]:
    """Of all stretches only those matter that begin with an ask and end with an answer."""
    brought = Brought(spans)
    by_ask = sorted([(tenure.asked, tenure) for tenure in spent], key=lambda pair: pair[0], reverse=True)
    came = {id(tenure): (brought.until(tenure.asked), brought.until(tenure.answered)) for tenure in spent}
    by_end = sorted(spans, key=lambda span: span[1], reverse=True)
    for last in spent:
        total = burst = place = 0
        for asked, tenure in by_ask:
            if tenure.answered > last.answered:
                continue
            total += tenure.call.claims[name]
            while place < len(by_end) and by_end[place][1] >= asked:
                since, _, window = by_end[place]
                burst = max(burst, window[2] if since <= last.answered else 0)
                place += 1
            if (total - burst) * brought.scale > came[id(last)][1] - came[id(tenure)][0]:
                yield f"I9: {name} granted {total} permits within {last.answered - asked} ns: {last}"
                break


class Brought:
    """How much the rates in force have brought up to any instant; where two may have been, the larger.

    In whole units, ``scale`` of which are a permit.
    """

    def __init__(self, spans: list[Span]) -> None:
        self.scale = lcm(*[period for _, _, (_, period, _) in spans])
        lasting = [(since, until, permits * (self.scale // period)) for since, until, (permits, period, _) in spans]
        self._from = sorted({instant for since, until, _ in lasting for instant in (since, until)})
        self._rate = [max([r for s, u, r in lasting if s <= at < u], default=0) for at in self._from]
        steps = [(end - begin) * rate for (begin, end), rate in zip(pairwise(self._from), self._rate, strict=False)]
        self._total = list(accumulate(steps, initial=0))

    def until(self, at: Nanos) -> int:
        """Up to then, from some instant on."""
        place = max(0, bisect_right(self._from, at) - 1)
        return self._total[place] + max(0, at - self._from[place]) * self._rate[place]
