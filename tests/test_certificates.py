"""The certificate of a daemon: what is wrong with its files, and when it is read anew."""

import datetime as dt
import os
import re
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from governor.certificates import Certificates, Shown
from governor.lock import BindError
from governor.rpc.certificates import changed, credentials
from governor.tls import Tls
from tests.certificates import LAST, LONG_AGO, Authority, Key, Pair, certificates_of


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
        certificates_of(Tls(pair.cert, pair.key))

    assert text.splitlines()[1] not in str(caught.value)


def test_the_key_of_another_certificate_is_none(tmp_path: Path) -> None:
    """Nor are authorities that are no certificates."""
    authority = Authority(tmp_path)
    one, other = authority.certify("one", "localhost"), authority.certify("other", "localhost")
    with pytest.raises(BindError, match=r"one\.crt and .*other\.key: they are no certificate and its key"):
        certificates_of(Tls(one.cert, other.key))
    with pytest.raises(BindError, match=r"one\.key: there are no certificates in it"):
        certificates_of(Tls(one.cert, one.key, one.key))


def test_it_is_read_anew_when_its_files_are_others(tmp_path: Path, pair: Pair) -> None:
    """Once for each change, also when a link leads elsewhere; what is not in order is left until it is."""
    told: list[Shown | None] = []
    other = Authority(tmp_path, "second").certify("other", "localhost")
    key = tmp_path / "link"
    key.symlink_to(pair.key)
    certificates = certificates_of(Tls(pair.cert, key), told.append)
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
    certificates = certificates_of(Tls(pair.cert, pair.key))
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
    shown = certificates_of(Tls(pair.cert, pair.key)).now()

    assert [shown.since, shown.until] == [each.timestamp() for each in span]


KEYS: dict[str, tuple[Callable[[], Key], bool]] = {
    "RSA of 2048 bits": (lambda: rsa.generate_private_key(65537, 2048), True),
    "on P-256": (lambda: ec.generate_private_key(ec.SECP256R1()), True),
    "on P-384": (lambda: ec.generate_private_key(ec.SECP384R1()), True),
    "on P-521": (lambda: ec.generate_private_key(ec.SECP521R1()), True),
    "RSA of 1024 bits": (lambda: rsa.generate_private_key(65537, 1024), False),  # noqa: S505 - that is what it is about
    "Ed25519": (ed25519.Ed25519PrivateKey.generate, False),
    "Ed448": (ed448.Ed448PrivateKey.generate, False),
    "on another curve": (lambda: ec.generate_private_key(ec.SECP256K1()), False),
    "on another curve, too": (lambda: ec.generate_private_key(ec.BrainpoolP256R1()), False),
}


@pytest.mark.parametrize("kind", KEYS)
def test_only_a_key_that_grpc_serves_with_will_do(tmp_path: Path, kind: str) -> None:
    """OpenSSL takes more; gRPC would go on in silence with the certificate of before, or could not bind."""
    make, good = KEYS[kind]
    pair = Authority(tmp_path).certify("daemon", "localhost", key=make())
    if not good:
        with pytest.raises(BindError, match=rf"daemon\.crt: its key is {kind.partition(',')[0]}: expected RSA of at"):
            certificates_of(Tls(pair.cert, pair.key))
        return
    server = grpc.server(ThreadPoolExecutor(1))
    shown = credentials(certificates_of(Tls(pair.cert, pair.key)))
    assert server.add_secure_port("127.0.0.1:0", shown)
    server.stop(None).wait()


def test_authorities_of_an_empty_file_are_none(tmp_path: Path, pair: Pair) -> None:
    """It is named."""
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(BindError, match=r"empty: there are no certificates in it"):
        certificates_of(Tls(pair.cert, pair.key, empty))


def test_what_stands_between_certificates_may_be_any_text(tmp_path: Path, pair: Pair) -> None:
    """As whose each is, in the bundles that there are: that is no ASCII. Both who speak TLS read all of them."""
    bundle = tmp_path / "bundle"
    authorities = [Authority(tmp_path, name).cert.read_bytes() for name in ("one", "two")]
    bundle.write_bytes("# Főtanúsítvány\n".encode() + b"\xff\n".join(authorities))
    certificates = certificates_of(Tls(pair.cert, pair.key, bundle))
    server = grpc.server(ThreadPoolExecutor(1))
    assert server.add_secure_port("127.0.0.1:0", credentials(certificates))
    server.stop(None).wait()

    assert len(certificates.now().context.get_ca_certs()) == 2


@pytest.mark.parametrize(("since", "until", "why"), [(-3, -1, "has ended"), (1, 2, "does not count before 20")])
def test_one_that_counts_goes_on_in_place_of_one_that_does_not(
    tmp_path: Path, pair: Pair, caplog: pytest.LogCaptureFixture, since: int, until: int, why: str
) -> None:
    """With a warning. One that counts is shown, and said by name and end; so is any, where there is none that does."""
    told: list[Shown | None] = []
    authority = Authority(tmp_path, "second")
    certificates = certificates_of(Tls(pair.cert, pair.key), told.append)
    first = certificates.now()

    def put(other: Pair) -> Shown:
        for file, made in zip(pair.both, other.both, strict=True):
            made.replace(file)
        return certificates.now()

    assert put(authority.certify("wrong", "localhost", since=since, until=until)) is first
    (line,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert f"it {why}" in line.getMessage()
    assert f"the one of before is still shown: {first}" in line.getMessage()
    assert told == [first, None]
    with caplog.at_level("INFO"):
        second = put(authority.certify("fresh", "localhost"))
    assert told == [first, None, second]
    assert caplog.messages[-1] == f"tls: a new certificate is shown from now on: {second}"
    assert re.fullmatch(r"fresh, until \d{4}-\d\d-\d\d \d\d:\d\d UTC", str(second))
    late = certificates_of(Tls(*authority.certify("late", "localhost", since=-3, until=-1).both))
    assert str(late.now()).startswith("late, until ")


def test_one_that_came_early_is_shown_in_its_time(tmp_path: Path, pair: Pair) -> None:
    """Without another change of its files, unless they were changed again."""
    now = [time.time()]
    certificates = Certificates(Tls(*pair.both), time=lambda: now[0])
    first = certificates.now()
    early = Authority(tmp_path, "second").certify("early", "localhost", since=1, until=3)
    for file, made in zip(pair.both, early.both, strict=True):
        made.replace(file)
    assert certificates.now() is certificates.now() is first
    now[0] += 2 * 86400
    second = certificates.now()

    assert second.name == "early"
    assert certificates.now() is second


def test_a_certificate_without_a_common_name_is_said_by_another(tmp_path: Path) -> None:
    """As those are that live for days only."""
    authority = Authority(tmp_path)
    hosted = authority.certify("hosted", "10.0.0.1", "spiffe://prod/governor", "localhost", common=False)
    nobody = authority.certify("nobody", "10.0.0.1", common=False)
    told = [str(certificates_of(Tls(*each.both)).now()) for each in (hosted, nobody)]

    assert told[0].startswith("spiffe://prod/governor, until ")
    assert told[1].startswith("without a name, until ")


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
        certificates_of(Tls(path, pair.key))
