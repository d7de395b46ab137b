"""Wording: how quantities and foreign text read, in a terminal, a log or an error.

It knows characters. It must never write them anywhere.
"""

from typing import Final

MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR


def printable(text: str) -> str:
    r"""What came over the wire, safe to show: control characters appear as ``\x1b`` instead of acting."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def count(number: int, noun: str) -> str:
    """``1 permit``, ``2 permits``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def span(nanos: int) -> str:
    """A length in a few characters, rounded up: ``250ms``, ``1.2s``, ``5m10s``, ``3h05m``, ``2d04h``."""
    if nanos <= 0:
        return "0s"
    if nanos <= SECOND - MILLISECOND:
        return f"{rounded_up(nanos, MILLISECOND)}ms"
    if nanos <= MINUTE - SECOND // 10:
        tenths = rounded_up(nanos, SECOND // 10)
        return f"{tenths // 10}.{tenths % 10}s".replace(".0s", "s")
    if nanos <= HOUR - SECOND:
        minutes, seconds = divmod(rounded_up(nanos, SECOND), 60)
        return f"{minutes}m{seconds:02}s"
    if nanos <= DAY - MINUTE:
        hours, minutes = divmod(rounded_up(nanos, MINUTE), 60)
        return f"{hours}h{minutes:02}m"
    days, hours = divmod(rounded_up(nanos, HOUR), 24)
    return f"{days}d{hours:02}h"


def rounded_up(nanos: int, unit: int) -> int:
    """Whole units, rounded up: who is told "try again in 1.2s" must not come too early."""
    return -(-nanos // unit)
