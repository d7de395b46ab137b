"""Lengths of time, rates and sizes as operators write them: ``250ms``, ``1h30m``, ``100/s``, ``10/30s``, ``100MiB``.

It knows exact integers only: no float ever touches a length of time. Its errors never repeat the text, which may
be a secret.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from governor.core.types import MAX_PERMITS, MILLISECOND, SECOND, Nanos

MINUTE: Final[Nanos] = 60 * SECOND
HOUR: Final[Nanos] = 60 * MINUTE
DAY: Final[Nanos] = 24 * HOUR
# Ten years, in the largest unit there is.
MAX_DURATION: Final[Nanos] = 3650 * DAY

# From large to small, the order in which a compound such as 1h30m must be written.
UNITS: Final[dict[str, Nanos]] = {"d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND, "ms": MILLISECOND}

# Bytes. Those of a thousand are what disks are sold in; a bare M or G is read in both ways, so it is not read at all.
SIZES: Final[dict[str, int]] = {
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}

# Longer numbers are not read at all: nothing legal needs them, and reading them takes more than linear time.
_DIGITS: Final = r"[0-9]{1,20}"
_PART: Final = re.compile(rf"({_DIGITS})(?:\.({_DIGITS}))?(ms|[dhms])")
_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]+)?")
_SIZE: Final = re.compile(rf"({_DIGITS})({'|'.join(SIZES)})")
_RATE: Final = re.compile(rf"({_DIGITS})/(.+)")

# How people write the same things where nobody has told them how.
_WORDS: Final[dict[str, Nanos]] = {
    **UNITS,
    **dict.fromkeys(("msec", "msecs", "millisecond", "milliseconds"), MILLISECOND),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), SECOND),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), MINUTE),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), HOUR),
    **dict.fromkeys(("day", "days"), DAY),
    **dict.fromkeys(("w", "week", "weeks"), 7 * DAY),
}
_LOOSE: Final = rf"({_DIGITS}(?:\.{_DIGITS})?) ?([A-Za-z]+)"
_LOOSE_PART: Final = re.compile(rf"{_LOOSE}(?:,? and |, | |$|(?=[0-9]))")
_LOOSE_RATE: Final = re.compile(rf"({_DIGITS}(?:\.{_DIGITS})?) ?(?:/|per |an? |every |each ) ?(.+)")
# No attempt is made to understand a longer text.
_MAX_LOOSE: Final = 64


class UnitError(ValueError):
    """Text that is no length of time or no rate; the message is a hint at the way out, and may be empty.

    ``meant``: how the same is written here, if it can be told. Unlike the message it says what the text said.
    """

    def __init__(self, hint: str = "", *, meant: str = "") -> None:
        super().__init__(hint)
        self.meant = meant


@dataclass(slots=True, frozen=True)
class Rate:
    """``permits`` in each ``period``, which is never 0."""

    permits: int
    period: Nanos


def parse_duration(text: str) -> Nanos:
    """Reads ``30s`` or ``1h30m`` or ``1.5s`` or a plain ``0``; raises `UnitError`. It sets no upper bound."""
    if text == "0":
        return 0
    if _NUMBER.fullmatch(text):
        raise UnitError("add a unit (ms, s, m, h or d)")
    total, position = 0, 0
    above: Nanos | None = None
    fraction: str | None = None
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            raise UnitError(_hint(text, "30s"), meant=_meant_duration(text))
        if fraction is not None:
            raise UnitError("only the last number can have a fraction")
        whole, fraction, unit = part.groups()
        size = UNITS[unit]
        if above is not None and size >= above:
            raise UnitError("write each unit once, the larger ones first")
        above = size
        total += int(whole) * size + _exactly(fraction or "0", size)
        position = part.end()
    if not text:
        raise UnitError
    return total


def format_duration(length: Nanos) -> str:
    """The shortest text in whole days, hours, minutes that `parse_duration` reads as ``length`` (>= 0)."""
    text = ""
    for unit in ("d", "h", "m"):
        count, length = divmod(length, UNITS[unit])
        text += f"{count}{unit}" if count else ""
    if length or not text:
        unit = "s" if text or length == 0 or length >= SECOND else "ms"
        count, rest = divmod(length, UNITS[unit])
        width = len(str(UNITS[unit])) - 1
        text += f"{count}.{rest:0{width}}".rstrip("0").removesuffix(".") if rest else str(count)
        text += unit
    return text


def parse_rate(text: str) -> Rate:
    """Reads ``100/s`` or ``10/30s``; raises `UnitError`. ``0/s`` is a rate: nothing is ever granted."""
    if _NUMBER.fullmatch(text):
        raise UnitError("say in what time, as in 100/s")
    match = _RATE.fullmatch(text)
    if match is None:
        raise UnitError(_hint(text, "100/s"), meant=_meant_rate(text))
    permits, per = match.groups()
    try:
        period = UNITS[per] if per in UNITS else parse_duration(f"1{per}" if per.isalpha() else per)
    except UnitError as error:
        raise UnitError(_hint(text, "100/s") or str(error), meant=_meant_rate(text)) from None
    if period == 0:
        raise UnitError("the time after the slash cannot be 0")
    return Rate(int(permits), period)


def format_rate(rate: Rate) -> str:
    """Text that `parse_rate` reads as ``rate``."""
    for unit, size in UNITS.items():
        if rate.period == size:
            return f"{rate.permits}/{unit}"
    return f"{rate.permits}/{format_duration(rate.period)}"


def parse_size(text: str) -> int:
    """Reads ``100MiB`` or ``1GB`` as bytes; raises `UnitError`. It sets no upper bound."""
    if _NUMBER.fullmatch(text):
        raise UnitError("add a unit (KiB, MiB, GiB or TiB)")
    match = _SIZE.fullmatch(text)
    if match is None:
        spaced = re.search(r"\s", text)
        raise UnitError("write it without spaces, as in 100MiB" if spaced else _size_hint(text))
    return int(match[1]) * SIZES[match[2]]


def format_size(size: int) -> str:
    """The shortest text that `parse_size` reads as ``size`` (> 0), a whole number of kB or KiB at least."""
    return min((f"{size // unit}{name}" for name, unit in SIZES.items() if size % unit == 0), key=len)


def _size_hint(text: str) -> str:
    if re.fullmatch(rf"{_DIGITS}\.{_DIGITS}[A-Za-z]+", text):
        return "write a whole number of a smaller unit"
    return "the units are KiB, MiB, GiB and TiB" if re.fullmatch(rf"{_DIGITS}[A-Za-z]+", text) else ""


def _hint(text: str, example: str) -> str:
    if re.search(r"\s", text):
        return f"write it without spaces, as in {example}"
    return "the units are ms, s, m, h and d" if re.fullmatch(rf"{_DIGITS}(\.{_DIGITS})?[A-Za-z]+", text) else ""


def _exactly(fraction: str, size: Nanos) -> Nanos:
    length, rest = divmod(int(fraction) * size, int(10 ** len(fraction)))
    if rest:
        raise UnitError("a fraction finer than a nanosecond cannot be kept")
    return length


def _meant_duration(text: str) -> str:
    """``5 seconds``, ``1 hour 30 min`` or ``1w`` as `parse_duration` reads it; "" if that cannot be told."""
    length = _loose(text)
    return "" if length is None else format_duration(length)


def _meant_rate(text: str) -> str:
    """``100 per second``, ``1.5/s`` or ``10 / 30 sec`` as `parse_rate` reads it; "" if that cannot be told."""
    match = _LOOSE_RATE.fullmatch(" ".join(text[: _MAX_LOOSE + 1].split()))
    if match is None or len(text) > _MAX_LOOSE:
        return ""
    per = match[2]
    period = _loose(per if per[0].isdecimal() else f"1{per}")
    permits = Fraction(match[1])
    if not period or permits.numerator > MAX_PERMITS or period * permits.denominator > MAX_DURATION:
        return ""
    return format_rate(Rate(permits.numerator, period * permits.denominator))


def _loose(text: str) -> Nanos | None:
    """The length of time in everyday writing, up to `MAX_DURATION`."""
    if len(text) > _MAX_LOOSE:
        return None
    total, position, line = Fraction(0), 0, " ".join(text.split())
    while position < len(line):
        part = _LOOSE_PART.match(line, position)
        size = _WORDS.get(part[2].lower()) if part else None
        if part is None or size is None:
            return None
        total += Fraction(part[1]) * size
        position = part.end()
    return int(total) if total.denominator == 1 and 0 < total <= MAX_DURATION else None
