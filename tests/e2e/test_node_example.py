"""The example in Node: what a program in another language does over the wire contract alone."""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from tests.e2e.client import Client, ask
from tests.e2e.process import BOUND, ROOT, Daemon, until

EXAMPLE: Final = ROOT / "config" / "examples" / "node"
PACKAGES: Final = ROOT / "build" / "node" / "node_modules"
LENT: Final = re.compile(r"lease (\d+): 1 of \S+\n")
# Longer than any test: whoever works for so long is ended by the test.
LONG: Final = "600"

# One for each test, so that none depends on another.
YAML = """
defaults: {lease: 30s}
semaphores:
  killed: {permits: 1, lease: 6s}
  lost: {permits: 1, lease: 6s}
  finished: {permits: 1}
  stopped: {permits: 1, lease: 1h}
  awaited: {permits: 1, lease: 1h}
  closed: {permits: 1, lease: 1h, max_wait: 0}
rate_limits:
  hourly: {rate: 1/h, burst: 1}
"""

Node = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def node(daemon: Daemon, program: Callable[[str], str]) -> Iterator[Node]:
    """Starts the example; whatever still runs at the end is killed."""
    interpreter = program("node")
    if not (PACKAGES / "@grpc" / "grpc-js").is_dir():
        pytest.fail("this test needs the packages of the example: apt-get install npm, then make node", pytrace=False)
    environment = {**os.environ, "NODE_PATH": str(PACKAGES), "GOVERNOR_ADDRESS": daemon.address}
    with ExitStack() as ends:

        def start(*arguments: str) -> "subprocess.Popen[str]":
            command = [interpreter, str(EXAMPLE / "client.js"), *arguments]
            pipe = subprocess.PIPE
            process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)
            ends.enter_context(process)
            ends.callback(process.kill)
            return process

        yield start


def lease_of(process: "subprocess.Popen[str]") -> int:
    """The id of the lease that it says it has."""
    assert process.stdout is not None
    line = process.stdout.readline()
    found = LENT.fullmatch(line)
    assert found is not None, f"{line}{process.communicate(timeout=BOUND)}"
    return int(found[1])


def end_of(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """Its exit code, and what else it said."""
    out, err = process.communicate(timeout=BOUND)
    return process.returncode, out, err


def renewals(daemon: Daemon) -> float:
    """How many there have been."""
    return daemon.metric("governor_lease_renewals_total", outcome="renewed")


def test_a_killed_one_leaks_nothing(daemon: Daemon, me: Client, node: Node) -> None:
    """It keeps its lease by renewing it; killed, it does so no more, and whoever waits has its permit."""
    process = node("killed", LONG)
    lease = lease_of(process)
    before = renewals(daemon)
    until(lambda: renewals(daemon) >= before + 2, "it renews its lease, each third of it")
    assert me.counts("killed") == (1, 0)

    process.kill()
    process.wait(BOUND)
    waiting = me.wait_in_line(ask("killed", lease=3600))
    me.renew(lease, lease=0.05)
    heir = waiting.lease()

    assert heir.id > lease
    assert daemon.metric("governor_lease_ends_total", resource="killed", reason="expired") == 1
    me.release(heir.id)
    assert me.counts("killed") == (0, 0)


def test_it_gives_back_what_it_had(me: Client, node: Node) -> None:
    """When its work is done, and without an error."""
    process = node("finished", "0.1")
    lease = lease_of(process)

    assert end_of(process) == (0, f"released lease {lease}\n", "")
    assert me.counts("finished") == (0, 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_at_its_work_it_gives_back_as_well(me: Client, node: Node, number: signal.Signals) -> None:
    """At once: its lease would have gone on for an hour."""
    process = node("stopped", LONG)
    lease = lease_of(process)

    process.send_signal(number)

    assert end_of(process) == (0, f"released lease {lease}\n", "")
    assert me.counts("stopped") == (0, 0)


def test_it_waits_its_turn(me: Client, node: Node) -> None:
    """In line behind whoever has the permit."""
    held = me.acquire("awaited")
    process = node("awaited", "0")
    until(lambda: me.counts("awaited") == (1, 1), "it waits")

    me.release(held.id)

    assert lease_of(process) > held.id
    assert end_of(process)[0] == 0


def test_a_lost_lease_ends_its_work(daemon: Daemon, me: Client, node: Node) -> None:
    """Told at its next renewal, it stops and says why."""
    process = node("lost", LONG)
    lease = lease_of(process)

    me.release(lease)
    code, out, err = end_of(process)

    assert (code, out) == (1, "")
    assert re.fullmatch(rf"lost: lease {lease}: released \S+ ago; .*\n", err)


def test_a_refusal_says_what(me: Client, node: Node) -> None:
    """Never and not now, each with its status and a sentence."""
    held = me.acquire("closed")
    not_now, never = end_of(node("closed")), end_of(node("no-such-thing"))
    me.release(held.id)

    assert (not_now[0], never[0]) == (1, 1)
    assert not_now[2].startswith("refused: RESOURCE_EXHAUSTED: closed: not enough permits are free")
    assert never[2].startswith("refused: NOT_FOUND: no-such-thing: no such resource")


def test_a_refusal_says_when(node: Node) -> None:
    """If it can be known: the second call of the hour is due in an hour. The first was spent, not lent."""
    code, out, err = end_of(node("hourly", "0"))
    assert (code, err) == (0, "")
    assert LENT.fullmatch(out)

    code, _, err = end_of(node("hourly", "0"))

    assert code == 1
    assert re.search(r"try again in (1h|5\dm\d\ds)", err)
    after = re.search(r"worth another try in (\d+) ms\n", err)
    assert after is not None
    assert 0 < int(after[1]) <= 3_600_000


def test_the_lock_file_names_no_registry() -> None:
    """Whoever installs chooses where the packages come from; what they must be is said by their hashes."""
    lock = (EXAMPLE / "package-lock.json").read_text(encoding="utf-8")

    assert "resolved" not in lock
    assert lock.count('"integrity"') == lock.count("node_modules/")
