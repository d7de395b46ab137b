"""Wording: how quantities and foreign text read, in a terminal, a log or an error.

It knows characters. It must never write them anywhere.
"""

import json
import textwrap
import time
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR


def printable(text: str) -> str:
    r"""What others wrote, safe to show: control characters appear as ``\x1b`` instead of acting."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def harmless(document: str) -> str:
    r"""The same JSON, safe to show: whatever in its texts could act on a terminal is written as ``\u202e``."""
    if document.isprintable():
        return document
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in document)


def count(number: int, noun: str) -> str:
    """``1 permit``, ``2 permits``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``11th``."""
    teens = 11 <= number % 100 <= 13  # noqa: PLR2004 - the eleventh, twelfth and thirteenth
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def were(number: int, noun: str) -> str:
    """``1 line was``, ``2 lines were``."""
    return f"{count(number, noun)} {'was' if number == 1 else 'were'}"


def are(number: int, noun: str) -> str:
    """``1 lease is``, ``2 leases are``."""
    return f"{count(number, noun)} {'is' if number == 1 else 'are'}"


def said(actor: str, reason: str, client: str = "") -> str:
    """Who has ordered something and why, as far as he said, and as which ``client`` he is known.

    ``by joe@web-1, client ops: the provider is down``
    """
    who = ", ".join(filter(None, (actor, f"client {client}" if client else "")))
    return ": ".join(filter(None, (f"by {who}" if who else "", reason)))


def counted(kinds: Iterable[str]) -> str:
    """Resources by their kinds: ``3 resources (1 pool, 2 semaphores)``."""
    numbers = Counter(kinds)
    if not numbers:
        return "no resources"
    parts = ", ".join(count(number, kind) for kind, number in sorted(numbers.items()))
    return f"{count(numbers.total(), 'resource')} ({parts})"


def span(nanos: int, *, passed: bool = False) -> str:
    """A length in a few characters: ``250ms``, ``1.2s``, ``5m10s``, ``3h05m``, ``2d04h``, or just ``2d``.

    Rounded up, so that who is told "try again in 1.2s" does not come too early; what has ``passed`` is rounded down.
    """

    def whole(unit: int) -> int:
        return nanos // unit if passed else rounded_up(nanos, unit)

    if (milliseconds := whole(MILLISECOND)) <= 0:
        return "0s"
    if milliseconds < SECOND // MILLISECOND:
        return f"{milliseconds}ms"
    if (tenths := whole(SECOND // 10)) < MINUTE // (SECOND // 10):
        return f"{tenths // 10}.{tenths % 10}s".replace(".0s", "s")
    if (seconds := whole(SECOND)) < HOUR // SECOND:
        return _two(seconds, 60, "m", "s")
    if (minutes := whole(MINUTE)) < DAY // MINUTE:
        return _two(minutes, 60, "h", "m")
    return _two(whole(HOUR), 24, "d", "h")


def _two(number: int, size: int, large: str, small: str) -> str:
    """So many of the small unit, with ``size`` of them in a large one; what is not there is not said."""
    larger, smaller = divmod(number, size)
    return f"{larger}{large}{smaller:02}{small}" if smaller else f"{larger}{large}"


def instant(at: int, digits: int) -> str:
    """Nanoseconds of Unix time as RFC 3339 has it, in UTC, with so many digits of the second."""
    seconds, nanos = divmod(at, SECOND)
    return f"{_second(seconds)}.{nanos // 10 ** (9 - digits):0{digits}}Z"


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def rounded_up(nanos: int, unit: int) -> int:
    """Whole units of a length, the last one perhaps not full."""
    return -(-nanos // unit)


def folded(line: str, width: int | None) -> list[str]:
    """A line in as many as it takes, each of them at most ``width`` columns wide unless a word is longer."""
    if width is None or len(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip(" ")) + 2)
    return textwrap.wrap(line, max(20, width), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def fitted(text: str, width: int | None) -> str:
    """Each line of a text in as many."""
    return "\n".join(part for line in text.split("\n") for part in folded(line, width))
