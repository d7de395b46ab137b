"""How a client proves who it is, and knows the daemon: a token, certificates, and over what they may go.

It knows where they are, and reads them anew for each connection, so that they can be changed under a running program.
It must never send a token where others can read it, nor show it.
"""

import ipaddress
import os
import socket
import ssl
from pathlib import Path
from typing import Final

from governor import token
from governor.client.errors import UsageError
from governor.tls import CA_VARIABLE, NOBODY, TlsError, own, reason_of, unfit

File = str | os.PathLike[str] | None
# One file with both, or two.
Cert = File | tuple[str | os.PathLike[str], str | os.PathLike[str]]

_IN_THE_CLEAR: Final = (
    "a token goes over TLS, a unix socket or loopback, and not in the clear to where others may read it"
)


class Credentials:
    """``given``: the token itself, or None: the one in ``file``, or else in the file that GOVERNOR_TOKEN_FILE names.

    ``ca`` and ``cert``, with its key: files, else those that GOVERNOR_CA, GOVERNOR_CERT and GOVERNOR_KEY name. Without
    a ``ca`` those are trusted whom the system trusts.

    Raises:
        UsageError: Both are given, or the token is none.
    """

    def __init__(self, given: str | None = None, file: File = None, *, ca: File = None, cert: Cert = None) -> None:
        if given is not None and file is not None:
            raise UsageError("a client has one token: give token or token_file, not both")
        try:
            self._token = None if given is None else token.checked(given)
        except token.TokenError as error:
            raise UsageError(f"token: {error}") from None
        self._file = file
        self._ca, self._cert = ca, cert

    def arguments(self) -> dict[str, object]:
        """What makes others like these, as a client takes it."""
        return {"token": self._token, "token_file": self._file, "ca": self._ca, "cert": self._cert}

    def __repr__(self) -> str:
        return "Credentials(…)"

    def context(self) -> ssl.SSLContext:
        """Whom to trust, and what to show, where TLS is spoken. Raises TokenError."""
        ca = _named(CA_VARIABLE) if self._ca is None else self._ca
        try:
            context = _trusting(ca)
            cert, key = self._own()
            if cert is not None:
                _show(context, os.fspath(cert), os.fspath(key or cert), named=self._cert is None)
        except ValueError as error:  # a TlsError, or what Python says of a path that can be none
            raise token.TokenError(f"TLS: {error}") from None
        return context

    def check(self) -> None:
        """Raise UsageError if what is to be shown where TLS is spoken makes no sense, whatever is in the files."""
        try:
            self._own()
        except TlsError as error:
            raise UsageError(f"TLS: {error}") from None

    def _own(self) -> tuple[File, File]:
        cert, key = self._cert if isinstance(self._cert, tuple) else (self._cert, None)
        return (own(os.environ) or (None, None)) if cert is None else (cert, key)

    def headers(self, sock: socket.socket, *, secret: bool = False) -> list[tuple[str, str]]:
        """What a call over this socket, which is about to connect, says beside its path. Raises TokenError.

        ``secret``: nobody else can read it.
        """
        said = self._read()
        if not said:
            return []
        if not (secret or _stays_here(sock)):
            raise token.TokenError(_IN_THE_CLEAR)
        return [token.header(said)]

    def _read(self) -> str:
        if self._token is not None:
            return self._token
        return token.of_environment(os.environ) if self._file is None else token.read(self._file)


def _trusting(ca: File) -> ssl.SSLContext:
    """Who may say that he is the daemon: whom the file certifies, or the system. Raises TlsError."""
    try:
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError as error:
        raise TlsError(f"{_spoken(ca)}: {NOBODY}{reason_of(error.reason)}") from error
    except OSError as error:
        raise TlsError(f"{_spoken(ca)}: {error.strerror or error}") from error


def _show(context: ssl.SSLContext, cert: str, key: str, *, named: bool) -> None:
    """This certificate, with its key, to whoever asks for one. Raises TlsError; it says which file is amiss."""
    file = cert
    try:
        # OpenSSL does not say which of them it cannot open.
        for file in (cert, key):
            Path(file).open("rb").close()
        context.load_cert_chain(cert, key, password=_no_password)
    except ssl.SSLError as error:
        raise TlsError(f"{unfit(cert, key, named=named)}{reason_of(error.reason)}") from error
    except OSError as error:
        raise TlsError(f"{file}: {error.strerror or error}") from error


def _spoken(ca: File) -> str:
    return "the certificates of the system" if ca is None else os.fspath(ca)


def _named(variable: str) -> str | None:
    return os.environ.get(variable) or None


def _no_password() -> str:
    """Else OpenSSL would ask for it at the terminal."""
    raise TlsError("the key has a password: write it without one")


def _stays_here(sock: socket.socket) -> bool:
    """Whether what is sent on it cannot be read on any network. It has an address as soon as it begins to connect."""
    if sock.family == socket.AF_UNIX:
        return True
    # The kernel gives a connection to loopback a source there, and no other one.
    source = ipaddress.ip_address(sock.getsockname()[0])
    mapped = source.ipv4_mapped if isinstance(source, ipaddress.IPv6Address) else None
    return (mapped or source).is_loopback
