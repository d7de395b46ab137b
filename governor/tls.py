"""TLS: which files say who one is, and whom one trusts, on either side of a connection.

It knows their names. It must never open one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# What says it to the client library and to the command: whom to trust, and the client's own certificate and key.
CA_VARIABLE: Final = "GOVERNOR_CA"
CERT_VARIABLE: Final = "GOVERNOR_CERT"
KEY_VARIABLE: Final = "GOVERNOR_KEY"


class TlsError(ValueError):
    """What is said of TLS makes no sense, or what it names cannot be used. It says why."""


@dataclass(slots=True, frozen=True)
class Tls:
    """A daemon's certificate with those that it was made with, its key, and whose certificates clients must show."""

    cert: Path
    key: Path
    client_ca: Path | None = None

    def __str__(self) -> str:
        asked = "" if self.client_ca is None else f" client_ca {self.client_ca}"
        return f"cert {self.cert} key {self.key}{asked}"


def own(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The client's own certificate, and its key, which may be the same file; None: it has none. Raises `TlsError`."""
    cert, key = environ.get(CERT_VARIABLE), environ.get(KEY_VARIABLE)
    if key and not cert:
        raise TlsError(f"{KEY_VARIABLE} is set, {CERT_VARIABLE} is not: a key is shown with its certificate")
    return (cert, key or cert) if cert else None
