"""What only a terminal shows: job control around `governor run`, and the line of who waits."""

import re
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.cli.conftest import Run, lease_of
from tests.cli.daemon import Daemon, resources, stands_in_line, until_free
from tests.cli.process import BOUND, ROOT, forked, running
from tests.cli.terminal import CTRL_BACKSLASH, CTRL_C, CTRL_Z, Terminal, terminal
from tests.e2e.process import until

TOLD: Final = shlex.join([sys.executable, "-S", str(ROOT / "tests" / "cli" / "told.py"), "hangs-up"])
PROMPT: Final = r"(?<=[\nK])\$ "
# Back to the start of the line, and clear it.
CLEAR: Final = r"\r\x1b\[K"


@pytest.fixture
def screen(own: Daemon) -> Iterator[Terminal]:
    """A terminal whose shell knows the daemon."""
    with terminal({"GOVERNOR_ADDRESS": own.address}) as screen:
        yield screen


@contextmanager
def ahead_in_line(own: Daemon) -> Iterator[None]:
    """Somebody waits for a permit of thumbnails meanwhile."""
    with running("acquire", "thumbnails") as process:
        stands_in_line(own.address, "thumbnails")
        yield
        process.send_signal(signal.SIGINT)
        process.wait(BOUND)


def test_ctrl_c_reaches_the_command_once(own: Daemon, screen: Terminal) -> None:
    """Each time; and governor goes on for as long as the command does, however impatient somebody is."""
    screen.type(f"governor run thumbnails -- {TOLD}\n")
    screen.shows(r"lease \d+")
    for _ in range(2):
        screen.type(CTRL_C)
        assert "told" not in screen.until("told SIGINT")
    assert resources(own.address)["thumbnails"].in_use == 1
    screen.type(CTRL_BACKSLASH)
    between = screen.until("told SIGQUIT")

    assert "SIGINT" not in between


def test_a_loop_ends_with_ctrl_c(screen: Terminal) -> None:
    """Since governor dies of it when its command does, the shell begins nothing more."""
    screen.type(
        "for i in 1 2 3; do governor run thumbnails -- sh -c 'echo begun; exec sleep 600'; done; echo \"is $?\"\n"
    )
    screen.shows("\nbegun")
    screen.type(CTRL_C)
    said = screen.until(PROMPT)

    assert "begun" not in said
    screen.type("echo was $?\n")
    screen.shows("\nwas 130")


def test_ctrl_z_and_fg_do_what_they_always_do(screen: Terminal) -> None:
    """The job stops as a whole, and goes on as a whole; a pipe is part of it."""
    screen.type(f"governor run thumbnails -- {TOLD} | cat\n")
    screen.shows(r"lease \d+")
    screen.type(CTRL_Z)
    screen.shows("Stopped")
    screen.shows(PROMPT)
    screen.type("fg\n")
    screen.shows("told SIGCONT")


def test_a_command_that_reads_the_terminal_may(screen: Terminal) -> None:
    """It is in the foreground, as if it had been started alone."""
    screen.type("governor run thumbnails -- sh -c 'echo ready; read word; echo \"read $word\"'\n")
    screen.shows("\nready")
    screen.type("something\n")
    screen.shows("\nread something")


def test_the_job_of_a_terminal_that_goes_away_ends(own: Daemon, screen: Terminal) -> None:
    """The terminal hangs up on governor and its command, and the permits are back."""
    screen.type("governor run thumbnails -- sh -c 'echo begun; exec sleep 600'\n")
    screen.shows("\nbegun")
    screen.hang_up()

    until_free(own.address, "thumbnails")


@pytest.mark.parametrize("command", ["acquire thumbnails", "run thumbnails -- echo begun"])
def test_who_waits_sees_where(own: Daemon, run: Run, screen: Terminal, command: str) -> None:
    """One line, drawn again about once a second in its own place, and gone without a trace when the wait is over."""
    held = lease_of(run, "thumbnails=2")
    with ahead_in_line(own):
        screen.type(f"governor {command}\n")
        line = rf"{CLEAR}waiting for thumbnails: 1 ahead(, about \S+ to go)?, (\d+)s so far"
        first = int(screen.shows(line)[2])
        until(lambda: int(screen.shows(line)[2]) > first, "it is drawn again")
    screen.shows(rf"{CLEAR}waiting for thumbnails: next in line(, about \S+ to go)?, \d+s so far")
    assert run("release", str(held)).exit == 0
    screen.shows(rf"{CLEAR}(begun|lease \d+, after waiting \S+)\r\n")
    screen.shows(PROMPT)


def test_a_lease_that_was_waited_for_at_a_terminal_is_as_any_other(own: Daemon, run: Run, screen: Terminal) -> None:
    """It outlives the command, with the whole of its time, and is given back by its id."""
    screen.type("governor acquire orders-db thumbnails=2 --lease 1h\n")
    lease = screen.shows(r"\nlease (\d+)\r\n")[1]
    screen.shows(
        r"  orders-db: 1 permit\r\n    primary \(generation 1\)  endpoint=db1:5432\r\n  thumbnails: 2 permits\r\n"
    )
    screen.shows(rf"ends in 1h; to give it back: governor release {lease}\r\n")
    screen.shows(PROMPT)
    screen.type("governor status nothing-of-it\n")
    screen.shows("no such resource")

    assert resources(own.address)["thumbnails"].in_use == 2
    assert run("release", lease).out == f"lease {lease}: released\n"


