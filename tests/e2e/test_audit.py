"""The audit file of a real daemon: the history of each lease, whatever befalls its holder, the file and the disk."""

import json
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from signal import SIGCONT, SIGHUP, SIGKILL, SIGSTOP
from typing import Any

import grpc
import pytest

from governor.v1 import admin_pb2
from governor.v1 import governor_pb2 as pb
from governor.v1.admin_pb2_grpc import AdminStub
from tests.e2e.client import Client, ask
from tests.e2e.conftest import Connect, Spawn, Start
from tests.e2e.process import BOUND, COMMAND, Daemon, serve_to_the_end, until

RESOURCES = """
semaphores:
  db: {permits: 1, on_disconnect: 100ms}
  many: {permits: unlimited}
pools:
  workers: {members: {w1: {password: hunter2}, w2: }}
"""

Said = dict[str, Any]


def entries(file: Path) -> list[Said]:
    """What is in an audit file, but that a busy machine may have kept a daemon from running at any time."""
    return [said for said in everything(file) if said["what"] != "frozen"]


def everything(file: Path) -> list[Said]:
    """What is in an audit file; a line that is just being written is not."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines(keepends=True) if line[-1] == "\n"]


def history(file: Path, lease: int) -> list[Said]:
    """All that befell a lease."""
    return [said for said in entries(file) if said.get("lease") == lease]


def whats(said: list[Said]) -> list[str]:
    """In words."""
    return [each["what"] for each in said]


def audited(**keys: object) -> str:
    """A config whose audit file lies in its folder."""
    return f"audit: {json.dumps({'file': 'audit.jsonl', **keys})}\n{RESOURCES}"


@pytest.fixture
def file(folder: Path) -> Path:
    """Where it lies."""
    return folder / "audit.jsonl"


class Operator:
    """Somebody who steps in."""

    def __init__(self, daemon: Daemon) -> None:
        self.channel = grpc.insecure_channel(daemon.address)
        self.stub = AdminStub(self.channel)
        self.who = (("governor-actor", "alice"),)


class TestHistory:
    """What befell a lease can be read from the file alone."""

    def test_of_one_that_is_given_back(self, start: Start, connect: Connect, file: Path) -> None:
        """Who had which member, from when to when; nothing of what an operator or a client may have hidden in it."""
        daemon = start(audited())
        me = connect(daemon)
        request = ask("workers", client="web", lease=20)
        request.labels["note"] = "hunter2"
        lease = me.stub.Acquire(request).lease
        me.renew(lease.id)
        me.release(lease.id)
        until(lambda: len(history(file, lease.id)) == 3, "it is written")
        granted, renewed, released = history(file, lease.id)

        assert whats([granted, renewed, released]) == ["granted", "renewed", "released"]
        assert (granted["client"], granted["resources"]) == ("web", ["workers"])
        assert granted["claims"] == [{"resource": "workers", "permits": 1, "members": [lease.grants[0].members[0].id]}]
        assert (granted["waited_seconds"], granted["remaining_seconds"]) == (0, 20)
        assert 0 < released["held_seconds"] < 20
        assert granted["time"] < renewed["time"] < released["time"]
        assert "hunter2" not in file.read_text(encoding="utf-8")
        assert file.stat().st_mode & 0o137 == 0

    def test_of_one_whose_holder_is_killed(self, start: Start, spawn: Spawn, file: Path) -> None:
        """It is orphaned, and ends as disconnected; the log has a line for the end, too."""
        daemon = start(audited())
        borrower = spawn(daemon.address, "db", module="tests.e2e.session_borrower")
        assert borrower.stdout is not None
        lease = int(borrower.stdout.readline())
        borrower.send_signal(SIGKILL)
        until(lambda: whats(history(file, lease)) == ["granted", "orphaned", "disconnected"], "it has ended")
        granted, *_, ended = history(file, lease)
        assert (granted["client"], granted["pid"], ended["client"]) == ("borrower", borrower.pid, "borrower")
        assert granted["host"] == socket.gethostname()
        daemon.said(rf"INFO    lease {lease} disconnected: db, held for \S+ by borrower$")

    def test_of_one_that_expires(self, start: Start, connect: Connect, file: Path) -> None:
        """And of who waited for it."""
        daemon = start(audited(events="all"))
        me = connect(daemon)
        lease = me.acquire("db", lease=20, client="web").id
        waiting = me.wait_in_line(ask("db", wait=20, client="cron"))
        me.renew(lease, lease=0.05)
        other = waiting.lease().id
        me.release(other)
        until(lambda: len(history(file, other)) == 2, "all is written")
        assert whats(history(file, lease)) == ["granted", "renewed", "expired"]
        assert [(said["what"], said["client"]) for said in entries(file) if "client" in said] == [
            ("granted", "web"),
            ("queued", "cron"),
            ("renewed", "web"),
            ("expired", "web"),
            ("granted", "cron"),
            ("released", "cron"),
        ]
        daemon.said(rf"lease {lease} expired: db, held for \S+ by web$")

    def test_of_one_that_an_operator_revokes(self, start: Start, connect: Connect, file: Path) -> None:
        """Its end says who did it, once for each lease; one line of the log for that, and one for the order."""
        daemon = start(audited())
        lease = connect(daemon).acquire("db", client="web").id
        operator = Operator(daemon)
        operator.stub.Revoke(admin_pb2.RevokeRequest(lease_ids=[lease]), metadata=operator.who)
        until(lambda: "revoked" in whats(history(file, lease)), "it is written")
        until(lambda: "revocation" in whats(entries(file)), "it is written")
        ended, order = [said for said in entries(file) if said.get("actor") == "alice"]

        assert (ended["what"], ended["lease"], ended["client"]) == ("revoked", lease, "web")
        assert (order["what"], order["resources"], order["detail"]) == ("revocation", ["db"], f"lease {lease}")
        daemon.said(rf"revocation db: lease {lease} \(by alice\)$")
        daemon.said(rf"lease {lease} revoked: db, held for \S+ by web$")

    def test_over_a_restart(self, start: Start, connect: Connect, file: Path) -> None:
        """The next daemon writes on, and says first which leases it goes on with."""
        daemon = start(audited())
        lease = connect(daemon).acquire("db", client="web", lease=60).id
        until(lambda: history(file, lease) != [], "it is written")
        daemon.kill()
        daemon = start(audited())
        me = connect(daemon)
        me.release(lease)
        until(lambda: len(history(file, lease)) == 3, "it is written")
        assert whats(entries(file)) == ["started", "granted", "carried", "started", "released"]
        granted, carried, _ = history(file, lease)
        assert [carried[key] for key in ("client", "resources", "claims")] == [
            granted[key] for key in ("client", "resources", "claims")
        ]
        assert carried["remaining_seconds"] > 60 > carried["held_seconds"] >= 0

    def test_of_one_that_was_never_written(self, start: Start, connect: Connect, file: Path) -> None:
        """As when a daemon dies between the two disks: its history begins with the restart."""
        daemon = start(audited(policy="block"))
        leases = [connect(daemon).acquire("many", client="web", lease=60).id for _ in range(3)]
        daemon.kill()
        file.unlink()
        daemon = start(audited(policy="block"))
        me = connect(daemon)
        for lease in leases:
            me.release(lease)
            assert whats(history(file, lease)) == ["carried", "released"]

    @pytest.mark.parametrize("events", ["operators", "leases"])
    def test_over_a_freeze(self, start: Start, connect: Connect, file: Path, events: str) -> None:
        """That all leases end later is in the file, since else nobody could make sense of when they ended."""
        daemon = start(audited(events=events))
        me = connect(daemon)
        lease = me.acquire("db", lease=30)
        until(lambda: daemon.metric("governor_leases", resource="db") == 1, "it is held")
        time.sleep(0.3)  # a heartbeat has been
        daemon.signal(SIGSTOP)
        time.sleep(1.5)  # what it is about
        daemon.signal(SIGCONT)
        until(lambda: "frozen" in whats(everything(file)), "it is written")
        frozen = next(said for said in everything(file) if said["what"] == "frozen")
        assert re.fullmatch(r"did not run for [0-9.]+m?s; all leases end as much later", frozen["detail"])
        daemon.said(re.escape(frozen["detail"]) + "$")
        assert daemon.log.count(frozen["detail"]) == 1
        me.release(lease.id)

    def test_operators_alone(self, start: Start, connect: Connect, file: Path) -> None:
        """From the start to the end, with reloads, good and bad."""
        daemon = start(audited(events="operators"))
        daemon.expect("reload refused")
        me = connect(daemon)
        me.release(me.acquire("many").id)
        good = daemon.config.read_text(encoding="utf-8")
        daemon.reload(good.replace("permits: 1,", "permits: 2,"))
        until(lambda: "reloaded" in whats(entries(file)), "it is written")
        daemon.reload(good + "nonsense: 1\n")
        until(lambda: "reload_refused" in whats(entries(file)), "it is written")
        operator = Operator(daemon)
        operator.stub.PauseResource(admin_pb2.PauseResourceRequest(resource="many"), metadata=operator.who)
        daemon.end()

        said = entries(file)
        assert list(dict.fromkeys(whats(said))) == [
            "started",
            "reloaded",
            "reload_refused",
            "paused",
            "draining",
            "stopping",
        ]
        assert said[1]["resources"] == ["db"]
        refused = next(each for each in said if each["what"] == "reload_refused")["detail"]
        assert ":11: unknown key: expected listen" in refused
        assert "nonsense" not in refused  # what was written by mistake may be a password


class TestFiles:
    """What becomes of the file itself."""

    def test_it_begins_anew_by_size(self, start: Start, connect: Connect, file: Path) -> None:
        """No line is lost or in two of them, and no more are kept than may be."""
        daemon = start(audited(max_size="64KiB", keep=3))
        me = connect(daemon)
        for _ in range(450):
            me.release(me.acquire("many", client="x" * 200).id)
        daemon.end()
        files = [file.with_name(f"audit.jsonl{end}") for end in (".3", ".2", ".1", "")]
        assert sorted(file.parent.glob("audit.jsonl*")) == sorted(files)
        assert all(each.stat().st_size <= 65_536 for each in files)
        said = [each for one in files for each in entries(one)]
        leases = [each["lease"] for each in said if each["what"] == "granted"]
        assert leases == list(range(leases[0], leases[0] + len(leases)))
        assert whats(said)[-2:] == ["draining", "stopping"]

    def test_it_is_moved_away(self, start: Start, connect: Connect, file: Path) -> None:
        """As by logrotate, which then sends SIGHUP."""
        daemon = start(audited())
        me = connect(daemon)
        before = me.acquire("many").id
        until(lambda: history(file, before) != [], "it is written")
        moved = file.rename(file.with_name("moved"))
        between = me.acquire("many").id
        until(lambda: history(moved, between) != [], "it is written")
        daemon.signal(SIGHUP)
        until(file.exists, "there is a new one")
        after = me.acquire("many").id
        until(lambda: history(file, after) != [], "it is written")
        assert history(moved, after) == []
        me.release(before, between, after)

    def test_one_that_cannot_be_opened(self, folder: Path) -> None:
        """The daemon does not start: one line says which, why, and what to do; no lease id is used up."""
        config = folder / "governor.yaml"
        config.write_text(f"listen: [127.0.0.1:0]\nhttp: off\naudit: {folder}/no/audit.jsonl\n", encoding="utf-8")
        ended = serve_to_the_end(config, folder / "state")
        assert ended.code == 71
        assert ended.stderr == (
            f"governor: audit file {folder}/no/audit.jsonl: cannot be opened: No such file or directory; "
            "make its folder, or name another under audit\n"
        )

    def test_what_a_reload_changes(self, start: Start, file: Path) -> None:
        """Takes effect at the next start, as is said."""
        daemon = start(audited())
        daemon.expect("reload: audit takes effect at the next start")
        text = daemon.config.read_text(encoding="utf-8")
        daemon.reload(text.replace("audit.jsonl", "other.jsonl"))
        daemon.said("reload: audit takes effect at the next start")
        assert not file.with_name("other.jsonl").exists()


class TestAFullDisk:
    """Files cannot grow, as if the disk were full, but for this daemon alone."""

    @staticmethod
    def resize(daemon: Daemon, size: int) -> None:
        """From now on no file of it may be longer."""
        subprocess.run(["prlimit", f"--pid={daemon.pid}", f"--fsize={size}:"], check=True)

    def test_drop(self, start: Start, connect: Connect, file: Path) -> None:
        """Nobody waits; it is said once, counted, and what happened meanwhile is in the file later."""
        daemon = start("durability: none\n" + audited())
        daemon.expect(r"ERROR   audit file .*: cannot be written: File too large; until then, lines wait")
        daemon.expect(r"state.db")
        me = connect(daemon)
        first = me.acquire("many").id
        until(lambda: history(file, first) != [], "it is written")
        self.resize(daemon, file.stat().st_size + 10)
        second = me.acquire("many").id
        until(lambda: daemon.metric("governor_audit_write_errors_total") > 1, "it was tried twice")
        me.release(second)
        assert daemon.page("/-/ready")[0] == 200
        assert history(file, second) == []
        self.resize(daemon, 2**40)
        until(lambda: whats(history(file, second)) == ["granted", "released"], "it is written")
        daemon.said("audit file .*: can be written again")
        assert len(entries(file)) == 4
        assert daemon.metric("governor_audit_dropped_total") == 0
        me.release(first)

    def test_block(self, start: Start, connect: Connect, file: Path) -> None:
        """Nothing is granted meanwhile, and what is given back is given back."""
        daemon = start("durability: none\n" + audited(policy="block"))
        daemon.expect(r"ERROR   audit file .*: cannot be written: File too large; until then, nothing is granted")
        daemon.expect(r"state.db")
        me = connect(daemon)
        held = me.acquire("many").id
        assert whats(history(file, held)) == ["granted"], "it was written before it was answered"
        self.resize(daemon, file.stat().st_size + 10)
        with pytest.raises(grpc.RpcError) as refused:
            me.acquire("many")
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        until(lambda: daemon.page("/-/ready") == (503, "not ready: the audit file cannot be written\n"), "it is told")
        info = Operator(daemon).stub.GetInfo(admin_pb2.GetInfoRequest())
        assert (info.audit_problem, info.state_problem) == ("the audit file cannot be written", "")
        me.release(held)
        self.resize(daemon, 2**40)
        until(lambda: daemon.page("/-/ready")[0] == 200, "it goes on")
        assert Operator(daemon).stub.GetInfo(admin_pb2.GetInfoRequest()).audit_problem == ""
        lease = me.acquire("many").id
        assert whats(history(file, lease)) == ["granted"]
        assert whats(history(file, held)) == ["granted", "released"]
        me.release(lease)

    def test_block_on_a_session(self, start: Start, connect: Connect, file: Path) -> None:
        """Nobody is left with a lease whose grant is not in the file: it is said to have ended in the same breath."""
        daemon = start("durability: none\n" + audited(policy="block"))
        daemon.expect(r"ERROR   audit file .*: cannot be written: File too large; until then, nothing is granted")
        daemon.expect(r"state.db")
        me = connect(daemon)
        said: SimpleQueue[pb.SessionRequest] = SimpleQueue()
        said.put(pb.SessionRequest(hello=pb.Hello(client="web", instance="a" * 32)))
        # grpc cancels a call that nobody remembers.
        call = me.stub.Session(iter(said.get, None), timeout=BOUND)
        assert next(call).HasField("welcome")
        self.resize(daemon, file.stat().st_size + 10)
        acquires = [pb.SessionAcquire(op=op, claims=[pb.Claim(resource="many", permits=1)]) for op in range(1, 6)]
        said.put(pb.SessionRequest(acquires=acquires))
        told = pb.SessionResponse()
        while not told.handled:
            told.MergeFrom(next(call))
        granted = {each.lease.id for each in told.grants}
        assert granted == {each.lease_id for each in told.ended}
        assert len(granted) + len(told.refusals) == 5
        assert granted, "it was not granted before the file was seen to fail"
        assert me.counts("many") == (0, 0)
        self.resize(daemon, 2**40)
        until(lambda: daemon.page("/-/ready")[0] == 200, "it goes on")
        until(lambda: all(len(history(file, lease)) == 2 for lease in granted), "it is written")
        assert {lease: whats(history(file, lease)) for lease in granted} == {
            lease: ["granted", "disconnected"] for lease in granted
        }
        call.cancel()


class TestAFileThatStandsStill:
    """A pipe that nobody reads: whoever writes to it waits for ever."""

    @pytest.fixture
    def pipe(self, file: Path) -> Path:
        """Somebody may read it."""
        os.mkfifo(file)
        return file

    @pytest.fixture
    def full(self, pipe: Path) -> Iterator[int]:
        """Not a byte more goes into it until somebody reads; it may be closed."""
        end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        for size in (4096, 1):
            with suppress(BlockingIOError):
                while True:
                    os.write(end, b"\n" * size)
        yield end
        with suppress(OSError):
            os.close(end)

    @staticmethod
    def pairs(me: Client, number: int) -> None:
        """So many grants, and as many releases, all with a long name."""
        for _ in range(number):
            me.release(me.acquire("many", client="x" * 200).id)

    def test_drop(self, start: Start, connect: Connect, pipe: Path) -> None:
        """The daemon does not wait for it, and its end is bounded: what was not read is said to be missing."""
        daemon = start(audited())
        daemon.expect(r"ERROR   audit file .*: the last \d+ lines were not written")
        me = connect(daemon)
        self.pairs(me, 400)
        assert daemon.end() == 0
        daemon.said(r"audit file .*: the last \d+ lines were not written")

    def test_block(self, start: Start, connect: Connect, pipe: Path, full: int) -> None:
        """Whoever is told anything waits; others are served. When it is read, all goes on, and nothing is missing."""
        daemon = start(audited(policy="block"))
        me = connect(daemon)
        done = threading.Event()

        def borrow() -> None:
            self.pairs(me, 400)
            done.set()

        borrower = threading.Thread(target=borrow, daemon=True)
        borrower.start()
        until(lambda: _granted(daemon) == 1, "it stands still: that is granted, and not told")
        assert not done.is_set()
        assert daemon.page("/-/ready")[0] == 200
        with pipe.open(encoding="utf-8") as reading:
            os.close(full)
            lines: list[str] = []
            reader = threading.Thread(target=lambda: lines.extend(reading), daemon=True)
            reader.start()
            assert done.wait(BOUND)
            borrower.join(BOUND)
            daemon.end()
            reader.join(BOUND)
        said = [json.loads(line) for line in lines if line.strip()]
        assert whats(said).count("granted") == whats(said).count("released") == 400
        assert "missed" not in whats(said)

    @pytest.mark.usefixtures("full")
    def test_block_to_the_end(self, start: Start, connect: Connect) -> None:
        """Nobody ever reads it: whoever waits is let go by the end, which is as quick as ever."""
        daemon = start(audited(policy="block"))
        daemon.expect(r"ERROR   audit file .*: the last \d+ lines were not written")
        daemon.expect("still held")
        me = connect(daemon)

        def borrow() -> None:
            with suppress(grpc.RpcError):
                self.pairs(me, 400)

        borrower = threading.Thread(target=borrow, daemon=True)
        borrower.start()
        until(lambda: _granted(daemon) == 1, "it stands still: that is granted, and not told")
        assert daemon.end() == 0
        borrower.join(BOUND)
        daemon.said(r"audit file .*: the last \d+ lines were not written")


def _granted(daemon: Daemon) -> float:
    return daemon.metric("governor_acquires_total", resource="many", outcome="granted")


def test_a_log_in_json(start: Start, folder: Path, connect: Connect) -> None:
    """Each line is an object, with fields for what is in the message in words."""
    (folder / "json").mkdir()
    config = folder / "json" / "governor.yaml"
    config.write_text(
        f"listen: ['unix:{folder}/json.sock']\nhttp: off\ndrain_timeout: 0\n{RESOURCES}", encoding="utf-8"
    )
    daemon = Daemon(config, folder / "json" / "state", command=COMMAND, log_format="json")
    try:
        daemon.said("listening on unix:")
        with Client(f"unix:{folder}/json.sock") as me:
            lease = me.acquire("db", lease=0.1, client="web").id
            daemon.said(f"lease {lease} expired")
        assert daemon.end() == 0
    finally:
        daemon.kill()
    lines = [json.loads(line) for line in daemon.log.splitlines()]
    assert all({"time", "level", "message"} <= line.keys() for line in lines)
    (ended,) = [line for line in lines if "lease" in line]
    assert (ended["lease"], ended["resources"], ended["client"], ended["reason"]) == (lease, ["db"], "web", "expired")
    assert ended["held_seconds"] >= 0.1
