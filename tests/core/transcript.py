"""The little language of the transcripts: a story of commands, dashes, and what the engine answered.

It knows how to read a story, play it and write the answers down. It must never know what they should be.

    declare                                resources, one an indented line:
      semaphore NAME PERMITS [options]     PERMITS may be `unlimited`
      pool NAME MEMBER … [options]         `MEMBER*2` may be shared by two
      rate NAME PERMITS/PERIOD … burst=N   options: lease= on_disconnect= max_wait= max_waiters= quarantine=
    WHO acquires NAME[*PERMITS] … [wait=] [lease=] [id=]     `ann-again` is another ask of the client `ann`
    WHO releases [#LEASE] [ok|broken] [settled]  ·  WHO renews [#LEASE] [lease=]
    WHO is gone                            before the answer of that ask was delivered
    WHO disconnects [#LEASE]               whoever held the lease is gone
    at TIME                                time passes, and a timer fires at each deadline
    frozen until TIME                      time passes, and nobody looks
    paused until TIME                      time passes, and then it is noticed that nobody looked
    restart at TIME [grace=]               another daemon goes on from what was remembered; resources as for `declare`
    drain  ·  reserve ids to N  ·  restart from N  ·  show
    operator revokes #LEASE …  ·  operator pauses|drains|resumes NAME
    operator sets KIND NAME … for LENGTH   another limit, as in a declaration  ·  operator clears NAME
    operator recycles NAME [MEMBER]  ·  operator quarantines NAME MEMBER [for LENGTH]  ·  operator readmits NAME MEMBER
    compare                                what other resources would change; an indented line each
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, assert_never

from governor.core.differences import Difference
from governor.core.effects import (
    Abandoned,
    Denied,
    Effect,
    Granted,
    LeaseEnded,
    LeaseExtended,
    LeaseOrphaned,
    LeaseResult,
    OverrideOver,
    Paused,
    Queued,
    Reconfigured,
    ReconfigureRefused,
    Refunded,
    Released,
    Renewed,
    Restored,
    RestoreRefused,
    Revoked,
    Steered,
    SteerRefused,
)
from governor.core.events import (
    Abandon,
    Acquire,
    Disconnect,
    Drain,
    Quarantine,
    Readmit,
    Reconfigure,
    Recycle,
    Release,
    Renew,
    ReserveIds,
    Revoke,
    SetOverride,
    SetStanding,
)
from governor.core.kinds.pool import MemberSpec
from governor.core.resource import ResourceSpec
from governor.core.snapshot import ResourceSnapshot
from governor.core.types import (
    MILLISECOND,
    SECOND,
    Claim,
    Denial,
    Ended,
    Grant,
    LeaseId,
    Nanos,
    Outcome,
    Standing,
    TicketId,
)
from tests.core.compared import compared
from tests.core.declared import pool, rate_limit, semaphore
from tests.core.play import Play

DASHES: Final = "----"
UNITS: Final = {"ns": 1, "us": 1000, "ms": MILLISECOND, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}


@dataclass
class Scene:
    """Some lines of a story, comments among them, and the answers that follow its dashes."""

    lines: list[str]
    answers: list[str]


def read(text: str) -> list[Scene]:
    """The scenes of a story. A blank line ends the answers."""
    scenes = [Scene([], [])]
    answering = False
    for line in text.splitlines():
        if line == DASHES:
            assert not answering, "dashes within answers"
            answering = True
        elif answering and line:
            scenes[-1].answers.append(line)
        elif answering:
            answering = False
            scenes.append(Scene([], []))
        else:
            scenes[-1].lines.append(line)
    return [scene for scene in scenes if scene.lines or scene.answers]


def write(scenes: list[Scene]) -> str:
    """The story as a file."""
    return "\n".join("\n".join([*scene.lines, DASHES, *scene.answers, ""]) for scene in scenes)


def play(scenes: list[Scene]) -> list[Scene]:
    """The same story with the answers of today's engine."""
    stage = Stage()
    return [Scene(scene.lines, stage.play(scene.lines)) for scene in scenes]


