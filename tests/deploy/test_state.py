"""What the README says of backups, upgrades and the way back, done to real daemons and their files."""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

from governor.store import schema
from tests.e2e.conftest import Connect, Start
from tests.e2e.process import BOUND, ROOT, serve_to_the_end

YAML = "semaphores: {one: {permits: 4, lease: 1h, on_disconnect: keep}}\n"


def _governor(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "governor.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=BOUND, check=False)


def _checked(state: Path) -> dict[str, object]:
    run = _governor("state", "check", state, "-o", "json")
    assert run.returncode == 0, run.stderr
    told: dict[str, object] = json.loads(run.stdout)
    return told


def test_a_backup_can_be_made_while_it_lends(start: Start, connect: Connect, folder: Path) -> None:
    """As `.backup` of sqlite3 does it, again and again under load: each copy is whole, and nothing is logged."""
    daemon = start(YAML)
    me = connect(daemon)
    held = me.acquire("one").id
    over = threading.Event()

    def lend() -> None:
        with closing(connect(daemon)) as other:
            while not over.is_set():
                other.release(other.acquire("one").id)

    busy = threading.Thread(target=lend)
    busy.start()
    try:
        for turn in range(10):
            copy = folder / f"copy-{turn}"
            copy.mkdir()
            source = sqlite3.connect(f"file:{daemon.state / 'state.db'}?mode=ro", uri=True)
            with closing(source), closing(sqlite3.connect(copy / "state.db")) as target:
                source.backup(target)
            told = _checked(copy) if turn % 5 == 0 else {"leases": 1}
            assert told["leases"] in {1, 2}
    finally:
        over.set()
        busy.join(BOUND)

    assert daemon.metric("governor_store_errors_total") == 0
    me.release(held)


def test_a_backup_is_as_good_as_what_it_is_of(start: Start, connect: Connect, folder: Path) -> None:
    """In a new folder it is taken over: what was held then is held, and a new lease has a higher id than any before."""
    daemon = start(YAML)
    me = connect(daemon)
    held = me.acquire("one").id
    copy = folder / "copy"
    copy.mkdir()
    with (
        closing(sqlite3.connect(f"file:{daemon.state / 'state.db'}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(copy / "state.db")) as target,
    ):
        source.backup(target)
    later = me.acquire("one").id
    daemon.expect("still held")
    daemon.end()
    shutil.rmtree(daemon.state)
    copy.rename(daemon.state)
    second = start(YAML)
    second.expect("still held")

    assert second.metric("governor_leases", resource="one") == 1
    us = connect(second)
    assert us.renew(held)
    assert us.acquire("one").id > later > held


def test_what_is_copied_while_it_is_stopped_is_whole(start: Start, connect: Connect, folder: Path) -> None:
    """Nothing but one file; its log is empty or gone."""
    daemon = start(YAML)
    connect(daemon).acquire("one")
    daemon.expect("still held")
    daemon.end()
    (folder / "copy").mkdir()
    shutil.copy(daemon.state / "state.db", folder / "copy")

    assert _checked(folder / "copy")["leases"] == 1
    log = daemon.state / "state.db-wal"
    assert not log.exists() or log.stat().st_size == 0


def test_an_older_daemon_leaves_a_newer_state_as_it_is(start: Start, connect: Connect, folder: Path) -> None:
    """It ends with 71 and says why; the newer one then goes on as if nothing had been."""
    daemon = start(YAML)
    held = connect(daemon).acquire("one").id
    daemon.expect("still held")
    daemon.end()
    file = daemon.state / "state.db"
    newer = len(schema.MIGRATIONS) + 1
    _set_version(file, newer)
    before = file.read_bytes()

    ended = serve_to_the_end(daemon.config, daemon.state)
    assert ended.code == 71
    assert f"was written by a newer governor (state version {newer};" in ended.stderr
    assert file.read_bytes() == before

    _set_version(file, len(schema.MIGRATIONS))
    again = start(YAML)
    again.expect("still held")
    assert connect(again).renew(held)


def test_the_way_back_does_not_give_out_an_id_twice(start: Start, connect: Connect, folder: Path) -> None:
    """The copy does not know what the newer daemon gave out, so its ids are raised, in the words of the README."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (raise_ids,) = re.findall(r"sqlite3 \S+state\.db '(UPDATE [^']+)'", readme)
    daemon = start(YAML)
    held = connect(daemon).acquire("one").id
    daemon.expect("still held")
    daemon.end()
    shutil.copytree(daemon.state, folder / "before")
    newer = start(YAML)
    given = connect(newer).acquire("one").id
    newer.expect("still held")
    newer.end()
    shutil.rmtree(daemon.state)
    shutil.copytree(folder / "before", daemon.state)
    with closing(sqlite3.connect(daemon.state / "state.db")) as connection, connection:
        connection.execute(raise_ids)
    older = start(YAML)
    older.expect("still held")
    me = connect(older)

    assert me.acquire("one").id > given > held
    assert me.renew(held)


def test_before_an_upgrade_the_new_one_can_be_asked(start: Start, connect: Connect, folder: Path) -> None:
    """`check` of the new program on the config, and `state check` on a copy of the state, which it does not change."""
    daemon = start(YAML)
    connect(daemon).acquire("one")
    daemon.expect("still held")
    daemon.end()
    before = (daemon.state / "state.db").read_bytes()

    assert _governor("check", daemon.config).returncode == 0
    assert _checked(daemon.state)["ok"] is True
    assert (daemon.state / "state.db").read_bytes() == before


def _set_version(file: Path, version: int) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
