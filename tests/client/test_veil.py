"""TLS as bytes in and bytes out: what leaves, and when nothing does."""

import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from governor.client.credentials import Credentials
from governor.client.stream import Ended
from governor.client.veil import Veil
from governor.token import TokenError
from tests.certificates import Authority, Pair


class Daemon:
    """The other side."""

    def __init__(self, pair: Pair, *, protocols: tuple[str, ...] = ("h2",)) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.cert, pair.key)
        if protocols:
            context.set_alpn_protocols(list(protocols))
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_side=True)
        self.heard = b""

    def tell(self, data: bytes) -> bytes:
        """What it answers to these bytes, but for what it says by itself."""
        self._in.write(data)
        try:
            self.tls.do_handshake()
            while some := self.tls.read(1 << 16):
                self.heard += some
        except ssl.SSLWantReadError:
            pass
        return self._out.read()

    def say(self, data: bytes) -> bytes:
        """By itself."""
        self.tls.write(data)
        return self._out.read()


def taken(out: bytearray) -> bytes:
    """All that leaves."""
    data = bytes(out)
    out.clear()
    return data


def meet(veil: Veil, daemon: Daemon) -> None:
    """The whole handshake."""
    while veil.out:
        answer = daemon.tell(taken(veil.out))
        if answer:
            assert veil.show(answer) == b""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whom everybody trusts."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    """The daemon's."""
    return authority.certify("daemon", "localhost")


def veil_of(authority: Authority) -> Veil:
    """Of a client that trusts it."""
    return Veil(Credentials(ca=authority.cert).context(), "localhost")


def test_nothing_is_said_before_the_other_side_has_proved_who_it_is(authority: Authority, pair: Pair) -> None:
    """Not the headers of the call, in which a token stands; then all of it is, and nobody else reads it."""
    veil, daemon = veil_of(authority), Daemon(pair)
    said = bytearray(b"Bearer hunter2")
    veil.hide(said)
    begun = bytes(veil.out)
    assert said
    assert b"hunter2" not in begun
    meet(veil, daemon)
    veil.hide(said)
    assert not said
    left = taken(veil.out)
    assert b"hunter2" not in left
    daemon.tell(left)

    assert daemon.heard == b"Bearer hunter2"


@pytest.mark.parametrize("host", ["elsewhere", "127.0.0.1"])
def test_a_certificate_of_somebody_else_ends_it(authority: Authority, pair: Pair, host: str) -> None:
    """What would have been said stays here."""
    veil, daemon = Veil(Credentials(ca=authority.cert).context(), host), Daemon(pair)
    said = bytearray(b"secret")
    with pytest.raises(Ended, match="does not prove") as caught:
        meet(veil, daemon)
    veil.hide(said)

    assert caught.value.code == 14
    assert said == b"secret"


@pytest.mark.parametrize("protocols", [(), ("http/1.1",)])
def test_what_speaks_no_http_2_is_no_daemon(authority: Authority, pair: Pair, protocols: tuple[str, ...]) -> None:
    """It is said before anything else is."""
    veil, daemon = veil_of(authority), Daemon(pair, protocols=protocols)
    with pytest.raises(Ended, match="does not speak HTTP/2"):
        meet(veil, daemon)


@pytest.mark.parametrize("nonsense", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 100, bytes(range(256))])
def test_nonsense_ends_it(authority: Authority, nonsense: bytes) -> None:
    """As an answer to the first that we say."""
    with pytest.raises(Ended, match="TLS: "):
        veil_of(authority).show(nonsense)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=st.lists(st.binary(min_size=1, max_size=100_000), max_size=4), cut=st.integers(1, 20_000))
def test_what_is_said_arrives_however_it_is_cut(
    authority: Authority, pair: Pair, messages: list[bytes], cut: int
) -> None:
    """In order and whole, both ways."""
    veil, daemon = veil_of(authority), Daemon(pair)
    meet(veil, daemon)
    heard = b""
    for message in messages:
        veil.hide(bytearray(message))
        daemon.tell(taken(veil.out))
        told = daemon.say(message)
        heard += b"".join([veil.show(told[at : at + cut]) for at in range(0, len(told), cut)])

    assert daemon.heard == heard == b"".join(messages)


def test_the_end_is_heard(authority: Authority, pair: Pair) -> None:
    """As of any connection."""
    veil, daemon = veil_of(authority), Daemon(pair)
    meet(veil, daemon)
    with pytest.raises(ssl.SSLWantReadError):
        daemon.tls.unwrap()
    with pytest.raises(Ended, match="closed the connection"):
        veil.show(daemon._out.read())


