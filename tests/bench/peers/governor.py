"""Our own daemon among its peers: `AsyncClient`, as a program would use it.

It knows the client's public names. It must never know what it is compared with.
"""

from governor import AsyncClient
from tests.bench.peers.peer import NAME, repeat
from tests.e2e.process import Daemon


class GovernorPeer:
    """A daemon that runs already, as a `Peer`."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self.pid = daemon.pid

    async def pairs(self, tasks: int, seconds: float) -> float:
        """All tasks share one client; the daemon's own count shows that each pair did its work."""
        before = self._granted()
        async with AsyncClient(self._daemon.address) as gov:
            made = 0

            async def pair() -> None:
                nonlocal made
                async with gov.acquire(NAME, wait=5):
                    made += 1

            rate = await repeat([pair] * tasks, seconds)
        assert self._granted() - before == made, f"the daemon granted {self._granted() - before} of {made}"
        return rate

    def end(self) -> None:
        """Whoever started it does that."""

    def _granted(self) -> int:
        return int(self._daemon.metric("governor_acquires_total", resource=NAME, outcome="granted"))
