"""TLS: which files say who one is, and whom one trusts, on either side of a connection.

It knows their names. It must never open one.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

# What says it to the client library and to the command: whom to trust, and the client's own certificate and key.
CA_VARIABLE: Final = "GOVERNOR_CA"
CERT_VARIABLE: Final = "GOVERNOR_CERT"
KEY_VARIABLE: Final = "GOVERNOR_KEY"


@dataclass(slots=True, frozen=True)
class Tls:
    """A daemon's certificate with those that it was made with, its key, and whose certificates clients must show."""

    cert: Path
    key: Path
    client_ca: Path | None = None

    def __str__(self) -> str:
        asked = "" if self.client_ca is None else f" client_ca {self.client_ca}"
        return f"cert {self.cert} key {self.key}{asked}"
