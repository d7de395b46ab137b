"""Lines: what of all that happens is worth a line of the log, and how many of them a second.

It knows which ends are out of the ordinary, and how they and the acts of operators read. It must never know how a line
looks or gets out, and never say what a client's labels or a member's attributes are.

Whatever befalls thousands of leases at once is said of the first few of each second, and of the others in one line.
"""

import json
import logging
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from governor.clock import Clock, Timer
from governor.core.effects import Effect, LeaseEnded, OverrideOver
from governor.core.snapshot import MemberState, MemberView
from governor.core.types import SECOND, EndReason, Grant, Reason
from governor.entries import Act, Entry, What
from governor.wording import count, ordinal, printable, span

# Lines within a second about each: leases that ended otherwise than by release, acts of operators, and callers who want
# what they may not have.
LEASES_A_SECOND: Final = 20
ACTS_A_SECOND: Final = 50
REFUSALS_A_SECOND: Final = 20

# Whoever carries these out has more to say about them.
_TOLD_ELSEWHERE: Final = frozenset((What.STARTED, What.RELOADED, What.RELOAD_REFUSED, What.FROZEN, What.STOPPING))
_RELEASED: Final = EndReason.RELEASED
_PLAIN: Final = re.compile(r"[\w./@-]+")

_LOG: Final = logging.getLogger("governor")


class Lines:
    """The lines about one daemon. ``act`` is told what the engine does to an operator's orders by itself."""

    def __init__(self, clock: Clock, act: Act) -> None:
        self._clock = clock
        self._act = act
        self._leases = _Budget(clock, LEASES_A_SECOND, "more lease")
        self._acts = _Budget(clock, ACTS_A_SECOND, "more act")
        self._refusals = _Budget(clock, REFUSALS_A_SECOND, "more refusal")

    def observe(self, effects: Sequence[Effect]) -> None:
        """See what has happened in one step of the engine."""
        for effect in effects:
            if isinstance(effect, LeaseEnded):
                if effect.reason is not _RELEASED:
                    self._ended(effect)
            elif isinstance(effect, OverrideOver):
                self._act(What.OVERRIDE_OVER, (effect.resource,), "its time is over")

    def broken(self, pool: str, member: MemberView, client: str) -> None:
        """See that a member came back broken."""
        if member.state is MemberState.QUARANTINED:
            left = "" if member.until is None else f" for {span(member.until - self._clock.now())}"
            again = "" if member.failures == 1 else f", for the {ordinal(member.failures)} time in a row"
            self._act(What.QUARANTINED, (pool,), f"{member.id}{left}: it came back broken{again}", client=client)

    def acted(self, entry: Entry) -> None:
        """See what an operator has done, or a client that reports a member as broken."""
        what = entry.what
        if what in _TOLD_ELSEWHERE or (what is What.DRAINING and not entry.resources):
            return
        if not self._acts.spend(what):
            return
        about = f" {', '.join(entry.resources)}" if entry.resources else ""
        detail = f": {printable(entry.detail)}" if entry.detail else ""
        by = [printable(entry.actor)] if entry.actor else []
        by += [f"client {printable(entry.actor_client)}"] if entry.actor_client else []
        actor = f" (by {', '.join(by)})" if by else ""
        actor = f" (from {printable(entry.client)})" if entry.client else actor
        reason = f"; reason: {printable(entry.reason)}" if entry.reason else ""
        fields = {"what": what.value, "resources": entry.resources, "detail": entry.detail, "actor": entry.actor}
        fields |= {name: said for name, said in _also(entry) if said}
        _LOG.info("%s%s%s%s%s", what.replace("_", " "), about, detail, actor, reason, extra={"fields": fields})

    def refused(self, entry: Entry) -> None:
        """See what a caller may not do. That he has no more of it now is what caps are for, and worth no line."""
        reason = entry.reason
        if reason == Reason.CLIENT_LIMIT or not self._refusals.spend(reason):
            return
        who = f"client {_quoted(entry.client)}" if entry.client else "a caller whom nobody knows"
        about = f": {', '.join(map(_plain, entry.resources))}" if entry.resources else ""
        detail = f" {printable(entry.detail)}" if entry.detail else ""
        times = f" ({count(entry.times, 'time')})" if entry.times else ""
        fields = {
            "what": entry.what.value,
            "client": entry.client,
            "resources": entry.resources,
            "reason": reason,
            "detail": entry.detail,
            "times": entry.times or None,
        }
        _LOG.info("refused: %s%s%s%s", who, detail, about, times, extra={"fields": fields})

    def close(self) -> None:
        """Say what is left to be said."""
        self._leases.close()
        self._acts.close()
        self._refusals.close()

    def _ended(self, effect: LeaseEnded) -> None:
        reason = effect.reason.value
        if not self._leases.spend(reason):
            return
        fields = {
            "lease": effect.lease,
            "resources": [grant.resource for grant in effect.grants],
            "client": effect.client,
            "reason": reason,
            "held_seconds": effect.held / SECOND,
        }
        _LOG.info(
            "lease %d %s: %s, held for %s by %s",
            effect.lease,
            reason,
            ", ".join(map(_lent, effect.grants)),
            span(effect.held, passed=True),
            printable(effect.client) or "a client without a name",
            extra={"fields": fields},
        )


def _also(entry: Entry) -> tuple[tuple[str, str], ...]:
    return ("reason", entry.reason), ("client", entry.client), ("actor_client", entry.actor_client)


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=not name.isprintable())


def _plain(name: str) -> str:
    """What a caller has named, who may have made it read like the rest of the line."""
    return name if _PLAIN.fullmatch(name) else _quoted(name)


def _lent(grant: Grant) -> str:
    members = ", ".join([member.id for member in grant.members])
    if members:
        return f"member{'s' if len(grant.members) > 1 else ''} {members} of {grant.resource}"
    return grant.resource if grant.permits == 1 else f"{grant.permits} of {grant.resource}"


class _Budget:
    """So many lines a second; those beyond are counted, by a word each, and told when the second is over."""

    def __init__(self, clock: Clock, most: int, noun: str) -> None:
        self._clock = clock
        self._most = most
        self._noun = noun
        self._left = most
        self._until = 0
        self._more: Counter[str] = Counter()
        self._timer: Timer | None = None

    def spend(self, word: str) -> bool:
        """Whether there is one for this."""
        if self._timer is None and (now := self._clock.now()) >= self._until:
            self._until = now + SECOND
            self._left = self._most
        if self._left:
            self._left -= 1
            return True
        self._more[word] += 1
        if self._timer is None:
            self._timer = self._clock.call_at(self._until, self._over)
        return False

    def close(self) -> None:
        """No timer is left behind."""
        if self._timer is not None:
            self._timer.cancel()
            self._over()

    def _over(self) -> None:
        self._timer = None
        more, self._more = self._more, Counter()
        words = ", ".join(f"{number} {word.replace('_', ' ')}" for word, number in sorted(more.items()))
        fields = {"more": dict(more)}
        _LOG.info("and %s within the same second: %s", count(more.total(), self._noun), words, extra={"fields": fields})
