"""Operators' commands against a real daemon: each once, in the order in which trouble takes its course."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from governor import Client
from governor.token import digest, new
from tests.cli.conftest import Ended
from tests.cli.daemon import Daemon, serving, stands_in_line, until_free
from tests.cli.process import BOUND, COMMAND, forked, running
from tests.e2e.conftest import Start


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """One for each test."""
    with serving(tmp_path) as daemon:
        yield daemon


def tcp(daemon: Daemon) -> str:
    """Its other address, where no orders are taken."""
    return "127.0.0.1:" + daemon.said[-1].split("127.0.0.1:")[1].split()[0]


def governor(daemon: Daemon, *arguments: str) -> Ended:
    """A command, run to its end."""
    done = forked(*arguments, GOVERNOR_ADDRESS=daemon.address, TZ="UTC")
    return Ended(done.returncode, done.stdout, done.stderr)


def listed(daemon: Daemon, command: str, *arguments: str) -> list[dict[str, object]]:
    """What it tells programs."""
    done = governor(daemon, command, *arguments, "-o", "json")
    assert done.exit == 0, done.err
    told = json.loads(done.out)[command]
    assert isinstance(told, list)
    return told


def test_who_holds_and_who_waits_is_seen(daemon: Daemon) -> None:
    """By process, with what they said of themselves."""
    with Client(daemon.address, name="importer", labels={"job": "nightly"}) as gov:
        lease = gov.acquire("crowded", wait=0)
        with running("acquire", "crowded", "--client", "heir", "--wait", "20s", "--address", daemon.address):
            stands_in_line(daemon.address, "crowded")
            (held,) = listed(daemon, "leases", "crowded")
            (waiter,) = listed(daemon, "waiters", "crowded")
            (session,) = listed(daemon, "sessions")
            about = governor(daemon, "resource", "crowded")

    assert (held["lease"], held["client"], held["labels"]) == (lease.id, "importer", {"job": "nightly"})
    assert held["session"] == session["session"]
    assert (session["connected"], session["leases"], session["pid"]) == (True, 1, held["pid"])
    assert (waiter["place"], waiter["client"]) == (1, "heir")
    assert about.out.startswith("crowded: semaphore, open\n  1 of 1 in use, 0 available, 1 lease, 1 waiting")


def test_a_revoked_holder_is_told(daemon: Daemon) -> None:
    """At once, and a later release of its says so, too."""
    with Client(daemon.address, name="importer") as gov:
        lease = gov.acquire("crowded", wait=0)
        revoked = governor(daemon, "revoke", str(lease.id))
        again = governor(daemon, "revoke", str(lease.id))
        late = governor(daemon, "release", str(lease.id))
        gov.acquire("thumbnails", 2, wait=0)
        all_of_it = governor(daemon, "revoke", "--client", "importer")
        until_free(daemon.address, "crowded", "thumbnails")

    assert (revoked.exit, revoked.out) == (0, f"lease {lease.id}: revoked\n")
    assert (again.exit, late.exit) == (1, 1)
    assert "revoked by an operator" in again.err
    assert "revoked by an operator" in late.err
    assert (all_of_it.exit, all_of_it.out) == (0, "client importer: revoked 1 lease\n")


def test_orders_stand_until_they_are_taken_back(daemon: Daemon) -> None:
    """Paused, resumed, drained, another limit for a while; all of it in the table."""
    orders = (
        ("pause", "crowded"),
        ("pause", "crowded"),
        ("drain", "hurried"),
        ("set", "thumbnails", "permits=5", "--for", "10m"),
        ("quarantine", "orders-db", "primary", "--for", "10m"),
    )
    done = [governor(daemon, *order) for order in orders]
    table = governor(daemon, "status").out
    refused = governor(daemon, "acquire", "crowded")
    back = [
        governor(daemon, *order)
        for order in (
            ("resume", "crowded"),
            ("resume", "hurried"),
            ("set", "thumbnails", "--default"),
            ("restore", "orders-db", "primary"),
            ("recycle", "orders-db"),
        )
    ]

    assert [each.exit for each in (*done, *back)] == [0] * 10
    assert done[1].out.startswith("crowded: paused already")
    assert re.search(r"(?m)^crowded .* paused \(by \S+\)$", table)
    assert re.search(r"(?m)^hurried .* draining \(by \S+\)$", table)
    assert re.search(r"(?m)^thumbnails .* permits=5 for \S+ \(by \S+\)$", table)
    assert re.search(r"(?m)^orders-db .* 1 quarantined$", table)
    assert refused.exit == 75
    assert back[4].out.startswith("orders-db: recycled 2 members")
    assert "NOTE" not in governor(daemon, "status").out


def test_drain_waits_for_the_last_holder(daemon: Daemon) -> None:
    """And is done as soon as that has given back."""
    with Client(daemon.address) as gov:
        lease = gov.acquire("crowded", wait=0)
        late = governor(daemon, "drain", "crowded", "--wait", "--timeout", "100ms")
        with running("drain", "crowded", "--wait", "--address", daemon.address) as process:
            lease.release()
            out, _ = process.communicate(timeout=BOUND)

    assert (late.exit, process.returncode) == (124, 0)
    assert out == "crowded: drained, nothing of it is held\n"


def test_whoever_waits_for_what_is_drained_hears_so_at_once(daemon: Daemon) -> None:
    """A command that would wait through a restart does not take it for one."""
    with Client(daemon.address, name="holder") as gov, gov.acquire("crowded", wait=0):
        with running("run", "crowded", "--wait", "1h", "--address", daemon.address, "--", "true") as waiting:
            stands_in_line(daemon.address, "crowded")
            assert governor(daemon, "drain", "crowded").exit == 0
            _, said = waiting.communicate(timeout=BOUND)
        assert waiting.returncode == 75
        assert "crowded: draining: an operator lets nobody in any more" in said


def test_a_config_is_compared_then_loaded(daemon: Daemon, tmp_path: Path) -> None:
    """What `diff` says comes true; a bad file stays in sight until a good one comes."""
    other, bad = tmp_path / "other.yaml", tmp_path / "bad.yaml"
    good = daemon.config.read_text()
    other.write_text(good.replace("thumbnails: {permits: 2}", "thumbnails: {permits: 1}"))
    bad.write_text(good.replace("thumbnails: {permits: 2}", "thumbnails: {permits: lots}"))
    with Client(daemon.address) as gov:
        gov.acquire("thumbnails", 2, wait=0)
        same = governor(daemon, "diff", str(daemon.config))
        differs = governor(daemon, "diff", str(other))
        wrong = governor(daemon, "diff", str(bad))
        daemon.config.write_text(bad.read_text())
        refused = governor(daemon, "reload", "--wait")
        table = governor(daemon, "status").out
        daemon.config.write_text(other.read_text())
        loaded = governor(daemon, "reload", "--wait")
        after = governor(daemon, "status").out

    assert (same.exit, same.out) == (0, "nothing would change\n")
    assert differs.exit == 1
    assert differs.out == "thumbnails 2 -> 1: 2 held, nothing is taken back, 1 must return before the next grant\n"
    assert (wrong.exit, refused.exit, loaded.exit) == (78, 78, 0)
    assert 'thumbnails.permits: expected a whole number from 0 to 2147483647, or unlimited; found "lots"' in refused.err
    assert "a reload was refused at" in table
    assert "a reload was refused at" not in after
    assert re.search(r"(?m)^thumbnails .* 1 over limit$", after)


def test_orders_by_tcp_find_the_socket(daemon: Daemon) -> None:
    """Of the same daemon, which says where it is."""
    paused = forked("pause", "crowded", "--address", tcp(daemon))
    info = forked("info", "--address", tcp(daemon))

    assert (paused.returncode, paused.stdout) == (0, "crowded: paused; 0 leases go on\n")
    assert f"admin     {daemon.address}" in info.stdout


def test_what_happens_is_watched(daemon: Daemon) -> None:
    """From the first event on, who did it included; and over a restart with --follow."""
    with running("watch", "--follow", "-o", "json", "--address", daemon.address) as process:
        assert process.stdout is not None

        def until(what: str) -> dict[str, object]:
            for line in process.stdout or ():
                event = json.loads(line)
                if event["what"] == what:
                    return dict(event)
            raise AssertionError(what)

        until("watching")
        with Client(daemon.address, name="importer") as gov:
            lease = gov.acquire("crowded", wait=0)
            assert until("granted")["lease"] == lease.id
            governor(daemon, "revoke", str(lease.id))
            revoked = until("revoked")
        governor(daemon, "pause", "crowded")
        paused = until("paused")
        daemon.process.kill()
        daemon.process.wait(BOUND)
        with subprocess.Popen([*COMMAND, "serve", "--config", str(daemon.config)], stderr=subprocess.DEVNULL) as again:
            try:
                until("watching")
            finally:
                again.kill()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=BOUND)

    assert (revoked["client"], revoked["lease"]) == ("importer", lease.id)
    assert paused["resources"] == ["crowded"]
    assert "@" in str(paused["actor"])
    assert process.returncode == -signal.SIGINT


def test_who_may_open_the_socket_of_operators_proves_nothing(start: Start, folder: Path) -> None:
    """Wherever he asks on the machine: each command finds it, and sees there what there is."""
    token = new()
    yaml = f"""admin: [unix:{folder}/admin.sock]
clients: {{orders: {{tokens: ["{digest(token)}"]}}}}
semaphores: {{orders: {{permits: 2}}}}
"""
    daemon = start(yaml)
    for address in (daemon.addresses[0], f"unix:{folder}/admin.sock"):
        for command in ("status", "leases", "info", "health"):
            done = forked(command, "--address", address)
            assert (done.returncode, done.stderr) == (0, ""), (command, address)
        assert "orders" in forked("status", "--address", address).stdout
        drained = forked("drain", "orders", "--wait", "--timeout", "30s", "--address", address)
        assert (drained.returncode, drained.stdout) == (0, "orders: drained, nothing of it is held\n"), drained.stderr
        assert "did you mean 'orders'?" in forked("resume", "order", "--address", address).stderr
        assert forked("resume", "orders", "--address", address).returncode == 0
    refused = forked("acquire", "orders", "--address", daemon.addresses[0])
    assert refused.returncode == 4
    assert "GOVERNOR_TOKEN_FILE names the file with it" in refused.stderr