def test_files_that_are_no_certificates_are_said(tmp_path: Path) -> None:
    """By name; and a key with a password is not asked for at the terminal."""
    wrong = tmp_path / "wrong"
    wrong.write_text("x")
    for credentials in (
        Credentials(ca=wrong),
        Credentials(cert=wrong),
        Credentials(cert=(wrong, tmp_path / "none")),
        Credentials(ca=tmp_path / "none"),
    ):
        with pytest.raises(ValueError, match=str(tmp_path)):
            credentials.context()


@pytest.mark.parametrize("given", [{"ca": "a\0b"}, {"cert": "a\0b"}, {"cert": ("a", "a\0b")}])
def test_a_path_that_can_be_none_is_said_as_any_other(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    """Else it would end the thread that connects."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").touch()
    with pytest.raises(TokenError, match=r"^TLS: .*null byte"):
        Credentials(**{"ca": authority.cert, **given}).context()


# Of what is to be shown: the files that GOVERNOR_CERT and GOVERNOR_KEY name, and how what is said of them ends.
ODD = [
    ("cert", "", "(GOVERNOR_CERT): name the file of the key in GOVERNOR_KEY, or write both into one file"),
    ("key", "", "(GOVERNOR_CERT): name the file of the key in GOVERNOR_KEY, or write both into one file"),
    ("empty", "", "(GOVERNOR_CERT): name the file of the key in GOVERNOR_KEY, or write both into one file"),
    ("cert", "cert", "(GOVERNOR_CERT): name the file of the key in GOVERNOR_KEY, or write both into one file"),
    ("", "key", "KEY is set, GOVERNOR_CERT is not: name the file of the key's certificate in it, or unset both"),
    ("cert", "other", "other.key: they are no certificate and its key (key values mismatch)"),
    ("cert", "empty", "empty: they are no certificate and its key"),
    ("cert", "none", "none: No such file or directory"),
    ("none", "key", "none: No such file or directory"),
    ("cert", "locked", "the key has a password: write it without one"),
]


@pytest.mark.parametrize(("cert", "key", "said"), ODD)
def test_what_is_amiss_with_ones_own_files_is_said_in_our_words(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cert: str, key: str, said: str
) -> None:
    """With the variable that is wrong and what to do, and nothing of OpenSSL's source."""
    environment, files = _files(authority, tmp_path)
    monkeypatch.setenv("GOVERNOR_CERT", environment[cert])
    monkeypatch.setenv("GOVERNOR_KEY", environment[key])
    with pytest.raises(TokenError) as caught:
        Credentials(ca=authority.cert).context()
    if cert:
        given = files[cert] if key in {"", cert} else (files[cert], files[key])
        with pytest.raises(TokenError) as argued:
            Credentials(ca=authority.cert, cert=given).context()
        assert "GOVERNOR" not in str(argued.value)
        assert "ssl" not in str(argued.value).lower()

    assert str(caught.value).startswith("TLS: ")
    assert str(caught.value).endswith(said)
    assert "ssl" not in str(caught.value).lower()


def test_a_certificate_and_its_key_in_one_file_need_one_variable(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or both, with the same."""
    environment, _ = _files(authority, tmp_path)
    for key in ("", "both"):
        monkeypatch.setenv("GOVERNOR_CERT", environment["both"])
        monkeypatch.setenv("GOVERNOR_KEY", environment[key])
        Credentials(ca=authority.cert).context()


def _files(authority: Authority, folder: Path) -> tuple[dict[str, str], dict[str, Path]]:
    """By a word for each: as the environment has them, and as an argument."""
    one, other = authority.certify("one", "one.internal"), authority.certify("other", "other.internal")
    both, empty, locked = folder / "both.pem", folder / "empty", folder / "locked"
    both.write_bytes(one.cert.read_bytes() + one.key.read_bytes())
    empty.touch()
    key = serialization.load_pem_private_key(one.key.read_bytes(), None)
    hidden = serialization.BestAvailableEncryption(b"hunter2")
    locked.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden))
    files = {"cert": one.cert, "key": one.key, "other": other.key, "both": both, "empty": empty, "locked": locked}
    files["none"] = folder / "none"
    return {"": "", **{word: str(path) for word, path in files.items()}}, files
