"""What the unit forbids, beside what a real daemon does: else a sandbox that is too narrow shows only in production."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from signal import SIGHUP
from typing import Final

from governor import Client as Governor
from tests.certificates import Authority
from tests.deploy.unit import UNIT, one, settings
from tests.e2e.conftest import Connect, Start
from tests.e2e.process import COMMAND, until

# Over TLS wherever that can be.
_HEAD: Final = (
    "listen: [unix:{folder}/governor.sock, tls://127.0.0.1:0]\nhttp: tls://127.0.0.1:0\ndrain_timeout: {drain}\n"
)

_CALL: Final = re.compile(r"^\d+ +([a-z_0-9]+)\(", re.MULTILINE)
# Before the first instruction of a program; no filter is in force yet.
_BEFORE: Final = frozenset({"execve"})


def _sets(program: str) -> dict[str, list[str]]:
    """The members of each set of system calls that systemd knows."""
    listing = subprocess.run(
        [program, "syscall-filter", "--no-pager"], capture_output=True, text=True, timeout=60, check=True
    )
    found: dict[str, list[str]] = {}
    members: list[str] = []
    for line in listing.stdout.splitlines():
        if line.startswith("@"):
            members = found[line.strip()] = []
        elif word := line.partition("#")[0].strip():
            members.append(word)
    return found


def _calls(words: str, sets: dict[str, list[str]]) -> set[str]:
    """All that such words as ``@file-system read`` stand for."""
    calls: set[str] = set()
    for word in words.split():
        calls |= _calls(" ".join(sets[word]), sets) if word.startswith("@") else {word}
    return calls


def allowed(program: str) -> set[str]:
    """The system calls that the unit lets the daemon make; each of its lines adds to those before it, or takes away."""
    sets = _sets(program)
    calls: set[str] = set()
    for line in settings(UNIT, "Service")["SystemCallFilter"]:
        calls = calls - _calls(line[1:], sets) if line.startswith("~") else calls | _calls(line, sets)
    return calls


def test_the_daemon_does_nothing_that_its_unit_forbids(
    start: Start, connect: Connect, folder: Path, program: Callable[[str], str]
) -> None:
    """From its start over leases, pages, TLS, a reload, a new audit file and a changed config to its end."""
    trace = folder / "trace"
    command = (program("strace"), "-D", "-f", "-qq", "-o", str(trace), *COMMAND)
    authority = Authority(folder)
    pair = authority.certify("daemon", "127.0.0.1")
    # A name that no store of authorities has, of which none may be read.
    cert = pair.cert.rename(folder / "daemon.pem")
    tls = f"tls: {{cert: {cert}, key: {pair.key}}}\n"
    yaml = f"{tls}audit: {{file: {folder}/audit.jsonl}}\nsemaphores: {{one: {{permits: %d}}}}\n"
    daemon = start(yaml % 1, command=command, head=_HEAD)
    me = connect(daemon)
    me.release(me.acquire("one").id)
    with Governor(daemon.addresses[1], ca=authority.cert) as gov:
        gov.acquire("one", wait=0).release()
    assert {daemon.page(path)[0] for path in ("/", "/metrics", "/-/healthy")} == {200}
    daemon.signal(SIGHUP)
    daemon.said("nothing changed")
    daemon.config.write_text(daemon.config.read_text(encoding="utf-8").replace("permits: 1", "permits: 2"))
    daemon.said("reloaded .*one")
    assert daemon.end() == 0
    until(lambda: "exit_group(0" in trace.read_text(encoding="utf-8"), "the trace is whole")
    told = trace.read_text(encoding="utf-8")
    made = set(_CALL.findall(told)) - _BEFORE

    assert {"memfd_create", "epoll_wait", "accept4", "inotify_add_watch", "flock", "fdatasync", "prlimit64"} <= made | {
        "epoll_pwait"
    }
    assert made <= allowed(program("systemd-analyze"))
    families = set(re.findall(r"\bsocket\((\w+)", told))
    assert families <= set(one("RestrictAddressFamilies").split())
    assert one("ProtectSystem") == "strict"
    opened = re.findall(r'openat\(AT_FDCWD, "([^"]+)", \S*(?:O_WRONLY|O_RDWR|O_CREAT)', told)
    # Everything that it is told to write is in this folder; bytecode it does without, if it may not write it.
    elsewhere = {path for path in opened if not Path(path).is_relative_to(folder) and "__pycache__" not in path}
    assert opened
    assert elsewhere <= {"/dev/null"}
    # Those of the system are nothing to it: aiohttp's client would have them all read at each start.
    assert not re.search(r'openat\([^"]*"[^"]*(?:/certs/|cert\.pem|\.crt)', told)
    assert one("MemoryDenyWriteExecute") == "yes"
    assert not re.search(r"PROT_WRITE\|PROT_EXEC|mprotect\(.*PROT_EXEC", told)


def test_it_sees_which_boot_this_is() -> None:
    """ProcSubset=pid would hide it, and with it what is left of leases and limits after a restart."""
    assert "ProcSubset" not in settings(UNIT, "Service")
