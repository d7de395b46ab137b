"""How an entry reads in the audit file: one JSON object, on one line.

It knows names of fields. It must never know where a line goes. What there is not is left out; lengths are in seconds.
"""

import json
from typing import Final

from governor.core.types import SECOND, Claim, Grant, Nanos
from governor.entries import Entry
from governor.wording import instant

# Microseconds: several things may happen within a millisecond.
_DIGITS: Final = 6
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def line(entry: Entry) -> bytes:
    """With its end."""
    said: dict[str, object] = {"time": instant(entry.at, _DIGITS), "what": entry.what}
    if entry.lease:
        said["lease"] = entry.lease
    if entry.client:
        said["client"] = entry.client
    if entry.resources:
        said["resources"] = entry.resources
    if entry.claims:
        said["claims"] = [_claim(each) for each in entry.claims]
    if entry.reason:
        said["reason"] = entry.reason
    for name, length in (
        ("waited_seconds", entry.waited),
        ("held_seconds", entry.held),
        ("remaining_seconds", entry.remaining),
    ):
        if length is not None:
            said[name] = _seconds(length)
    if entry.detail:
        said["detail"] = entry.detail
    if entry.actor:
        said["actor"] = entry.actor
    if entry.missed:
        said["missed"] = entry.missed
    # Half a character, as in the name of a file, is written as JSON does, and not as UTF-8 cannot.
    return f"{_encode(said)}\n".encode(errors="backslashreplace")


def _claim(each: Claim | Grant) -> dict[str, object]:
    said: dict[str, object] = {"resource": each.resource, "permits": each.permits}
    if each.key:
        said["key"] = each.key
    if isinstance(each, Grant) and each.members:
        said["members"] = [member.id for member in each.members]
    return said


def _seconds(length: Nanos) -> float:
    return length / SECOND
