"""Log: what clients asked, what they were answered, and when, as each of them saw it.

It knows the shape of what is logged, in memory and as lines of JSON. It must never know how it is judged.

All instants are of one clock: that of a simulated world, or the monotonic one that all processes of a machine share.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Final, Literal

Nanos = int
Verb = Literal["acquire", "release", "renew", "gone", "died"]

# What an answer may say went well. Anything else that it says is why it did not.
GRANTED: Final = "granted"
RELEASED: Final = "released"
RENEWED: Final = "renewed"
# How a lease that was named is told not to live, or no more.
DEAD: Final = frozenset({"ended", "unknown"})

NEVER: Final[Nanos] = 2**62


@dataclass(slots=True)
class Call:
    """One call of a client. Its answer may never have come: then ``answered`` is None and nothing is known of it.

    ``acquire``: of ``claims``, under ``request_id``, which is unique to its client if it is not empty. If ``result`` is
    ``granted``, there are a ``lease``, what ``remaining`` time it was said to have (None: nothing was lent, only spent)
    and, for pools, ``members``. ``release`` and ``renew``: of one ``lease``; a renewal, too, has ``remaining``, and if
    it asked for a ``length``, that. ``gone``: the client is cut off, and the daemon may know from ``asked`` on; what it
    holds may end as much later as it was told; one ``lease``, or all of them. ``died``: its client knows that the
    daemon of this ``boot`` is dead.

    What a grant or a renewal says besides, as far as it is known: ``outlives`` is for how long the lease outlives a
    client that is cut off (`NEVER`: until its own time is over), ``boot`` which daemon said so, and ``spare`` how much
    longer the lease lives if that one dies. ``again``: the lease had been granted before, perhaps by an earlier daemon.
    ``wait`` is how long an ask would wait, None as long as it may, and ``queued`` when it was told that it waits.
    """

    client: str
    verb: Verb
    asked: Nanos
    answered: Nanos | None = None
    claims: dict[str, int] = field(default_factory=dict)
    request_id: str = ""
    lease: int | None = None
    result: str = ""
    remaining: Nanos | None = None
    length: Nanos | None = None
    members: dict[str, list[str]] = field(default_factory=dict)
    outlives: Nanos = 0
    boot: int = 0
    spare: Nanos = 0
    again: bool = False
    wait: Nanos | None = None
    queued: Nanos | None = None


@dataclass(slots=True)
class Bound:
    """The limit of one resource: ``permits`` lent at once (None: any number), and of each of ``members`` so many.

    ``windows`` of a rate limit are permits, period and burst each; it is ``spent``, not lent. ``max_lease`` and
    ``max_wait``: how long anybody may be lent it, or wait for it, at most; 0 is not known.
    """

    permits: int | None = None
    members: dict[str, int] = field(default_factory=dict)
    windows: list[tuple[int, Nanos, int]] = field(default_factory=list)
    spent: bool = False
    max_lease: Nanos = 0
    max_wait: Nanos = 0


@dataclass(slots=True)
class Declared:
    """What may have been in force from ``since`` to ``until``; around a reload that is both, the old and the new.

    ``max_lease``: for how long a client may be lent anything at most, whatever it is; 0 is not known.
    """

    bounds: dict[str, Bound]
    since: Nanos = 0
    until: Nanos = NEVER
    max_lease: Nanos = 0


@dataclass(slots=True)
class History:
    """All that was logged by all clients, in any order."""

    calls: list[Call] = field(default_factory=list)
    declared: list[Declared] = field(default_factory=list)


def line(call: Call) -> str:
    """One call as a line of a file. A client appends it when the answer is there, or will not come any more."""
    return json.dumps({name: value for name, value in asdict(call).items() if value not in ("", None, {})})


def read(lines: Iterable[str]) -> Iterator[Call]:
    """The calls of a file. The last line may be cut off, if its client was killed while writing it."""
    for text in lines:
        if text.endswith("\n"):
            yield Call(**json.loads(text))
