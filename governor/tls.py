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


# What is wrong with a file that is to say whom to trust.
NOBODY: Final = "there are no certificates in it"


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
        told = f"{KEY_VARIABLE} is set, {CERT_VARIABLE} is not"
        raise TlsError(f"{told}: name the file of the key's certificate in it, or unset both")
    return (cert, key or cert) if cert else None


def reason_of(reason: str | None) -> str:
    """What OpenSSL gives as its reason, behind words of ours; nothing where it only names a part of itself."""
    said = (reason or "").replace("_", " ").lower()
    return "" if not said or said.endswith(" lib") else f" ({said})"


def unfit(cert: str, key: str, *, named: bool = True) -> str:
    """What is wrong with files of which OpenSSL takes no certificate with its key; ``named``: by the environment.

    A certificate and no key is the usual mistake, and OpenSSL says nothing of it that anybody could use.
    """
    if cert != key:
        return f"{cert} and {key}: they are no certificate and its key"
    if not named:
        return (
            f"{cert}: there is no certificate with its key in it: give cert=(certificate, key), or write both into it"
        )
    return (
        f"there is no certificate with its key in {cert} ({CERT_VARIABLE}): "
        f"name the file of the key in {KEY_VARIABLE}, or write both into one file"
    )
