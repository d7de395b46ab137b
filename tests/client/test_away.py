"""A daemon that is not there, does not answer, or comes back: what a program sees of it."""

import asyncio
import logging
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Literal

import pytest

from governor import AsyncClient, Client, GovernorError, LeaseLost, NotGranted, Unavailable
from governor.client import contact, patience
from governor.client.asks import SECOND
from tests.client.conftest import Run, is_kept_alive
from tests.client.scene import leases_in
from tests.e2e.client import Client as Raw
from tests.e2e.conftest import Connect, Start
from tests.e2e.process import BOUND, Daemon, until
from tests.proxy import Proxy

YAML = """
defaults: {on_disconnect: 2s}
semaphores:
  one: {permits: 1}
  long: {permits: 1, on_disconnect: 60s}
  brief: {permits: 1, on_disconnect: 500ms}
  gone: {permits: 1, on_disconnect: release}
"""

# A daemon that does not answer is away after a second.
BLAMES: Final = True
ONE: Final = "semaphores: {one: {permits: 1}}\n"
# Less than the five seconds after which a daemon that says nothing is given up on, whatever the wait.
SOON: Final = 4.5
Away = Literal["raise", "wait", "allow"]


@contextmanager
def timed(least: float, most: float) -> Iterator[None]:
    """It takes about so many seconds."""
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    assert least <= took <= most, f"it took {took:.2f} s"


@pytest.fixture
def closed_port() -> Iterator[str]:
    """An address where nobody listens, and nobody will."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{sock.getsockname()[1]}"


@pytest.fixture
def black_hole() -> Iterator[str]:
    """An address where connections are taken and nothing ever comes."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield f"127.0.0.1:{sock.getsockname()[1]}"


# --- nobody there -------------------------------------------------------------------------------------------------


def test_a_closed_port_is_told_at_once(closed_port: str) -> None:
    """Whatever the wait: it would be in vain."""
    gov = Client(closed_port)
    for wait in (None, 1, 60, 0):
        with timed(0, SOON), pytest.raises(Unavailable) as error:
            gov.acquire("one", wait=wait)
        assert str(error.value) == f"no governor daemon at {closed_port}: Connection refused"
        assert error.value.address == closed_port
    with timed(0, SOON), pytest.raises(Unavailable):
        gov.adopt(7)
    gov.close()


