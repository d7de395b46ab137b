"""logrotate on the audit file of a daemon that writes on meanwhile."""

import grp
import json
import os
import pwd
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from governor.config import load
from tests.deploy.unit import SYSTEMD, one
from tests.e2e.conftest import Connect, Start
from tests.e2e.process import BOUND, until

_RULES: Final = SYSTEMD / "governor.logrotate"


def test_it_is_for_the_file_that_the_config_names() -> None:
    """And for the user of the unit."""
    config = load(SYSTEMD / "governor.yaml", {})
    rules = _RULES.read_text(encoding="utf-8")

    assert config.audit is not None
    assert re.findall(r"^(/\S+) \{$", rules, re.MULTILINE) == [str(config.audit.file)]
    assert re.findall(r"^ +su (.+)$", rules, re.MULTILINE) == [f"{one('User')} {one('Group')}"]


def test_no_line_is_lost_and_the_daemon_goes_on_in_a_new_file(
    start: Start, connect: Connect, folder: Path, program: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was before is in the former file, what comes later in the new: by a signal to the pid that systemd names."""
    logs = folder / "log"
    logs.mkdir(0o700)
    audit = logs / "audit.jsonl"
    daemon = start(f"audit: {{file: {audit}, max_size: unlimited}}\nsemaphores: {{one: {{permits: 1}}}}\n")
    me = connect(daemon)
    first = me.acquire("one").id
    me.release(first)
    # There is no systemd to ask here.
    systemctl = folder / "systemctl"
    systemctl.write_text(
        f'#!/bin/sh\n[ "$*" = "show --property=MainPID --value governor.service" ] && echo {daemon.pid}\n'
    )
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    rules = folder / "rules"
    who = f"{pwd.getpwuid(os.getuid()).pw_name} {grp.getgrgid(os.getgid()).gr_name}"
    text = _RULES.read_text(encoding="utf-8").replace("/var/log/governor/audit.jsonl", str(audit))
    rules.write_text(text.replace("su governor governor", f"su {who}"), encoding="utf-8")
    rules.chmod(0o644)

    until(lambda: _leases(audit) == [first, first], "both lines are written")
    command = [program("logrotate"), "--force", "--state", str(folder / "status"), str(rules)]
    rotate = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False)
    assert (rotate.returncode, rotate.stderr) == (0, "")
    until(audit.exists, "the daemon has begun a new file")
    second = me.acquire("one").id
    me.release(second)
    until(lambda: _leases(audit) == [second, second], "it writes on in the new one")

    (former,) = logs.glob("audit.jsonl-*")
    assert _leases(former) == [first, first]


def _leases(file: Path) -> list[int]:
    entries = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [entry["lease"] for entry in entries if "lease" in entry]
