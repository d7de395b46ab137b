"""`governor run`, with a real daemon: what the command gets, what it hears, how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.cli.conftest import Run, lease_of
from tests.cli.daemon import Daemon, resources, stands_in_line, until_free
from tests.cli.process import BOUND, COMMAND, ROOT, forked

TOLD: Final = (sys.executable, "-S", str(ROOT / "tests" / "cli" / "told.py"))


@contextmanager
def governed(*arguments: str, before: str = "") -> Iterator["subprocess.Popen[str]"]:
    """`governor run`, without a terminal, wherever the tests run; ``before`` is what a shell does first."""
    pipe = subprocess.PIPE
    command = ["sh", "-c", f'{before}\nexec "$@"', "sh", *COMMAND, "run", *arguments]
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=ROOT, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: "subprocess.Popen[str]") -> str:
    """The next line that the command says."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def told_of(process: "subprocess.Popen[str]") -> tuple[int, int]:
    """The lease that `told.py` says it has, and which process it is."""
    line = line_of(process)
    found = re.fullmatch(r"lease (\d+), process (\d+)", line)
    assert found is not None, f"{line}\n{process.communicate(timeout=BOUND)}"
    return int(found[1]), int(found[2])


def lease_in(process: "subprocess.Popen[str]") -> int:
    """The lease that it says it has."""
    return told_of(process)[0]


def end_of(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """How it ended: its exit code, and what else it said."""
    out, err = process.communicate(timeout=BOUND)
    return process.returncode, out, err


def is_kept_alive(lease: int) -> bool:
    """Whether it has more time left at a second look than at the first, sooner or later; else it ends."""
    left = float("inf")
    while listed := json.loads(forked("leases", "thumbnails", "-o", "json").stdout)["leases"]:
        (now,) = (each["remaining_seconds"] for each in listed if each["lease"] == lease)
        if now > left:
            return True
        left = now
    return False


def in_use(daemon: Daemon, name: str) -> int:
    """How many permits are lent."""
    return resources(daemon.address)[name].in_use


# --- what the command gets --------------------------------------------------------------------------------------


def test_it_holds_while_the_command_runs_and_gives_back(daemon: Daemon) -> None:
    """Both at once, and both back when it has ended."""
    with governed("thumbnails=2", "orders-db", "--", *TOLD) as process:
        assert lease_in(process) > 0
        assert (in_use(daemon, "thumbnails"), in_use(daemon, "orders-db")) == (2, 1)
        process.terminate()
        assert end_of(process) == (3, "told SIGTERM\n", "")

    until_free(daemon.address, "thumbnails")
    until_free(daemon.address, "orders-db")


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_the_exit_code_is_the_commands(daemon: Daemon, code: int) -> None:
    """Whatever it is, and without a word."""
    run = forked("run", "thumbnails", "--", "sh", "-c", f"exit {code}")

    assert (run.returncode, run.stdout, run.stderr) == (code, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGUSR1, signal.SIGSEGV])
def test_it_dies_of_what_its_command_died_of(daemon: Daemon, number: signal.Signals) -> None:
    """As shells see it, who give up a loop over Ctrl-C alone and call it 128+n; the permits are back."""
    run = forked("run", "thumbnails", "--", "sh", "-c", f"kill -{number.value} $$")

    assert (run.returncode, run.stdout, run.stderr) == (-number, "", "")
    until_free(daemon.address, "thumbnails")


def test_the_command_learns_what_it_was_lent(daemon: Daemon) -> None:
    """The fence, and the pool members with what the operator wrote beside them."""
    told = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k.startswith('GOVERNOR_')}))"
    run = forked("run", "orders-db=2", "thumbnails", "--", sys.executable, "-c", told)
    plain = forked("run", "thumbnails", "--", sys.executable, "-c", told, GOVERNOR_MEMBERS="of somebody else")
    first, second = json.loads(run.stdout), json.loads(plain.stdout)

    assert 0 < int(first["GOVERNOR_LEASE_ID"]) < int(second["GOVERNOR_LEASE_ID"])
    assert sorted(json.loads(first["GOVERNOR_MEMBERS"]), key=lambda member: str(member["id"])) == [
        {"resource": "orders-db", "id": "primary", "attributes": {"endpoint": "db1:5432"}, "generation": 1},
        {"resource": "orders-db", "id": "replica", "attributes": {"endpoint": "db2:5432"}, "generation": 1},
    ]
    assert json.loads(second["GOVERNOR_MEMBERS"]) == []


