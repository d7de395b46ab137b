"""How claims are written on a command line: ``RES`` or ``RES=N``.

It knows the writing. It must never know whether such a resource exists.
"""

from typing import TYPE_CHECKING

import click

from governor.core.types import MAX_PERMITS

if TYPE_CHECKING:
    from collections.abc import Sequence


def parse(words: "Sequence[str]", permits: int | None) -> list[tuple[str, int]]:
    """Resources and permits; ``permits`` is for each word that names no number itself, None is 1.

    A name may hold ``=``: only what follows the last one is read as a number, and only if it is one.

    Raises:
        click.UsageError: a word cannot be a claim.
    """
    claims = [_one(word, 1 if permits is None else permits) for word in words]
    names = [name for name, _ in claims]
    for name in names:
        if names.count(name) > 1:
            raise click.UsageError(f"{name!r} is named twice; ask for it once, as {name}=N")
    return claims


def _one(word: str, permits: int) -> tuple[str, int]:
    name, equals, number = word.rpartition("=")
    if not equals or not number.removeprefix("-").isdecimal():
        name, number = word, str(permits)
    if not name:
        raise click.UsageError(f"{word!r} names no resource; write RES or RES=N")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise click.UsageError(f"{word!r} is not valid UTF-8, so it cannot be the name of a resource") from None
    # More digits than any permit count has; int() itself refuses thousands of them.
    if len(number) > len(str(MAX_PERMITS)) + 1 or not 1 <= int(number) <= MAX_PERMITS:
        raise click.UsageError(f"{word!r}: ask for a whole number of permits from 1 to {MAX_PERMITS}")
    return name, int(number)