def test_where_nobody_has_named_a_daemon_all_places_are_told(
    closed_port: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And how there can be one; a socket that is there, with nobody behind it, is told like any other."""
    path = tmp_path / "g.sock"
    monkeypatch.delenv("GOVERNOR_ADDRESS", raising=False)
    monkeypatch.setattr("governor.address.USUAL_SOCKET", path)
    monkeypatch.setattr("governor.address.USUAL_TCP", closed_port)
    with Client() as gov, pytest.raises(Unavailable) as nowhere:
        gov.acquire("one", wait=0)
    with socket.socket(socket.AF_UNIX) as left, Client() as gov:
        left.bind(str(path))
        with pytest.raises(Unavailable) as dead:
            gov.acquire("one", wait=0)

    assert str(nowhere.value) == (
        f"no governor daemon at {closed_port}: Connection refused, and there is no socket {path} that this user could "
        "see; `governor serve` starts one, GOVERNOR_ADDRESS names another"
    )
    assert str(dead.value) == f"no governor daemon at unix:{path}: Connection refused"


async def test_a_closed_port_is_told_at_once_in_asyncio(closed_port: str) -> None:
    """In the same words."""
    async with AsyncClient(closed_port) as gov:
        with timed(0, SOON), pytest.raises(Unavailable, match="Connection refused"):
            await gov.acquire("one", wait=1)


def test_each_waiter_has_an_error_of_its_own(closed_port: str) -> None:
    """It is raised in their thread, and belongs to it."""
    gov = Client(closed_port)

    def work(_: int) -> Unavailable:
        with pytest.raises(Unavailable) as error:
            gov.acquire("one")
        return error.value

    with ThreadPoolExecutor(10) as pool:
        errors = list(pool.map(work, range(10)))
    gov.close()

    assert len({id(error) for error in errors}) == 10


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("unix:/nowhere/at/all.sock", "No such file or directory"),
        ("unix:/" + "x" * 200, "path too long"),
        ("unix:/a\0b", "No such file or directory"),
        ("no-such-host.invalid:7411", "."),
        ("a" * 70 + ".example:7411", "too long"),
    ],
)
def test_an_address_that_leads_nowhere_is_told(address: str, why: str, caplog: pytest.LogCaptureFixture) -> None:
    """By what is wrong with it; the client's thread is none the worse."""
    with Client(address) as gov:
        for _ in range(2):
            with timed(0, SOON), pytest.raises(Unavailable, match=why) as error:
                gov.acquire("one", wait=1)
            assert str(error.value).startswith(f"no governor daemon at {address}: ")

    assert not caplog.records


def test_a_server_that_is_no_daemon_is_told(daemon: Daemon) -> None:
    """The metrics port, for one."""
    with Client(daemon.http) as gov, timed(0, SOON), pytest.raises(Unavailable, match="no governor daemon at"):
        gov.acquire("one", wait=1)


def test_all_addresses_of_a_host_are_tried(daemon: Daemon, me: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first may be one at which it does not listen."""
    port = int(daemon.addresses[1].rpartition(":")[2])
    monkeypatch.setattr(
        "governor.client.address.Address.candidates",
        lambda _: [(socket.AF_INET, ("127.0.0.2", port)), (socket.AF_INET, ("127.0.0.1", port))],
    )
    with Client(f"localhost:{port}") as gov, gov.acquire("one") as lease:
        assert lease.granted


# --- nobody who answers -------------------------------------------------------------------------------------------


def test_no_answer_costs_the_wait(black_hole: str, gov: Client, daemon: Daemon, me: Raw) -> None:
    """Of a black hole, and of a daemon that is stopped: over a new connection of either kind, or over one that worked.

    When it goes on, nobody has what nobody waited for any more.
    """
    with gov.acquire("one"):
        pass
    until(me.idle, "it is back")
    daemon.signal(signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(20) as pool:
            vain = [pool.submit(_ask_in_vain, gov)]
            for address in (black_hole, *daemon.addresses):
                vain += [pool.submit(_ask_in_vain, Client(address, unavailable=away)) for away in ("raise", "wait")]
                vain += [pool.submit(asyncio.run, _ask_in_vain_too(address))]
        for asked in vain:
            asked.result()
    finally:
        daemon.signal(signal.SIGCONT)
        daemon.expect(r"paused for")

    with gov.acquire("one", wait=BOUND):
        pass


def _ask_in_vain(gov: Client) -> None:
    with timed(0.5, SOON), pytest.raises(Unavailable) as error:
        gov.acquire("one", wait=1)
    assert str(error.value) == f"{gov.address}: the daemon does not answer"
    gov.close()


async def _ask_in_vain_too(address: str) -> None:
    async with AsyncClient(address) as gov:
        with timed(0.5, SOON), pytest.raises(Unavailable, match="the daemon does not answer"):
            await gov.acquire("one", wait=1)


# --- what to do about it ------------------------------------------------------------------------------------------


def test_patience_lasts_as_long_as_the_wait(closed_port: str) -> None:
    """And no longer; the reason is that of the last attempt."""
    with Client(closed_port, unavailable="wait") as gov:
        with timed(0.5, SOON), pytest.raises(Unavailable, match="Connection refused"):
            gov.acquire("one", wait=1)
        with timed(0, SOON), pytest.raises(Unavailable):
            gov.acquire("one", wait=0)


def test_patience_is_rewarded(start: Start, folder: Path, connect: Connect) -> None:
    """A program may start before its daemon; without a wait it waits for as long as that takes."""
    with Client(f"unix:{folder}/governor.sock", unavailable="wait") as gov, ThreadPoolExecutor(2) as pool:
        asks = [pool.submit(gov.acquire, "one"), pool.submit(gov.acquire, "one", wait=BOUND)]
        daemon = start(ONE)
        for ask in asks:
            until(lambda: any(ask.done() for ask in asks), "one has it")
            done = next(ask for ask in asks if ask.done())
            asks.remove(done)
            done.result().release()
        gov.close()
        assert connect(daemon).idle()


def test_the_program_may_go_on_without(closed_port: str, caplog: pytest.LogCaptureFixture) -> None:
    """Counted, and said now and then; what it has is a lease of nothing."""
    with Client(closed_port, unavailable="allow") as gov:
        with timed(0, SOON):
            for _ in range(5):
                with gov.acquire("one", wait=1) as lease:
                    assert (lease.granted, lease.id, lease.permits, lease.lost) == (False, 0, 0, False)
        assert gov.let_through == 5
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "Connection refused; going on without permits, for the 1. time" in record.getMessage()


async def test_an_asyncio_program_may_go_on_without(black_hole: str) -> None:
    """When the wait is over, if it takes that to find out."""
    async with AsyncClient(black_hole, unavailable="allow") as gov:
        with timed(0.5, SOON):
            async with gov.acquire("one", wait=1, on_loss="cancel") as lease:
                assert not lease.granted
        assert gov.let_through == 1


def test_to_go_on_without_is_not_to_overrule_the_daemon(gov: Client, daemon: Daemon) -> None:
    """Its no is a no."""
    with Client(daemon.address, unavailable="allow") as other, gov.acquire("one"):
        with pytest.raises(NotGranted):
            other.acquire("one", wait=0)
        assert other.let_through == 0


def test_a_daemon_that_takes_no_more_sessions_is_not_away(start: Start) -> None:
    """It has said no, for now: nobody goes on without a permit, and whoever waits is let in when there is room."""
    daemon = start("bounds: {sessions_per_client: 1}\n" + ONE)
    with (
        Client(daemon.address, name="crowd") as first,
        Client(daemon.address, name="crowd", unavailable="allow") as second,
        Client(daemon.address, name="crowd") as third,
        ThreadPoolExecutor(1) as pool,
    ):
        first.acquire("one").release()
        for gov in (second, third):
            with pytest.raises(NotGranted, match=r": 1 session of this client is there") as refused:
                gov.acquire("one", wait=0)
            assert (refused.value.reason, refused.value.never) == ("busy", False)
            assert "governor: " not in str(refused.value)
        with pytest.raises(NotGranted, match="1 session of this client"):
            second.acquire("one", wait=1)
        waiting = pool.submit(third.acquire, "one", wait=BOUND)
        first.close()
        with waiting.result() as lease:
            assert lease.granted

        assert second.let_through == 0


# --- coming back --------------------------------------------------------------------------------------------------


def test_a_waiter_outlives_a_restart_of_the_daemon(
    start: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stood in line, and does so again as soon as there is one; also a program that is not patient."""
    # However long a daemon takes to start: that patience ends is tested where time is made up.
    monkeypatch.setattr(patience, "PATIENCE", int(BOUND * SECOND))
    daemon = start(ONE)
    me = connect(daemon)
    held = me.acquire("one", lease=int(BOUND))
    with (
        Client(daemon.address) as gov,
        Client(daemon.address, unavailable="wait") as patient,
        ThreadPoolExecutor(2) as pool,
    ):
        waiting = [pool.submit(_enter, each) for each in (gov, patient)]
        until(lambda: me.counts("one") == (1, 2), "they wait")
        # Who has not been greeted yet has spoken to nobody.
        talks = [each._settings.link._connection for each in (gov, patient)]
        until(lambda: all(each.greeted_at > 0 for each in talks), "they know that they do")
        daemon.kill()
        daemon = start(ONE)
        back = partial(me.counts, "one")
        until(lambda: back() == (1, 2) or any(each.done() for each in waiting), "they wait again")
        assert [each.result() for each in waiting if each.done()] == []
        assert back() == (1, 2), "what was held is held"
        me.release(held.id)
        assert [each.result(BOUND) for each in waiting] == [True, True]
    assert connect(daemon).idle()


def _enter(gov: Client) -> bool:
    with gov.acquire("one", wait=BOUND) as lease:
        return lease.granted


def test_a_release_without_a_daemon_raises_nothing(start: Start, connect: Connect) -> None:
    """Nobody is there to hear it; it is said when the daemon is back, and nobody waits for that."""
    daemon = start(ONE)
    with Client(daemon.address) as gov:
        with timed(0, SOON), gov.acquire("one", lease=60) as lease:
            daemon.kill()
            lease.release()
        assert not lease.lost
        daemon = start(ONE)
        with gov.acquire("one", wait=BOUND):
            assert connect(daemon).counts("one") == (1, 0)
        gov.close()
        assert connect(daemon).idle()


def test_a_release_is_retried(start: Start, connect: Connect) -> None:
    """Here over a connection that breaks just then, to a daemon that would keep the lease for an hour."""
    daemon = start("semaphores: {kept: {permits: 1, on_disconnect: keep, lease: 1h, max_lease: 1h}}\n")
    me = connect(daemon)
    with Client(daemon.address) as gov:
        lease = gov.acquire("kept")
        gov._settings.link.submit(lambda _: _break(gov))
        lease.release()
        until(lambda: me.counts("kept") == (0, 0), "it is back")


def _break(gov: Client) -> None:
    sock = gov._settings.link._connection.socket
    assert sock is not None
    sock.shutdown(socket.SHUT_RDWR)


def _break_and_come_back(gov: Client) -> None:
    link = gov._settings.link
    sock = link._connection.socket
    link.submit(lambda _: _break(gov))
    until(lambda: link._connection.socket not in {None, sock} and link._connection.greeted_at > 0, "it is back")


def test_a_client_resumes_within_the_grace(gov: Client, daemon: Daemon, me: Raw) -> None:
    """A connection that breaks costs nothing: neither what is held nor a place in line."""
    lease = gov.acquire("one")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(gov.acquire, "one", wait=BOUND)
        until(lambda: me.counts("one") == (1, 1), "somebody waits")
        for _ in range(3):
            _break_and_come_back(gov)
            until(lambda: me.counts("one") == (1, 1), "all is as it was")
        assert not lease.lost
        lease.release()
        waiting.result(BOUND).release()


def test_a_lease_that_ends_with_its_stream_is_lost_with_it(gov: Client, me: Raw) -> None:
    """The resource says so."""
    lease = gov.acquire("gone")
    gov._settings.link.submit(lambda _: _break(gov))

    until(lambda: lease.lost, "it is lost")
    until(lambda: me.counts("gone") == (0, 0), "it has ended")


def test_a_daemon_that_is_about_to_end_serves_who_is_inside(start: Start) -> None:
    """Nobody else gets in; what is held lives on, and when it is back the daemon ends."""
    daemon = start(ONE, drain="1h")
    with Client(daemon.address) as gov:
        with gov.acquire("one", lease=5) as lease:
            daemon.signal(signal.SIGTERM)
            daemon.said(r"SIGTERM: stopping")
            with pytest.raises(NotGranted) as refusal:
                gov.acquire("one")
            assert (refusal.value.reason, refusal.value.never) == ("draining", False)
            is_kept_alive(lease)
        assert daemon.exit_code() == 0
        with pytest.raises(Unavailable):
            gov.acquire("one")


# --- programs that die, and that stop -----------------------------------------------------------------------------


def test_a_program_that_is_killed_leaves_nothing(daemon: Daemon, me: Raw, run: Run) -> None:
    """What it held comes back when its grace is over, and its place in line at once."""
    borrower = run("borrower", daemon.address, "brief", "brief")
    assert borrower.stdout is not None
    assert borrower.stdout.readline() == "held\n"
    until(lambda: me.counts("brief") == (1, 1), "it holds one and waits for another")
    borrower.kill()
    until(lambda: me.counts("brief") == (1, 0), "it has left the line")
    until(lambda: me.counts("brief") == (0, 0), "its permit has come back")


def test_a_program_that_was_stopped_knows_what_it_lost(daemon: Daemon, me: Raw, run: Run) -> None:
    """It comes to itself when its lease is over, and somebody else has the permit."""
    borrower = run("borrower", daemon.address, "brief")
    assert borrower.stdout is not None
    assert borrower.stdout.readline() == "held\n"
    borrower.send_signal(signal.SIGSTOP)
    with Client(daemon.address) as gov, gov.acquire("brief", wait=BOUND):
        borrower.send_signal(signal.SIGCONT)
        assert borrower.stdout.readline().startswith("lost: ")
        assert me.counts("brief") == (1, 0)


def test_a_program_that_was_stopped_does_not_take_what_lies_unread_for_a_sign_of_life(
    daemon: Daemon, proxy: Proxy, me: Raw, run: Run
) -> None:
    """Its connection broke while it could not know of it, and somebody else has the permit. It need not be told so."""
    waited_for = me.acquire("brief").id
    borrower = run("borrower", proxy.address, "one", "brief")
    assert borrower.stdout is not None
    assert borrower.stdout.readline() == "held\n"
    until(lambda: me.counts("brief") == (1, 1), "it waits for something else")
    borrower.send_signal(signal.SIGSTOP)
    me.release(waited_for)
    until(lambda: len(_granted(proxy)) == 2, "that is granted, unread")
    end = proxy.down.cut(lambda _: True)
    me.release(_granted(proxy)[1])
    end.wait()
    with Client(daemon.address) as gov, gov.acquire("one", wait=BOUND):
        borrower.send_signal(signal.SIGCONT)
        assert borrower.stdout.readline() == "lost: unreachable\n"


def _granted(proxy: Proxy) -> list[int]:
    return [lease for said in tuple(proxy.down.passed) for lease in leases_in(said)]


def test_a_program_that_ends_has_given_all_back(daemon: Daemon, me: Raw, run: Run) -> None:
    """It need not close its client: what it still holds when it ends is given back, and not left to its grace."""
    borrower = run("borrower", daemon.address, "one", "--end")
    assert borrower.wait(BOUND) == 0

    assert me.counts("one") == (0, 0)


def test_a_daemon_that_is_stopped_costs_what_was_held_at_our_own_deadline(gov: Client, daemon: Daemon, me: Raw) -> None:
    """Nobody can know that it lends nothing meanwhile. It gets back what it still counts as lent."""
    told = threading.Event()
    try:
        with timed(0.5, BOUND):
            lease = gov.acquire("brief", lease=1, on_loss=lambda _: told.set())
            daemon.signal(signal.SIGSTOP)
            assert told.wait(BOUND)
        with pytest.raises(LeaseLost) as lost, lease:
            pass
        assert lost.value.reason == "unreachable"
    finally:
        daemon.signal(signal.SIGCONT)
        daemon.expect(r"paused for")
    until(lambda: me.counts("brief") == (0, 0), "it is back")


def test_a_silent_connection_is_given_up(gov: Client, daemon: Daemon, me: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    """While something depends on it; as long as it is probed and answers, it is kept."""
    monkeypatch.setattr(contact, "PROBE", 600_000_000)
    monkeypatch.setattr(contact, "SILENCE", 2_500_000_000)
    lease = gov.acquire("long")
    link = gov._settings.link
    sock = link._connection.socket
    end = time.monotonic() + 2.8
    until(lambda: time.monotonic() > end, "many a probe was answered")
    assert link._connection.socket is sock

    daemon.signal(signal.SIGSTOP)
    try:
        until(lambda: link._connection.socket is not sock, "it was given up")
    finally:
        daemon.signal(signal.SIGCONT)
        daemon.expect(r"paused for")
    until(lambda: link._connection.greeted_at > 0, "it is back")
    assert not lease.lost
    lease.release()


def test_errors_are_of_one_tree() -> None:
    """Whoever catches the root has caught what is raised without a daemon."""
    for error in (Unavailable, NotGranted, LeaseLost):
        assert issubclass(error, GovernorError)
