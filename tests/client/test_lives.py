"""Leases that outlive their daemon, as real processes see it: killed, stopped, or only cut off."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from governor import Client, Lease, Unavailable
from governor.client.witness import Witness
from governor.process import Process, this, watch
from tests.e2e.conftest import Connect, Start
from tests.e2e.process import BOUND, ROOT, until
from tests.proxy import Proxy

YAML = """\
restart_grace: 60s
semaphores:
  one: {permits: 1, lease: 60s}
  gone: {permits: 1, lease: 60s, on_disconnect: release}
"""
# A break alone costs a lease after so many seconds at the latest.
BREAK = 1.8


def is_back(gov: Client, former: object) -> None:
    """Wait until another daemon has welcomed it, and renewed what it holds."""
    link, talk = gov._settings.link, gov._settings.link._talk
    until(lambda: link._connection.greeted_at > 0 and talk.process not in (None, former), "it is back")
    until(lambda: not any(held.spared for held in list(talk.keeping._held.values())), "all is renewed")


def outwait_a_break(*leases: Lease) -> None:
    """What costs a lease where nobody can know more; as long as it takes, it is held."""
    end = time.monotonic() + BREAK + 0.3
    until(lambda: any(lease.lost for lease in leases) or time.monotonic() > end, "the time is over")
    assert not any(lease.lost for lease in leases)


# --- killed -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("through_a_proxy", [False, True])
def test_a_daemon_that_is_killed_may_take_its_time(start: Start, *, through_a_proxy: bool) -> None:
    """Twice: what its clients hold waits for the next one, for longer than a break may last."""
    daemon = start(YAML)
    with Proxy(daemon.address) as proxy, Client(proxy.address if through_a_proxy else daemon.address) as gov:
        lease = gov.acquire("one")
        for _ in range(2):
            process = gov._settings.link._talk.process
            assert process is not None
            daemon.kill()
            outwait_a_break(lease)
            daemon = start(YAML)
            proxy.forward_to(daemon.address)
            is_back(gov, process)
        assert not lease.lost
        lease.release()


def test_nobody_else_is_let_in_meanwhile(start: Start, connect: Connect) -> None:
    """A client that cannot know that the daemon is dead gives up its lease; that one still counts as lent."""
    daemon = start(YAML)
    with Client(daemon.address) as gov:
        lease = gov.acquire("one")
        gov._settings.link._connection.witness.leave(gov._settings.link._connection.poll)
        daemon.kill()
        until(lambda: lease.lost, "it is lost")
        daemon = start(YAML)
        until(lambda: connect(daemon).counts("one") == (0, 0), "it gives back what it gave up")


def test_a_daemon_that_ends_is_waited_for_by_all(start: Start) -> None:
    """It says so: that needs no look at its process, and what would end with a break does not."""
    daemon = start(YAML)
    daemon.expect("leases are still held")
    with Client(daemon.address) as near, Client(daemon.address) as far:
        leases = [near.acquire("one"), far.acquire("gone")]
        far._settings.link.submit(
            lambda _: far._settings.link._connection.witness.leave(far._settings.link._connection.poll)
        )
        process = near._settings.link._talk.process
        daemon.signal(signal.SIGTERM)
        assert daemon.exit_code() == 0
        outwait_a_break(*leases)
        start(YAML)
        for gov in (near, far):
            is_back(gov, process)
        assert not any(lease.lost for lease in leases)
        for lease in leases:
            lease.release()


def test_what_was_given_up_while_nobody_was_there_is_nobodys(start: Start) -> None:
    """The daemon died when the grant was on record and its answer was not heard; the next one gives it to others."""
    daemon = start(YAML)
    with Proxy(daemon.address) as proxy, Client(proxy.address) as gov:
        lost = proxy.down.cut(lambda said: bool(said.grants))
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(gov.acquire, "one", wait=1)
            lost.wait()
            proxy.refuse_new()
            daemon.kill()
            with pytest.raises(Unavailable):
                asked.result(BOUND)
        daemon = start(YAML)
        assert daemon.metric("governor_permits_in_use", resource="one") == 1
        proxy.forward_to(daemon.address)
        proxy.accept_new()
        until(lambda: daemon.metric("governor_permits_in_use", resource="one") == 0, "it was taken back")


# --- cut off from a daemon that lives -----------------------------------------------------------------------------


def test_who_is_only_cut_off_knows_before_the_next_is_let_in(start: Start) -> None:
    """Its machine says that the daemon lives: the lease is lost in time."""
    daemon = start(YAML)
    with Proxy(daemon.address) as proxy, Client(proxy.address) as gov, Client(daemon.address) as other:
        lost = threading.Event()
        lease = gov.acquire("one", on_loss=lambda _: lost.set())
        with ThreadPoolExecutor(1) as pool:
            next_one = pool.submit(_acquire_and_look, other, lease)
            until(lambda: daemon.metric("governor_waiters", resource="one") == 1, "somebody waits")
            proxy.refuse_new()
            proxy.cut()
            assert next_one.result(BOUND)
        assert lost.wait(BOUND)


def test_who_is_cut_off_from_the_next_daemon_knows_it_too(start: Start) -> None:
    """That one has read who is back, and the answer was lost: from then on it may count us as gone."""
    daemon = start(YAML)
    with Proxy(daemon.address) as proxy, Client(proxy.address) as gov:
        lease = gov.acquire("one")
        answer = proxy.down.cut(lambda said: said.HasField("welcome"), times=None)
        daemon.kill()
        daemon = start(YAML)
        proxy.forward_to(daemon.address)
        with Client(daemon.address) as other:
            answer.wait()
            proxy.refuse_new()
            assert _acquire_and_look(other, lease)


def _acquire_and_look(gov: Client, former: Lease) -> bool:
    """Whether its former holder knows by the time that somebody else has the permit."""
    with gov.acquire("one", wait=BOUND):
        return former.lost


# --- the witness --------------------------------------------------------------------------------------------------


@pytest.fixture
def other() -> Iterator["subprocess.Popen[str]"]:
    """A process that does nothing, and says who it is."""
    program = "import sys; from governor.process import this; print(this().started, flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def told(process: "subprocess.Popen[str]") -> Process:
    """What it would say of itself."""
    me = this()
    assert me is not None
    assert process.stdout is not None
    started = int(process.stdout.readline())
    return Process(me.boot, me.namespace, process.pid, started)


def test_a_process_is_seen_to_die(other: "subprocess.Popen[str]") -> None:
    """Not before, and also when it is told of twice; then nothing is left open."""
    poll, witness = select.poll(), Witness()
    process = told(other)
    witness.follow(process, poll)
    descriptor = witness.descriptor
    assert poll.poll(0) == []
    other.kill()
    assert poll.poll(BOUND * 1000) == [(descriptor, select.POLLIN)]

    other.wait(BOUND)
    witness.follow(process, poll)
    assert witness.descriptor == descriptor
    witness.leave(poll)
    witness.leave(poll)
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(descriptor)
    assert (witness.descriptor, poll.poll(0)) == (-1, [])


@pytest.mark.parametrize("field", ["boot", "namespace", "pid", "started"])
def test_another_process_is_no_witness(other: "subprocess.Popen[str]", field: str) -> None:
    """Of another machine or container, or one that has its pid by now; nor is one that nobody told of."""
    poll, witness = select.poll(), Witness()
    process = told(other)
    # Nor is the next pid one that nobody has: who has it may have been started in the same hundredth of a second.
    elsewhere: dict[str, Any] = {"boot": "elsewhere", "pid": os.getpid()}
    wrong = elsewhere.get(field) or getattr(process, field) + 1
    witness.follow(replace(process, **{field: wrong}), poll)
    assert witness.descriptor == -1
    witness.follow(None, poll)
    assert witness.descriptor == -1


@pytest.mark.parametrize("error", [AttributeError, OSError, OverflowError])
def test_a_system_that_cannot_tell_is_no_witness(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is too old, or file descriptors have run out."""

    def cannot(_: int) -> int:
        raise error

    me = this()
    assert me is not None
    descriptor = watch(me)
    assert descriptor is not None
    os.close(descriptor)
    monkeypatch.setattr(os, "pidfd_open", cannot)
    assert watch(me) is None
    monkeypatch.undo()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert watch(me) is None


