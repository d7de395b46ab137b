"""The client's own thread, beside programs that do to it what they can: with a daemon in this process."""

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from governor.client import AsyncClient, AsyncLease, Client, GovernorError, Unavailable, farewell
from governor.client.address import parse
from governor.client.conversation import Conversation
from governor.client.link import Link, Work
from governor.testing import Daemon

# A daemon that does not answer is away after a second.
BLAMES = True
# Nobody listens there.
UNUSED = "127.0.0.1:1"


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


CHILDREN = """
import multiprocessing, sys
from governor import Client

gov = Client(sys.argv[1])


def block():
    with gov.acquire("x"):
        pass


def detach():
    gov.acquire("y").detach()


context = multiprocessing.get_context("fork")
with gov.acquire("z"):  # so that there is something to fork
    for number in range(5):
        child = context.Process(target=block)
        child.start()
        child.join()
    child = context.Process(target=detach)
    child.start()
    child.join()
"""


def test_a_child_of_multiprocessing_gives_back_what_it_gave_back_last() -> None:
    """It ends by os._exit, and time stands still here: nothing comes back by itself."""
    with Daemon({"semaphores": {name: {"permits": 1} for name in "xyz"}}) as daemon:
        child = subprocess.run(
            [sys.executable, "-c", CHILDREN, daemon.address], timeout=60, check=False, capture_output=True, text=True
        )
        assert (child.returncode, child.stderr) == (0, "")
        daemon.wait_until(lambda seen: seen.leases == 1)
        assert daemon.resource("y").in_use == 1
        daemon.advance(10)
        assert daemon.resource("y").in_use == 1, "what is detached is nobody's, and lives on"


def test_what_is_given_back_in_the_last_turn_of_an_event_loop_comes_back(daemon: Daemon) -> None:
    """Also if the loop is closed before its next turn."""
    client = AsyncClient(daemon.address)
    loop = asyncio.new_event_loop()

    async def acquire() -> AsyncLease:
        return await client.acquire("x")

    lease = loop.run_until_complete(acquire())

    def last() -> None:
        lease.release()
        loop.stop()

    loop.call_soon(last)
    loop.run_forever()
    loop.close()
    daemon.wait_until(lambda seen: not seen.leases)
    asyncio.run(client.close())


def interrupted_once(monkeypatch: pytest.MonkeyPatch, work: Callable[[Link, Work], None], *, before: bool) -> None:
    """Ctrl-C comes once, before or after what a lease wants of the client's thread has reached it."""

    def submit(link: Link, what: Work) -> None:
        monkeypatch.setattr(Link, "submit", work)
        if not before:
            work(link, what)
        raise KeyboardInterrupt

    monkeypatch.setattr(Link, "submit", submit)


@pytest.mark.parametrize("before", [True, False])
def test_ctrl_c_at_the_end_of_a_block_leaves_nothing_behind(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, *, before: bool
) -> None:
    """The lease is given back, whatever was done by then."""
    with Client(daemon.address) as client:
        with pytest.raises(KeyboardInterrupt), client.acquire("x"):
            interrupted_once(monkeypatch, Link.submit, before=before)
        daemon.wait_until(lambda seen: not seen.leases)


@pytest.mark.parametrize("away", [False, True])
def test_to_close_what_has_nothing_left_to_say_takes_no_time(daemon: Daemon, *, away: bool) -> None:
    """The thread ends by itself, however long one is ready to wait for it; with a daemon and without."""
    client = Client(UNUSED if away else daemon.address)
    if away:
        with pytest.raises(Unavailable):
            client.acquire("x")
    else:
        client.acquire("x").release()
        daemon.wait_until(lambda seen: not seen.leases)
        talk = client._settings.link._talk
        while talk.busy:  # until the answer has come, too
            time.sleep(0)
    thread = client._settings.link._thread
    client.close()
    assert thread is not None
    assert not thread.is_alive()


def test_a_name_that_takes_long_to_look_up_is_not_waited_for(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait of an ask is over when it is; once the name is found, all is well."""
    found = threading.Event()
    look_up = socket.getaddrinfo

    def slow(host: str, port: int, **more: int) -> object:
        assert found.wait(10)
        return look_up(host, port, **more)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with Client(daemon.address.replace("127.0.0.1", "localhost"), unavailable="wait") as client:
        with pytest.raises(Unavailable, match="does not answer"):
            client.acquire("x", wait=0.5)
        found.set()
        client.acquire("x").release()


def test_a_program_with_many_clients_ends_as_soon_as_one_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that is stopped is waited for once, not once for each."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        links = [Link(parse(f"127.0.0.1:{silent.getsockname()[1]}"), "tests", {}, "0") for _ in range(8)]
        monkeypatch.setattr(farewell, "links", links)
        monkeypatch.setattr(farewell, "FAREWELL", 1.0)
        for each in links:
            # Something that the daemon must yet be told.
            each.submit(lambda talk: talk.keeping._detached.update({1: 0}))
        began = time.monotonic()
        farewell.bid_farewell()
        assert time.monotonic() - began < 8 * 1.0 / 2
        for each in links:
            each.submit(lambda talk: talk.keeping._detached.clear())
            each.close()
