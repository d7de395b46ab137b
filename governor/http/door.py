"""The door: who may read which page, where that is asked.

It knows what a request says of who makes it, and how a refusal reads over HTTP. It must never know who may read what.

A token is sent as a bearer's, or as a password for the sake of browsers, which ask for one by themselves. Whether the
daemon lives and takes asks is told to everybody: a probe has no token.
"""

import binascii
from base64 import b64decode
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final

from governor import der
from governor.access import Client
from governor.core.types import SECOND, Denial, Reason
from governor.http.reply import Reply, say

# Who said that, over a connection whose certificate has these names, if he may read of this resource, or if that is
# None of the daemon as a whole; else why not. The last is where he calls from.
Known = Callable[[Sequence[str], tuple[str, ...], str | None, str], Client | Denial]

OPEN: Final = frozenset({"/-/healthy", "/-/ready"})
RESOURCES: Final = "/-/resources/"

_BASIC: Final = "basic "
_CHALLENGE: Final = 'Bearer realm="governor", Basic realm="governor", charset="UTF-8"'
_UNKNOWN: Final = (
    "this is for clients that may read: send the token of one, as Authorization: Bearer TOKEN or as the password\n"
)


class Door:
    """Asked before anything else is looked at."""

    def __init__(self, known: Known) -> None:
        self._known = known

    def reader(self, path: str, said: Sequence[str], sans: tuple[str, ...], origin: str) -> Client | Reply | None:
        """Who reads this, or what he is told who may not; None is anybody.

        ``said``: each Authorization of his. ``origin``: the machine from which he calls.
        """
        if path in OPEN:
            return None
        resource = path.removeprefix(RESOURCES) if path.startswith(RESOURCES) else None
        known = self._known([_as_bearer(each) for each in said], sans, resource, origin)
        return _told(known) if isinstance(known, Denial) else known


def sans(certificate: object) -> tuple[str, ...]:
    """The names of hosts and the URIs in a certificate that is in order, as `Handshakes` has it of a connection."""
    return der.sans_of(certificate) if isinstance(certificate, bytes) else ()


def _as_bearer(said: str) -> str:
    """The password of a browser as the token that it is."""
    if said[: len(_BASIC)].lower() != _BASIC:
        return said
    try:
        decoded = b64decode(said[len(_BASIC) :].strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return said
    return f"Bearer {decoded.partition(':')[2]}"


def _told(denial: Denial) -> Reply:
    match denial.reason:
        case Reason.UNAUTHENTICATED:
            return say(HTTPStatus.UNAUTHORIZED, _UNKNOWN, **{"WWW-Authenticate": _CHALLENGE})
        case Reason.CLIENT_LIMIT:
            seconds = str(-(-(denial.retry_after or SECOND) // SECOND))
            return say(HTTPStatus.TOO_MANY_REQUESTS, "more often than you may\n", **{"Retry-After": seconds})
        case _:
            return say(HTTPStatus.FORBIDDEN, "you may not read this\n")
