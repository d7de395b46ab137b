"""Whether anybody listens at an address, found out with a plain connection before anything is said there.

It knows sockets and what keeps one from connecting, in words that say what to look at. It must never know gRPC, which
takes longer to load than all of this.
"""

import socket
from typing import Final, assert_never

from governor.address import VARIABLE, Address, TcpAddress, UnixAddress, unfound
from governor.cli.exits import CommandError, Exit
from governor.cli.options import Where

CONNECT_SECONDS: Final = 2


def reach(where: Where) -> None:
    """Returns if somebody took a connection just now.

    Raises:
        CommandError: nobody did.
    """
    try:
        _touch(where.address)
    except OSError as error:
        raise _unreachable(where, error) from error


def is_there(where: Where, seconds: float) -> bool:
    """Whether somebody takes a connection within that time."""
    try:
        _touch(where.address, seconds)
    except OSError:
        return False
    return True


def _unreachable(where: Where, error: OSError) -> CommandError:
    named = "" if where.source == "default" else f" (from {where.source})"
    nowhere = unfound() if where.source == "default" and isinstance(where.address, TcpAddress) else ""
    match error:
        case TimeoutError():
            why = f"no answer within {CONNECT_SECONDS} s. Is it running there?"
        case PermissionError():
            why = f"{error.strerror}. The config says who may use the socket: its mode, owner and group."
        case _ if nowhere:
            why = f"{error.strerror or error}, and {nowhere}. To start a daemon: governor serve."
        case _:
            why = f"{error.strerror or error}. Is it running there?"
    return CommandError(
        Exit.CANNOT_REACH,
        f"cannot reach the daemon at {where.address}{named}: {why} Another address: --address or {VARIABLE}.",
    )


def _touch(address: Address, seconds: float = CONNECT_SECONDS) -> None:
    match address:
        case UnixAddress():
            with socket.socket(socket.AF_UNIX) as plain:
                plain.settimeout(seconds)
                plain.connect(str(address.path))
        case TcpAddress():
            socket.create_connection((address.host, address.port), timeout=seconds).close()
        case _:
            assert_never(address)
