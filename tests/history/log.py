"""Log: what clients asked, what they were answered, and when, as each of them saw it.

It knows the shape of what is logged, in memory and as lines of JSON. It must never know how it is judged.

All instants are of one clock: that of a simulated world, or the monotonic one that all processes of a machine share.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Final, Literal

Nanos = int
Verb = Literal["acquire", "release", "renew", "gone"]

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
    it asked for a ``length``, that. ``gone``: what the client holds may end from ``asked`` on, because it was cut off
    for longer than its resources wait; one ``lease``, or all of them.
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


@dataclass(slots=True)
class Bound:
    """The limit of one resource: ``permits`` lent at once (None: any number), and of each of ``members`` so many.

    ``windows`` of a rate limit are permits, period and burst each.
    """

    permits: int | None = None
    members: dict[str, int] = field(default_factory=dict)
    windows: list[tuple[int, Nanos, int]] = field(default_factory=list)


@dataclass(slots=True)
class Declared:
    """What may have been in force from ``since`` to ``until``; around a reload that is both, the old and the new."""

    bounds: dict[str, Bound]
    since: Nanos = 0
    until: Nanos = NEVER


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
