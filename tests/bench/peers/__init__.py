"""What stands beside governor in the same run: other semaphores that several processes can share.

Each runs as a server of its own process on the loopback, and is driven from one event loop as its users would drive it,
by the fastest way that its interface offers.
"""

from collections.abc import Callable
from typing import Final

from tests.bench.peers.peer import Missing, Peer
from tests.bench.peers.redis import RedisPeer
from tests.bench.peers.throttle import ThrottlePeer

PEERS: Final[dict[str, Callable[[], Peer]]] = {"throttle": ThrottlePeer, "a Redis semaphore": RedisPeer}

__all__ = ["PEERS", "Missing", "Peer"]
