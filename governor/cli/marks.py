"""What the numbers of a resource do not say.

It knows words. It must never know where they are shown.
"""

from typing import TYPE_CHECKING

from governor import wording
from governor.wording import printable, span

if TYPE_CHECKING:
    from governor.v1.governor_pb2 import Override, Resource


def marks(resource: "Resource") -> list[str]:
    """In the order of how much they explain."""
    marks = []
    if resource.removed:
        # It has left the config, and drains by that.
        marks.append("removed")
    if resource.paused:
        marks.append(f"paused{said(resource)}")
    if resource.draining and not resource.removed:
        marks.append(f"draining{said(resource)}")
    if resource.over_limit:
        marks.append(f"{resource.over_limit} over limit")
    if resource.HasField("override"):
        left = span(resource.override.remaining.ToNanoseconds())
        marks.append(f"{override(resource.override)} for {left}{said(resource.override)}")
    if quarantined := resource.members.quarantined:
        marks.append(f"{quarantined} quarantined")
    return marks


def said(of: "Resource | Override") -> str:
    """Who has ordered it, and why, as far as he said: `` (by joe@web-1, client ops: the provider is down)``."""
    words = wording.said(of.actor, of.reason, of.actor_client)
    return f" ({printable(words)})" if words else ""


def beside_declared(each: "Override") -> str:
    """What it sets, and what it stands in the place of: ``permits 12 (the config says 8)``."""
    words = (
        f"{name} {value} (the config says {each.declared.get(name, 'nothing')})"
        for name, value in sorted(each.settings.items())
    )
    return printable(", ".join(words))


def override(each: "Override") -> str:
    """What it sets: ``permits=12``."""
    return printable(" ".join(f"{name}={value}" for name, value in sorted(each.settings.items())))
