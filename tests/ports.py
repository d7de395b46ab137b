"""Ports of a test's own, for what cannot be told to take any and to say which.

The kernel gives a port that was free a moment ago to the next that wants any, be it for a connection that goes out. So
these are none of those that it gives, and whoever has one holds a name as well, by which other tests pass it over.
"""

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

_GIVEN: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
# Above the last that browsers refuse.
_FIRST: Final = 10_081
_LAST: Final = 65_535


@contextmanager
def own_ports(number: int) -> Iterator[list[int]]:
    """So many on loopback, at which nobody listens, and nobody else will as long as this lasts."""
    least, most = map(int, _GIVEN.read_text(encoding="ascii").split())
    kept = [port for port in range(_FIRST, _LAST + 1) if not least <= port <= most]
    # Others each time: to a browser, the same port is the same site.
    first = random.randrange(len(kept))
    with ExitStack() as held:
        found: list[int] = []
        for port in kept[first:] + kept[:first]:
            if len(found) == number:
                break
            if _is_free(port) and _hold(port, held):
                found.append(port)
        assert len(found) == number, f"there are no {number} ports outside of {least} to {most}"
        yield found


@contextmanager
def own_addresses(number: int) -> Iterator[list[str]]:
    """The same, as host:port."""
    with own_ports(number) as found:
        yield [f"127.0.0.1:{port}" for port in found]


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _hold(port: int, held: ExitStack) -> bool:
    """By a name without a file, which the kernel takes back from whoever dies."""
    name = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    try:
        name.bind(f"\0governor-tests-port-{port}")
    except OSError:
        return False
    return True