class Stage:
    """One engine, and the names that the story gives to tickets and leases."""

    def __init__(self) -> None:
        self._play = Play(ceiling=10)
        self._tickets: dict[str, TicketId] = {}
        self._names: dict[TicketId, str] = {}
        self._leases: dict[str, LeaseId] = {}
        self._answers: list[str] = []

    def play(self, lines: list[str]) -> list[str]:
        """The answers to one scene; a scene without any says so."""
        self._answers = []
        told = [line for line in lines if line.strip() and not line.startswith("#")]
        while told:
            command = told.pop(0).split()
            declared = []
            while told and told[0].startswith("  "):
                declared.append(resource(told.pop(0).split()))
            seen = len(self._play.record)
            self._obey(command, tuple(declared))
            for at, effect in self._play.record[seen:]:
                self._answers += [f"{clock(at):>8}  {line}" for line in self._tell(effect)]
        return self._answers or ["(nothing happens)"]

    def _obey(self, command: list[str], declared: tuple[ResourceSpec, ...]) -> None:
        match command:
            case ["declare"]:
                self._play.do(Reconfigure(declared))
            case ["drain"]:
                self._play.do(Drain())
            case ["reserve", "ids", "to", number]:
                self._play.do(ReserveIds(LeaseId(int(number))))
            case ["operator", *words]:
                self._steer(words)
            case ["compare"]:
                self._answers += [f"{clock(self._play.now):>8}  {differs(d)}" for d in self._compare(declared)]
            case ["restart", "from", number]:
                self._play = Play(first_id=int(number))
            case ["show"]:
                snapshot = self._play.engine.snapshot(now=self._play.now)
                self._answers += [f"{clock(self._play.now):>8}  {row(shown)}" for shown in snapshot.resources]
            case [("at" | "frozen" | "paused" | "restart"), *words] if words:
                self._pass_time(command, declared)
            case [who, *words] if words:
                self._act(who, words)
            case _:
                raise AssertionError(f"no such command: {' '.join(command)}")

    def _pass_time(self, command: list[str], declared: tuple[ResourceSpec, ...]) -> None:
        match command:
            case ["at", time]:
                self._play.at(duration(time))
            case ["frozen", "until", time]:
                self._play.frozen_until(duration(time))
            case ["paused", "until", time]:
                self._play.paused_until(duration(time))
            case ["restart", "at", time, *options]:
                grace = next((duration(word[6:]) for word in options), 0)
                self._play.restart(*declared, now=duration(time), grace=grace)
            case _:
                raise AssertionError(f"no such command: {' '.join(command)}")

    def _act(self, who: str, words: list[str]) -> None:
        match words:
            case ["acquires", *words]:
                self._acquire(who, words)
            case ["releases", *words]:
                said = [word for word in words if not word.startswith("#") and word != "settled"]
                outcome = Outcome(said[0]) if said else Outcome.UNKNOWN
                self._play.do(Release((self._lease(who, words),), outcome, "settled" in words))
            case ["renews", *words]:
                length = next((duration(word[6:]) for word in words if word.startswith("lease=")), None)
                self._play.do(Renew((self._lease(who, words),), length))
            case ["disconnects", *words]:
                self._play.do(Disconnect((self._lease(who, words),)))
            case ["is", "gone"]:
                self._play.do(Abandon(self._tickets[who]))
            case _:
                raise AssertionError(f"no such command: {who} {' '.join(words)}")

    def _compare(self, declared: tuple[ResourceSpec, ...]) -> tuple[Difference, ...]:
        return compared(self._play.engine.compare(declared), self._play.now)

    def _steer(self, words: list[str]) -> None:
        """What an operator orders."""
        play = self._play
        match words:
            case ["revokes", *leases]:
                play.do(Revoke(tuple([LeaseId(int(lease[1:])) for lease in leases])))
            case [("pauses" | "drains" | "resumes") as verb, name]:
                standings = {"pauses": Standing.PAUSED, "drains": Standing.DRAINING, "resumes": Standing.OPEN}
                play.do(SetStanding(name, standings[verb]))
            case ["sets", *declaration, "for", length]:
                spec = resource(declaration)
                play.do(SetOverride(spec.name, spec.limit, play.now + duration(length)))
            case ["clears", name]:
                play.do(SetOverride(name, None))
            case ["recycles", name, *members]:
                play.do(Recycle(name, *members))
            case ["quarantines", name, member, *length]:
                play.do(Quarantine(name, member, play.now + duration(length[1]) if length else None))
            case ["readmits", name, member]:
                play.do(Readmit(name, member))
            case _:
                raise AssertionError(f"no such order: {' '.join(words)}")

    def _acquire(self, who: str, words: list[str]) -> None:
        options = dict(word.split("=", 1) for word in words if "=" in word)
        assert set(options) <= {"wait", "lease", "id"}, words
        claims = [word.partition("*") for word in words if "=" not in word]
        ticket = TicketId(len(self._tickets) + 1)
        assert who not in self._tickets, f"{who} has asked before: name this ask {who}-again"
        self._tickets[who], self._names[ticket] = ticket, who
        ask = Acquire(
            ticket,
            tuple(Claim(name, int(permits or "1")) for name, _, permits in claims),
            client=who.partition("-")[0],
            wait=duration(options["wait"]) if "wait" in options else None,
            lease=duration(options["lease"]) if "lease" in options else None,
            request_id=options.get("id", ""),
        )
        self._play.do(ask)

    def _lease(self, who: str, words: list[str]) -> LeaseId:
        named = next((LeaseId(int(word[1:])) for word in words if word.startswith("#")), None)
        return self._leases[who] if named is None else named

    # --- the answers in words ---------------------------------------------------------------------------------

    def _tell(self, effect: Effect) -> Iterator[str]:
        match effect:
            case Granted():
                name = self._names[effect.ticket]
                self._leases[name] = effect.lease
                until = "spent" if effect.deadline is None else f"until {clock(effect.deadline)}"
                waited = f", after {clock(effect.waited)} in line" if effect.waited else ""
                again = ", as before" if effect.repeated else ""
                yield f"{name} has lease {effect.lease}: {parts(effect.grants)}, {until}{waited}{again}"
            case Denied():
                waited = f", after {clock(effect.waited)} in line" if effect.waited else ""
                yield f"{self._names[effect.ticket]} is denied: {why(effect.denial)}{waited}"
            case Abandoned():
                yield f"{self._names[effect.ticket]} leaves the line, after {clock(effect.waited)}"
            case Queued():
                first = f", not before {clock(effect.not_before)}" if effect.not_before > self._play.now else ""
                yield f"{self._names[effect.ticket]} waits, {effect.ahead} ahead{first}"
            case Released() | Renewed() | Revoked():
                yield from map(answer, effect.results)
            case Reconfigured():
                words = [("added", effect.added), ("changed", effect.changed), ("removed", effect.removed)]
                yield "; ".join(f"{word}: {', '.join(n)}" for word, n in words if n) or "the same as before"
            case ReconfigureRefused() | RestoreRefused():
                yield from (f"refused: {problem}" for problem in effect.problems)
            case _:
                yield tell(effect)