def test_it_outlives_its_session_whatever_becomes_of_others(own: Daemon, run: Run, screen: Terminal) -> None:
    """Also where a lease ends with its session at once: it has left that before."""
    screen.type("governor acquire severe\n")
    lease = screen.shows(r"\nlease (\d+)\r\n")[1]
    screen.shows(PROMPT)

    assert resources(own.address)["severe"].in_use == 1
    assert run("release", lease).out == f"lease {lease}: released\n"


def test_a_refusal_at_a_terminal_reads_as_any_other(run: Run, screen: Terminal) -> None:
    """The same words, and the same exit codes."""
    held = lease_of(run, "thumbnails=2")
    for words, code in [("thumbnails --wait 0", 75), ("thumbnails --wait 50ms", 124), ("thumbnals", 2), ("shard=4", 2)]:
        elsewhere = forked("acquire", *words.split())
        screen.type(f"governor acquire {words}; echo is $?\n")
        said = screen.until(rf"\nis {code}\r\n")

        assert elsewhere.returncode == code
        # How long each had to wait, both say to the millisecond.
        assert _but_for_times(elsewhere.stderr.rstrip("\n")) in " ".join(_but_for_times(said).split())
    assert run("release", str(held)).exit == 0


def _but_for_times(words: str) -> str:
    return re.sub(r"within a wait of \S+(?=[,;])", "within a wait of a while", words)


def test_ctrl_c_in_line_leaves_it(own: Daemon, run: Run, screen: Terminal) -> None:
    """Nothing is left of the line that was shown, and nobody waits any more."""
    held = lease_of(run, "thumbnails=2")
    screen.type("governor acquire thumbnails\n")
    screen.shows("next in line")
    screen.type(CTRL_C)
    screen.shows(CLEAR)
    screen.shows(PROMPT)
    screen.type("echo is $?\n")
    screen.shows("\nis 130")

    assert resources(own.address)["thumbnails"].waiters == 0
    assert run("release", str(held)).exit == 0


def test_nothing_is_drawn_from_the_background(own: Daemon, run: Run, screen: Terminal) -> None:
    """The person at the terminal does something else by now."""
    held = lease_of(run, "thumbnails=2")
    screen.type("governor run thumbnails -- echo begun &\n")
    screen.shows(PROMPT)
    assert forked("acquire", "thumbnails", "--wait", "1500ms").returncode == 124
    assert run("release", str(held)).exit == 0
    screen.shows("begun")

    assert "waiting for" not in screen.written


@pytest.mark.parametrize("name", ["dumb", ""])
def test_a_terminal_that_cannot_clear_a_line_gets_none(own: Daemon, run: Run, name: str) -> None:
    """As the shell of an editor."""
    held = lease_of(run, "thumbnails=2")
    with terminal({"GOVERNOR_ADDRESS": own.address, "TERM": name}) as screen:
        screen.type("governor acquire thumbnails --wait 200ms\n")
        screen.shows("governor: thumbnails: no permits came")
        assert "waiting for" not in screen.written
    assert run("release", str(held)).exit == 0


def test_a_wait_that_is_cut_short_says_so_at_once(own: Daemon, screen: Terminal, run: Run) -> None:
    """And not when it is over; a wait that is as long as it was asked for is not worth a word."""
    lease_of(run, "thumbnails", "--permits", "2")
    for command in ("acquire thumbnails", "run thumbnails"):
        rest = " -- true" if command.startswith("run") else ""
        screen.type(f"governor {command} --wait 5m{rest}\n")
        screen.shows(r"governor: thumbnails: nobody waits for longer than its max_wait of 30s, nor does this\r\n")
        screen.shows(rf"{CLEAR}waiting for thumbnails")
        screen.type(CTRL_C)
        screen.shows(PROMPT)
    screen.type("governor acquire thumbnails --wait 20s\n")
    before = screen.until(rf"{CLEAR}waiting for thumbnails")
    screen.type(CTRL_C)

    assert "nobody waits" not in before


def test_errors_are_folded_at_words(own: Daemon, tmp_path: Path) -> None:
    """On a terminal, which would cut them where its line ends: refusals, mistakes, warnings, why there is no daemon."""
    doubtful = tmp_path / "tls.yaml"
    doubtful.write_text(
        "listen: [tls://127.0.0.1:0]\ntls: {cert: /nowhere/c.pem, key: /nowhere/k.pem}\n", encoding="utf-8"
    )
    missing = "/nowhere/that/anybody/would/look/for/a/config.yaml"
    environment = {"GOVERNOR_ADDRESS": own.address, "DOUBTFUL": str(doubtful), "MISSING": missing}
    with terminal(environment, width=60) as narrow:
        told = []
        for command in ("acquire nothing", "set thumbnails permits=4", "check $DOUBTFUL", "serve --config $MISSING"):
            narrow.type(f"governor {command}\n")
            told.append(narrow.until(PROMPT).replace("\r", "").split("\n")[1:-1])

    refused, mistaken, warned, ended = told
    assert refused == ["governor: nothing: no such resource; correct the name, or", "  declare it in governor's config"]
    assert mistaken[-2:] == [
        "governor: say for how long, such as --for 10m; what is to",
        "  last belongs in the config",
    ]
    warning = "warning: tls: /nowhere/c.pem: No such file or directory: no daemon starts with that"
    assert warning in " ".join(line.strip() for line in warned)
    assert all(len(line) <= 60 for line in warned if " " in line.strip())
    assert ended == [f"{missing}: there is", "  no such file"]
