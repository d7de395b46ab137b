"""How an entry reads in the audit file: one JSON object, on one line.

It knows names of fields. It must never know where a line goes. What there is not is left out; lengths are in seconds.

Written out, not encoded from a dict: that takes three times as long, and there are two lines for each lease.
"""

from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Final

from governor.core.types import SECOND, Claim, Grant
from governor.entries import Entry
from governor.wording import instant

# Microseconds: several things may happen within a millisecond.
_DIGITS: Final = 6


def line(entry: Entry) -> bytes:
    """With its end."""
    parts = [f'{{"time":"{instant(entry.at, _DIGITS)}","what":"{entry.what}"']
    if entry.lease:
        parts.append(f'"lease":{entry.lease}')
    if entry.client:
        parts.append(_client(entry))
    if entry.resources:
        parts.append(f'"resources":[{",".join(map(_text, entry.resources))}]')
    if entry.claims:
        parts.append(f'"claims":[{",".join(map(_claim, entry.claims))}]')
    if entry.reason:
        parts.append(f'"reason":{_text(entry.reason)}')
    if entry.waited is not None:
        parts.append(f'"waited_seconds":{entry.waited / SECOND}')
    if entry.held is not None:
        parts.append(f'"held_seconds":{entry.held / SECOND}')
    if entry.remaining is not None:
        parts.append(f'"remaining_seconds":{entry.remaining / SECOND}')
    if entry.detail:
        parts.append(f'"detail":{_text(entry.detail)}')
    if entry.actor:
        parts.append(f'"actor":{_text(entry.actor)}')
    parts += _seldom(entry)
    # Half a character, as in the name of a file, is written as JSON does, and not as UTF-8 cannot.
    return f"{','.join(parts)}}}\n".encode(errors="backslashreplace")


def _text(text: str) -> str:
    """As JSON; of one that could act on a terminal nothing but ASCII, for such a file is looked at with `less`, too."""
    return encode_basestring(text) if text.isprintable() else encode_basestring_ascii(text)


def _seldom(entry: Entry) -> list[str]:
    """What hardly any has."""
    parts = [f'"actor_client":{_text(entry.actor_client)}'] if entry.actor_client else []
    if entry.times:
        parts.append(f'"times":{entry.times}')
    if entry.missed:
        parts.append(f'"missed":{entry.missed}')
    return parts


def _client(entry: Entry) -> str:
    said = f'"client":{_text(entry.client)}'
    if entry.asker is None:
        return said
    session, pid, host = entry.asker
    said += f',"session":{_text(session)}'
    if pid:
        said += f',"pid":{pid}'
    return f'{said},"host":{_text(host)}' if host else said


def _claim(each: Claim | Grant) -> str:
    said = f'{{"resource":{_text(each.resource)},"permits":{each.permits}'
    if each.key:
        said += f',"key":{_text(each.key)}'
    if isinstance(each, Grant) and each.members:
        said += f',"members":[{",".join([_text(member.id) for member in each.members])}]'
    return f"{said}}}"
