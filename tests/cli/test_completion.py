"""`governor completion`, and what real shells make of it."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from governor.v1 import admin_pb2 as pb
from governor.v1.governor_pb2 import Resource
from tests.cli.conftest import Fake, Run
from tests.cli.process import BOUND, ROOT
from tests.cli.test_admin import elsewhere
from tests.cli.test_leases import lease
from tests.programs import needed

Complete = Callable[[str], list[str]]

# The command, which would rather not keep anybody waiting who types; here nobody does.
PATIENT = f"""
import sys
from governor.cli import complete
from governor.cli.main import main
complete.SECONDS = {BOUND}
sys.exit(main())
"""


@pytest.fixture
def stocked(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """A daemon with something to name, which the environment names."""
    fake.script.resources = [
        Resource(name="thumbnails", kind="semaphore"),
        Resource(name="tenants/eu", kind="semaphore"),
        Resource(name="orders-db", kind="pool"),
        Resource(name="a/b & c, größe", kind="semaphore"),
        Resource(name="ns:api", kind="rate_limit"),
        Resource(name="ns:db", kind="pool"),
    ]
    fake.desk.answers[pb.GetResourceRequest] = pb.GetResourceResponse(
        members=[pb.MemberState(id="primary", state=pb.MemberState.FREE), pb.MemberState(id="replica")]
    )
    fake.desk.answers[pb.ListLeasesRequest] = [pb.ListLeasesResponse(leases=[lease(17), lease(170, "web")])]
    monkeypatch.setenv("GOVERNOR_ADDRESS", fake.address)
    return fake


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where shells find a command `governor`."""
    command = tmp_path / "bin" / "governor"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -c "{PATIENT}" "$@"\n')
    command.chmod(0o755)
    return f"{command.parent}:{os.environ['PATH']}"


