"""Starts that fail: one clear line, an exit code, and whoever was there first never notices."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.client import Client
from tests.e2e.conftest import HEAD, Connect, Start
from tests.e2e.process import ROOT, Daemon, serve_to_the_end, until

YAML = "semaphores: {one: {permits: 1, lease: 1h}}\n"
ANY = "127.0.0.1:0"

CANNOT_START = 71
BAD_CONFIG = 78

EXAMPLES = sorted((ROOT / "config").rglob("*.yaml"))
# What the examples ask of their environment.
ENVIRONMENT = {"POD_IP": "127.0.0.1", "DB_HOST": "db1.internal", "THUMBNAILS": "8"}


def config(folder: Path, *, listen: str = ANY, http: str = ANY, more: str = YAML) -> Path:
    """A file that shares nothing with anybody but what it says."""
    path = folder / "second.yaml"
    path.write_text(f"listen: ['{listen}']\nhttp: '{http}'\n{more}", encoding="utf-8")
    return path


def refused(file: Path, state: Path, code: int = CANNOT_START) -> str:
    """The one line of a start that fails."""
    ended = serve_to_the_end(file, state)
    assert ended.code == code, ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert len(ended.stderr) < 500
    return ended.stderr.rstrip("\n")


class TestASecondDaemon:
    """Whatever it wants of the first: it is told whose that is, and the first serves on, with its leases."""

    @pytest.fixture(autouse=True)
    def untouched(self, daemon: Daemon, me: Client) -> Iterator[None]:
        """The first one keeps its socket, its port and its lease, whatever the second tries."""
        held = me.acquire("one").id
        place = Path(daemon.addresses[0].removeprefix("unix:"))
        before = place.stat()
        yield
        after = place.stat()
        assert (after.st_ino, after.st_mode, after.st_uid) == (before.st_ino, before.st_mode, before.st_uid)
        for address in daemon.addresses:
            with Client(address) as fresh:
                assert fresh.counts("one") == (1, 0)
        me.release(held)
        assert daemon.page("/-/ready")[0] == 200

    def test_wants_its_socket(self, daemon: Daemon, folder: Path) -> None:
        """The line names the process that has it."""
        address = daemon.addresses[0]

        line = refused(config(folder, listen=address), folder / "state")

        assert f"{address.removeprefix('unix:')} is in use by process {daemon.pid}" in line

    def test_wants_its_port(self, daemon: Daemon, folder: Path) -> None:
        """Left to gRPC, both would have it, and each would get some of the calls."""
        address = daemon.addresses[1]

        line = refused(config(folder, listen=address), folder / "state")

        assert f"{address}: is in use" in line

    def test_wants_its_http_port(self, daemon: Daemon, folder: Path) -> None:
        """By the same address."""
        assert "something else listens there" in refused(config(folder, http=daemon.http), folder / "state")

    def test_wants_its_port_on_every_address(self, daemon: Daemon, folder: Path) -> None:
        """A part of it is taken."""
        port = daemon.addresses[1].rpartition(":")[2]

        assert "is in use" in refused(
            config(folder, listen=f"0.0.0.0:{port}", more=f"insecure: true\n{YAML}"), folder / "state"
        )

    def test_wants_its_state_folder(self, daemon: Daemon, folder: Path) -> None:
        """Lease ids of two daemons would be the same."""
        line = refused(config(folder), daemon.state)

        assert f"state folder {daemon.state} is in use by process {daemon.pid}" in line

    def test_wants_its_state_without_its_lock(self, daemon: Daemon, folder: Path) -> None:
        """Somebody has removed the file that locks the folder, as a left-over."""
        lock = daemon.state / "governor.lock"
        kept = lock.rename(folder / "kept")
        line = refused(config(folder), daemon.state)
        kept.replace(lock)

        assert f"{daemon.state}/state.db: another daemon uses it" in line

    def test_wants_everything(self, daemon: Daemon, folder: Path) -> None:
        """Started twice by mistake: one line, not four."""
        assert f"process {daemon.pid}" in refused(daemon.config, daemon.state)


@pytest.mark.parametrize("durability", ["process", "power"])
@pytest.mark.parametrize("lacking", ["audit", "http", "listen"])
def test_a_start_that_fails_has_closed_the_state(folder: Path, lacking: str, durability: str) -> None:
    """Whatever cannot be had: by then nothing lies beside the file, and nothing is written to it any more."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = f"127.0.0.1:{taken.getsockname()[1]}"
        file = config(
            folder,
            listen=port if lacking == "listen" else ANY,
            http=port if lacking == "http" else ANY,
            more=f"durability: {durability}\n{YAML}" + (f"audit: {folder}/no/file\n" if lacking == "audit" else ""),
        )
        refused(file, folder / "state")
    assert (folder / "state" / "state.db").exists()
    assert sorted(folder.glob("state/state.db-*")) == []