Other = (
    LeaseEnded | LeaseExtended | LeaseOrphaned | Refunded | Restored | Paused | Steered | SteerRefused | OverrideOver
)


def tell(effect: Other) -> str:
    """What became of leases and resources, but for the answer to whoever asked for it."""
    match effect:
        case LeaseEnded():
            late = f", {clock(-effect.left)} late" if effect.left < 0 else ""
            return f"lease {effect.lease} of {effect.client} ends: {effect.reason}, {parts(effect.grants)}{late}"
        case LeaseExtended():
            return f"lease {effect.lease} had {clock(effect.left)} left, now until {clock(effect.deadline)}"
        case LeaseOrphaned():
            return f"lease {effect.lease} is orphaned, until {clock(effect.deadline)}"
        case Refunded():
            return f"lease {effect.lease} is refunded: {parts(effect.grants)}"
        case Restored():
            return f"leases that live on: {effect.leases}"
        case Paused():
            return f"paused for {clock(effect.length)}: leases that end later: {effect.leases}"
        case Steered():
            members = f", {', '.join(effect.members)}" if effect.members else ""
            return (
                f"{effect.resource} obeys{members}" if effect.changed else f"{effect.resource} was so already{members}"
            )
        case SteerRefused():
            return f"{effect.resource} cannot: {effect.problem}"
        case OverrideOver():
            return f"{effect.resource} is as declared again"
        case _:
            assert_never(effect)


def parts(grants: tuple[Grant, ...]) -> str:
    """``db*2 + conn(a, b)``."""
    return " + ".join(
        f"{grant.resource}({', '.join(member.id for member in grant.members)})"
        if grant.members
        else f"{grant.resource}*{grant.permits}"
        for grant in grants
    )


def why(denial: Denial) -> str:
    """The reason and the numbers that explain it."""
    words: list[str] = [denial.reason]
    if denial.expected:
        words.append(f"{denial.field}: expected {denial.expected}")
    if denial.resource:
        words.append(f"of {denial.resource}")
    if denial.limit is not None:
        asked = "" if denial.asked is None else f"asked {denial.asked} of "
        words.append(f"{asked}at most {denial.limit}")
    if denial.ended is not None:
        words.append(over(denial.ended))
    if denial.retry_after is not None:
        words.append(f"try again in {clock(denial.retry_after)}")
    return ", ".join(words)


