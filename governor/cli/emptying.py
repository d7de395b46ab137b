"""A resource that drains, watched until nothing of it is held.

It knows when that is, and how it looks meanwhile. It must never change anything.
"""

import sys
import time
from typing import TYPE_CHECKING, Final

from governor.cli import place
from governor.cli.exits import CommandError, Exit
from governor.wording import SECOND, count, printable, span

if TYPE_CHECKING:
    from governor.cli.admin import Admin
    from governor.v1.governor_pb2 import Resource

_LOOK_SECONDS: Final = 0.25
# A daemon may be restarted meanwhile.
_PATIENCE_SECONDS: Final = 30


def until_empty(admin: "Admin", name: str, timeout: int | None) -> "Resource | None":
    """The resource once nothing of it is held; None if it has gone altogether. ``timeout`` is in nanoseconds.

    Raises:
        CommandError: The time is over, somebody has resumed it, or the daemon does not come back.
    """
    begun = seen = time.monotonic()
    shown = place.shown()
    held: Resource | None = None
    try:
        while True:
            away = ""
            try:
                listed = admin.resources().resources
            except CommandError as error:
                if error.exit is not Exit.CANNOT_REACH or time.monotonic() - seen > _PATIENCE_SECONDS:
                    raise
                away = "; the daemon is away"
            else:
                seen = time.monotonic()
                held = next((resource for resource in listed if resource.name == name), None)
                if held is None or not (held.leases or held.in_use):
                    return held
                if not held.draining:
                    word = "paused it instead" if held.paused else "resumed it"
                    still = f"{_left(held)} still held"
                    raise CommandError(Exit.TRY_LATER, f"{printable(name)}: somebody has {word}; {still}")
            so_far = time.monotonic() - begun
            if timeout is not None and so_far >= timeout / SECOND:
                still = "" if held is None else f"; {_left(held)} still held"
                raise CommandError(Exit.TIMED_OUT, f"{printable(name)}: not drained within {span(timeout)}{still}")
            if shown:
                left = "" if held is None else f", {_left(held)} still held"
                words = f"draining {printable(name)}{left}, {span(int(so_far) * SECOND, passed=True)} so far{away}"
                _draw(place.fit(words, place.width_of(sys.stderr)))
            rest = _LOOK_SECONDS if timeout is None else min(_LOOK_SECONDS, max(0.0, timeout / SECOND - so_far))
            time.sleep(rest)
    finally:
        if shown:
            _draw("")


def _left(resource: "Resource") -> str:
    return count(resource.leases, "lease")


def _draw(words: str) -> None:
    sys.stderr.write(place.CLEAR + words)
    sys.stderr.flush()
