"""The certificate of a daemon: what is wrong with its files, and when it is read anew."""

import datetime as dt
import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from governor.certificates import Certificates, Shown
from governor.lock import BindError
from governor.rpc.certificates import changed
from governor.tls import Tls
from tests.certificates import LAST, LONG_AGO, Authority, Pair


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """One that is in order."""
    return Authority(tmp_path).certify("daemon", "localhost")


def encrypted(path: Path) -> None:
    """The key with a password."""
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"hunter2")
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked))


def piped(path: Path) -> None:
    """A pipe that nobody writes to."""
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda path: path.unlink(), "daemon.key: No such file or directory"),
        (lambda path: path.write_text("x"), "no certificate and its key"),
        (lambda path: path.write_bytes(b""), "no certificate and its key"),
        (lambda path: path.write_bytes(b"x" * (2 << 20)), "daemon.key: it is larger than 1 MiB"),
        (encrypted, "the key has a password"),
        (piped, "no certificate and its key"),
        (lambda path: (path.unlink(), path.mkdir()), "daemon.key: Is a directory"),
    ],
)
def test_a_daemon_does_not_start_without_its_key(pair: Pair, harm: Callable[[Path], object], why: str) -> None:
    """It says which file, and why, and nothing that is in it."""
    text = pair.key.read_text()
    harm(pair.key)
    with pytest.raises(BindError, match=why) as caught:
        Certificates(Tls(pair.cert, pair.key))

    assert text.splitlines()[1] not in str(caught.value)


def test_the_key_of_another_certificate_is_none(tmp_path: Path) -> None:
    """Nor are authorities that are no certificates."""
    authority = Authority(tmp_path)
    one, other = authority.certify("one", "localhost"), authority.certify("other", "localhost")
    with pytest.raises(BindError, match=r"one\.crt and .*other\.key: they are no certificate and its key"):
        Certificates(Tls(one.cert, other.key))
    with pytest.raises(BindError, match=r"one\.key: there are no certificates in it"):
        Certificates(Tls(one.cert, one.key, one.key))


def test_it_is_read_anew_when_its_files_are_others(tmp_path: Path, pair: Pair) -> None:
    """Once for each change, also when a link leads elsewhere; what is not in order is left until it is."""
    told: list[Shown | None] = []
    other = Authority(tmp_path, "second").certify("other", "localhost")
    key = tmp_path / "link"
    key.symlink_to(pair.key)
    certificates = Certificates(Tls(pair.cert, key), told.append)
    first = certificates.now()
    key.unlink()
    key.symlink_to(other.key)
    assert all(certificates.now() is first for _ in range(3))
    assert told == [first, None]
    pair.cert.write_bytes(other.cert.read_bytes())
    second = certificates.now()
    assert second is not first
    assert certificates.now() is second
    assert told == [first, None, second]


def test_each_port_is_told_once(tmp_path: Path, pair: Pair) -> None:
    """Whichever of them saw it first."""
    certificates = Certificates(Tls(pair.cert, pair.key))
    one, other = (changed(certificates, certificates.now()) for _ in range(2))
    assert (one(), other()) == (None, None)
    fresh = Authority(tmp_path, "second").certify("fresh", "localhost")
    pair.cert.write_bytes(fresh.cert.read_bytes())
    pair.key.write_bytes(fresh.key.read_bytes())
    told = [one(), one(), other(), other()]

    assert [each is not None for each in told] == [True, False, True, False]


@pytest.mark.parametrize(
    ("since", "until"),
    [
        ("1951-01-01", "2049-12-31 23:59:59"),
        ("1999-12-31 23:59:59", "2050-01-01"),
        ("2049-12-31", "2050-01-01"),
        ("2026-02-28 12:34:56", "9999-12-31 23:59:59"),
    ],
)
def test_how_long_it_counts_is_known(tmp_path: Path, since: str, until: str) -> None:
    """Of all that is in the file, what is over first; in either form that such an instant has."""
    span = [dt.datetime.fromisoformat(each).replace(tzinfo=dt.UTC) for each in (since, until)]
    authority = Authority(tmp_path)
    pair = authority.certify("daemon", "localhost", span=(span[0], span[1]))
    longer = authority.certify("longer", span=(LONG_AGO, LAST))
    pair.cert.write_bytes(pair.cert.read_bytes() + b"a word between\n" + longer.cert.read_bytes())
    shown = Certificates(Tls(pair.cert, pair.key)).now()

    assert [shown.since, shown.until] == [each.timestamp() for each in span]


@given(st.data())
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_certificate_that_is_torn_is_no_crash(pair: Pair, data: st.DataObject) -> None:
    """Whatever of it is another: it is in order, or it is said that it is not."""
    torn = bytearray(ssl.PEM_cert_to_DER_cert(pair.cert.read_text()))
    for _ in range(data.draw(st.integers(1, 3))):
        torn[data.draw(st.integers(0, len(torn) - 1))] = data.draw(st.integers(0, 255))
    path = pair.cert.with_name("torn.crt")
    path.write_text(ssl.DER_cert_to_PEM_cert(bytes(torn[: data.draw(st.integers(1, len(torn)))])))
    with suppress(BindError):
        Certificates(Tls(path, pair.key))