def over(ended: Ended) -> str:
    """``expired 2s ago``."""
    return f"{ended.reason} {clock(ended.ago)} ago"


def answer(result: LeaseResult) -> str:
    """The answer for one lease of a release or a renewal."""
    more = [
        f"{clock(result.remaining)} to go" if result.remaining is not None else "",
        over(result.ended) if result.ended is not None else "",
        why(result.denial) if result.denial is not None else "",
    ]
    return f"answer for lease {result.lease}: {', '.join([result.state, *filter(None, more)])}"


def row(shown: ResourceSnapshot) -> str:
    """One resource as `show` tells it."""
    words = [f"{shown.kind} {shown.name}:"]
    if shown.kind == "rate_limit":
        words.append(f"{shown.available} available of {shown.capacity}")
    else:
        words.append(f"{shown.in_use} of {shown.capacity} in use")
    words.append(f"{shown.waiters} waiting")
    if shown.over_limit:
        words.append(f"{shown.over_limit} over the limit")
    if shown.members is not None and shown.members.quarantined:
        words.append(f"{shown.members.quarantined} in quarantine")
    if shown.removed:
        words.append("removed")
    if shown.standing is not Standing.OPEN:
        words.append(shown.standing)
    if shown.override is not None:
        words.append(f"overridden until {clock(shown.override.until)}")
    return words[0] + " " + ", ".join(words[1:])


def differs(difference: Difference) -> str:
    """One resource as `compare` tells it."""
    words = [f"{difference.resource} is {difference.what}: {difference.in_use} in use", f"{difference.waiters} waiting"]
    words += [
        f"{number} {what}"
        for number, what in (
            (difference.over_limit, "must come back before the next grant"),
            (difference.refused, f"refused, who ask for at most {difference.most_asked}"),
            (difference.granted, "granted at once"),
        )
        if number
    ]
    return ", ".join(words) + (f"; but {difference.problem}" if difference.problem else "")


def resource(words: list[str]) -> ResourceSpec:
    """One line of a declaration."""
    kind, name, *rest = words
    options = dict(word.split("=", 1) for word in rest if "=" in word)
    plain = [word for word in rest if "=" not in word]
    burst = int(options.pop("burst", "1"))
    quarantine = duration(options.pop("quarantine", "1s"))
    lease = duration(options.pop("lease", "30s"))
    said = options.pop("on_disconnect", "2s")
    on_disconnect = {"release": 0, "keep": None}[said] if said in {"release", "keep"} else duration(said)
    max_wait = duration(options.pop("max_wait", "30s"))
    max_waiters = int(options.pop("max_waiters", "1000"))
    assert not options, f"no such option: {options}"
    match kind:
        case "semaphore":
            permits = None if plain[0] == "unlimited" else int(plain[0])
            return semaphore(
                name,
                permits,
                lease=lease,
                on_disconnect=on_disconnect,
                max_wait=max_wait,
                max_waiters=max_waiters,
            )
        case "pool":
            members = [MemberSpec(id_, (), int(n or "1")) for id_, _, n in (word.partition("*") for word in plain)]
            return pool(
                name,
                members,
                quarantine=quarantine,
                lease=lease,
                on_disconnect=on_disconnect,
                max_wait=max_wait,
                max_waiters=max_waiters,
            )
        case "rate":
            rates = [word.split("/", 1) for word in plain]
            windows = [(int(permits), duration(period), burst) for permits, period in rates]
            return rate_limit(name, *windows, max_wait=max_wait, max_waiters=max_waiters)
        case _:
            raise AssertionError(f"no such kind: {kind}")


def duration(text: str) -> Nanos:
    """``1.5s`` as nanoseconds, exactly; without a unit only 0."""
    number = text.rstrip("nmush")
    whole, _, decimals = number.partition(".")
    unit = UNITS[text[len(number) :] or "s"]
    scale: int = 10 ** len(decimals)
    nanos, rest = divmod(int(whole + decimals) * unit, scale)
    assert rest == 0, f"less than a nanosecond: {text}"
    return nanos


def clock(nanos: Nanos) -> str:
    """Nanoseconds as ``1.5s`` or ``250ms``, exactly."""
    for unit in ("s", "ms", "us", "ns"):
        if nanos >= UNITS[unit] or unit == "ns":
            whole, rest = divmod(nanos, UNITS[unit])
            decimals = str(rest).rjust(len(str(UNITS[unit])) - 1, "0").rstrip("0")
            return f"{whole}.{decimals}{unit}" if rest else f"{whole}{unit}" if nanos else "0s"
    raise AssertionError(nanos)