def test_of_two_that_start_at_once_one_serves(folder: Path, connect: Connect) -> None:
    """And the other is told so, whichever was first."""
    file = folder / "governor.yaml"
    file.write_text(HEAD.format(folder=folder, drain="1s") + YAML, encoding="utf-8")
    both = [Daemon(file, folder / "state") for _ in range(2)]
    until(lambda: any(daemon.process.poll() is not None for daemon in both), "one of them gives up")
    loser = next(daemon for daemon in both if daemon.process.poll() is not None)
    winner = next(daemon for daemon in both if daemon is not loser)
    winner.wait_until_it_serves()

    assert loser.exit_code() == CANNOT_START
    assert re.fullmatch(r"governor: [^\n]+ is in use by (process \d+|another process); [^\n]+\n", loser.log)
    assert connect(winner).counts("one") == (0, 0)
    assert winner.end() == 0
    assert winner.blemishes == ""


def test_a_start_that_fails_leaves_nothing_behind(daemon: Daemon, connect: Connect, folder: Path) -> None:
    """It had one address when it could not have the next: that one is free again, and no lease id is used up."""
    mine = folder / "mine.sock"
    file = folder / "second.yaml"
    file.write_text(f"listen: ['unix:{mine}', '{daemon.addresses[1]}']\nhttp: '{ANY}'\n", encoding="utf-8")

    refused(file, folder / "other")

    assert not mine.exists()
    file.write_text(f"listen: ['unix:{mine}']\nhttp: '{ANY}'\n" + YAML, encoding="utf-8")
    second = Daemon(file, folder / "other")
    second.wait_until_it_serves()
    assert connect(second).counts("one") == (0, 0)
    assert second.end() == 0


class TestTheMachine:
    """What the machine refuses, or an operator has mistyped."""

    def test_a_missing_folder(self, folder: Path) -> None:
        """Which one, and of what."""
        line = refused(config(folder, listen=f"unix:{folder}/a/missing/g.sock"), folder / "state")

        assert line == (
            f"governor: unix:{folder}/a/missing/g.sock: the folder {folder}/a/missing does not exist; create it, or "
            "correct the path"
        )

    def test_a_path_of_108_bytes(self, folder: Path) -> None:
        """It says how many there are and how many there may be."""
        path = f"{folder}/{'x' * 200}"[:108]
        file = config(folder, listen=f"unix:{path}")

        line = refused(file, folder / "state")

        assert line.startswith(f"governor: unix:{path}: the path has 108 bytes")
        assert "may have 107" in line

    def test_a_port_that_another_program_has(self, folder: Path) -> None:
        """Any program, also one that would share it."""
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            other.bind(("127.0.0.1", 0))
            other.listen()
            address = f"127.0.0.1:{other.getsockname()[1]}"

            assert "is in use" in refused(config(folder, listen=address), folder / "state")

    def test_a_state_folder_that_cannot_be_made(self, folder: Path) -> None:
        """Its parent is a file."""
        (folder / "file").touch()

        assert f"state folder {folder}/file/state: cannot be made" in refused(config(folder), folder / "file" / "state")

    def test_a_state_folder_that_cannot_be_written(self, folder: Path) -> None:
        """Something is in the way."""
        (folder / "state" / "state.new").mkdir(parents=True)

        line = refused(config(folder), folder / "state")

        assert line.startswith(f"governor: {folder}/state/state.db: cannot be opened (Is a directory); ")

    def test_a_damaged_state(self, folder: Path) -> None:
        """It is not replaced, and it is said what helps."""
        state = folder / "state"
        state.mkdir()
        (state / "state.db").write_bytes(b"")

        line = refused(config(folder), state)

        assert line.startswith(f"governor: {state}/state.db: is damaged (")
        assert "`governor state repair`" in line
        assert (state / "state.db").read_bytes() == b""

    def test_a_damaged_fence(self, folder: Path) -> None:
        """Nobody starts over from 1 by accident."""
        state = folder / "state"
        state.mkdir()
        (state / "fence").touch()

        assert f"{state}/fence: is damaged" in refused(config(folder), state)

    def test_a_bad_config(self, folder: Path) -> None:
        """File, line and path, and a code of its own; nothing was bound or made."""
        file = config(folder, more="semaphores: {one: {permit: 1}}\n")

        line = refused(file, folder / "state", BAD_CONFIG)

        assert line.startswith(f"{file}:3: semaphores.one")
        assert not (folder / "state").exists()

    def test_a_missing_config(self, folder: Path) -> None:
        """It is not taken for the defaults."""
        line = refused(folder / "missing.yaml", folder / "state", BAD_CONFIG)

        assert line == f"{folder}/missing.yaml: there is no such file"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_example_starts(example: Path, start: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that it declares; only its addresses and its state are others here."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    said = yaml.safe_load(example.read_text(encoding="utf-8"))
    ours = set(yaml.safe_load(HEAD.format(folder="", drain="1s"))) | {"state"}
    declared = {key: value for key, value in said.items() if key not in ours}
    names = [name for section in ("semaphores", "pools", "rate_limits") for name in declared.get(section, {})]

    daemon = start(yaml.safe_dump(declared, sort_keys=False))

    assert sorted(resource.name for resource in connect(daemon).resources()) == sorted(names)
