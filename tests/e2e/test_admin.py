"""Operators step in, in a daemon as it is run: where they are served, and what becomes of whom it concerns."""

import os
import re
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from governor import Client as Program
from governor import LeaseLost
from governor.v1 import admin_pb2 as admin
from governor.v1.admin_pb2_grpc import AdminStub
from tests.e2e.client import OPTIONS, Refusal, ask, seconds
from tests.e2e.conftest import Connect, Start
from tests.e2e.process import BOUND, Daemon, until

YAML = """
semaphores:
  db: {permits: 1}
  many: {permits: unlimited, lease: 1h}
pools:
  workers: {size: 2}
"""
JOE = (("governor-actor", "joe"),)


@contextmanager
def operator(address: str) -> Iterator[AdminStub]:
    """A connection of its own."""
    with grpc.insecure_channel(address, OPTIONS) as channel:
        yield AdminStub(channel)


def test_a_revoked_holder_hears_of_it(start: Start, connect: Connect) -> None:
    """The program's lease is lost at once, and leaving its block says so; what gives it back is told why."""
    daemon = start(YAML)
    me = connect(daemon)
    lost = threading.Event()
    with operator(daemon.address) as desk, Program(daemon.address) as program:
        lease = program.acquire("db", on_loss=lambda _lease: lost.set())
        (listed,) = [each for page in desk.ListLeases(admin.ListLeasesRequest()) for each in page.leases]
        assert (listed.id, listed.pid, listed.grants[0].resource) == (lease.id, os.getpid(), "db")
        waiting = me.wait_in_line(ask("db"))

        said = desk.Revoke(admin.RevokeRequest(session=listed.session), metadata=JOE, timeout=BOUND)

        assert said.revoked == 1
        assert lost.wait(BOUND)
        with pytest.raises(LeaseLost):
            lease.check()
        with pytest.raises(grpc.RpcError) as caught:
            me.release(lease.id)
        refusal = Refusal(caught.value)
        assert (refusal.reason, refusal.facts["ended"]) == ("LEASE_ENDED", "revoked")
        me.release(waiting.lease().id)
        info = desk.GetInfo(admin.GetInfoRequest(), timeout=BOUND)
        assert (info.revoked, info.pid) == (1, daemon.pid)


def test_a_resource_is_drained_and_opened_again(start: Start, connect: Connect) -> None:
    """Everybody but its holders is sent away, until it is resumed."""
    daemon = start(YAML)
    me = connect(daemon)
    held = me.acquire("db", lease=60).id
    waiting = me.wait_in_line(ask("db"))
    with operator(daemon.address) as desk:
        assert desk.DrainResource(admin.DrainResourceRequest(resource="db"), timeout=BOUND).changed
    assert Refusal(waiting.refusal()).reason == "DRAINING"

    with pytest.raises(grpc.RpcError) as caught:
        me.acquire("db")
    assert Refusal(caught.value).reason == "DRAINING"
    me.release(held)
    with operator(daemon.address) as desk:
        assert desk.ResumeResource(admin.ResumeResourceRequest(resource="db"), timeout=BOUND).changed
    me.release(me.acquire("db").id)


def test_an_override_is_over_by_itself(start: Start, connect: Connect) -> None:
    """It wakes who waits, a second one takes its place, and after its time the config holds again."""
    daemon = start(YAML)
    me = connect(daemon)
    held = [me.acquire("db", lease=60).id]
    waiting = me.wait_in_line(ask("db", lease=60))
    with operator(daemon.address) as desk:
        long = admin.SetOverrideRequest(resource="db", settings={"permits": "2"}, length=seconds(3600))
        desk.SetOverride(long, timeout=BOUND)
    held.append(waiting.lease().id)

    seen = me.resource("db")
    assert (seen.capacity, dict(seen.override.settings), dict(seen.override.declared)) == (
        2,
        {"permits": "2"},
        {"permits": "1"},
    )
    assert 0 < seen.override.remaining.seconds < 3600
    with operator(daemon.address) as desk:
        short = admin.SetOverrideRequest(resource="db", settings={"permits": "3"}, length=seconds(1))
        desk.SetOverride(short, timeout=BOUND)
    until(lambda: me.resource("db").capacity == 1, "the config holds again")
    seen = me.resource("db")
    assert (seen.over_limit, seen.HasField("override")) == (1, False)
    me.release(*held)


