"""Watch on a real daemon: each event comes as it happens, to everybody who wants it, and holds up nobody."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from queue import SimpleQueue

import grpc
import pytest

from governor.rpc.watch import MAX_WATCHERS
from governor.v1 import admin_pb2 as pb
from governor.v1 import governor_pb2
from governor.v1.admin_pb2_grpc import AdminStub
from tests.e2e.client import OPTIONS, Client
from tests.e2e.conftest import Connect, Start
from tests.e2e.process import BOUND, Daemon, until

RESOURCES = """
semaphores:
  db: {permits: 1}
  many: {permits: unlimited}
"""


class Watcher:
    """One who watches, over a connection of his own."""

    def __init__(self, daemon: Daemon, request: pb.WatchRequest) -> None:
        self._channel = grpc.insecure_channel(daemon.address, OPTIONS)
        self._call = AdminStub(self._channel).Watch(request, timeout=2 * BOUND)
        self._events: list[pb.Event] = []

    def next(self) -> pb.Event:
        """The next event, but that a busy machine may have kept the daemon from running at any time."""
        while True:
            while not self._events:
                self._events += next(self._call).events
            event = self._events.pop(0)
            if event.what != "frozen":
                return event

    def whats(self, number: int) -> list[str]:
        """What the next ones are."""
        return [self.next().what for _ in range(number)]

    def over(self) -> grpc.StatusCode:
        """How it ends, which is next."""
        with pytest.raises((StopIteration, grpc.RpcError)):
            self.next()
        code: grpc.StatusCode = self._call.code()
        return code

    def go(self) -> None:
        """Away, without a word."""
        self._channel.close()


Watch = Callable[..., Watcher]


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Makes watchers, who go away at the end."""
    with ExitStack() as stack:

        def begin(daemon: Daemon, **wanted: list[str]) -> Watcher:
            watcher = Watcher(daemon, pb.WatchRequest(**wanted))
            stack.callback(watcher.go)
            return watcher

        yield begin


def test_what_happens_is_told(start: Start, connect: Connect, watch: Watch) -> None:
    """From the grant to the end, with what there is to know; to another only what he wants."""
    daemon = start(RESOURCES)
    everything, some = watch(daemon), watch(daemon, clients=["cron"], what=["granted"])
    assert everything.next().what == some.next().what == "watching"
    me = connect(daemon)
    for client in ("web", "cron"):
        me.release(me.acquire("db", client=client).id)

    events = [everything.next() for _ in range(4)]
    assert [event.what for event in events] == ["granted", "released"] * 2
    assert [event.client for event in events] == ["web", "web", "cron", "cron"]
    assert events[0].lease_id == events[1].lease_id
    assert list(events[0].resources) == ["db"]
    assert some.next() == events[2]


def test_what_is_watched_is_removed(start: Start, watch: Watch) -> None:
    """The watcher is told, whatever else he wanted."""
    daemon = start(RESOURCES)
    watcher = watch(daemon, resources=["db"], what=["granted"])
    watcher.next()
    text = daemon.config.read_text(encoding="utf-8")
    daemon.reload(text.replace("  db: {permits: 1}\n", ""))
    event = watcher.next()
    assert (event.what, list(event.resources)) == ("reloaded", ["db"])
    assert "removed db" in event.detail
    assert watch(daemon, resources=["db"]).over() is grpc.StatusCode.NOT_FOUND


def test_the_daemon_ends(start: Start, connect: Connect, watch: Watch) -> None:
    """It drains, with leases coming back, and the last word is that it stops; the end waits for no watcher."""
    daemon = start(RESOURCES, drain="20s")
    watcher, asleep = watch(daemon), watch(daemon)
    watcher.next()
    me = connect(daemon)
    lease = me.acquire("db").id
    daemon.signal(signal.SIGTERM)
    assert watcher.whats(2) == ["granted", "draining"]
    me.release(lease)
    assert watcher.whats(2) == ["released", "stopping"]
    assert watcher.over() is grpc.StatusCode.OK
    assert daemon.exit_code() == 0
    assert asleep.next().what == "watching"


def test_who_goes_away_is_forgotten(start: Start, watch: Watch) -> None:
    """So many may watch at once; each that goes makes room, however he goes."""
    daemon = start(RESOURCES)
    watchers = [watch(daemon) for _ in range(MAX_WATCHERS)]
    for watcher in watchers:
        watcher.next()
    crowded = watch(daemon)
    assert crowded.over() is grpc.StatusCode.RESOURCE_EXHAUSTED
    for watcher in watchers[::2]:
        watcher.go()

    def there_is_room() -> bool:
        try:
            return watch(daemon).next().what == "watching"
        except grpc.RpcError:
            return False

    until(there_is_room, "there is room")


def test_who_does_not_read_misses_some(start: Start, connect: Connect, watch: Watch) -> None:
    """He holds up nobody; when he reads on, what he has and what he missed add up to all there was."""
    daemon = start("durability: none\n" + RESOURCES)
    watcher = watch(daemon, resources=["many"])
    watcher.next()
    # gRPC itself takes some of it before the daemon notices that nobody reads.
    pairs = 12_000
    _borrow(connect(daemon), pairs)
    told = missed = 0
    while told + missed < 2 * pairs:
        event = watcher.next()
        told, missed = told + (event.what != "missed"), missed + event.missed
    # One that he missed may be that the daemon did not run.
    assert 0 <= told + missed - 2 * pairs <= daemon.log.count("did not run for")
    assert missed > 0


def _borrow(me: Client, pairs: int) -> None:
    """So many grants and releases in little time: whoever does not read for 20 s is sent away."""
    said: SimpleQueue[governor_pb2.SessionRequest | None] = SimpleQueue()
    heard = me.stub.Session(iter(said.get, None), timeout=BOUND)
    said.put(governor_pb2.SessionRequest(hello=governor_pb2.Hello(client="x" * 256, instance="0" * 32)))
    claims = [governor_pb2.Claim(resource="many", permits=1)]
    many, back = 1_000, 0
    for first in range(1, pairs, many):
        acquires = [governor_pb2.SessionAcquire(op=op, claims=claims) for op in range(first, first + many)]
        said.put(governor_pb2.SessionRequest(acquires=acquires))
        granted: list[int] = []
        while len(granted) < many:
            told = next(heard)
            granted += [grant.lease.id for grant in told.grants]
            back += len(told.released)
        said.put(governor_pb2.SessionRequest(releases=granted))
    while back < pairs:
        back += len(next(heard).released)
    said.put(None)
