"""Where operators are served: at addresses of their own, or on the unix sockets of everybody.

It knows addresses, and who may call where. It must never know what is called.

Nobody is asked who they are, so it is the mode of a socket that says who may step in, and a port says nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from governor.address import MAX_SOCKET_PATH, Address, UnixAddress
from governor.rpc import status
from governor.rpc.status import Hindrance

# Whether a peer, as gRPC names it, may call.
Gate = Callable[[str], bool]

INSTEAD: Final = "name a unix socket under admin in governor's config"
# In the state folder, which is for nobody but the daemon's own user.
SOCKET: Final = "admin.sock"
_MODE: Final = 0o600


@dataclass(slots=True, frozen=True)
class Where:
    """``own``: addresses that serve nothing else. Without them it is the unix sockets of everybody.

    ``implied``: nobody has asked for those, so that a start does not fail if they cannot be had. ``why_not``: why there
    are none of either, and what to do.
    """

    own: tuple[Address, ...] = ()
    implied: bool = False
    why_not: str = ""


def where(admin: Sequence[Address], listen: Sequence[Address], state: Path) -> Where:
    """What the config says, or what is right for it."""
    if admin:
        return Where(tuple(admin))
    if any(isinstance(address, UnixAddress) for address in listen):
        return Where()
    path = state.absolute() / SOCKET
    if len(bytes(path)) > MAX_SOCKET_PATH:
        return Where(
            why_not=f"{INSTEAD}, as its state folder is too deep for one: {path} has more than {MAX_SOCKET_PATH} bytes"
        )
    return Where((UnixAddress(path, mode=_MODE),), implied=True)


def unix_only(peer: str) -> bool:
    """Of whoever comes by a socket, its mode has said that he may."""
    return peer.startswith("unix")


def nobody(_peer: str) -> bool:
    """There are addresses for it alone."""
    return False


def anybody(_peer: str) -> bool:
    """These addresses are for operators."""
    return True


def elsewhere(places: Sequence[Address], why_not: str, start: str) -> status.Refusal:
    """What those are told who call where operators are not served; ``places`` is where they are.

    With the ``start`` of GetInfo, so that who goes there can see whether it is the same daemon: a path may be another's
    on another machine.
    """
    if places:
        return status.hindered(Hindrance.ADMIN_ELSEWHERE, admin=places[0], start=start)
    return status.hindered(Hindrance.ADMIN_NOWHERE, reason=why_not)
