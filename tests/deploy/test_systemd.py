"""The unit and what belongs to it, judged by systemd's own tools, in a folder that stands for a machine."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from governor.address import TcpAddress
from governor.config import load
from tests.deploy.unit import SYSTEMD, UNIT, one, settings

Program = Callable[[str], str]

_MOST_EXPOSURE: Final = 2.0
_STATE = Path("/var/lib/governor")


@pytest.fixture
def root(tmp_path: Path, program: Program) -> Path:
    """A machine with systemd's own units, ours, and programs where ours names them."""
    program("systemd-analyze")
    shutil.copytree("/usr/lib/systemd/system", tmp_path / "usr/lib/systemd/system", symlinks=True)
    for name in ("opt/governor/bin/governor", "bin/kill"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n", encoding="utf-8")
        path.chmod(0o755)
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    shutil.copy(UNIT, tmp_path / "etc/systemd/system")
    return tmp_path


def analyze(root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """`systemd-analyze` on that machine."""
    command = ["systemd-analyze", *arguments, f"--root={root}", "governor.service"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_systemd_has_nothing_to_say_of_the_unit(root: Path) -> None:
    """Not a word: it warns of what it does not understand, and succeeds all the same."""
    verify = analyze(root, "verify", "--man=no")

    assert (verify.returncode, verify.stdout, verify.stderr) == (0, "", "")


def test_what_the_readme_adds_for_other_machines_is_understood(root: Path) -> None:
    """Of the unit by systemd, beside this machine itself; and of the config by governor."""
    readme = (SYSTEMD / "README.md").read_text(encoding="utf-8")
    (added,) = re.findall(r"```ini\n(.*?)```", readme, re.DOTALL)
    (keys,) = re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL)
    dropped_in = root / "etc/systemd/system/governor.service.d/override.conf"
    dropped_in.parent.mkdir()
    dropped_in.write_text(added, encoding="utf-8")
    config = root / "governor.yaml"
    usual = (SYSTEMD / "governor.yaml").read_text(encoding="utf-8")
    config.write_text(re.sub(r"^listen: .*\n", "", usual, flags=re.MULTILINE) + keys, encoding="utf-8")
    verify = analyze(root, "verify", "--man=no")
    read = load(config, {})

    assert (verify.returncode, verify.stdout, verify.stderr) == (0, "", "")
    assert re.fullmatch(r"\[Service\]\nIPAddressAllow=\S.*\n", added)
    assert one("IPAddressAllow") == "localhost"
    assert [address.tls for address in read.listen if isinstance(address, TcpAddress)] == [True]
    assert read.tls is not None
    for file in (read.tls.cert, read.tls.key):
        assert f" {file}\n" in readme


def test_a_unit_with_a_mistake_is_not_silent(root: Path) -> None:
    """So silence means something: an unknown key, a program that is not there."""
    unit = root / "etc/systemd/system/governor.service"
    unit.write_text(unit.read_text(encoding="utf-8").replace("UMask=", "Umask="), encoding="utf-8")
    (root / "opt/governor/bin/governor").unlink()
    verify = analyze(root, "verify", "--man=no")

    assert "Umask" in verify.stderr
    assert "/opt/governor/bin/governor" in verify.stderr


def test_it_is_exposed_to_little(root: Path) -> None:
    """By systemd's own count, from 0 to 10."""
    security = analyze(root, "security", "--offline=true", f"--threshold={_MOST_EXPOSURE * 10:.0f}")

    found = re.search(r"Overall exposure level for governor.service: ([\d.]+)", security.stdout)
    assert found is not None, security.stderr
    assert float(found[1]) <= _MOST_EXPOSURE, security.stdout
    assert security.returncode == 0


def test_a_reload_is_waited_for_where_systemd_can() -> None:
    """The drop-in is of a type that older ones do not know, and takes back the signal that it sends itself."""
    drop_in = settings(SYSTEMD / "notify-reload.conf", "Service")

    assert drop_in == {"Type": ["notify-reload"], "ExecReload": [""]}
    assert one("Type") == "notify"
    assert one("ExecReload") == "/bin/kill -HUP $MAINPID"


def test_the_user_is_made(tmp_path: Path, program: Program) -> None:
    """The one that the unit names, without a shell."""
    (tmp_path / "etc").mkdir()
    command = [program("systemd-sysusers"), f"--root={tmp_path}", str(SYSTEMD / "governor.sysusers.conf")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr

    name, _, _, _, _, home, shell = (tmp_path / "etc/passwd").read_text(encoding="utf-8").strip().split(":")
    group = (tmp_path / "etc/group").read_text(encoding="utf-8").partition(":")[0]
    assert (name, group) == (one("User"), one("Group"))
    assert (home, shell) == (str(_STATE), "/usr/sbin/nologin")


def test_the_folders_are_those_of_the_unit(tmp_path: Path, program: Program) -> None:
    """... with the same modes: whichever is first makes them."""
    entries = (SYSTEMD / "governor.tmpfiles.conf").read_text(encoding="utf-8")
    owners = dict(re.findall(r"^d (\S+) +\d+ (\S+ +\S+) ", entries, re.MULTILINE))
    assert {owners.pop("/etc/governor"), *owners.values()} == {"root     root", f"{one('User')} {one('Group')}"}
    # The daemon's user is not on this machine, and whoever runs the tests may not be root.
    ours = tmp_path / "ours.conf"
    ours.write_text(re.sub(r"(governor governor|root +root) +-", f"{os.getuid()} {os.getgid()} -", entries))
    machine = tmp_path / "machine"
    machine.mkdir()
    command = [program("systemd-tmpfiles"), f"--root={machine}", "--create", str(ours)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (0, "")

    modes = {
        f"/{path.relative_to(machine)}": f"{path.stat().st_mode & 0o7777:04o}" for path in machine.glob("*/**/governor")
    }
    assert modes == {
        f"/run/{one('RuntimeDirectory')}": one("RuntimeDirectoryMode"),
        f"/var/lib/{one('StateDirectory')}": one("StateDirectoryMode"),
        f"/var/log/{one('LogsDirectory')}": one("LogsDirectoryMode"),
        f"/etc/{one('ConfigurationDirectory')}": one("ConfigurationDirectoryMode"),
    }


def test_the_config_is_for_the_folders_of_the_unit() -> None:
    """Whatever the daemon writes is where it may, and its own rotation leaves the audit file to logrotate."""
    config = load(SYSTEMD / "governor.yaml", {})

    sockets = {address.path.parent for address in config.listen if hasattr(address, "path")}
    assert sockets == {Path("/run/governor")}
    assert config.state == _STATE
    assert config.audit is not None
    assert config.audit.file.parent == Path("/var/log/governor")
    assert config.audit.max_size is None
    assert one("ExecStart").split()[1:] == ["serve", "--config", "/etc/governor/governor.yaml", "--state", str(_STATE)]
