"""The names in a certificate, read of what others have checked."""

import random
import ssl
from pathlib import Path

import pytest

from governor.der import sans
from tests.certificates import Authority


@pytest.mark.parametrize(
    ("said", "names"),
    [
        (("orders.internal",), ("orders.internal",)),
        (("orders.internal", "spiffe://prod/mail", "10.0.0.1"), ("orders.internal", "spiffe://prod/mail")),
        (("orders.internal\0.evil.com",), ("orders.internal\0.evil.com",)),
        (("spiffe://prod/mail\0x", "\0"), ("spiffe://prod/mail\0x", "\0")),
        (("10.0.0.1",), ()),
        (tuple(f"{number}.internal" for number in range(300)), tuple(f"{number}.internal" for number in range(300))),
    ],
)
def test_each_name_is_read_whole(tmp_path: Path, said: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Also one with a NUL, which some take for the end of it; an address is no name of a program."""
    assert sans(Authority(tmp_path).certify("somebody", *said).cert.read_bytes()) == names


def test_a_certificate_that_names_nobody(tmp_path: Path) -> None:
    """As an authority's own."""
    assert sans(Authority(tmp_path).cert.read_bytes()) == ()


def test_what_is_no_certificate_has_no_names(tmp_path: Path) -> None:
    """Whatever was cut off or changed in it; nothing is raised."""
    pem = Authority(tmp_path).certify("somebody", "orders.internal").cert.read_bytes()
    der = ssl.PEM_cert_to_DER_cert(pem.decode())
    chance = random.Random(1)
    for at in range(len(der)):
        changed = der[:at] + bytes((chance.randrange(256),)) + der[at + 1 :]
        assert len(sans(ssl.DER_cert_to_PEM_cert(changed).encode())) <= 1
        assert sans(ssl.DER_cert_to_PEM_cert(der[:at]).encode()) == ()
    for other in (b"", b"\xff", pem[:-30]):
        assert sans(other) == ()
