"""The README's commands for an upgrade, the way back and a backup, run as they stand there, with other folders."""

import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from governor.store import NAME, Batch, Store
from tests.e2e.process import BOUND, ROOT

_README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
_FOLDERS: Final = ("/var/lib/", "/var/backups/", "/opt/", "/etc/")
# What is no business of these commands' order: services, the daemon's answers, and a program that may not be here.
_STANDS_IN: Final = {
    "systemctl": "exit 0",
    "governor": f'[ "$1" = info ] || PYTHONPATH={ROOT} exec {sys.executable} -m governor.cli "$@"',
    "sqlite3": f'exec {sys.executable} {{folder}}/sqlite.py "$@"',
}
_SQLITE: Final = """
import sqlite3, sys
path, order = sys.argv[-2:]
connection = sqlite3.connect(path)
if order.startswith(".backup"):
    connection.backup(sqlite3.connect(order.split("'")[1]))
else:
    connection.execute(order)
    connection.commit()
"""


def _commands(title: str) -> list[str]:
    """Those of the first block below the title."""
    block = _README.partition(f"**{title}**")[2].partition("```console\n")[2].partition("```")[0]
    return re.findall(r"^# (.+)$", block, re.MULTILINE)


class Machine:
    """Folders in the place of those of a machine, on which the commands are run in one shell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state, self.backups = folder / "var/lib/governor", folder / "var/backups/governor"
        for each in ("var/lib", "var/backups", "opt/governor-0.2.0/bin", "opt/governor-0.1.0", "etc/governor", "bin"):
            (folder / each).mkdir(parents=True)
        (folder / "etc/governor/governor.yaml").write_text("semaphores: {one: {permits: 1}}\n")
        (folder / "sqlite.py").write_text(_SQLITE)
        for name, does in _STANDS_IN.items():
            (folder / "bin" / name).write_text("#!/bin/sh\n" + does.replace("{folder}", str(folder)) + "\n")
            (folder / "bin" / name).chmod(0o755)
        shutil.copy(folder / "bin/governor", folder / "opt/governor-0.2.0/bin/governor")
        self.state.mkdir(mode=0o700)
        self.write(1)

    def write(self, stamp: int) -> None:
        """Another state than before."""
        with closing(Store(self.state)) as store:
            store.write(Batch(stamp=stamp))

    def stamp(self, folder: Path) -> int:
        """Which of them is in that folder."""
        with closing(sqlite3.connect(folder / NAME)) as connection:
            (stamp,) = connection.execute("SELECT stamp FROM meta").fetchone()
        return int(stamp)

    def run(self, commands: list[str]) -> int:
        """One after the other, as somebody types them, whatever became of the one before; how the last one ended."""
        script = "\n".join(commands)
        for each in _FOLDERS:
            script = script.replace(each, f"{self.folder}{each}")
        done = subprocess.run(
            ["bash", "-c", f"umask 022\n{script}"],
            env={"PATH": f"{self.folder}/bin:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=BOUND,
            check=False,
        )
        return done.returncode


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """One with a state."""
    return Machine(tmp_path)


def _open_to_others(folder: Path) -> list[Path]:
    return [each for each in (folder, *folder.rglob("*")) if each.stat().st_mode & 0o077 and not each.is_symlink()]


def test_an_upgrade_keeps_the_state_of_before(machine: Machine) -> None:
    """For its owner alone, and the way back brings that very state; the newer one is kept as well."""
    assert machine.run(_commands("Upgrade.")) == 0
    kept = machine.backups / "before-0.2.0"
    assert machine.stamp(kept) == 1
    assert _open_to_others(machine.backups) == []
    machine.write(2)

    assert machine.run(_commands("The way back.")) == 0
    assert (machine.stamp(machine.state), machine.stamp(Path(f"{machine.state}-newer"))) == (1, 2)
    assert {each.name for each in machine.state.iterdir()} == {NAME}
    assert str((machine.folder / "opt/governor").readlink()) == "governor-0.1.0"


def test_an_upgrade_overwrites_no_state_of_before(machine: Machine) -> None:
    """The same one again: it is not nested, nor mixed with what is there."""
    upgrade = _commands("Upgrade.")
    stop = next(number for number, each in enumerate(upgrade) if "systemctl stop" in each)
    assert machine.run(upgrade) == 0
    machine.write(2)

    assert machine.run(upgrade[: stop + 1]) != 0
    kept = machine.backups / "before-0.2.0"
    assert machine.stamp(kept) == 1
    assert {each.name for each in kept.iterdir()} == {NAME}


def test_a_nightly_backup_is_for_its_owner_alone(machine: Machine) -> None:
    """It is beside those of upgrades, night after night, and whole."""
    backup = _commands("Backup of the state.")
    assert machine.run(_commands("Upgrade.")) == machine.run(backup) == 0
    machine.write(3)
    assert machine.run(backup) == 0

    assert machine.stamp(machine.backups / "nightly") == 3
    assert machine.stamp(machine.backups / "before-0.2.0") == 1
    assert _open_to_others(machine.backups) == []
