"""A short form of what `python -m tests.abuse` measures: whatever a hostile client does, another is served beside it.

Each attack goes so many rounds, not for so long; and what is looked at is what was answered, never how soon.
"""

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from governor.v1 import governor_pb2 as pb
from tests.abuse.__main__ import YAML, memory
from tests.abuse.attacks import ATTACKS, Until
from tests.abuse.frames import CONTINUATION, HEADERS, PREFACE, Hostile, frame
from tests.e2e.client import Client
from tests.e2e.conftest import starting
from tests.e2e.process import BOUND, Daemon, until

ROUNDS = 12
# What one connection may have begun at a time, at 40 KB, and what Python keeps of memory that it had once.
_MOST_MIB = 350


class Rounds(Until):
    """A time that is over when it was asked about so often; what must wait, waits for no more than a moment."""

    def __init__(self, number: int) -> None:
        super().__init__(0.2)
        self._rounds = number

    def __bool__(self) -> bool:
        self._rounds -= 1
        return self._rounds >= 0

    @property
    def left(self) -> float:
        """Seconds."""
        return 0.2


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """One for all attacks, so that what one leaves behind is met by the next."""
    with tempfile.TemporaryDirectory(prefix="governor-") as name, starting(Path(name)) as start:
        daemon = start(YAML + "bounds: {handshake: 1s}\n")
        yield daemon
        with Client(daemon.address) as client:
            until(client.idle, "what the attackers were granted has ended, too")


@pytest.fixture(scope="module")
def before(daemon: Daemon) -> tuple[float, float]:
    """Open files and MiB before anybody attacks."""
    daemon.metrics()
    return daemon.metric("process_open_fds"), memory(daemon.pid)


@pytest.mark.parametrize("name", ATTACKS)
def test_another_client_is_served_beside(daemon: Daemon, before: tuple[float, float], name: str) -> None:
    """It keeps what it holds, and borrows more; afterwards nothing is left, and the daemon has said nothing of it."""
    files, _ = before
    with Client(daemon.address) as other:
        held = other.acquire("taken").id
        attack = threading.Thread(target=ATTACKS[name], args=(daemon.address, daemon.http, Rounds(ROUNDS)))
        attack.start()
        pairs = 0
        while attack.is_alive() or not pairs:
            other.release(other.acquire("mine", wait=20).id)
            pairs += 1
        attack.join(BOUND)
        assert other.renew(held)[0].state == pb.LeaseResult.RENEWED
        other.release(held)
        assert daemon.page("/-/ready")[0] == 200

        # What the attacker was granted, it has not given back: asks that nobody takes back are the attacker's own.
        until(lambda: other.counts("taken") == (0, 0), "nobody waits for what was held")
        assert other.counts("mine") == (0, 0)
    until(lambda: daemon.metric("process_open_fds") <= files + 2, "its connections are gone")
    assert memory(daemon.pid) < _MOST_MIB
    assert not daemon.blemishes


@pytest.mark.parametrize("hello", [b"", PREFACE[:10], b"GET / HTTP/1.1\r\n"], ids=["nothing", "half a hello", "HTTP/1"])
def test_whoever_does_not_say_hello_is_sent_away(daemon: Daemon, hello: bytes) -> None:
    """Within the time that the config has for it."""
    with Hostile(daemon.address, hello=hello) as hostile:
        assert hostile.ends_within(BOUND)


def test_a_header_block_without_an_end_is_cut_off(daemon: Daemon) -> None:
    """Of empty frames, by gRPC itself; what holds a connection open costs what it has sent and no more."""
    with Hostile(daemon.address) as hostile:
        hostile.say(frame(HEADERS, 0, 1, b""))
        hostile.say(frame(CONTINUATION, 0, 1) * 10_000)

        assert hostile.ends_within(BOUND)
