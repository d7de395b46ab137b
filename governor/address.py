"""Where something listens: a TCP address or a unix socket, and where a daemon is when nobody says where.

It knows how addresses are written. It must never open one.
"""

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# What says it to the client library and to the command.
VARIABLE: Final = "GOVERNOR_ADDRESS"
USUAL_SOCKET: Final = Path("/run/governor/governor.sock")
USUAL_TCP: Final = "127.0.0.1:7411"

# Before the host and port of an address where TLS is spoken.
TLS: Final = "tls://"
DEFAULT_MODE: Final = 0o660
MAX_PORT: Final = 65535
# The longest path that the kernel takes for a unix socket, in bytes.
MAX_SOCKET_PATH: Final = 107

_LABEL: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
_MAX_HOST: Final = 253


class AddressError(ValueError):
    """Text that is no address. It says what is wrong without repeating the text, which may be a secret."""


@dataclass(slots=True, frozen=True)
class TcpAddress:
    """A host, by name or number, and a port; port 0 lets the kernel choose one. ``tls``: which is spoken there."""

    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        return f"{TLS}{self.bare}" if self.tls else self.bare

    @property
    def bare(self) -> str:
        """Without what is said of how to speak there."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it; of names, only ``localhost`` is trusted to be so."""
        number = _number(self.host)
        if number is None:
            return self.host.lower() == "localhost"
        if isinstance(number, ipaddress.IPv6Address) and number.ipv4_mapped is not None:
            return number.ipv4_mapped.is_loopback
        return number.is_loopback

    @property
    def is_every_interface(self) -> bool:
        """Whether it stands for all addresses of this machine."""
        number = _number(self.host)
        return number is not None and number.is_unspecified

    def overlaps(self, other: "TcpAddress") -> bool:
        """Whether both cannot be listened on at once."""
        if self.port != other.port or self.port == 0:
            return False
        return self.host == other.host or self.is_every_interface or other.is_every_interface


@dataclass(slots=True, frozen=True)
class UnixAddress:
    """The path of a unix socket, and who may connect.

    ``owner`` and ``group``: a name or a number; None leaves what the daemon itself has. The mode decides who may
    ask for permits, so by default it is the daemon's own user and group and nobody else.
    """

    path: Path
    mode: int = DEFAULT_MODE
    owner: str | int | None = None
    group: str | int | None = None

    def __str__(self) -> str:
        return f"unix:{self.path}"


Address = TcpAddress | UnixAddress


def usual() -> str:
    """The socket of a service where there is one, else loopback: where `make run` listens."""
    try:
        there = USUAL_SOCKET.is_socket()
    except PermissionError:
        # Its folder is for others; loopback may still be for everybody.
        there = False
    return f"unix:{USUAL_SOCKET}" if there else USUAL_TCP


def unfound() -> str:
    """What is to be said besides where nobody listens at the usual port: how it came that one tried there."""
    return f"there is no socket {USUAL_SOCKET} that this user could see"


def parse(text: str) -> Address:
    """Reads ``host:port``, ``[ipv6]:port``, ``tls://host:port`` or ``unix:/path``; raises `AddressError`."""
    if text.startswith("unix:"):
        return UnixAddress(_socket_path(text.removeprefix("unix:")))
    if "://" in text.removeprefix(TLS):
        raise AddressError("write host:port, tls://host:port or unix:/path, with no http:// or the like before it")
    return parse_tcp(text)


def parse_tcp(text: str, *, example: int = 7411) -> TcpAddress:
    """Reads the same but for a unix socket; raises `AddressError`. ``example``: the port that its hints show."""
    bare = text.removeprefix(TLS)
    if "://" in bare:
        raise AddressError("write host:port or tls://host:port, with no http:// or the like before it")
    if text.startswith("unix:"):
        raise AddressError("a unix socket will not do here: write host:port")
    host, colon, port = bare.rpartition(":")
    if not colon:
        missing = "a host before the port" if bare.isdecimal() else "a port after the host"
        raise AddressError(f"write {missing}, as in 127.0.0.1:{example}")
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > MAX_PORT:
        raise AddressError(f"the port must be a number from 0 to {MAX_PORT}")
    if not host:
        raise AddressError("write 127.0.0.1 before the port for this machine only, 0.0.0.0 for every address of it")
    return TcpAddress(_host(host, example), int(port), tls=text.startswith(TLS))


def check_socket_path(path: Path) -> None:
    """Raises `AddressError` for a path longer than a unix socket can have."""
    size = len(bytes(path))
    if size > MAX_SOCKET_PATH:
        raise AddressError(f"the path of a unix socket has at most {MAX_SOCKET_PATH} bytes, and this one has {size}")


def _socket_path(text: str) -> Path:
    if text.startswith("//") and not text.startswith("///"):
        raise AddressError("a unix socket is written unix:/path, with one slash or three")
    if not text.strip("/"):
        raise AddressError("there is no path after unix:")
    if not text.isprintable():
        raise AddressError("the path has a character that cannot be printed")
    return Path("/" + text.lstrip("/")) if text.startswith("/") else Path(text)


def _host(host: str, example: int) -> str:
    if host.startswith("[") and host.endswith("]"):
        inner = host[1:-1]
        if not isinstance(_number(inner), ipaddress.IPv6Address):
            raise AddressError("what stands in [ ] must be an IPv6 address")
        return inner
    if ":" in host:
        raise AddressError(f"an IPv6 address needs brackets, as in [::1]:{example}")
    if _number(host) is None and not _is_name(host):
        raise AddressError("the host is neither an IP address nor a host name")
    return host


def _is_name(host: str) -> bool:
    labels = host.removesuffix(".").split(".")
    # A last label of digits alone is an IPv4 address gone wrong, and resolvers guess what 1.2 might mean.
    return len(host) <= _MAX_HOST and all(map(_LABEL.fullmatch, labels)) and not re.fullmatch(r"[0-9]+", labels[-1])


def _number(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    if "%" in host:
        return None
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
