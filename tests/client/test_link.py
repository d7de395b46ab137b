"""The client's own thread, beside programs that do to it what they can: with a daemon in this process."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from governor.client import Client, GovernorError, link
from governor.client.address import parse
from governor.client.conversation import Conversation
from governor.client.link import Link
from governor.testing import Daemon


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """One permit of each."""
    with Daemon({"semaphores": {"x": {"permits": 1}, "y": {"permits": 1}}}) as daemon:
        yield daemon


def broken(*_: object) -> None:
    """What a system says that has no room for another thread."""
    raise RuntimeError("can't start new thread")


def test_a_thread_that_cannot_be_started_is_started_by_the_next_ask(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for one that does not run; and what was asked in vain is not held."""
    with Client(daemon.address) as client:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", broken)
            with pytest.raises(RuntimeError, match="thread"):
                client.acquire("x")
        with client.acquire("y"):
            daemon.wait_until(lambda seen: seen.leases == 1)


def test_a_thread_can_be_started_while_it_is_being_started(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a signal handler, or what the garbage collector runs: the one that came later does nothing."""
    client = Client(daemon.address)
    start = threading.Thread.start
    threads = []

    def interrupted(thread: threading.Thread) -> None:
        monkeypatch.setattr(threading.Thread, "start", start)
        start(thread)
        threads.append(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.acquire("x")
    (thread,) = threads
    thread.join(10)
    assert not thread.is_alive()
    client.acquire("x")
    client.close()


@pytest.mark.parametrize("error", [ValueError("theirs"), SystemExit(3), KeyboardInterrupt()])
def test_what_a_program_does_when_it_is_told_is_its_own(daemon: Daemon, error: BaseException) -> None:
    """Also if it wants to end: that wait is over, and what is held is kept alive."""

    def on_queued(ahead: int, expected: float | None) -> None:
        raise error

    with Client(daemon.address) as client:
        lease = client.acquire("x")
        with pytest.raises(type(error)):
            client.acquire("x", on_queued=on_queued)
        daemon.wait_until(lambda seen: seen.waiters == 0)
        assert not lease.lost
        lease.release()
        assert not client.acquire("x").lost


def test_a_thread_that_fails_leaves_nobody_in_the_belief_to_hold_anything(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a bug of ours if it ever does: nobody keeps leases alive then, so they say it. The next ask begins anew."""
    lost = threading.Event()
    with Client(daemon.address) as client:
        lease = client.acquire("x", on_loss=lambda _: lost.set())
        with monkeypatch.context() as patch:
            patch.setattr(Conversation, "tick", broken)
            with pytest.raises(GovernorError, match="thread failed"):
                client.acquire("y")
        assert lost.wait(10)
        assert lease.lost
        with client.acquire("y"):
            daemon.wait_until(lambda seen: seen.leases == 1)


def test_a_program_with_many_clients_ends_as_soon_as_one_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that is stopped is waited for once, not once for each."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        links = [Link(parse(f"127.0.0.1:{silent.getsockname()[1]}"), "tests", {}, "0") for _ in range(8)]
        monkeypatch.setattr(link, "_links", links)
        monkeypatch.setattr(link, "_FAREWELL", 0.25)
        for each in links:
            # Something that the daemon must yet be told.
            each.submit(lambda talk: talk.keeping._detached.update({1: 0}))
        began = time.monotonic()
        link._farewell()
        assert time.monotonic() - began < 1
        for each in links:
            each.submit(lambda talk: talk.keeping._detached.clear())
