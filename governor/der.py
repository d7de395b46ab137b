r"""DER: the little of it that is read here of certificates which others have checked.

It knows elements and the names in a certificate. It must never be asked whether a certificate is in order.

The ssl module tells of the certificate of whoever connects, but not where gRPC speaks TLS, and it raises if a name is
no UTF-8. And gRPC itself hands out each name only up to its first NUL, so one of `orders.internal\0.evil.com` would be
taken for `orders.internal`.
"""

import ssl
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

_EXTENSIONS: Final = 0xA3
_OCTETS: Final = 0x04
_SUBJECT_ALT_NAME: Final = bytes.fromhex("551d11")
# An address or a mailbox is no name of a program.
_HOST, _URI = 0x82, 0x86


def element(data: bytes) -> tuple[int, bytes, bytes]:
    """Tag and contents of the first element, and what comes after it. Raises IndexError if it is cut off."""
    length, begin = data[1], 2
    if length & 0x80:
        begin += length & 0x7F
        length = int.from_bytes(data[2:begin])
    end = begin + length
    if end > len(data):
        raise IndexError("it ends too early")
    return data[0], data[begin:end], data[end:]


# Whoever calls shows the same one with each call, and to read it costs more than the call.
@lru_cache(maxsize=256)
def sans(pem: bytes) -> tuple[str, ...]:
    """The names of hosts and the URIs in a certificate, each whole; of one that cannot be read none."""
    try:
        return sans_of(ssl.PEM_cert_to_DER_cert(pem.decode("ascii")))
    except ValueError:
        return ()


def sans_of(der: bytes) -> tuple[str, ...]:
    """The same of one that is not written as text."""
    try:
        return tuple(_sans(der))
    except (ValueError, IndexError):
        return ()


def _sans(der: bytes) -> Iterator[str]:
    for tag, value in elements(_extension(der, _SUBJECT_ALT_NAME)):
        if tag in {_HOST, _URI}:
            yield value.decode("ascii")


def _extension(der: bytes, wanted: bytes) -> bytes:
    """What is in the one extension of this kind; empty without it."""
    _, fields, _ = element(element(der)[1])
    extensions = [value for tag, value in elements(fields) if tag == _EXTENSIONS]
    found = []
    for _, extension in elements(element(extensions[0])[1]) if extensions else ():
        # Its kind, perhaps whether it is critical, and its value.
        (_, kind), *_, (tag, value) = elements(extension)
        if kind == wanted and tag == _OCTETS:
            found.append(value)
    if len(found) > 1:
        raise ValueError("it says twice who it is for")
    return element(found[0])[1] if found else b""


def elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and contents of all, one after the other. Raises IndexError as above."""
    while data:
        tag, value, data = element(data)
        yield tag, value