def test_the_command_finds_signals_as_they_were(daemon: Daemon) -> None:
    """Nothing is blocked or ignored that was not so before governor."""
    look = ["sed", "-n", r"s/^Sig\(Blk\|Ign\):\t//p", "/proc/self/status"]
    before = [int(word, 16) for word in subprocess.check_output(look, text=True).split()]
    found = [int(word, 16) for word in forked("run", "thumbnails", "--", *look).stdout.split()]
    # Signals 32 and 33 are the C library's own, which sets them as it likes; 34 is the one that governor ignores, as
    # other tests in this process may have left it.
    its_own = 0b111 << 31

    assert [word & ~its_own for word in found] == [word & ~its_own for word in before]


def test_what_is_spent_needs_no_lease(own: Daemon) -> None:
    """A rate limit only decides when the command begins."""
    run = forked("run", "payments-api", "--", "sh", "-c", "echo begun")

    assert (run.returncode, run.stdout, run.stderr) == (0, "begun\n", "")


def test_the_words_after_the_dashes_are_the_commands(daemon: Daemon) -> None:
    """Also those that look like options of ours, further dashes, and bytes that are no text."""
    run = subprocess.run(
        [*COMMAND, "run", "thumbnails", "--", "printf", "%s|", "--wait", "--", "-o", b"\xff"],
        capture_output=True,
        timeout=BOUND,
        check=False,
        cwd=ROOT,
    )

    assert run.stdout == b"--wait|--|-o|\xff|"


def test_a_script_without_an_interpreter_is_read_by_sh(daemon: Daemon, tmp_path: Path) -> None:
    """As by every shell."""
    script = tmp_path / "job"
    script.write_text("echo $1\nexit 5\n")
    script.chmod(0o755)
    run = forked("run", "thumbnails", "--", str(script), "word")

    assert (run.returncode, run.stdout, run.stderr) == (5, "word\n", "")


# --- what it hears ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["INT", "HUP", "QUIT", "USR1", "USR2", "WINCH"])
def test_a_signal_is_passed_on_once(daemon: Daemon, name: str) -> None:
    """To the command, and governor goes on."""
    with governed("thumbnails", "--", *TOLD) as process:
        lease_in(process)
        process.send_signal(signal.Signals[f"SIG{name}"])
        assert line_of(process) == f"told SIG{name}"
        process.terminate()
        assert end_of(process) == (3, "told SIGTERM\n", "")


def test_a_command_that_is_stopped_goes_on_when_it_is_told_to(daemon: Daemon) -> None:
    """Its lease is kept meanwhile, since nobody waits at a terminal for governor to stop as well."""
    with governed("thumbnails", "--lease", "5s", "--", *TOLD) as process:
        lease = lease_in(process)
        process.send_signal(signal.SIGTSTP)
        assert is_kept_alive(lease)
        process.send_signal(signal.SIGCONT)
        assert line_of(process) == "told SIGCONT"
        process.terminate()
        assert end_of(process)[0] == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_who_is_ended_in_line_leaves_it(daemon: Daemon, run: Run, number: signal.Signals) -> None:
    """Quietly, by that signal, and the command was never begun."""
    held = lease_of(run, "thumbnails=2")
    with governed("thumbnails", "--", "echo", "begun") as process:
        stands_in_line(daemon.address, "thumbnails")
        process.send_signal(number)
        assert end_of(process) == (-number, "", "")

    assert resources(daemon.address)["thumbnails"].waiters == 0
    assert run("release", str(held)).exit == 0


