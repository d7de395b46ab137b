"""What was meant by a name that no resource has any more, or ever had.

It knows names. It must never ask for one resource in the place of another.
"""

import difflib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from governor.v1.governor_pb2 import Resource

# Comparing takes time: no guess is made at a longer name, or beyond so many resources.
MAX_WORD: Final = 64
MAX_KNOWN: Final = 2000


def meant(name: str, resources: "Sequence[Resource]") -> str:
    """``; did you mean 'thumbnails'?``, or nothing; of one that was removed, that it was."""
    if any(resource.name == name for resource in resources):
        return "; it is removed from the config, and goes with its last lease"
    return near(name, [resource.name for resource in resources[:MAX_KNOWN]])


def near(name: str, names: "Iterable[str]") -> str:
    """``; did you mean 'thumbnails'?``, or nothing."""
    if len(name) > MAX_WORD:
        return ""
    known = {each.casefold(): each for each in names}
    found = difflib.get_close_matches(name.casefold(), known, n=1)
    return f"; did you mean {known[found[0]]!r}?" if found else ""


def meant_by_claim(word: str, name: str, resources: "Sequence[Resource]") -> str:
    """The same for a word RES=N whose name was read as ``name``: perhaps it was to be read otherwise."""
    from governor.core.types import MAX_PERMITS

    known = {resource.name for resource in resources}
    before, _, _ = word.rpartition("=")
    if name == word and before in known:
        return f"; of {before!r}, ask for a whole number of permits from 1 to {MAX_PERMITS}"
    if name != word and word in known:
        return f"; for one permit of {word!r} write {word}=1"
    return meant(name, resources)
