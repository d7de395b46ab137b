"""Addresses are read strictly, and written as gRPC and people read them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.address import (
    Address,
    AddressError,
    TcpAddress,
    UnixAddress,
    check_socket_path,
    parse,
    parse_tcp,
)


@pytest.mark.parametrize(
    ("text", "address", "written"),
    [
        ("127.0.0.1:7411", TcpAddress("127.0.0.1", 7411), "127.0.0.1:7411"),
        ("localhost:0", TcpAddress("localhost", 0), "localhost:0"),
        ("a-b.example.com.:65535", TcpAddress("a-b.example.com.", 65535), "a-b.example.com.:65535"),
        ("[::1]:7411", TcpAddress("::1", 7411), "[::1]:7411"),
        ("0.0.0.0:1", TcpAddress("0.0.0.0", 1), "0.0.0.0:1"),  # noqa: S104 - nothing listens here
        ("unix:/run/x.sock", UnixAddress(Path("/run/x.sock")), "unix:/run/x.sock"),
        ("unix:///run/x.sock", UnixAddress(Path("/run/x.sock")), "unix:/run/x.sock"),
        ("unix:run/x.sock", UnixAddress(Path("run/x.sock")), "unix:run/x.sock"),
        ("unix:/run/a b/é", UnixAddress(Path("/run/a b/é")), "unix:/run/a b/é"),
    ],
)
def test_an_address_is_read_and_written(text: str, address: Address, written: str) -> None:
    """What is read is what was meant, and its text can be read again."""
    assert parse(text) == address
    assert str(address) == written
    assert parse(written) == address


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "write a port after the host, as in 127.0.0.1:7411"),
        ("localhost", "write a port after the host, as in 127.0.0.1:7411"),
        ("7411", "write a host before the port, as in 127.0.0.1:7411"),
        (
            "http://127.0.0.1:7411",
            "write host:port, tls://host:port or unix:/path, with no http:// or the like before it",
        ),
        (
            "dns:///localhost:7411",
            "write host:port, tls://host:port or unix:/path, with no http:// or the like before it",
        ),
        (":7411", "write 127.0.0.1 before the port for this machine only, 0.0.0.0 for every address of it"),
        ("host:", "the port must be a number from 0 to 65535"),
        ("host:x", "the port must be a number from 0 to 65535"),
        ("host:-1", "the port must be a number from 0 to 65535"),
        ("host:65536", "the port must be a number from 0 to 65535"),
        ("host:٣", "the port must be a number from 0 to 65535"),
        ("host:7411\n", "the port must be a number from 0 to 65535"),
        ("::1:7411", "an IPv6 address needs brackets, as in [::1]:7411"),
        ("[localhost]:1", "what stands in [ ] must be an IPv6 address"),
        ("[127.0.0.1]:1", "what stands in [ ] must be an IPv6 address"),
        ("[fe80::1%eth0]:1", "what stands in [ ] must be an IPv6 address"),
        ("*:1", "the host is neither an IP address nor a host name"),
        ("a b:1", "the host is neither an IP address nor a host name"),
        ("1.2:80", "the host is neither an IP address nor a host name"),
        ("256.0.0.1:80", "the host is neither an IP address nor a host name"),
        ("a..b:80", "the host is neither an IP address nor a host name"),
        ("-a:80", "the host is neither an IP address nor a host name"),
        ("a" * 64 + ":80", "the host is neither an IP address nor a host name"),
        ("a." * 127 + "a:80", "the host is neither an IP address nor a host name"),
        ("unix:", "there is no path after unix:"),
        ("unix:///", "there is no path after unix:"),
        ("unix://run/x", "a unix socket is written unix:/path, with one slash or three"),
        ("unix:/run/\x00", "the path has a character that cannot be printed"),
        ("unix:/run/\udc80", "the path has a character that cannot be printed"),
    ],
)
def test_what_is_no_address_is_refused(text: str, message: str) -> None:
    """The message says what is wrong and never repeats the text."""
    with pytest.raises(AddressError) as caught:
        parse(text)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("LocalHost", True),
        ("0.0.0.0", False),  # noqa: S104 - nothing listens here
        ("::", False),
        ("10.0.0.7", False),
        ("::ffff:10.0.0.7", False),
        ("myhost", False),
        ("fe80::1%lo", False),
    ],
)
def test_loopback_is_known_by_its_number(host: str, loopback: bool) -> None:  # noqa: FBT001 - a column of the table
    """Of names only localhost is trusted: any other may lead outside tomorrow."""
    assert TcpAddress(host, 1).is_loopback is loopback


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("127.0.0.1:1", "127.0.0.1:1", True),
        ("127.0.0.1:1", "127.0.0.1:2", False),
        ("127.0.0.1:1", "127.0.0.2:1", False),
        ("0.0.0.0:1", "127.0.0.1:1", True),
        ("127.0.0.1:1", "[::]:1", True),
        ("127.0.0.1:0", "127.0.0.1:0", False),
        ("a:1", "b:1", False),
    ],
)
def test_addresses_overlap_when_both_cannot_be_listened_on(
    one: str,
    other: str,
    overlap: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """The same port on the same host, or on all of them; port 0 is never the same."""
    assert parse_tcp(one).overlaps(parse_tcp(other)) is overlap
    assert parse_tcp(other).overlaps(parse_tcp(one)) is overlap


def test_a_socket_path_is_measured_in_bytes() -> None:
    """The kernel takes 107 bytes, and a letter may be two."""
    check_socket_path(Path("/" + "x" * 106))
    with pytest.raises(AddressError, match="at most 107 bytes, and this one has 109"):
        check_socket_path(Path("/" + "é" * 54))


@given(st.text(max_size=40) | st.from_regex(r"(unix:)?[a-z0-9.:/\[\]-]{0,30}", fullmatch=True))
def test_any_text_is_an_address_or_an_address_error(text: str) -> None:
    """Nothing else is ever raised, and what is read can be written and read again."""
    try:
        address = parse(text)
    except AddressError:
        return

    assert parse(str(address)) == address
