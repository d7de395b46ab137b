"""`governor top`, in a real terminal with a real daemon."""

import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.daemon import Daemon, serving, stands_in_line
from tests.cli.process import BOUND, COMMAND, ended, forked, running
from tests.cli.tmux import Window, window
from tests.programs import needed

TOP = f"{shlex.join(COMMAND)} top --interval 100ms"
KEYS = "up/down move   enter look in   s sort   / filter   h help   q quit"


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Somebody waits for thumbnails, and half of the pool is lent."""
    folder = tmp_path_factory.mktemp("busy")
    with serving(folder) as daemon:
        # Whoever is cut short is told so, but not in the time that these tests take.
        text = daemon.config.read_text()
        daemon.config.write_text(text.replace("thumbnails: {permits: 2}", "thumbnails: {permits: 2, max_wait: 1h}"))
        assert forked("reload", "--address", daemon.address).returncode == 0
        for claim in ("thumbnails=2", "orders-db"):
            assert forked("acquire", claim, "--lease", "1h", "--address", daemon.address).returncode == 0
        with running("acquire", "thumbnails", "--wait", "1h", "--address", daemon.address):
            stands_in_line(daemon.address, "thumbnails")
            yield daemon


@pytest.fixture
def shell(busy: Daemon, tmp_path: Path) -> Iterator[Window]:
    """A terminal of 80 columns and 24 lines whose shell knows the daemon."""
    with window(tmp_path, {"GOVERNOR_ADDRESS": busy.address}) as opened:
        yield opened


@pytest.fixture
def top(shell: Window) -> Window:
    """`governor top` in it."""
    shell.run(TOP)
    shell.shows("> thumbnails", KEYS)
    return shell


def rows(screen: list[str]) -> list[str]:
    """The names, from above."""
    return [line[2:].split("  ")[0] for line in screen[4:-1] if line.strip()]


def test_what_hurts_comes_first(top: Window) -> None:
    """Who is waited for, then what is nearest to full; each line within the screen, and nothing of the shell on it."""
    screen = top.shows("thumbnails", "orders-db")

    assert rows(screen)[:2] == ["thumbnails", "orders-db"]
    assert "2/2" in screen[4]
    assert "100%" in screen[4]
    assert len(screen) == 24
    assert max(map(len, screen)) <= 80
    assert screen[0].startswith("governor top  unix:")
    assert screen[0].endswith("every 100ms")
    assert screen[-1] == KEYS
    assert (top.state("alternate_on"), top.state("cursor_flag")) == ("1", "0")


def test_it_lives(top: Window, busy: Daemon) -> None:
    """What changes is seen without a key."""
    asked = forked("acquire", "severe", "--lease", "1h", "--address", busy.address, "-o", "json")
    screen = top.until(lambda screen: any("severe" in line and "1/1" in line for line in screen))
    assert rows(screen)[1] == "severe"
    lease = str(json.loads(asked.stdout)["lease"])
    assert forked("release", lease, "--address", busy.address).returncode == 0
    top.until(lambda screen: any("severe" in line and "0/1" in line for line in screen))


def test_keys_sort_filter_and_choose(top: Window) -> None:
    """The one that is chosen stays so while rows move."""
    top.type("Down")
    top.shows("> orders-db")
    top.type("/", "d", "b")
    top.shows("> orders-db", "filter: db_  (1 of")
    top.type("Enter")
    top.shows("only those with 'db'", KEYS)
    top.type("Escape")
    top.until(lambda screen: len(rows(screen)) > 1 and any("> orders-db" in line for line in screen))
    top.type("<")
    screen = top.shows("sorted by name")
    assert rows(screen) == sorted(rows(screen))
    top.type("s")
    top.shows("sorted by what hurts")
    top.type("h")
    top.shows("any key goes on", "Nothing can be changed here")
    top.type("x")
    top.shows(KEYS)


def test_one_resource_is_looked_into(top: Window) -> None:
    """Its leases and its line, which live as the table does; and back to where one was."""
    top.type("Enter")
    top.shows("thumbnails: semaphore, open", "waiters", "governor-cli", "escape back")
    top.type("Escape")
    top.shows("> thumbnails", KEYS)


def test_q_leaves_the_terminal_as_it_was(top: Window) -> None:
    """With exit code 0."""
    top.type("q")
    top.prompts()
    top.run("echo is $?; stty -a | tr ';' '\\n' | grep -c -- '[^-]echo\\b'")
    top.shows("is 0")
    assert (top.state("alternate_on"), top.state("cursor_flag")) == ("0", "1")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGQUIT, 131)]
)
def test_a_signal_leaves_the_terminal_as_it_was(top: Window, number: signal.Signals, code: int) -> None:
    """It dies of it, as programs do."""
    os.kill(top.pid(), number)
    top.prompts()
    top.run("echo is $?; stty -a")
    screen = "\n".join(top.shows(f"is {code}", "icanon"))

    assert re.search(r"(?<!-)\bicanon\b", screen)
    assert re.search(r"(?<!-)\becho\b", screen)
    assert (top.state("alternate_on"), top.state("cursor_flag")) == ("0", "1")


@pytest.mark.parametrize("where", ["loop.paint", "feed.Feed._look_inside", "feed.Feed._pause"])
def test_a_bug_leaves_the_terminal_as_it_was(shell: Window, where: str) -> None:
    """And its traceback can be read there; also of one in the thread, which would leave old numbers as if of now."""
    program = (
        "import sys; sys.argv = ['governor', 'top']; from governor.cli.live import feed, loop;"
        f"{where} = lambda *_, **__: 1 // 0; from governor.cli.main import main; sys.exit(main())"
    )
    shell.run(f"{shlex.quote(COMMAND[0])} -c {shlex.quote(program)}")
    shell.shows("ZeroDivisionError", "governor: this is a bug")
    assert (shell.state("alternate_on"), shell.state("cursor_flag")) == ("0", "1")


def test_ctrl_z_gives_the_terminal_back_for_a_while(top: Window) -> None:
    """And fg takes it again, all of it."""
    top.type("C-z")
    assert "Stopped" in "\n".join(top.prompts())
    assert (top.state("alternate_on"), top.state("cursor_flag")) == ("0", "1")
    top.run("fg")
    top.shows("> thumbnails", KEYS)
    assert top.state("alternate_on") == "1"


@pytest.mark.parametrize("size", [(120, 40), (60, 12), (200, 10), (30, 8), (5, 3)])
def test_another_size_is_drawn_anew(top: Window, size: tuple[int, int]) -> None:
    """Larger or smaller, with the keys on the last line and the chosen row in sight."""
    width, height = size
    top.resize(width, height)
    if height >= 8:

        def drawn(screen: list[str]) -> bool:
            keys, chosen = KEYS[: min(width, 20)], any(line.startswith("> thumb") for line in screen)
            return len(screen) == height and screen[-1].startswith(keys) and chosen

        assert max(map(len, top.until(drawn))) <= width
    top.resize(80, 24)
    top.shows("> thumbnails", KEYS)


def test_a_restart_of_the_daemon_is_said_and_survived(own: Daemon, tmp_path: Path) -> None:
    """Until the next one is there, what was seen last stays."""
    with window(tmp_path, {"GOVERNOR_ADDRESS": own.address}) as opened:
        opened.run(TOP)
        opened.shows("thumbnails", KEYS)
        own.process.kill()
        own.process.wait(BOUND)
        opened.shows("no daemon for", "cannot reach the daemon", "thumbnails")
        with subprocess.Popen([*COMMAND, "serve", "--config", str(own.config)], stderr=subprocess.DEVNULL) as again:
            try:
                opened.until(lambda screen: "sorted by" in screen[2])
            finally:
                again.kill()


def test_no_color_is_honoured(shell: Window) -> None:
    """No colour at all; what is chosen is still marked."""
    shell.run(TOP)
    shell.shows("> thumbnails")
    coloured = "".join(shell.screen(styled=True))
    shell.type("q")
    shell.prompts()
    shell.run(f"clear; NO_COLOR=1 {TOP}")
    shell.shows("> thumbnails", KEYS)
    plain = "".join(shell.screen(styled=True))

    colours = re.compile(r"\x1b\[([0-9]+;)*3[1-7](;[0-9]+)*m")
    assert colours.search(coloured)
    assert not colours.search(plain)


def test_nothing_is_written_that_stands_there_already(busy: Daemon, tmp_path: Path) -> None:
    """So it does not flicker, and a slow line is spared: a screen that only ticks costs a line or two."""
    log = tmp_path / "typed"
    with window(tmp_path, {"GOVERNOR_ADDRESS": busy.address}) as opened:
        opened.run(f"{needed('script')} -qfec {shlex.quote(TOP)} {log}")
        opened.shows("> thumbnails", KEYS)
        first = log.stat().st_size
        late = time.monotonic() + BOUND
        ticks = 0
        seen = opened.screen()[0]
        while ticks < 3:
            assert time.monotonic() < late
            now = opened.screen()[0]
            ticks += now != seen
            seen = now
            time.sleep(0.05)
        # `script` outlives the window, and what it runs as well.
        opened.type("q")
        opened.prompts()

    assert first < 4000
    more = log.read_text(encoding="utf-8", errors="replace")[first:]
    # Each tick of the clock has some ten looks; the oldest wait changes its line ten times a second at most.
    assert len(more) < 2700 * len(set(re.findall(r"\d\d:\d\d:\d\d", more)))


@pytest.mark.parametrize(
    ("arguments", "term"), [(("top",), "xterm"), (("-o", "json", "top"), "xterm"), (("top",), "dumb")], ids=str
)
def test_without_a_terminal_it_names_status(arguments: tuple[str, ...], term: str) -> None:
    """On stderr, with exit code 2, and not an escape sequence on stdout."""
    done = ended(*arguments, GOVERNOR_ADDRESS="unix:/nonexistent", TERM=term)

    assert (done.returncode, done.stdout) == (2, "")
    assert "governor status" in done.stderr


def test_a_dumb_terminal_is_not_drawn_on(shell: Window) -> None:
    """It would show the escapes."""
    shell.run(f"TERM=dumb {TOP}")
    shell.shows("TERM says that this terminal cannot be drawn on", "governor status")


def test_a_daemon_that_is_not_there_at_first_is_an_error(shell: Window) -> None:
    """It is most likely somewhere else; the screen is left as it is."""
    shell.run(f"{TOP} --address unix:/nonexistent; echo is $?")
    shell.shows("cannot reach the daemon", "is 3")


def test_an_interval_has_a_least(run: Run) -> None:
    """A terminal takes no more, and the daemon has other things to do."""
    assert run("top", "--interval", "1ms").exit == 2


def test_five_hundred_resources_scroll(tmp_path: Path) -> None:
    """To the last one and back."""
    folder = tmp_path / "many"
    folder.mkdir()
    with serving(folder) as daemon, window(tmp_path, {"GOVERNOR_ADDRESS": daemon.address}) as opened:
        text = daemon.config.read_text()
        more = "".join(f"  r{number:03}: {{permits: 1}}\n" for number in range(500))
        daemon.config.write_text(text.replace("semaphores:\n", f"semaphores:\n{more}"))
        daemon.stop(signal.SIGHUP)
        opened.run(TOP)
        opened.shows("508 resources", "> ")
        opened.type("<")
        opened.shows("sorted by name")
        opened.type("End")
        screen = opened.shows("> thumbnails")
        assert screen[-2].startswith("> thumbnails")
        opened.type("PPage")
        opened.until(lambda screen: any(line.startswith("> r4") for line in screen))
        opened.type("Home")
        opened.until(lambda screen: screen[4].startswith("> a/b"))
