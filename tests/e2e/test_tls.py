"""TLS between a real daemon, the library and the command: who is believed, who is not, and certificates that change."""

import json
import re
import socket
import subprocess
from pathlib import Path

import pytest

from governor import Client, Unavailable, UsageError
from governor.token import digest, new
from tests.certificates import Authority, Pair
from tests.cli.conftest import Ended
from tests.cli.process import ended, forked
from tests.e2e.conftest import Start
from tests.e2e.process import Daemon, until

HERE = ("localhost", "127.0.0.1")
RESOURCES = "semaphores: {orders: {permits: 2}}\n"
HEAD = "listen: [unix:{folder}/governor.sock, tls://127.0.0.1:0]\nhttp: 127.0.0.1:0\ndrain_timeout: {drain}\n"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Whom everybody trusts."""
    return Authority(tmp_path)


def tls(pair: Pair, client_ca: Path | None = None) -> str:
    """The section."""
    asked = "" if client_ca is None else f", client_ca: {client_ca}"
    return f"tls: {{cert: {pair.cert}, key: {pair.key}{asked}}}\n"


def begin(start: Start, yaml: str) -> Daemon:
    """A daemon that also speaks TLS; its second address."""
    return start(yaml + RESOURCES, head=HEAD)


def by_name(daemon: Daemon) -> str:
    """Its port, by the name of this machine."""
    return daemon.addresses[1].replace("127.0.0.1", "localhost")


def refused(daemon: Daemon, **how: object) -> str:
    """Why a client does not get through."""
    with Client(by_name(daemon), **how) as gov, pytest.raises(Unavailable) as caught:  # type: ignore[arg-type]
        gov.acquire("orders", wait=0)
    return str(caught.value)


def command(address: str, *arguments: str, ca: Path | None = None, pair: Pair | None = None, token: str = "") -> Ended:
    """Run to its end; ``token``: the file with it."""
    done = forked(
        *arguments,
        *("--address", address),
        GOVERNOR_CA=str(ca or ""),
        GOVERNOR_CERT="" if pair is None else str(pair.cert),
        GOVERNOR_KEY="" if pair is None else str(pair.key),
        GOVERNOR_TOKEN_FILE=token,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def test_the_library_and_the_command_speak_it(start: Start, authority: Authority) -> None:
    """By name and by number; the address that the daemon says is the one that they take."""
    daemon = begin(start, tls(authority.certify("daemon", *HERE)))
    address = daemon.addresses[1]
    assert re.fullmatch(r"tls://127\.0\.0\.1:\d+", address)
    for each in (address, by_name(daemon)):
        with Client(each, ca=authority.cert) as gov, gov.acquire("orders", wait=0):
            pass
    listed = command(by_name(daemon), "status", "-o", "json", ca=authority.cert)
    unknown = command(by_name(daemon), "status")

    assert [each["name"] for each in json.loads(listed.out)["resources"]] == ["orders"]
    assert (unknown.exit, "no answer from the daemon" in unknown.err) == (3, True)


def test_a_daemon_that_proves_nothing_is_told_nothing(start: Start, authority: Authority, tmp_path: Path) -> None:
    """Certified by somebody else, for another host, too old, not yet: and no token leaves for it."""
    other = Authority(tmp_path, "other")
    pairs = {
        "unable to get local issuer": other.certify("wrong-ca", *HERE),
        "hostname mismatch": authority.certify("wrong-host", "elsewhere.internal"),
        "expired": authority.certify("expired", *HERE, since=-3, until=-1),
        "not yet valid": authority.certify("early", *HERE, since=1, until=2),
    }
    for why, pair in pairs.items():
        daemon = begin(start, tls(pair))
        assert why in refused(daemon, ca=authority.cert, token="a-token"), why  # noqa: S106
        daemon.end()


def test_in_the_clear_nobody_gets_through_and_nobody_hangs(start: Start, authority: Authority) -> None:
    """Nor does whoever expects TLS where there is none."""
    daemon = begin(start, tls(authority.certify("daemon", *HERE)))
    port = by_name(daemon).removeprefix("tls://")
    with Client(port) as gov, pytest.raises(Unavailable):
        gov.acquire("orders", wait=0)
    plain = f"tls://{daemon.http}"
    with Client(plain, ca=authority.cert) as gov, pytest.raises(Unavailable, match="TLS"):
        gov.acquire("orders", wait=0)


def test_a_client_is_known_by_its_certificate(start: Start, authority: Authority, tmp_path: Path) -> None:
    """By a host's name or a URI in it; nobody connects without one that the daemon's own authority has certified."""
    clients = Authority(tmp_path, "clients")
    orders = clients.certify("orders", "orders.internal")
    mail = clients.certify("mail", "spiffe://prod/mail")
    both = clients.certify("both", "orders.internal", "spiffe://prod/mail")
    stranger = clients.certify("stranger", "stranger.internal", "10.0.0.1")
    forged = authority.certify("forged", "orders.internal")
    old = clients.certify("old", "orders.internal", since=-3, until=-1)
    cut = clients.certify("cut", "orders.internal\0.evil.com", "spiffe://prod/mail\0")
    token = new()
    daemon = begin(
        start,
        tls(authority.certify("daemon", *HERE), clients.cert)
        + f"""clients:
  orders: {{sans: [orders.internal]}}
  mail: {{sans: [spiffe://prod/mail, 10.0.0.1]}}
  by-token: {{tokens: [{digest(token)}], verbs: [acquire, admin]}}
""",
    )
    names = []
    for how in ({"cert": orders.both}, {"cert": mail.both}, {"cert": stranger.both, "token": token}):
        with Client(by_name(daemon), ca=authority.cert, **how) as gov, gov.acquire("orders", wait=0):
            listed = command(
                by_name(daemon),
                *("leases", "-o", "json"),
                ca=authority.cert,
                pair=stranger,
                token=_file(tmp_path, token),
            )
            names += [lease["client"] for lease in json.loads(listed.out)["leases"]]

    assert names == ["orders", "mail", "by-token"]
    # Nor is whoever has one of a longer name that begins so.
    for pair in (stranger, both, cut):
        assert "not known who is asking" in refused(daemon, ca=authority.cert, cert=pair.both)
    # A token that is wrong is not made good by a certificate.
    assert "not known who is asking" in refused(daemon, ca=authority.cert, cert=orders.both, token=new())
    for cert in (None, forged.both, old.both):
        assert "not known who" not in refused(daemon, ca=authority.cert, cert=cert)


def _file(folder: Path, token: str) -> str:
    path = folder / "token"
    path.write_text(token)
    return str(path)


def test_a_certificate_is_changed_without_a_restart(start: Start, authority: Authority, tmp_path: Path) -> None:
    """Who is connected stays so. What is not in order is not shown: the last that was goes on, and that is seen."""
    pair = authority.certify("daemon", *HERE)
    daemon = begin(start, tls(pair))
    second = Authority(tmp_path, "second")
    assert daemon.metric("governor_tls_last_reload_successful") == 1
    with Client(by_name(daemon), ca=authority.cert) as before, before.acquire("orders", wait=0) as lease:
        fresh = second.certify("fresh", *HERE)
        # First the certificate alone, as a deployment may do it: it does not belong to the key that is there.
        daemon.expect("tls: .*no certificate and its key")
        pair.cert.write_bytes(fresh.cert.read_bytes())
        assert _gets_through(daemon, authority)
        until(lambda: daemon.metric("governor_tls_last_reload_successful") == 0, "it is seen")
        pair.key.write_bytes(fresh.key.read_bytes())
        assert _gets_through(daemon, second)
        daemon.said("tls: a new certificate is shown")
        assert not _gets_through(daemon, authority)
        assert daemon.metric("governor_tls_last_reload_successful") == 1
        with before.acquire("orders", wait=0):
            assert not lease.lost
        daemon.expect("tls: .*No such file")
        pair.key.unlink()
        assert _gets_through(daemon, second)


def _gets_through(daemon: Daemon, authority: Authority) -> bool:
    try:
        with Client(by_name(daemon), ca=authority.cert) as gov:
            gov.acquire("orders", wait=0).release()
    except Unavailable:
        return False
    return True


def test_a_client_reads_its_files_anew(start: Start, authority: Authority, tmp_path: Path) -> None:
    """For each connection, so that whom it trusts can change; files that are not there are said by name."""
    daemon = begin(start, tls(authority.certify("daemon", *HERE)))
    ca = tmp_path / "ca"
    with Client(by_name(daemon), ca=ca) as gov:
        with pytest.raises(Unavailable, match=str(ca)):
            gov.acquire("orders", wait=0)
        ca.write_bytes(authority.cert.read_bytes())
        with gov.acquire("orders", wait=5):
            pass


def test_own_files_that_cannot_be_shown_are_a_mistake(
    start: Start, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of whoever named them, before anybody is asked: gRPC would say nothing of them, or end the process."""
    daemon = begin(start, tls(authority.certify("daemon", *HERE)))
    one, other = authority.certify("one", "one.internal"), authority.certify("other", "other.internal")
    empty = tmp_path / "empty"
    empty.touch()
    key_alone = "TLS: GOVERNOR_KEY is set, GOVERNOR_CERT is not"
    wrong: list[tuple[dict[str, str], str]] = [
        ({"GOVERNOR_KEY": str(one.key)}, key_alone),
        ({"GOVERNOR_CERT": str(one.cert), "GOVERNOR_KEY": str(other.key)}, "they are no certificate and its key"),
        ({"GOVERNOR_CERT": str(one.cert)}, "name the file of the key in GOVERNOR_KEY"),
        (
            {"GOVERNOR_CERT": str(one.cert), "GOVERNOR_KEY": str(tmp_path / "none")},
            f"GOVERNOR_KEY: {tmp_path / 'none'}: No such file",
        ),
        ({"GOVERNOR_CA": str(empty)}, "empty: there are no certificates in it"),
    ]
    for environment, why in wrong:
        named = {"GOVERNOR_CA": str(authority.cert)} | environment
        done = ended("health", "--address", by_name(daemon), stdout=subprocess.PIPE, **named)
        assert (done.returncode, done.stdout) == (2, ""), environment
        assert why in done.stderr
    monkeypatch.setenv("GOVERNOR_KEY", str(one.key))
    with pytest.raises(UsageError, match=key_alone), Client(by_name(daemon), ca=authority.cert) as gov:
        gov.acquire("orders", wait=0)


def test_what_to_look_at_is_said_in_the_place_of_what_grpc_says(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    """Plain where TLS is spoken, and the other way round; no certificate; one for others; one of nobody's."""
    clients = Authority(tmp_path, "clients")
    stranger = Authority(tmp_path, "strangers").certify("stranger", "stranger.internal")
    asks = begin(start, tls(authority.certify("daemon", *HERE), clients.cert))
    bare = asks.addresses[1].removeprefix("tls://")
    told = [
        (command(by_name(asks), "health", ca=authority.cert).err, "want a certificate (GOVERNOR_CERT)"),
        (command(by_name(asks), "health", ca=authority.cert, pair=stranger).err, "its own authority has certified?"),
        (command(by_name(asks), "health", ca=clients.cert, pair=stranger).err, "nobody whom you trust (GOVERNOR_CA)"),
        (command(bare, "health").err, f"does it speak TLS (tls://{bare})"),
        (command(f"tls://{asks.http}", "health", ca=authority.cert).err, "what listens there does not speak TLS"),
    ]
    asks.end()
    other = begin(start, tls(authority.certify("elsewhere", "elsewhere.internal")))
    told.append((command(by_name(other), "health", ca=authority.cert).err, "its certificate is for other names"))

    for said, meant in told:
        assert said.startswith("governor: no answer from the daemon at "), said
        assert meant in said
        assert not re.search("addresses|TSI|SSL_|OPENSSL", said), said


def test_half_a_handshake_harms_nobody(start: Start, authority: Authority) -> None:
    """Whoever connects and says nothing, or nonsense, or stops in the midst of it."""
    daemon = begin(start, tls(authority.certify("daemon", *HERE)))
    host, port = daemon.addresses[1].removeprefix("tls://").split(":")
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    opened = [socket.create_connection((host, int(port))) for _ in range(60)]
    try:
        for number, each in enumerate(opened):
            each.sendall((b"", hello, b"GET / HTTP/1.1\r\n\r\n")[number % 3])
        assert _gets_through(daemon, authority)
    finally:
        for each in opened:
            each.close()