def test_nothing_stays_open_of_one_that_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal costs no descriptor."""
    me = this()
    assert me is not None
    opened: list[int] = []
    closed: list[int] = []
    pidfd_open, close = os.pidfd_open, os.close

    def noted(pid: int) -> int:
        opened.append(pidfd_open(pid))
        return opened[-1]

    def noted_too(descriptor: int) -> None:
        closed.append(descriptor)
        close(descriptor)

    monkeypatch.setattr(os, "pidfd_open", noted)
    monkeypatch.setattr(os, "close", noted_too)
    assert watch(Process(me.boot, me.namespace, me.pid, me.started + 1)) is None
    assert len(opened) == 1
    assert set(opened) <= set(closed)


FORKER = """\
import os, sys
from governor import Client
with Client(sys.argv[1]) as gov, gov.acquire("one"):
    descriptor = gov._settings.link._connection.witness.descriptor
    os.fstat(descriptor)
    if os.fork() == 0:
        try:
            os.fstat(descriptor)
        except OSError:
            os._exit(7)
        os._exit(8)
    print(os.waitstatus_to_exitcode(os.wait()[1]), gov._settings.link._connection.witness.descriptor == descriptor)
    os.fstat(descriptor)
"""


def test_a_child_of_a_fork_closes_what_it_inherited(start: Start) -> None:
    """Its parent goes on with it."""
    daemon = start(YAML)
    command = [sys.executable, "-c", FORKER, daemon.address]
    run = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False, cwd=ROOT)
    assert (run.stdout, run.stderr, run.returncode) == ("7 True\n", "", 0)
