"""Where the daemon is: what a program or its environment says, else where one is usually found.

It knows how addresses are written and which sockets they mean. It must never open one.
"""

import ipaddress
import os
import socket
from dataclasses import dataclass, field, replace
from typing import Final

from governor.address import TLS, USUAL_TCP, VARIABLE, usual
from governor.client.errors import UsageError

_MAX_PORT: Final = 65_535

Candidate = tuple[socket.AddressFamily, str | tuple[str, int]]


@dataclass(slots=True, frozen=True)
class Address:
    """One address, as it was written. ``path`` of a unix socket, or ``host`` and ``port``, and whether for TLS.

    ``usual``: nobody has named it.
    """

    text: str
    path: str = ""
    host: str = ""
    port: int = 0
    tls: bool = False
    usual: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return self.text

    @property
    def authority(self) -> str:
        """What HTTP/2 calls the host."""
        return "localhost" if self.path else self.text.removeprefix(TLS)

    @property
    def is_name(self) -> bool:
        """Whether its host is a name that must be looked up, which may take long."""
        if self.path:
            return False
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            return True
        return False

    def candidates(self) -> list[Candidate]:
        """The sockets to try, in order. Raises OSError when the host has no address, ValueError if it is no name."""
        if self.path:
            return [(socket.AF_UNIX, self.path)]
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        return [(socket.AddressFamily(family), (str(where[0]), self.port)) for family, _, _, _, where in found]


def find(address: str | None = None) -> Address:
    """``address``, else what GOVERNOR_ADDRESS says, else the usual socket where there is one, else the usual port.

    Raises:
        UsageError: The text is no address.

    Example:
        >>> find("unix:/run/other.sock").path
        '/run/other.sock'
        >>> find("[::1]:7411").host
        '::1'
    """
    if address is not None:
        return parse(address)
    if said := os.environ.get(VARIABLE):
        return parse(said)
    return replace(parse(usual()), usual=True)


def parse(text: str) -> Address:
    """An address from its text. Raises UsageError."""
    if not _is_text(text):
        raise UsageError(f"an address is a text, such as {USUAL_TCP} or unix:/path/to/governor.sock, not {text!r}")
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if path.startswith("//"):
            path = path.removeprefix("//")
        if not path:
            raise UsageError(f"{text!r} names no socket; write unix:/path/to/governor.sock")
        return Address(text, path=path)
    host, colon, port = text.removeprefix(TLS).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    numbered = port.isascii() and port.isdigit() and 1 <= int(port) <= _MAX_PORT
    if not (colon and host and numbered) or "/" in host:
        raise UsageError(
            f"{text!r} is no address; write host:port, such as {USUAL_TCP}, tls://host:port, or "
            "unix:/path/to/governor.sock"
        )
    return Address(text, host=host, port=int(port), tls=text.startswith(TLS))


def _is_text(value: object) -> bool:
    # A program without type checks may pass anything.
    return isinstance(value, str)
