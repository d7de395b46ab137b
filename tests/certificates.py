"""Certificates for a test, good and bad: authorities, and what they certify."""

import datetime as dt
import ipaddress
import time
from functools import partial
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.x509.oid import NameOID

from governor.certificates import Certificates

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey

# As a daemon has them.
certificates_of = partial(Certificates, time=time.time)

_DAY: Final = dt.timedelta(days=1)
# The first and the last that a certificate can say.
LONG_AGO: Final = dt.datetime(1950, 1, 1, tzinfo=dt.UTC)
LAST: Final = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)


class Pair:
    """A certificate and its key, as two files."""

    def __init__(self, folder: Path, name: str, cert: x509.Certificate, key: Key) -> None:
        self.cert, self.key = folder / f"{name}.crt", folder / f"{name}.key"
        self.cert.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
        self.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )

    @property
    def both(self) -> tuple[Path, Path]:
        """As a client takes them."""
        return self.cert, self.key


class Authority:
    """Whoever trusts its ``cert`` believes what it certifies."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        made = _begun(self._name, self._name, self._key, now - _DAY, now + _DAY)
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.cert = Pair(folder, name, made.sign(self._key, hashes.SHA256()), self._key).cert

    def certify(
        self,
        name: str,
        *sans: str,
        since: int = -1,
        until: int = 1,
        span: tuple[dt.datetime, dt.datetime] | None = None,
        key: Key | None = None,
        common: bool = True,
        odd: bytes = b"",
    ) -> Pair:
        """Somebody of these names: hosts, addresses or URIs. ``since`` and ``until``: days from now, or a ``span``.

        Not ``common``: without a common name. ``odd``: in place of the names what they are written as, DER.
        """
        key = key or ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] if common else [])
        now = dt.datetime.now(dt.UTC)
        made = _begun(subject, self._name, key, *(span or (now + since * _DAY, now + until * _DAY)))
        names: x509.ExtensionType = x509.SubjectAlternativeName([_san(san) for san in sans])
        if odd:
            names = x509.UnrecognizedExtension(names.oid, odd)
        made = made.add_extension(names, critical=False)
        return Pair(self._folder, name, made.sign(self._key, hashes.SHA256()), key)


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: Key,
    since: dt.datetime,
    until: dt.datetime,
) -> x509.CertificateBuilder:
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number())
    return made.not_valid_before(since).not_valid_after(until)


def _san(san: str) -> x509.GeneralName:
    if "://" in san:
        return x509.UniformResourceIdentifier(san)
    try:
        return x509.IPAddress(ipaddress.ip_address(san))
    except ValueError:
        return x509.DNSName(san)
