"""X.509: what a certificate says of itself: whose it is, how long it counts, what kind of key it is for.

It knows where in a certificate that stands. It must never know files, nor whom to believe. The ssl module tells that
of others' certificates alone.
"""

import datetime as dt
import re
import ssl
from dataclasses import dataclass
from typing import Final

from governor.der import element, elements, sans

_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
# Of DER: a whole number, a version, and the two ways to write an instant.
_INTEGER, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x02, 0xA0, 0x17, 0x18
_COMMON_NAME: Final = bytes.fromhex("550403")

# X.509 writes years with two digits until then, and strptime reads some of them as later ones.
_LAST_SHORT_YEAR: Final = 2049

_RSA: Final = bytes.fromhex("2a864886f70d010101")
_CURVE: Final = bytes.fromhex("2a8648ce3d0201")
_LEAST_BITS: Final = 2048
# Those that both OpenSSL and what gRPC has in its place know.
_CURVES: Final = {
    bytes.fromhex("2a8648ce3d030107"): "P-256",
    bytes.fromhex("2b81040022"): "P-384",
    bytes.fromhex("2b81040023"): "P-521",
}
_KINDS: Final = {
    bytes.fromhex("2b6570"): "Ed25519",
    bytes.fromhex("2b6571"): "Ed448",
    bytes.fromhex("2a864886f70d01010a"): "RSA for PSS alone",
}
EXPECTED: Final = f"RSA of at least {_LEAST_BITS} bits, or one on P-256, P-384 or P-521"


class X509Error(ValueError):
    """It is no certificate, or does not say what it must."""


@dataclass(slots=True, frozen=True)
class About:
    """What the first certificate says: ``name`` ("" if none), the ``kind`` of its key, whether gRPC ``serves`` with it.

    ``since`` and ``until``, in seconds of Unix time: when all that are there count.
    """

    name: str
    kind: str
    serves: bool
    since: float
    until: float


def read(pem: bytes) -> About:
    """What the certificates in this text say. Raises `X509Error`."""
    found = _PEM.findall(pem)
    try:
        fields = [_fields(ssl.PEM_cert_to_DER_cert(each.decode("ascii"))) for each in found]
        spans = [_span(each[3]) for each in fields]
        since, until = max(since for since, _ in spans), min(until for _, until in spans)
    except (ValueError, IndexError) as error:
        raise X509Error("it does not say how long it counts") from error
    try:
        kind, serves = _key(fields[0][5])
        name = _name(found[0], fields[0][4])
    except (ValueError, IndexError) as error:
        raise X509Error("it does not say what kind of key it is for") from error
    return About(name, kind, serves, since, until)


def written(instant: float) -> str:
    """An instant as people read it."""
    return dt.datetime.fromtimestamp(instant, dt.UTC).strftime("%Y-%m-%d %H:%M UTC")


def _fields(der: bytes) -> list[bytes]:
    """What is in each of: a number, how it is signed, by whom, a span, whose it is, the key."""
    _, inside, _ = element(element(der)[1])
    parts = list(elements(inside))
    if parts[0][0] == _VERSION:
        del parts[0]
    if parts[0][0] != _INTEGER:
        raise ValueError("there is no serial number")
    return [value for _, value in parts[:6]]


def _span(span: bytes) -> tuple[float, float]:
    (since_tag, since), (until_tag, until), *_ = elements(span)
    return _instant(since_tag, since), _instant(until_tag, until)


def _key(info: bytes) -> tuple[str, bool]:
    """What kind it is, and whether it will do."""
    (_, algorithm), (_, bits), *_ = elements(info)
    (_, which), *parameters = elements(algorithm)
    if which == _RSA:
        # Behind the number of bits that are left over: a sequence of the modulus and an exponent.
        _, modulus = next(elements(element(bits[1:])[1]))
        length = int.from_bytes(modulus).bit_length()
        return f"RSA of {length} bits", length >= _LEAST_BITS
    if which == _CURVE:
        curve = parameters[0][1] if parameters else b""
        name = _CURVES.get(curve)
        return f"on {name or 'another curve'}", name is not None
    return _KINDS.get(which, "of another kind"), False


def _name(pem: bytes, subject: bytes) -> str:
    """The common name, else the first name of a host or URI; empty if there is neither."""
    for _, group in elements(subject):
        for _, attribute in elements(group):
            (_, which), (_, value), *_ = elements(attribute)
            if which == _COMMON_NAME and value:
                return value.decode(errors="replace")
    return next(iter(sans(pem)), "")


def _instant(tag: int, text: bytes) -> float:
    if tag not in {_UTC_TIME, _GENERALIZED_TIME}:
        raise ValueError("there is no instant")
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    found = dt.datetime.strptime(text.decode("ascii"), form).replace(tzinfo=dt.UTC)
    if tag == _UTC_TIME and found.year > _LAST_SHORT_YEAR:
        found = found.replace(year=found.year - 100)
    return found.timestamp()
