"""How a client proves who it is: a token, and over what it may go.

It knows where the token is, and reads it anew for each connection, so that it can be changed under a running program.
It must never send it where others can read it, nor show it.
"""

import ipaddress
import os
import socket
from typing import Final

from governor import token
from governor.client.errors import UsageError

_IN_THE_CLEAR: Final = (
    "a token goes over a unix socket or loopback alone, and not in the clear to where others may read it"
)


class Credentials:
    """``token``: itself, or None: the one in ``file``, or else in the file that GOVERNOR_TOKEN_FILE names, if any.

    Raises:
        UsageError: Both are given, or the token is none.
    """

    def __init__(self, given: str | None = None, file: str | os.PathLike[str] | None = None) -> None:
        if given is not None and file is not None:
            raise UsageError("a client has one token: give token or token_file, not both")
        try:
            self._token = None if given is None else token.checked(given)
        except token.TokenError as error:
            raise UsageError(f"token: {error}") from None
        self._file = file

    def arguments(self) -> dict[str, object]:
        """What makes others like these, as a client takes it."""
        return {"token": self._token, "token_file": self._file}

    def __repr__(self) -> str:
        return "Credentials(…)"

    def headers(self, sock: socket.socket) -> list[tuple[str, str]]:
        """What a call over this socket, which is about to connect, says beside its path. Raises TokenError."""
        said = self._read()
        if not said:
            return []
        if not _stays_here(sock):
            raise token.TokenError(_IN_THE_CLEAR)
        return [token.header(said)]

    def _read(self) -> str:
        if self._token is not None:
            return self._token
        return token.of_environment(os.environ) if self._file is None else token.read(self._file)


def _stays_here(sock: socket.socket) -> bool:
    """Whether what is sent on it cannot be read on any network. It has an address as soon as it begins to connect."""
    if sock.family == socket.AF_UNIX:
        return True
    # The kernel gives a connection to loopback a source there, and no other one.
    source = ipaddress.ip_address(sock.getsockname()[0])
    mapped = source.ipv4_mapped if isinstance(source, ipaddress.IPv6Address) else None
    return (mapped or source).is_loopback
