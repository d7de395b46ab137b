"""One thing that happened, as a line for people and as a line of JSON.

It knows words and units. It must never know how it was heard of.
"""

import datetime as dt
import json
from typing import TYPE_CHECKING, Final

from governor.cli.entries import claims
from governor.cli.lengths import seconds
from governor.wording import count, harmless, printable, span

if TYPE_CHECKING:
    from governor.v1.admin_pb2 import Event

# The longest is "reload_refused", and rare.
_WIDTH: Final = 13


def line(event: "Event") -> str | None:
    """For people: ``21:03:11.250  granted  orders-db=2  importer  lease 17  after 1.2s``; None: not worth a line."""
    if event.what == "watching":
        return None
    at = dt.datetime.fromtimestamp(event.at.seconds, dt.UTC).astimezone()
    parts = [f"{at:%H:%M:%S}.{event.at.nanos // 1_000_000:03}", f"{event.what:<{_WIDTH}}"]
    if event.claims or event.resources:
        parts.append(claims(event.claims) or ", ".join(event.resources))
    if event.client:
        parts.append(event.client)
    if event.lease_id:
        parts.append(f"lease {event.lease_id}")
    parts += _rest(event)
    return printable("  ".join(parts)).rstrip()


def _rest(event: "Event") -> list[str]:
    rest = []
    if event.reason and event.what == "refused":
        rest.append(event.reason.replace("_", " "))
    if event.HasField("waited") and (waited := event.waited.ToNanoseconds()):
        rest.append(f"after waiting {span(waited, passed=True)}")
    if event.HasField("held"):
        rest.append(f"held for {span(event.held.ToNanoseconds(), passed=True)}")
    if event.HasField("remaining"):
        rest.append(f"ends in {span(event.remaining.ToNanoseconds())}")
    if event.detail:
        rest.append(event.detail)
    if event.times:
        rest.append(count(event.times, "time"))
    if event.actor:
        rest.append(f"by {event.actor}")
    if event.actor_client:
        rest.append(f"client {event.actor_client}")
    if event.reason and event.what != "refused":
        rest.append(f"reason: {event.reason}")
    if event.missed:
        rest.append(f"{count(event.missed, 'event')} missed: read faster, or watch less")
    return rest


def json_line(event: "Event") -> str:
    """For programs."""
    return harmless(json.dumps(record(event), ensure_ascii=False))


def record(event: "Event") -> dict[str, object]:
    """The same, before it is written."""
    return {
        "at": event.at.ToJsonString(),
        "what": event.what,
        "resources": list(event.resources),
        "client": event.client or None,
        "session": event.session or None,
        "pid": event.pid or None,
        "host": event.host or None,
        "lease": event.lease_id or None,
        "claims": [{"resource": each.resource, "key": each.key, "permits": each.permits} for each in event.claims],
        "reason": event.reason or None,
        "waited_seconds": seconds(event.waited) if event.HasField("waited") else None,
        "held_seconds": seconds(event.held) if event.HasField("held") else None,
        "remaining_seconds": seconds(event.remaining) if event.HasField("remaining") else None,
        "detail": event.detail or None,
        "actor": event.actor or None,
        "actor_client": event.actor_client or None,
        "times": event.times or None,
        "missed": event.missed or None,
    }