def test_what_operators_have_said_outlives_the_daemon(start: Start, connect: Connect) -> None:
    """After a kill -9, what was drained, paused and overridden still is, for as long as it was meant to be; and why."""
    daemon = start(YAML)
    me = connect(daemon)
    held = me.acquire("db", lease=60).id
    with operator(daemon.address) as desk:
        desk.DrainResource(admin.DrainResourceRequest(resource="db"), timeout=BOUND)
        desk.PauseResource(admin.PauseResourceRequest(resource="workers", reason="they lag"), timeout=BOUND)
        out = admin.QuarantineMemberRequest(resource="workers", member="1")
        desk.QuarantineMember(out, metadata=JOE, timeout=BOUND)
        override = admin.SetOverrideRequest(
            resource="many", settings={"permits": "2"}, length=seconds(3600), reason="a sale"
        )
        desk.SetOverride(override, timeout=BOUND)

    daemon.kill()
    daemon = start(YAML)

    me = connect(daemon)
    for name, reason in (("db", "DRAINING"), ("workers", "PAUSED")):
        with pytest.raises(grpc.RpcError) as caught:
            me.acquire(name)
        assert Refusal(caught.value).reason == reason
    seen = me.resource("many")
    assert (seen.capacity, dict(seen.override.declared)) == (2, {"permits": "unlimited"})
    assert 0 < seen.override.remaining.seconds < 3600
    assert (me.resource("workers").reason, seen.override.reason, seen.reason) == ("they lag", "a sale", "")
    daemon.said(
        "orders still in force: db is draining; many has permits 2 for [0-9hms]+ \\(a sale\\); "
        "workers is paused \\(they lag\\); 1 of workers is kept out until it is restored \\(by joe\\)"
    )
    me.release(held)


def test_many_leases_are_listed_while_others_go_on(start: Start, connect: Connect) -> None:
    """Between the first page and the last, somebody else acquires and releases; all that was held is listed."""
    daemon = start(YAML)
    me, other = connect(daemon), connect(daemon)
    held: list[int] = []
    for _ in range(20):
        calls = [me.stub.Acquire.future(ask("many"), timeout=BOUND) for _ in range(500)]
        held += sorted(call.result().lease.id for call in calls)
    cycles = 0
    with operator(daemon.address) as desk:
        listed: list[int] = []
        for page in desk.ListLeases(admin.ListLeasesRequest(resource="many"), timeout=BOUND):
            listed += [lease.id for lease in page.leases]
            other.release(other.acquire("workers").id)
            cycles += 1
        assert listed == held
        assert cycles >= 10
        assert desk.Revoke(admin.RevokeRequest(lease_ids=held[:1000]), timeout=BOUND).revoked == 1000
        revoked = desk.Revoke(admin.RevokeRequest(client="nobody"), timeout=BOUND).revoked
        assert revoked == 0
    for first in range(1000, len(held), 1000):
        me.release(*held[first : first + 1000])


def test_operators_help_a_daemon_to_its_end(start: Start, connect: Connect) -> None:
    """While it drains they are served as ever; when they have ended what is held, it ends."""
    daemon = start(YAML, drain="1h")
    me = connect(daemon)
    held = me.acquire("db", lease=600).id
    with operator(daemon.address) as desk:
        daemon.signal(signal.SIGTERM)
        daemon.said("draining: 1 lease is held")
        daemon.expect("still held")
        info = desk.GetInfo(admin.GetInfoRequest(), timeout=BOUND)
        assert (info.draining, info.leases) == (True, 1)

        assert desk.Revoke(admin.RevokeRequest(lease_ids=[held]), timeout=BOUND).revoked == 1

    assert daemon.exit_code() == 0


