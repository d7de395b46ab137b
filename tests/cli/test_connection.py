"""What is said, and how soon, when the daemon cannot be reached or does not answer."""

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from governor.cli import connection, reach
from tests.certificates import Authority
from tests.cli.conftest import Fake, Run
from tests.cli.process import COMMAND, ROOT


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of somebody who takes connections and never says a word: as a stopped daemon does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed() -> Iterator[str]:
    """An address where nobody listens, and nobody else can: it is taken."""
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def daemon_with_http(tmp_path: Path) -> Iterator[str]:
    """The http address of a real daemon."""
    config = tmp_path / "g.yaml"
    config.write_text(f"{{listen: [unix:{tmp_path}/g.sock], http: 127.0.0.1:0, state: {tmp_path}/state}}\n")
    with subprocess.Popen(
        [*COMMAND, "serve", "--config", str(config), "--log-format", "text"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stderr is not None
        try:
            line = next(line for line in process.stderr if "http://" in line)
            yield line.split("http://")[1].split()[0]
        finally:
            process.kill()


@pytest.mark.parametrize("command", [["status"], ["acquire", "a"], ["release", "1"], ["health"]], ids=" ".join)
def test_a_closed_port_is_one_line_that_helps(run: Run, closed: str, command: list[str]) -> None:
    """It names the address, who named that, what the system said, and how to name another."""
    ended = run(*command, "--address", closed)

    assert (ended.exit, ended.out) == (3, "")
    assert ended.err == (
        f"governor: cannot reach the daemon at {closed} (from --address): Connection refused. "
        "Is it running there? Another address: --address or GOVERNOR_ADDRESS.\n"
    )


def test_a_missing_socket_is_named(run: Run, tmp_path: Path) -> None:
    """The same line, with what the system said of the path."""
    ended = run("status", "--address", f"unix:{tmp_path}/none.sock")

    assert ended.exit == 3
    assert f"unix:{tmp_path}/none.sock (from --address): No such file or directory." in ended.err


def test_a_default_address_is_not_said_to_come_from_somewhere(
    run: Run, closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody named it, so there is nobody to name; but where else it was looked for, and how there can be one."""
    monkeypatch.setattr("governor.address.USUAL_SOCKET", Path("/nonexistent/governor.sock"))
    monkeypatch.setattr("governor.address.USUAL_TCP", closed)
    told = (
        f"governor: cannot reach the daemon at {closed}: Connection refused, and there is no socket "
        "/nonexistent/governor.sock that this user could see. To start a daemon: governor serve. "
        "Another address: --address or GOVERNOR_ADDRESS.\n"
    )

    for command in (["status"], ["health"], ["acquire", "a"], ["run", "a", "--", "true"], ["leases"]):
        ended = run(*command)
        assert (ended.exit, ended.err) == (3, told), command


def test_a_default_socket_where_nobody_listens_is_told_like_any_other(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there, so nothing is said of one that is not."""
    path = tmp_path / "g.sock"
    with closing(socket.socket(socket.AF_UNIX)) as left:
        left.bind(str(path))
    monkeypatch.setattr("governor.address.USUAL_SOCKET", path)
    said = run("status").err

    assert f"at unix:{path}: Connection refused. Is it running there?" in said


def test_the_default_is_the_socket_where_there_is_one(run: Run, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback TCP is for machines without it."""
    monkeypatch.setattr("governor.address.USUAL_SOCKET", Path(fake.address.removeprefix("unix:")))

    assert run("health").exit == 0


def test_a_default_socket_out_of_reach_is_none(run: Run, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may not look into its folder is left with loopback; root may look everywhere, so this is played."""

    def refuse(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("governor.address.USUAL_TCP", fake.tcp)
    monkeypatch.setattr(Path, "is_socket", refuse)

    assert run("health").exit == 0


def test_a_socket_that_one_may_not_use_is_not_mistaken_for_a_dead_one(
    run: Run, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's answer is passed on with where the permissions come from; root would never get one."""

    def refuse(_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(reach, "_touch", refuse)
    ended = run("status", "--address", fake.address)

    assert ended.exit == 3
    assert "Permission denied. The config says who may use the socket" in ended.err


@pytest.mark.timeout(60)
def test_a_silent_listener_is_given_up_on(run: Run, silent: str) -> None:
    """Also by an acquire, which waits in line for as long as it takes, but only in a line that exists."""
    ended = run("acquire", "a", "--address", silent)

    assert (ended.exit, ended.out) == (3, "")
    assert f"no answer from the daemon at {silent}" in ended.err


def test_a_listener_of_another_kind_is_no_daemon(run: Run) -> None:
    """Something that answers, but not in HTTP/2."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            # The first connection is the one that only looks whether somebody is there.
            for _ in range(2):
                peer, _ = server.accept()
                with peer:
                    peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        ended = run("status", "--address", f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()

    assert ended.exit == 3
    assert "speaks HTTP/1 and not gRPC" in ended.err


def test_the_http_port_is_recognised(run: Run, daemon_with_http: str) -> None:
    """The likeliest slip of all, answered in words of ours instead of those of gRPC."""
    ended = run("acquire", "a", "--address", daemon_with_http)

    assert (ended.exit, ended.out) == (3, "")
    assert ended.err == (
        f"governor: what answers at {daemon_with_http} speaks HTTP/1 and not gRPC: is that the http port, of metrics? "
        "Name an address of listen, such as 127.0.0.1:7411.\n"
    )


def test_a_url_is_no_address(run: Run) -> None:
    """It is told without a word of IPv6."""
    ended = run("status", "--address", "http://127.0.0.1:7411")

    assert (ended.exit, ended.out) == (2, "")
    assert "write host:port, tls://host:port or unix:/path, with no http://" in ended.err


def test_a_daemon_that_hangs_is_given_up_on(run: Run, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """What needs no waiting is answered soon, or the daemon is not well."""
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.05)
    fake.script.hold.clear()

    ended = run("status", "--address", fake.address)

    assert ended.exit == 3
    assert "within 0.05 s" in ended.err


def test_no_proxy_of_the_environment_comes_between(
    run: Run, fake: Fake, closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself grpc sends even a call to this machine through it."""
    monkeypatch.setenv("http_proxy", f"http://{closed}")
    monkeypatch.setenv("https_proxy", f"http://{closed}")
    monkeypatch.delenv("no_proxy", raising=False)

    assert run("status", "--address", fake.tcp).exit == 0


def test_only_an_acquire_may_take_its_time(run: Run, fake: Fake) -> None:
    """The daemon knows when a wait is over; a deadline of the command's own would cut a long max_wait short."""
    run("acquire", "a", "--wait", "5s", "--address", fake.address)
    run("acquire", "a", "--address", fake.address)
    run("release", "1", "--address", fake.address)
    run("status", "--address", fake.address)

    # grpc calls three hundred years what has no end.
    assert all(limit > 1e9 for limit in fake.script.limits[:2])
    assert all(0 < limit < 11 for limit in fake.script.limits[2:])


@pytest.mark.parametrize(
    ("cert", "key", "said"),
    [
        ("crt", "", "(GOVERNOR_CERT): name the file of the key in GOVERNOR_KEY, or write both into one file\n"),
        ("key", "", "(GOVERNOR_CERT): name the file of the key in GOVERNOR_KEY, or write both into one file\n"),
        ("", "key", "KEY is set, GOVERNOR_CERT is not: name the file of the key's certificate in it, or unset both\n"),
    ],
)
def test_a_certificate_without_its_key_is_told_in_our_words(
    run: Run, silent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cert: str, key: str, said: str
) -> None:
    """And the other way round: in one line with both variables, as a mistake of whoever calls."""
    authority = Authority(tmp_path)
    pair = authority.certify("one", "one.internal")
    monkeypatch.setenv("GOVERNOR_CA", str(authority.cert))
    monkeypatch.setenv("GOVERNOR_CERT", cert and str(pair.cert.with_suffix(f".{cert}")))
    monkeypatch.setenv("GOVERNOR_KEY", key and str(pair.key))
    ended = run("health", "--address", f"tls://{silent}")

    assert (ended.exit, ended.out) == (2, "")
    assert ended.err.startswith("governor: TLS: ")
    assert ended.err.endswith(said)
    assert (ended.err.count("\n"), "ssl" in ended.err) == (1, False)