def test_where_signals_cannot_be_heard_one_by_one_it_says_so() -> None:
    """Some systems lack what that needs; it is found out before anything is asked for, and told in one line."""
    program = (
        "import signal, sys; del signal.sigwaitinfo, signal.sigtimedwait, signal.SIGRTMIN, signal.SIGRTMAX\n"
        "sys.argv[1:] = ['run', 'thumbnails', '--', 'true']; from governor.cli.main import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False, cwd=ROOT)

    assert (done.returncode, done.stdout) == (126, "")
    assert re.fullmatch(r"governor: run: \w+ lacks sigtimedwait, .*run it on Linux, or .*\n", done.stderr)


def test_who_was_told_to_ignore_the_end_of_the_terminal_does(daemon: Daemon, run: Run) -> None:
    """As under nohup: in line, and the command after it."""
    held = lease_of(run, "thumbnails=2")
    with governed("thumbnails", "--", "sh", "-c", "kill -HUP $$; echo begun", before="trap '' HUP") as process:
        stands_in_line(daemon.address, "thumbnails")
        process.send_signal(signal.SIGHUP)
        assert run("release", str(held)).exit == 0
        assert end_of(process) == (0, "begun\n", "")


# --- how it ends when the lease does ----------------------------------------------------------------------------


def test_a_lost_lease_ends_the_command_and_what_it_has_started(daemon: Daemon, run: Run) -> None:
    """SIGTERM to all of them, one line that says why, and an exit code of its own."""
    script = "trap 'echo ended; exit 0' TERM; sleep 600 & echo $! $GOVERNOR_LEASE_ID; wait"
    with governed("thumbnails", "--", "sh", "-c", script) as process:
        other, lease = map(int, line_of(process).split())
        assert run("release", str(lease)).exit == 0
        code, out, err = end_of(process)

    assert (code, out) == (79, "ended\n")
    assert re.fullmatch(rf"governor: lease {lease} on thumbnails is lost: .*; ending the command\n", err)
    assert not is_running(other)
    assert in_use(daemon, "thumbnails") == 0


def test_what_does_not_end_is_killed(daemon: Daemon, run: Run) -> None:
    """After `--kill-after`, and a stubborn one hears SIGTERM before."""
    with governed("thumbnails", "--kill-after", "3s", "--", *TOLD, "stubborn") as process:
        lease = lease_in(process)
        assert run("release", str(lease)).exit == 0
        assert end_of(process)[:2] == (79, "told SIGTERM\ntold SIGCONT\n")


def test_what_outlives_the_command_is_killed(daemon: Daemon, run: Run) -> None:
    """The command ends when it is told to, but what it has started in its group does not."""
    script = '"$@" stubborn & echo $! $GOVERNOR_LEASE_ID; wait'
    with governed("thumbnails", "--kill-after", "200ms", "--", "sh", "-c", script, "sh", *TOLD) as process:
        other, lease = map(int, line_of(process).split())
        assert told_of(process) == (lease, other)
        assert run("release", str(lease)).exit == 0
        assert end_of(process)[0] == 79

    assert not is_running(other)


def test_a_stopped_command_is_ended_as_well(daemon: Daemon, run: Run) -> None:
    """It is made to go on, to hear of it."""
    with governed("thumbnails", "--", *TOLD) as process:
        lease = lease_in(process)
        process.send_signal(signal.SIGTSTP)
        assert run("release", str(lease)).exit == 0
        assert end_of(process)[0] == 79


def test_a_killed_one_leaks_nothing(daemon: Daemon) -> None:
    """With its session its lease ends, as its resource says."""
    with governed("thumbnails", "--", *TOLD) as process:
        _, command = told_of(process)
        process.kill()
        until_free(daemon.address, "thumbnails")
        # The command is on its own now; whatever it writes to can tell by the fence.
        os.kill(command, signal.SIGKILL)


# --- what cannot be run, or is not granted ----------------------------------------------------------------------


def test_what_cannot_be_run_does_not_wait(daemon: Daemon, run: Run, tmp_path: Path) -> None:
    """Exit codes as those of a shell, before anything is asked of the daemon."""
    held = lease_of(run, "thumbnails=2")
    text = tmp_path / "text"
    text.write_text("no program")
    missing, unfit = forked("run", "thumbnails", "--", "no-such-command"), forked("run", "thumbnails", "--", str(text))
    nowhere = forked("run", "thumbnails", "--", str(tmp_path / "none"))

    assert (missing.returncode, missing.stderr) == (127, "governor: no-such-command: no such command\n")
    assert (unfit.returncode, unfit.stderr) == (126, f"governor: {text}: Permission denied\n")
    assert (nowhere.returncode, nowhere.stderr) == (127, f"governor: {tmp_path}/none: no such command\n")
    assert run("release", str(held)).exit == 0


def test_what_cannot_be_run_any_more_gives_back(daemon: Daemon, run: Run, tmp_path: Path) -> None:
    """The command was there when the wait began, and is gone when it is over."""
    held = lease_of(run, "thumbnails=2")
    script = tmp_path / "job"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    with governed("thumbnails", "--", str(script)) as process:
        stands_in_line(daemon.address, "thumbnails")
        script.unlink()
        assert run("release", str(held)).exit == 0
        assert end_of(process) == (127, "", f"governor: {script}: no such command\n")

    until_free(daemon.address, "thumbnails")


def test_a_refusal_is_one_line_and_the_exit_code_of_acquire(daemon: Daemon, run: Run) -> None:
    """Not now, too late, never; in the daemon's words, and with a guess at what was meant."""
    held = lease_of(run, "thumbnails=2")
    at_once = forked("run", "thumbnails", "--wait", "0", "--", "true")
    too_late = forked("run", "thumbnails", "--wait", "50ms", "--", "true")
    never = forked("run", "thumbnails=9", "--", "true")
    unknown = forked("run", "thumbnals", "--", "true")
    assert run("release", str(held)).exit == 0

    assert [each.returncode for each in (at_once, too_late, never, unknown)] == [75, 124, 2, 2]
    assert at_once.stderr.startswith("governor: thumbnails: not enough permits are free")
    assert "did you mean 'thumbnails'?" in unknown.stderr
    assert all(each.stderr.count("\n") == 1 and not each.stdout for each in (at_once, too_late, never, unknown))


def test_programs_get_a_refusal_as_json(daemon: Daemon, run: Run) -> None:
    """As from every command, with `-o json` before its name."""
    refused = forked("-o", "json", "run", "thumbnails=9", "--", "true")
    error = json.loads(refused.stderr)["error"]

    assert (refused.returncode, error["code"], error["reason"]) == (2, 2, "ABOVE_CAPACITY")


def test_nobody_there_is_said_as_by_every_command(tmp_path: Path) -> None:
    """With what to look at."""
    run = forked("run", "thumbnails", "--address", f"unix:{tmp_path}/none.sock", "--", "true")

    assert run.returncode == 3
    assert f"unix:{tmp_path}/none.sock (from --address): No such file or directory. Is it running" in run.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["thumbnails"],
        ["thumbnails", "true"],
        ["thumbnails", "--"],
        ["--", "true"],
        ["thumbnails", "--label", "job", "--", "true"],
        ["thumbnails", "--label", "=nightly", "--", "true"],
        ["thumbnails", "--kill-after", "5", "--", "true"],
        ["thumbnails", "thumbnails", "--", "true"],
    ],
    ids=" ".join,
)
def test_mistakes_are_usage_errors(run: Run, arguments: list[str]) -> None:
    """Before anything is run or asked."""
    ended = run("run", *arguments)

    assert (ended.exit, ended.out) == (2, "")
    assert "Usage: governor run" in ended.err


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is not just waiting to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
