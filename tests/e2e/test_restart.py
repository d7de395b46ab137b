"""What outlives a daemon: it is killed and started anew, stopped and frozen, as a machine would do it."""

import json
import sqlite3
import subprocess
import time
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from signal import SIGCONT, SIGSTOP, SIGTERM

import grpc
import pytest
from grpc import StatusCode

from governor.client import Client as Library
from governor.client import Lease
from governor.v1 import admin_pb2
from governor.v1 import governor_pb2 as pb
from governor.v1.admin_pb2_grpc import AdminStub
from tests.e2e.client import Client, Refusal, ask
from tests.e2e.conftest import Connect, Start
from tests.e2e.process import BOUND, COMMAND, Daemon, until

FAKETIME = next(iter(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)

YAML = """\
restart_grace: 500ms
semaphores: {one: {permits: 1, lease: 30s}, many: {permits: unlimited}}
pools: {db: {members: {a: , b: }, quarantine: 1h, max_quarantine: 1h}}
rate_limits: {api: {rate: 2/h, burst: 2}}
"""


ONE = "semaphores: {one: {permits: 1, lease: 30s}}\n"


def refused(me: Client, name: str, **more: object) -> Refusal:
    """Ask without waiting, in vain."""
    with pytest.raises(grpc.RpcError) as error:
        me.stub.Acquire(ask(name, wait=0, **more))  # type: ignore[arg-type]
    return Refusal(error.value)


def test_everything_survives_a_kill(start: Start, connect: Connect) -> None:
    """Leases with their members, request ids of the living and the ended, what is spent, who is quarantined."""
    daemon = start(YAML)
    me = connect(daemon)
    one = me.acquire("one", client="me", request_id="r1")
    member = me.acquire("db", client="me")
    ended = me.acquire("many", client="me", request_id="r2").id
    me.release(ended)
    broken = me.acquire("db")
    me.release(broken.id, outcome=pb.OUTCOME_BROKEN)
    spent = [me.acquire("api", client="me", request_id=name).id for name in ("s1", "s2")]
    daemon.kill()

    daemon = start(YAML)
    daemon.said(r"remembered from .*: 2 leases are held, 2 of them 500ms longer")
    me = connect(daemon)
    again = me.acquire("one", client="me", request_id="r1")
    assert again.id == one.id
    assert 25 < again.remaining.ToTimedelta().total_seconds() <= 30.5
    assert refused(me, "one").code is StatusCode.RESOURCE_EXHAUSTED
    assert refused(me, "many", client="me", request_id="r2").facts["ended"] == "released"
    assert [me.acquire("api", client="me", request_id=name).id for name in ("s1", "s2")] == spent
    assert refused(me, "api").reason == "NONE_FREE"
    assert refused(me, "db").reason == "NONE_FREE"
    assert daemon.metric("governor_pool_members", resource="db", state="quarantined") == 1
    assert daemon.metric("governor_client_leases", client="me") == 2
    assert me.renew(member.id)[0].state == pb.LeaseResult.RENEWED
    me.release(one.id, member.id)
    assert me.acquire("one").id > max(one.id, *spent)
    assert me.acquire("db").grants[0].members[0].id == member.grants[0].members[0].id
    daemon.expect("leases are still held")


def test_a_dead_holder_does_not_keep_its_permit_for_ever(start: Start, connect: Connect) -> None:
    """Though the daemon dies before half of the lease is over, each time."""
    daemon = start(YAML)
    connect(daemon).acquire("one", lease=2)
    until_free = time.monotonic() + 60
    while connect(daemon).counts("one")[0]:
        assert time.monotonic() < until_free
        time.sleep(0.7)
        daemon.kill()
        daemon = start(YAML)


def test_what_was_promised_is_kept(start: Start, connect: Connect) -> None:
    """Clients rely on the grace that they were told of, whatever the YAML says by the time of the restart; once."""
    daemon = start("restart_grace: 40s\n" + ONE)
    lease = connect(daemon).acquire("one")
    for longer, grace in (("1 of them 40s longer", "0s"), ("held$", "2s"), ("held$", "0s")):
        daemon.kill()
        daemon = start(f"restart_grace: {grace}\n" + ONE)
        daemon.said(f"remembered from .*: 1 lease is .*{longer}")
    connect(daemon).release(lease.id)


def test_the_library_keeps_its_leases_over_a_restart(start: Start) -> None:
    """Its session comes back by itself; nobody else is let in meanwhile."""
    yaml = "restart_grace: 30s\n" + ONE
    daemon = start(yaml)
    with Library(daemon.address, name="me") as library, library.acquire("one") as lease:
        for _ in range(2):
            daemon.kill()
            daemon = start(yaml)
            with Client(daemon.address) as other:
                assert refused(other, "one").reason == "NONE_FREE"
            until(partial(_is_back, library, lease, daemon), "its client has heard that it is back")
        assert not lease.lost
    with Client(daemon.address) as other:
        until(lambda: other.counts("one") == (0, 0), "it has been given back")


def test_the_yaml_may_have_changed_meanwhile(start: Start, connect: Connect) -> None:
    """Fewer permits are a shrink, what is removed drains, and another kind waits until nobody holds the former."""
    daemon = start(YAML)
    me = connect(daemon)
    held = [me.acquire("many").id for _ in range(3)]
    drained, kept = me.acquire("one").id, me.acquire("db").id
    daemon.kill()

    daemon = start("semaphores: {many: {permits: 2}, db: {permits: 1}}\nrate_limits: {api: {rate: 2/h, burst: 2}}\n")
    daemon.expect("ERROR .*db: cannot become a semaphore while it is lent as a pool")
    daemon.said(r"config since then: changed many, .*removed one")
    me = connect(daemon)
    assert daemon.metric("governor_config_last_reload_successful") == 0
    assert daemon.metric("governor_permits_over_limit", resource="many") == 1
    assert refused(me, "many").reason == "NONE_FREE"
    assert refused(me, "one").reason == "UNKNOWN_RESOURCE"
    me.release(*held, drained, kept)
    assert daemon.metric("governor_config_last_reload_successful") == 0


def test_a_removal_is_told_once(start: Start, connect: Connect) -> None:
    """What was removed before, and is remembered as it is spent or lent yet, is no change; if it is declared, it is."""
    api, many = "rate_limits: {api: {rate: 1/h, burst: 2}}\n", "semaphores: {many: {permits: 9}, old: {permits: 1}}\n"
    daemon = start(many + api)
    me = connect(daemon)
    me.acquire("api")
    me.acquire("old", lease=3000)
    daemon.kill()
    daemon = start("semaphores: {many: {permits: 9}}\n")
    daemon.said(r"config since then: removed .*api")
    for _ in range(2):
        daemon.kill()
        daemon = start("semaphores: {many: {permits: 9}}\n")
        daemon.said("remembered from")
        assert "config since then" not in daemon.log
    daemon.kill()
    daemon = start(many.replace("9", "8") + api.replace("2", "1"))
    daemon.expect("still held")
    daemon.said(r"config since then: added old, api, changed many$")


def test_an_override_that_ends_meanwhile(start: Start, connect: Connect, folder: Path) -> None:
    """Its time goes on while no daemon runs; that it is over is told by the next one, to all who are told anything."""
    yaml = f"audit: {{file: {folder}/audit.jsonl, events: operators}}\n{ONE}"
    length = 1
    while True:
        daemon = start(yaml)
        with grpc.insecure_channel(daemon.address) as channel:
            request = admin_pb2.SetOverrideRequest(resource="one", settings={"permits": "5"})
            request.length.FromSeconds(length)
            AdminStub(channel).SetOverride(request, timeout=BOUND)
        over = time.monotonic() + length
        daemon.kill()
        if "override over one" not in daemon.log:
            break
        length *= 2  # it was over sooner than the daemon could be killed
    until(lambda: time.monotonic() > over, "its time is over")
    daemon = start(yaml)
    daemon.said(r"override over one: its time was over before the start$")
    assert [each.capacity for each in connect(daemon).resources()] == [1]
    daemon.end()
    acts = [json.loads(line) for line in (folder / "audit.jsonl").read_text(encoding="utf-8").splitlines()]
    told = [(each["what"], each.get("resources")) for each in acts if each["what"] != "frozen"]
    assert told[-4:] == [("started", None), ("override_over", ["one"]), ("draining", None), ("stopping", None)]


def test_sqlite_shows_readable_tables_of_a_running_daemon(start: Start, connect: Connect) -> None:
    """Read-only, and nobody is held up by it."""
    daemon = start(YAML)
    me = connect(daemon)
    lease = me.acquire("db", client="me")
    with closing(sqlite3.connect(f"{(daemon.state / 'state.db').as_uri()}?mode=ro", uri=True)) as database:
        found = database.execute("SELECT id, client, json_extract(grants, '$[0].members[0].id') FROM lease").fetchall()
        me.release(lease.id)
        left = database.execute("SELECT count(*) FROM lease").fetchone()

    assert found == [(lease.id, "me", lease.grants[0].members[0].id)]
    assert left == (0,)


def test_a_daemon_that_was_frozen_hears_what_has_arrived_first(start: Start, connect: Connect) -> None:
    """For longer than a lease: its renewal wins, and the pause is counted."""
    daemon = start(YAML)
    me = connect(daemon)
    lease = me.acquire("one", lease=2)
    daemon.signal(SIGSTOP)
    time.sleep(2.5)
    renewal = me.stub.Renew.future(pb.RenewRequest(lease_ids=[lease.id]))
    time.sleep(0.2)
    daemon.signal(SIGCONT)

    assert renewal.result().results[0].state == pb.LeaseResult.RENEWED
    assert daemon.metric("governor_pauses_seconds_total") > 1
    me.release(lease.id)


def test_a_stop_leaves_what_is_held_to_the_next_start(start: Start, connect: Connect) -> None:
    """It waits for as long as it says, and then a holder renews with the next daemon as if nothing had been."""
    daemon = start(YAML)
    lease = connect(daemon).acquire("one").id
    daemon.expect("1 lease is still held")
    daemon.signal(SIGTERM)
    assert daemon.exit_code() == 0
    assert [path.name for path in daemon.state.iterdir() if "wal" in path.name] == []

    me = connect(start(YAML))
    assert me.renew(lease)[0].state == pb.LeaseResult.RENEWED
    me.release(lease)


def test_without_durability_only_ids_are_remembered(start: Start, connect: Connect) -> None:
    """For tests, and for whoever can live with it."""
    yaml = "durability: none\n" + YAML
    daemon = start(yaml)
    lease = connect(daemon).acquire("one").id
    daemon.kill()

    me = connect(start(yaml))
    other = me.acquire("one").id
    assert other > lease
    me.release(other)


def test_power_serves_as_well(start: Start, connect: Connect) -> None:
    """Each answer waits for the disk, in a thread."""
    yaml = "durability: power\n" + YAML
    daemon = start(yaml)
    me = connect(daemon)
    lease = me.acquire("one").id
    for _ in range(20):
        me.release(me.acquire("many").id)
    daemon.kill()

    me = connect(start(yaml))
    me.release(lease)


@pytest.mark.parametrize("jump", ["+1h", "-1h"])
def test_a_jump_of_the_wall_clock_changes_nothing(start: Start, connect: Connect, folder: Path, jump: str) -> None:
    """No lease ends sooner or later for it."""
    if FAKETIME is None:
        pytest.fail("this test needs libfaketime: apt-get install libfaketime", pytrace=False)
    clock = folder / "clock"
    clock.write_text("+0")
    environment = {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    daemon = start(YAML, command=("env", *[f"{name}={value}" for name, value in environment.items()], *COMMAND))
    me = connect(daemon)
    short, long = me.acquire("many", lease=2), me.acquire("one")
    clock.write_text(jump)
    assert me.renew(long.id)[0].state == pb.LeaseResult.RENEWED
    assert me.counts("many") == (1, 0)
    until(lambda: me.counts("many") == (0, 0), "it has expired, in its own time")
    assert me.counts("one") == (1, 0)
    assert daemon.metric("governor_pauses_seconds_total") < 60
    with pytest.raises(grpc.RpcError):
        me.release(short.id)
    me.release(long.id)
    written = sqlite3.connect(f"{(daemon.state / 'state.db').as_uri()}?mode=ro", uri=True)
    with closing(written):
        shown = datetime.fromisoformat(written.execute("SELECT written FROM meta").fetchone()[0])
    assert abs((shown - datetime.now(UTC)).total_seconds()) > 1800, "the wall clock of the daemon did not jump"


class TestAFullDisk:
    """Nothing can be written beyond what there is: as if a file system were full, but for this daemon alone."""

    @staticmethod
    def fill(daemon: Daemon) -> None:
        """From now on."""
        resize(daemon, 0)

    def test_refuse(self, start: Start, connect: Connect) -> None:
        """No new grants, and it is said why; leases go on, and what was given back is on record later."""
        daemon = start(YAML)
        daemon.expect(r"ERROR .*state.db: cannot be .*; until then, nothing is granted")
        me = connect(daemon)
        held = [me.acquire("many").id for _ in range(3)]
        self.fill(daemon)
        until(lambda: refused_for(me, "many") == "STATE_UNWRITABLE", "it notices")

        assert daemon.page("/-/ready") == (503, "not ready: the state cannot be written\n")
        assert daemon.metric("governor_store_writable") == 0
        assert daemon.metric("governor_store_errors_total") > 0
        assert me.renew(held[0])[0].state == pb.LeaseResult.RENEWED
        me.release(held[1])

        resize(daemon, 2**40)
        until(lambda: refused_for(me, "many") == "", "it works again")
        assert daemon.page("/-/ready")[0] == 200
        daemon.said("can be written again")
        daemon.kill()
        me = connect(start(YAML))
        until(lambda: me.counts("many")[0] >= 2, "it is back")
        assert me.renew(held[0], held[2])[0].state == pb.LeaseResult.RENEWED
        with pytest.raises(grpc.RpcError):
            me.renew(held[1])
        me.release(*held, *range(held[2] + 1, held[2] + 10))

    def test_a_reload_makes_no_daemon_ready_that_grants_nothing(self, start: Start, connect: Connect) -> None:
        """To go on for all that is for the next start, so until then it is not ready."""
        daemon = start(YAML)
        daemon.expect(r"ERROR .*state.db: cannot be .*; until then, nothing is granted")
        daemon.expect("reload: on_store_error takes effect at the next start")
        me = connect(daemon)
        self.fill(daemon)
        until(lambda: refused_for(me, "many") == "STATE_UNWRITABLE", "it notices")
        text = daemon.config.read_text(encoding="utf-8")
        daemon.reload(text + "on_store_error: continue\n")
        daemon.said("on_store_error takes effect")

        assert refused_for(me, "many") == "STATE_UNWRITABLE"
        assert daemon.page("/-/ready")[0] == 503

        resize(daemon, 2**40)
        daemon.said("can be written again")

    def test_continue(self, start: Start, connect: Connect) -> None:
        """Grants go on; what cannot be written is in the log and the metrics."""
        daemon = start("on_store_error: continue\n" + YAML)
        daemon.expect(r"ERROR .*state.db: cannot be .*; until then, what changes is forgotten at a restart")
        me = connect(daemon)
        self.fill(daemon)
        for _ in range(3):
            me.release(me.acquire("many").id)
        until(lambda: daemon.metric("governor_store_writable") == 0, "it notices")
        assert daemon.page("/-/ready")[0] == 200
        lease = me.acquire("one").id

        resize(daemon, 2**40)
        daemon.said("can be written again")
        daemon.kill()
        me = connect(start("on_store_error: continue\n" + YAML))
        me.release(lease)


def _is_back(library: Library, lease: Lease, daemon: Daemon) -> bool:
    """Whether this daemon has welcomed it, which renews what it holds; or never will."""
    process = library._settings.link._talk.process
    return lease.lost or (process is not None and process.pid == daemon.pid)


def resize(daemon: Daemon, size: int) -> None:
    """How long the files of a running daemon may become."""
    subprocess.run(["prlimit", f"--pid={daemon.pid}", f"--fsize={size}:"], check=True)


def refused_for(client: Client, name: str) -> str:
    """The reason of a refusal; a grant is none."""
    try:
        client.acquire(name, wait=0)
    except grpc.RpcError as error:
        return Refusal(error).reason
    return ""
