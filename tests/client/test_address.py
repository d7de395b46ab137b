"""Where the client looks for the daemon."""

import socket
import tempfile
from pathlib import Path

import pytest

from governor.client.address import Address, find, parse
from governor.client.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:7411", Address("127.0.0.1:7411", host="127.0.0.1", port=7411)),
        ("db1.example.com:1", Address("db1.example.com:1", host="db1.example.com", port=1)),
        ("[::1]:65535", Address("[::1]:65535", host="::1", port=65535)),
        ("unix:/run/g.sock", Address("unix:/run/g.sock", path="/run/g.sock")),
        ("unix:///run/g.sock", Address("unix:///run/g.sock", path="/run/g.sock")),
        ("unix:relative.sock", Address("unix:relative.sock", path="relative.sock")),
        ("unix:/a folder/g:1.sock", Address("unix:/a folder/g:1.sock", path="/a folder/g:1.sock")),
    ],
)
def test_an_address_is_a_host_and_port_or_a_socket(text: str, expected: Address) -> None:
    """And reads as it was written."""
    assert parse(text) == expected
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "db1", "db1:", ":7411", "db1:0", "db1:65536", "db1:-1", "db1:http", "db1:７４１１", "unix:", "unix://"],  # noqa: RUF001
)
def test_what_is_no_address_is_refused_with_the_way_to_write_one(text: str) -> None:
    """It shows the text and an example."""
    with pytest.raises(UsageError, match="write ") as error:
        parse(text)

    assert repr(text) in str(error.value)


def test_the_authority_of_a_socket_is_this_host() -> None:
    """HTTP/2 wants one; of a port it is what was written."""
    assert parse("unix:/run/g.sock").authority == "localhost"
    assert parse("[::1]:7411").authority == "[::1]:7411"


def test_a_socket_has_one_candidate_and_a_host_as_many_as_it_has_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are tried, in the order of the system."""
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda _, port, type: [  # noqa: A006
            (socket.AF_INET6, type, 6, "", ("::1", port, 0, 0)),
            (socket.AF_INET, type, 6, "", ("127.0.0.1", port)),
        ],
    )

    assert parse("unix:/run/g.sock").candidates() == [(socket.AF_UNIX, "/run/g.sock")]
    assert parse("db1:7411").candidates() == [
        (socket.AF_INET6, ("::1", 7411)),
        (socket.AF_INET, ("127.0.0.1", 7411)),
    ]


def test_the_argument_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the environment before the usual places."""
    monkeypatch.setenv("GOVERNOR_ADDRESS", "db2:1")
    assert find("db1:1").host == "db1"
    assert find().host == "db2"

    with pytest.raises(UsageError):
        find("")


def test_an_empty_environment_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual socket where there is one, else the usual port."""
    monkeypatch.setenv("GOVERNOR_ADDRESS", "")
    with tempfile.TemporaryDirectory(prefix="governor-") as folder:
        path = Path(folder) / "governor.sock"
        monkeypatch.setattr("governor.address.USUAL_SOCKET", path)
        assert find() == parse("127.0.0.1:7411")

        path.write_text("no socket", encoding="utf-8")
        assert find() == parse("127.0.0.1:7411")

        path.unlink()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            assert find() == parse(f"unix:{path}")
