"""Where a client's token comes from, where it may go, and that it is shown nowhere."""

import pickle
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived
from hpack import NeverIndexedHeaderTuple

from governor import AsyncClient, Client, UsageError
from governor.client.credentials import Credentials
from governor.client.stream import Stream
from governor.token import TokenError, header

SECRET = "hunter2"  # noqa: S105


@contextmanager
def connecting(family: socket.AddressFamily = socket.AF_INET) -> Iterator[socket.socket]:
    """A socket that is about to connect to this machine."""
    host = "::1" if family == socket.AF_INET6 else "127.0.0.1"
    with socket.socket(family) as listener, socket.socket(family) as sock:
        listener.bind((host, 0))
        listener.listen()
        sock.setblocking(False)  # noqa: FBT003
        sock.connect_ex(listener.getsockname())
        yield sock


def test_a_token_is_sent_to_this_machine() -> None:
    """Over loopback of both kinds, and over any unix socket."""
    with connecting() as four, connecting(socket.AF_INET6) as six, socket.socket(socket.AF_UNIX) as unix:
        said = [Credentials(SECRET).headers(sock) for sock in (four, six, unix)]

    assert said == [[("authorization", f"Bearer {SECRET}")]] * 3


@pytest.mark.parametrize("source", ["192.0.2.1", "10.0.0.1", "::ffff:192.0.2.1", "fe80::1", "2001:db8::1"])
def test_a_token_is_not_sent_over_a_network(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """By what the kernel says of the connection, whatever the name of the host was."""
    with connecting() as sock:
        monkeypatch.setattr(socket.socket, "getsockname", lambda _self: (source, 1))
        with pytest.raises(TokenError, match="not in the clear") as caught:
            Credentials(SECRET).headers(sock)
        assert Credentials().headers(sock) == []

    assert SECRET not in str(caught.value)


def test_a_file_is_read_anew_for_each_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the argument, else that of the environment, else there is none."""
    mine, usual = tmp_path / "mine", tmp_path / "usual"
    mine.write_text("one\n")
    usual.write_text("two")
    with connecting() as sock:
        given, named = Credentials(file=mine), Credentials()
        assert named.headers(sock) == []
        monkeypatch.setenv("GOVERNOR_TOKEN_FILE", str(usual))
        assert [dict(each.headers(sock))["authorization"] for each in (given, named)] == ["Bearer one", "Bearer two"]
        mine.write_text("three")
        assert given.headers(sock) == [("authorization", "Bearer three")]
        mine.unlink()
        with pytest.raises(TokenError, match="mine: No such file"):
            given.headers(sock)


def test_two_tokens_are_a_mistake_and_so_is_one_that_cannot_be_sent() -> None:
    """At once, and without showing it."""
    with pytest.raises(UsageError, match="not both"):
        Client(token=SECRET, token_file=Path("x"))
    for wrong in ("", f"{SECRET}\nx", f"{SECRET} x", "ä", "x" * 5000):
        with pytest.raises(UsageError) as caught:
            AsyncClient(token=wrong)
        assert SECRET not in str(caught.value)


def test_it_is_shown_nowhere() -> None:
    """Nor where a client is printed; what is pickled must hold it, or the copy could not be used."""
    client = Client("127.0.0.1:1", token=SECRET)
    again = pickle.loads(pickle.dumps(client))  # noqa: S301

    assert SECRET not in repr(client) + repr(client._settings._credentials) + str(vars(client))
    assert again._settings._credentials.arguments() == {"token": SECRET, "token_file": None, "ca": None, "cert": None}


def test_a_file_keeps_it_out_of_a_pickle(tmp_path: Path) -> None:
    """Only its path goes along."""
    path = tmp_path / "token"
    path.write_text(SECRET)
    assert SECRET.encode() not in pickle.dumps(Client(token_file=path))


def test_it_enters_no_table_that_compresses() -> None:
    """As secrets in HTTP/2 must not: their length would tell whether a guess is right. It arrives all the same."""
    stream = Stream("/x", "localhost", "agent", [header(SECRET)])
    http = H2Connection(config=H2Configuration(client_side=False, header_encoding=None))
    events = http.receive_data(bytes(stream.out))
    (request,) = [event for event in events if isinstance(event, RequestReceived)]

    (said,) = [each for each in request.headers if each[0] == b"authorization"]
    assert isinstance(said, NeverIndexedHeaderTuple)
    assert said[1] == f"Bearer {SECRET}".encode()