def test_over_tcp_they_are_told_where(start: Start) -> None:
    """A command can follow what it is told."""
    daemon = start(YAML)
    socket, port = daemon.addresses
    with operator(port) as desk:
        with pytest.raises(grpc.RpcError) as caught:
            desk.GetInfo(admin.GetInfoRequest(), timeout=BOUND)
        refusal = Refusal(caught.value)
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.PERMISSION_DENIED, "ADMIN_ELSEWHERE")
        assert refusal.facts["admin"] == socket
    with operator(refusal.facts["admin"]) as desk:
        assert list(desk.GetInfo(admin.GetInfoRequest(), timeout=BOUND).addresses) == [socket, port]


def test_where_there_is_no_socket_they_have_one_in_the_state_folder(folder: Path) -> None:
    """It is for nobody but the daemon's own user; when the daemon has ended, it is gone."""
    with running(folder, "listen: [127.0.0.1:0]\nhttp: 127.0.0.1:0\n") as daemon:
        place = re.search(r"listening on (unix:\S+) \(Admin\)", daemon.log)
        assert place is not None
        path = daemon.state / "admin.sock"
        assert place[1] == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with operator(place[1]) as desk:
            assert desk.GetInfo(admin.GetInfoRequest(), timeout=BOUND).state_folder == str(daemon.state)
        assert daemon.end() == 0
        assert not path.exists()
        assert not daemon.blemishes


def test_they_are_served_where_the_config_says(folder: Path) -> None:
    """And only there; a change of it waits for the next start."""
    with running(folder, f"listen: [unix:{folder}/g.sock]\nadmin: unix:{folder}/a.sock\nhttp: 127.0.0.1:0\n") as daemon:
        with operator(f"unix:{folder}/g.sock") as desk:
            with pytest.raises(grpc.RpcError) as caught:
                desk.GetInfo(admin.GetInfoRequest(), timeout=BOUND)
            assert Refusal(caught.value).facts["admin"] == f"unix:{folder}/a.sock"
        with operator(f"unix:{folder}/a.sock") as desk:
            other = f"listen: [unix:{folder}/g.sock]\nadmin: unix:{folder}/b.sock\nhttp: 127.0.0.1:0\n"
            found = desk.Diff(iter([admin.DiffRequest(yaml=other.encode())]), timeout=BOUND)
            assert [(each.name, each.after) for each in found.at_next_start] == [("admin", f"unix:{folder}/b.sock")]
            daemon.expect("takes effect at the next start")
            daemon.config.write_text(other, encoding="utf-8")
            said = desk.Reload(admin.ReloadRequest(), metadata=JOE, timeout=BOUND)
            assert (list(said.problems), list(said.at_next_start)) == ([], ["admin"])
            daemon.config.write_text("listen: 5\n", encoding="utf-8")
            daemon.expect("reload refused")
            said = desk.Reload(admin.ReloadRequest(), timeout=BOUND)
            assert len(said.problems) == 1
            assert len(said.config.problems) == 1
        assert daemon.end() == 0
        assert not daemon.blemishes


def test_where_there_can_be_no_socket_it_is_said_what_to_set(folder: Path) -> None:
    """In the log, and to whoever calls."""
    deep = folder / ("d" * 100)
    with running(folder, "listen: [127.0.0.1:0]\nhttp: 127.0.0.1:0\n", state=deep) as daemon:
        daemon.expect("operators are served nowhere: name a unix socket under admin in governor's config")
        with operator(daemon.address) as desk, pytest.raises(grpc.RpcError) as caught:
            desk.GetInfo(admin.GetInfoRequest(), timeout=BOUND)
        assert "name a unix socket under admin" in Refusal(caught.value).message
        assert daemon.end() == 0
        assert "operators are served nowhere" in daemon.log
        assert not daemon.blemishes


@contextmanager
def running(folder: Path, yaml: str, *, state: Path | None = None) -> Iterator[Daemon]:
    """A daemon with nothing in its config but this."""
    config = folder / "governor.yaml"
    config.write_text(yaml, encoding="utf-8")
    daemon = Daemon(config, state or folder / "state")
    try:
        daemon.wait_until_it_serves()
        yield daemon
    finally:
        daemon.kill()
