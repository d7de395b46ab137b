"""Check: what must be true of a daemon whose clients saw this, whatever it was, and whatever befell it.

It knows what clients were promised. It must never know how a daemon keeps its promises, nor ask it anything. It proves
from a log alone that

- no two leases overlap beyond a limit, nor does a rate limit grant more than its windows allow (I1, I2, I9),
- lease ids only rise (I7),
- nobody is granted twice for one request id (I8),
- no lease is forgotten that somebody was told he has, and none comes back that was given back (I6, I12),
- what somebody was told of his lease or his wait holds, whatever is declared or befalls the daemon afterwards.

What happened at which instant is not known, only that it was between an ask and its answer. So each rule is about what
is certain: a lease is held *for certain* from the answer that says so until its holder gives it back, or until its time
is over, counted from the ask, if not from that of a later renewal. Who is cut off holds it for as long after that as he
was told, and who knows that the daemon is dead for as much longer as that one has promised. Whatever breaks a rule is a
fault for certain; what nobody could have seen is not found.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from math import lcm
from typing import Final, Literal

from tests.history.log import DEAD, NEVER, RELEASED, RENEWED, Call, Declared, History, Nanos
from tests.history.tenures import Tenure, grants, request, tenures

# What cannot be the answer to whoever asks again for what he has.
_NOT_YOURS: Final = frozenset(
    {
        "above_capacity",
        "hopeless",
        "lease_ended",
        "line_full",
        "malformed",
        "none_free",
        "request_id_reused",
        "unknown_resource",
        "wait_over",
    }
)

# Permits, period and burst of a rate limit; and from when until when that may have been in force.
Window = tuple[int, Nanos, int]
Span = tuple[Nanos, Nanos, Window]


def check(history: History) -> list[str]:
    """Every fault that is certain, as a sentence."""
    known = tenures(history)
    return [
        *_request_ids(history),
        *_ids(known),
        *_lives(known),
        *_renewals(history, known),
        *_repeats(history, known),
        *_waits(history),
        *_overlaps(history, known),
        *_rates(history, known),
    ]


# --- the rules ----------------------------------------------------------------------------------------------------


def _request_ids(history: History) -> Iterator[str]:
    """I8: all that is ever granted for one request id is one lease, and a lease is of one request id."""
    by_request: dict[tuple[str, str], Call] = {}
    by_lease: dict[int | None, Call] = {}
    for call in grants(history):
        other = by_lease.setdefault(call.lease, call)
        if other is not call and (not call.request_id or request(other) != request(call)):
            yield f"I7: lease {call.lease} was granted to two: {other} and {call}"
        first = by_request.setdefault(request(call), call) if call.request_id else call
        if first.lease != call.lease:
            yield f"I8: {request(call)} was granted twice: {first} and {call}"


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


def _renewals(history: History, known: dict[int, Tenure]) -> Iterator[str]:
    """Who renews and does not say for how long is given what he was granted, or what may be lent at most, if less."""
    for tenure in known.values():
        granted = tenure.call.remaining
        for call in tenure.named:
            if call.verb != "renew" or call.length is not None or call.answered is None or granted is None:
                continue
            if tenure.call.again:
                continue  # what it was granted for, nobody knows
            most = _least(history, call, call.answered, tenure.call.claims, "max_lease")
            if most is None:
                continue
            caps = [each.max_lease for each in history.declared if _in_force(each, call.asked, call.answered)]
            most = min([most, *[cap for cap in caps if cap]])
            if call.result not in {RENEWED, *DEAD}:
                yield f"I12: lease {tenure.id} was not renewed: {tenure.call}, and then {call}"
            elif call.remaining is not None and call.remaining < min(granted, most):
                yield f"I12: lease {tenure.id} was renewed for less than it was granted: {tenure.call}, and then {call}"


def _waits(history: History) -> Iterator[str]:
    """Who is told that he waits is not told that his wait is over before it is, by what was declared when he asked."""
    seen: set[tuple[str, str]] = set()
    for call in sorted(history.calls, key=lambda call: call.asked):
        if call.verb != "acquire" or (call.request_id and request(call) in seen):
            continue
        seen.add(request(call))
        if call.result != "wait_over" or call.queued is None or call.answered is None:
            continue
        most = _least(history, call, call.queued, call.claims, "max_wait")
        if most is not None and call.answered - call.asked < (most if call.wait is None else min(most, call.wait)):
            yield f"told: an ask waited for less than it was told: {call}"


def _least(
    history: History, call: Call, until: Nanos, resources: Iterable[str], what: Literal["max_lease", "max_wait"]
) -> Nanos | None:
    """The least that any of these resources may have said of it between an ask and then; None: nothing is known.

    For one that is declared no more that may be anything that was said of it before.
    """
    before = [each for each in history.declared if each.since <= until]
    now = [each for each in before if _in_force(each, call.asked, until)]
    said = [
        getattr(each.bounds[name], what)
        for name in resources
        for each in (now if all(name in each.bounds for each in now) else before)
        if name in each.bounds
    ]
    return min([length for length in said if length], default=None)


def _in_force(declared: Declared, since: Nanos, until: Nanos) -> bool:
    """Whether this may have been, at any instant between these."""
    return declared.since <= until and declared.until >= since


def _repeats(history: History, known: dict[int, Tenure]) -> Iterator[str]:
    """I8, I12: while a lease is somebody's for certain, to ask for it again is answered by that lease."""
    by_request = {request(tenure.call): tenure for tenure in known.values() if tenure.call.request_id}
    for call in history.calls:
        tenure = by_request.get(request(call)) if call.result in _NOT_YOURS else None
        if tenure is not None:
            begin, end = tenure.sure()
            if begin <= call.asked and (call.answered or NEVER) < end:
                yield f"I12: lease {tenure.id} was forgotten: {tenure.call}, and then {call}"


def _overlaps(history: History, known: dict[int, Tenure]) -> Iterator[str]:
    """I1, I2: what is held for certain at one instant is no more than there was when the last of it was granted."""
    held: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    moves: list[tuple[Nanos, bool, int]] = []
    shares: dict[int, list[tuple[tuple[str, str], int]]] = {}
    spent = {name for each in history.declared for name, bound in each.bounds.items() if bound.spent}
    for tenure in known.values():
        begin, end = tenure.sure()
        if tenure.lent and begin < end:
            moves += [(begin, True, tenure.id), (end, False, tenure.id)]
            for_nothing = {name for name in spent & tenure.call.claims.keys() if _may_be_spent(history, name, tenure)}
            shares[tenure.id] = [each for each in _shares(tenure.call) if each[0][0] not in for_nothing]
    for _, begins, lease in sorted(moves):
        for share, permits in shares[lease]:
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


def _may_be_spent(history: History, resource: str, tenure: Tenure) -> bool:
    """Whether this may have been a rate limit when it was granted, whatever it is by now."""
    return any(
        _in_force(each, tenure.asked, tenure.answered) and resource in each.bounds and each.bounds[resource].spent
        for each in history.declared
    )


def _most(declared: list[Declared], share: tuple[str, str], holders: list[Tenure]) -> int | None:
    """The limit when the last of these was granted, whichever that was; None is any number."""
    last_asked = max(holder.asked for holder in holders)
    resource, member = share
    most = 0
    for holder in holders:
        if holder.answered < last_asked:
            continue
        for each in declared:
            if _in_force(each, holder.asked, holder.answered) and resource in each.bounds:
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
