"""`governor state`: a state file looked at and mended without a daemon."""

import json
import os
from contextlib import closing
from pathlib import Path

import pytest

from governor import daemon
from governor.cli.serve import serve
from governor.core.kinds.pool import MemberSpec, PoolSpec
from governor.core.kinds.semaphore import SemaphoreSpec
from governor.core.resource import Remembered, ResourceSpec
from governor.core.snapshot import Held, Past
from governor.core.types import SECOND, Claim, EndReason, Grant, LeaseId, Member
from governor.lock import BindError, FolderLock
from governor.store import NAME, Batch, Store
from governor.store.rows import lease_row, past_row, resource_row
from tests.cli.conftest import Run
from tests.privileges import shut_away

LEASES = 300


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The folder of a daemon that has lent much."""
    spec = ResourceSpec("jobs", SemaphoreSpec(None), 10 * SECOND, 20 * SECOND, 3, 4, 5)
    with closing(Store(tmp_path)) as store:
        leases = [
            Held(LeaseId(n), (Grant("jobs", 1),), 50, f"client {n}", SECOND, f"r{n}", (), SECOND, 20, 0, orphaned=False)
            for n in range(1, LEASES + 1)
        ]
        store.write(
            Batch(
                leases=[lease_row(lease, graced=False) for lease in leases],
                past=[past_row(Past(LeaseId(900), (Claim("jobs", 1),), "me", "x", EndReason.RELEASED, 7, 0))],
                resources=[resource_row(Remembered(spec, {}, 12))],
                reserved=1000,
                stamp=20,
            )
        )
        store.fold()
    return tmp_path


def damage(state: Path) -> None:
    """A page in the middle of the leases is no page any more."""
    data = bytearray((state / NAME).read_bytes())
    data[-8192:-4096] = b"\xff" * 4096
    (state / NAME).write_bytes(data)


def test_check_reads_all_of_it(run: Run, state: Path) -> None:
    """By the name of the file or of its folder."""
    for place in (state, state / NAME):
        assert run("state", "check", str(place)).out == f"{state / NAME}: OK, {LEASES} leases, 1 resource\n"

    record = run("state", "check", str(state), "-o", "json")
    assert json.loads(record.out) == {"ok": True, "leases": LEASES, "resources": 1, "problem": None}


def test_check_says_what_is_wrong(run: Run, state: Path) -> None:
    """In the words of a daemon that does not start on it, and with its exit code."""
    damage(state)

    table, record = run("state", "check", str(state)), run("state", "check", str(state), "-o", "json")
    missing = run("state", "check", str(state / "missing"))

    assert (table.exit, table.out, record.exit) == (71, "", 71)
    assert table.err.startswith(f"governor: {state / NAME}: is damaged (")
    assert json.loads(record.out)["problem"] in table.err
    told = "there is no such file; name the state folder of a daemon, or the file in it"
    assert (missing.exit, missing.err) == (71, f"governor: {state / 'missing'}: {told}\n")


def test_a_damaged_log_is_found_and_what_came_before_it_is_saved(run: Run, state: Path) -> None:
    """Of it SQLite would only read less; repair says what is lost, and the daemon starts on the rest."""
    with closing(Store(state)) as store:
        store.write(Batch(stamp=21))
        store.fold()
        store.write(Batch(gone=[(1,)]))
        store.write(Batch(gone=[(2,)]))
        copy = state / "copy"
        copy.mkdir()
        for name in (NAME, f"{NAME}-wal"):
            (copy / name).write_bytes((state / name).read_bytes())
    data = bytearray((copy / f"{NAME}-wal").read_bytes())
    data[-1] ^= 1
    (copy / f"{NAME}-wal").write_bytes(data)

    checked = run("state", "check", str(copy))
    assert (checked.exit, "is damaged (in its log state.db-wal, frame" in checked.err) == (71, True)
    mended = run("state", "repair", str(copy))
    assert mended.exit == 0
    assert f"saved {LEASES - 1} leases" in mended.out
    assert "lost what was written last: in its log state.db-wal, frame" in mended.out
    assert run("state", "check", str(copy)).out == f"{copy / NAME}: OK, {LEASES - 1} leases, 1 resource\n"


def test_dump_shows_all_of_it(run: Run, state: Path) -> None:
    """As JSON, for whoever wants to look closer."""
    shown = json.loads(run("state", "dump", str(state)).out)

    assert (shown["reserved"], shown["stamp"]) == (1000, 20)
    assert [lease["id"] for lease in shown["leases"]] == list(range(1, LEASES + 1))
    assert shown["resources"][0]["spec"]["name"] == "jobs"
    assert shown["past"][0]["request_id"] == "x"


def test_dump_shows_no_secrets_unless_told_to(run: Run, tmp_path: Path) -> None:
    """Attributes of members, which programs are lent; labels; and ids by which a session is resumed."""
    member = MemberSpec("m", (("dsn", "s3cret-1"),))
    spec = ResourceSpec("db", PoolSpec((member,)), SECOND, SECOND, 3, 4, 5)
    grant = Grant("db", 1, (Member("m", (("dsn", "s3cret-2"),), 1),))
    session = "0123456789abcdef0123456789abcdef"
    labels = (("password", "s3cret-3"),)
    held = Held(LeaseId(1), (grant,), 50, "me", SECOND, f"{session}/7", labels, SECOND, 20, 0, orphaned=False)
    past = Past(LeaseId(2), (Claim("db", 1),), "me", f"{session}/8", EndReason.RELEASED, 7, 0)
    # As a pool has it of a member that is declared no more while it is lent.
    lent = Remembered(spec, {"members": {"gone": {"attributes": {"dsn": "s3cret-4"}, "generation": 1}}}, 12)
    with closing(Store(tmp_path)) as store:
        store.write(
            Batch(
                leases=[lease_row(held, graced=False)],
                past=[past_row(past)],
                resources=[resource_row(lent)],
                reserved=1000,
                stamp=20,
            )
        )
        store.fold()

    plain, all_of_it = run("state", "dump", str(tmp_path)).out, run("state", "dump", "--secrets", str(tmp_path)).out

    assert ("s3cret" in plain, session in plain) == (False, False)
    assert all(each in plain for each in ("dsn", "password", "01234567…/7", "01234567…/8"))
    secrets = [f"s3cret-{number}" for number in range(1, 5)]
    assert all(each in all_of_it for each in (*secrets, f"{session}/7", f"{session}/8"))


def test_repair_saves_what_can_be_read(run: Run, state: Path) -> None:
    """And says what cannot; the damaged file is kept, and ids go on."""
    damage(state)
    before = (state / NAME).read_bytes()

    repaired = run("state", "repair", str(state))

    assert (repaired.exit, repaired.err) == (0, "")
    assert "the damaged file is state.db.damaged-1" in repaired.out
    assert ": lost some rows of lease: " in repaired.out
    assert (state / "state.db.damaged-1").read_bytes() == before
    assert sorted(path.name for path in state.iterdir() if "repair" in path.name) == []
    assert run("state", "check", str(state)).exit == 0
    shown = json.loads(run("state", "dump", str(state)).out)
    assert shown["reserved"] == 1000
    assert 0 < len(shown["leases"]) < LEASES
    assert {1, LEASES} & {lease["id"] for lease in shown["leases"]}


def test_repair_leaves_alone_what_is_in_order_or_in_use(run: Run, state: Path) -> None:
    """A daemon has it, or there is nothing to do."""
    before = (state / NAME).read_bytes()
    assert "nothing to repair" in run("state", "repair", str(state)).out
    damage(state)
    with FolderLock(state):
        in_use = run("state", "repair", str(state))

    assert in_use.exit == 71
    assert f"in use by process {os.getpid()}" in in_use.err
    assert (state / NAME).read_bytes() != before
    assert not (state / "state.db.damaged-1").exists()


def test_repair_says_so_when_nothing_is_left(run: Run, state: Path) -> None:
    """It does not make an empty state of that by itself."""
    (state / NAME).write_bytes(b"")

    ended = run("state", "repair", str(state))

    assert (ended.exit, (state / NAME).read_bytes()) == (71, b"")
    assert "nothing can be read of it" in ended.err


# What is closed to whoever asks, of a folder "closed/state" with its file: and how it is named then.
CLOSED = [
    ("closed", "closed/state"),
    ("closed", "closed/state/state.db"),
    ("closed/state", "closed/state"),
    ("closed/state", "closed/state/state.db"),
    ("closed/state/state.db", "closed/state"),
    ("closed/state/state.db", "closed/state/state.db"),
]


@pytest.mark.parametrize(("shut", "named"), CLOSED)
@pytest.mark.parametrize("command", ["check", "dump", "repair"])
def test_a_state_that_may_not_be_read_is_told_as_one_with_which_nothing_starts(
    run: Run, tmp_path: Path, command: str, shut: str, named: str
) -> None:
    """Whatever it is that is closed: with the exit code of that, where it is, why, and what to do."""
    folder = tmp_path / "closed" / "state"
    folder.mkdir(parents=True)
    Store(folder).close()
    with shut_away(tmp_path / shut):
        ended = run("state", command, str(tmp_path / named))

    assert (ended.exit, ended.out) == (71, "")
    assert ended.err.startswith(f"governor: {tmp_path}/closed/state")
    assert "Permission denied" in ended.err
    assert ended.err.endswith(
        ("; run this as its owner, or give it and its folder to this user\n", "and be writable for this user\n")
    )
    assert ended.err.count("\n") == 1


def test_check_says_so_to_programs(run: Run, tmp_path: Path) -> None:
    """As of any other problem with it."""
    with shut_away(tmp_path):
        ended = run("state", "check", str(tmp_path / "state"), "-o", "json")

    assert (ended.exit, ended.err) == (71, "")
    assert "Permission denied" in json.loads(ended.out)["problem"]


@pytest.mark.parametrize(("option", "name"), [("--state", "state"), ("--config", "governor.yaml")])
def test_serve_leaves_it_to_the_daemon_to_say_what_is_closed(tmp_path: Path, option: str, name: str) -> None:
    """Which has an exit code for it: it is no mistake in how serve was called."""
    path = tmp_path / name
    path.mkdir()
    with shut_away(path), serve.make_context("serve", [option, str(path)]) as context:
        assert path in context.params.values()


@pytest.mark.parametrize("command", ["check", "dump", "repair"])
@pytest.mark.timeout(20)
def test_what_is_no_file_keeps_nobody_waiting(run: Run, tmp_path: Path, command: str) -> None:
    """As a pipe does to which nobody writes."""
    os.mkfifo(tmp_path / NAME)
    for place in (tmp_path, tmp_path / NAME):
        ended = run("state", command, str(place))
        assert ended.exit == 71
        assert ended.err.startswith(f"governor: {tmp_path / NAME}: cannot be read (not a regular file); ")


def test_a_state_folder_that_is_something_else_is_told_so(tmp_path: Path) -> None:
    """Such as the file in it, which the commands that look at it take as well."""
    (tmp_path / NAME).touch()
    with pytest.raises(
        BindError, match=r"state\.db: cannot be made: there is something else of that name; name another"
    ):
        daemon._folder(tmp_path / NAME)