def shell(name: str, script: str, path: str) -> str:
    """What a shell prints that runs this."""
    flags = {"bash": ["--norc", "-c"], "zsh": ["-f", "-c"], "fish": ["--no-config", "-c"]}[name]
    done = subprocess.run(
        [needed(name), *flags, script],
        env={**os.environ, "PATH": path, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.stderr == ""
    return done.stdout


def in_bash(path: str) -> Complete:
    """What bash offers for a line up to the cursor: it calls the function as readline does."""

    def complete(line: str) -> list[str]:
        words = "(" + " ".join(f"'{word}'" for word in line.split(" ")) + ")"
        script = f"""
            eval "$(governor completion bash)"
            compopt() {{ :; }}
            COMP_LINE='{line}' COMP_POINT={len(line.encode())} COMP_WORDS={words} COMP_CWORD=$((${{#COMP_WORDS[@]}}-1))
            "$(complete -p governor | sed -E 's/.*-F ([^ ]+).*/\\1/')" governor
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        return shell("bash", script, path).split("\n")[:-1]

    return complete


@pytest.fixture
def bash(path: str) -> Complete:
    """Offers of bash."""
    return in_bash(path)


def in_fish(path: str) -> Complete:
    """What fish offers, which can be asked to."""

    def complete(line: str) -> list[str]:
        script = f"governor completion fish | source; complete --do-complete '{line}'"
        return [offer.partition("\t")[0] for offer in shell("fish", script, path).split("\n")[:-1]]

    return complete


@pytest.fixture
def fish(path: str) -> Complete:
    """Offers of fish."""
    return in_fish(path)


@pytest.mark.parametrize(
    ("line", "offers"),
    [
        ("governor st", ["state", "status"]),
        ("governor status th", ["thumbnails"]),
        ("governor status t", ["tenants/eu", "thumbnails"]),
        ("governor --address unix:/nonexistent pau", ["pause"]),
        ("governor -o json pause ord", ["orders-db"]),
        ("governor recycle ", ["ns:db", "orders-db"]),
        ("governor quarantine orders-db ", ["primary", "replica"]),
        ("governor restore orders-db re", ["replica"]),
        ("governor revoke 17", ["17", "170"]),
        ("governor leases --client w", ["web"]),
        ("governor drain orders-db --", ["--address", "--help", "--output", "--reason", "--timeout", "--wait"]),
        ("governor completion z", ["zsh"]),
        ("governor state ", ["check", "dump", "repair"]),
    ],
)
def test_bash_completes(stocked: Fake, bash: Complete, line: str, offers: list[str]) -> None:
    """Commands, options and names of what the daemon has."""
    assert sorted(bash(line)) == offers


@pytest.mark.parametrize(
    ("line", "offers"),
    [
        # Of a word bash replaces what follows the last colon or equals sign.
        ("governor status ns:", ["api", "db"]),
        ("governor status ns:a", ["api"]),
        ("governor status a/b", ["a/b\\ \\&\\ c,\\ größe"]),
        ("governor status a/b\\ ", ["a/b\\ \\&\\ c,\\ größe"]),
        ('governor status "a/b', ["a/b & c, größe"]),
        ("governor status --address {address} th", ["thumbnails"]),
        ("governor status --address={address} th", ["thumbnails"]),
    ],
)
def test_bash_is_given_what_it_would_not_do_itself(
    stocked: Fake, bash: Complete, monkeypatch: pytest.MonkeyPatch, line: str, offers: list[str]
) -> None:
    """A name with spaces comes quoted, and colons and equals signs are left whole."""
    if "{address}" in line:
        monkeypatch.setenv("GOVERNOR_ADDRESS", "unix:/nonexistent")
    assert sorted(bash(line.format(address=stocked.address))) == offers


def test_fish_completes(stocked: Fake, fish: Complete) -> None:
    """The same names; what they are stands behind them."""
    assert set(fish("governor st")) == {"state", "status"}
    assert fish("governor status th") == ["thumbnails"]
    assert fish("governor quarantine orders-db re") == ["replica"]


def test_zsh_completes(stocked: Fake, path: str) -> None:
    """At a real prompt, since nothing else completes in zsh."""
    script = f"""
        zmodload zsh/zpty
        zpty -b z env PATH='{path}' zsh -f -i
        zpty -w z 'PS1="ready> "; autoload -U compinit; compinit -u -D; eval "$(governor completion zsh)"; echo rea-dy'
        zpty -r z out '*rea-dy*rea-dy*'
        zpty -w -n z $'governor status th\\t'
        zpty -r -m z out '*thumbnails*' && print found
    """
    assert "found" in shell("zsh", script, path)


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_the_script_says_where_it_goes(run: Run, shell_name: str) -> None:
    """In its first line, which is a comment in all of them."""
    first = run("completion", shell_name).out.splitlines()[0]

    assert first.startswith("# ")
    assert f"governor completion {shell_name}" in first


def asked(run: Run, monkeypatch: pytest.MonkeyPatch, line: str) -> list[str]:
    """What a script is answered."""
    monkeypatch.setenv("_GOVERNOR_COMPLETE", "bash_complete")
    monkeypatch.setenv("GOVERNOR_LINE", line)
    ended = run()
    assert ended.err == ""
    return ended.out.splitlines()


@pytest.mark.parametrize("line", ["governor status ", "governor revoke ", "governor quarantine a "])
def test_without_a_daemon_there_are_no_names(run: Run, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """And not a word: it would stand in the middle of what is being typed."""
    monkeypatch.setenv("GOVERNOR_ADDRESS", "unix:/nonexistent")

    assert not [offer for offer in asked(run, monkeypatch, line) if offer]


def test_a_daemon_that_hangs_costs_a_second(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever types does not wait for it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("GOVERNOR_ADDRESS", f"127.0.0.1:{server.getsockname()[1]}")
        begun = time.monotonic()
        offers = asked(run, monkeypatch, "governor status ")
        took = time.monotonic() - begun

    assert not [offer for offer in offers if offer]
    assert took < 5


def test_a_wrong_address_is_no_answer_either(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command itself will say so."""
    monkeypatch.setenv("GOVERNOR_ADDRESS", "http://nowhere")

    assert not [offer for offer in asked(run, monkeypatch, "governor status ") if offer]


def test_a_name_that_would_act_on_the_terminal_is_not_offered(
    run: Run, stocked: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names come from the wire."""
    stocked.script.resources.append(Resource(name="t\x1b[31m", kind="pool"))
    monkeypatch.setenv("GOVERNOR_ADDRESS", stocked.address)

    assert asked(run, monkeypatch, "governor status t") == ["plain,thumbnails", "plain,tenants/eu"]


def test_who_names_a_port_gets_what_only_operators_see(
    run: Run, stocked: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for at the socket of the same daemon, as the command itself would."""
    stocked.desk.answers[pb.GetInfoRequest] = pb.GetInfoResponse(start="one")
    stocked.desk.elsewhere = elsewhere(stocked.address)
    monkeypatch.setenv("GOVERNOR_ADDRESS", stocked.tcp)

    assert asked(run, monkeypatch, "governor revoke 1") == ["plain,17", "plain,170"]
    assert asked(run, monkeypatch, "governor restore orders-db r") == ["plain,replica"]
