"""The certificate of a daemon: what is wrong with its files, and when it is read anew."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from governor.lock import BindError
from governor.rpc.certificates import Certificates
from governor.tls import Tls
from tests.certificates import Authority, Pair


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
    told: list[bool] = []
    other = Authority(tmp_path, "second").certify("other", "localhost")
    key = tmp_path / "link"
    key.symlink_to(pair.key)
    certificates = Certificates(Tls(pair.cert, key), told.append)
    assert certificates._changed() is None
    key.unlink()
    key.symlink_to(other.key)
    assert [certificates._changed() for _ in range(3)] == [None] * 3
    assert told == [False]
    pair.cert.write_bytes(other.cert.read_bytes())
    assert certificates._changed() is not None
    assert certificates._changed() is None
    assert told == [False, True]
