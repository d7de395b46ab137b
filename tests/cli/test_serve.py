"""`governor serve`: how it starts, refuses to start, drains, ends, and is missed."""

import os
import pty
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from governor.cli import connection
from tests.cli.conftest import Run, lease_of
from tests.cli.daemon import Daemon, once_in_line, serve
from tests.cli.process import BOUND, COMMAND, ROOT, running
from tests.e2e.nursery import NURSERY
from tests.rpc.wire import Wire


def test_serve_says_where_what_and_how_many(shared: Daemon) -> None:
    """A line for each address, and one for the config with the number of its resources."""
    said = "".join(shared.said)

    assert f"listening on {shared.address}" in said
    assert "listening on 127.0.0.1:" in said
    assert f"config {shared.config}: 8 resources" in said


def test_a_daemon_that_hangs_is_noticed_in_the_line(run: Run, own: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before the wait is over: pings tell a long line from a dead daemon."""
    quick = {"grpc.keepalive_time_ms", "grpc.keepalive_timeout_ms", "grpc.http2.ping_timeout_ms"}
    options = tuple((name, 1000 if name in quick else value) for name, value in connection.OPTIONS)
    monkeypatch.setattr(connection, "OPTIONS", options)
    lease_of(run, "thumbnails=2")
    with once_in_line(own, "thumbnails", signal.SIGSTOP):
        ended = run("acquire", "thumbnails", "--wait", "30s")

    assert ended.exit == 3
    assert f"no answer from the daemon at {own.address}" in ended.err


def test_a_daemon_that_dies_is_noticed_in_the_line(run: Run, own: Daemon) -> None:
    """At once, by its connection."""
    lease_of(run, "thumbnails=2")
    with once_in_line(own, "thumbnails", signal.SIGKILL):
        ended = run("acquire", "thumbnails", "--wait", "30s")

    assert ended.exit == 3
    assert f"no answer from the daemon at {own.address}" in ended.err


def test_while_it_drains_one_gives_back_and_gets_nothing(run: Run, own: Daemon) -> None:
    """Health and acquire say to come back later; the last release lets the daemon end, in peace."""
    lease = lease_of(run, "thumbnails=2")
    with once_in_line(own, "thumbnails", signal.SIGTERM):
        waiting = run("acquire", "thumbnails", "--wait", "30s")
    late = run("acquire", "thumbnails")
    health = run("health")
    released = run("release", str(lease))

    assert (waiting.exit, late.exit, health.exit, released.exit) == (75, 75, 75, 0)
    assert "draining" in waiting.err
    assert late.err.startswith("governor: draining")
    assert own.process.wait(BOUND) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_ends_cleanly_when_nothing_is_held(own: Daemon, number: signal.Signals) -> None:
    """Ctrl-C is a way to stop it, not an error; its socket is gone."""
    own.stop(number)

    assert own.process.wait(BOUND) == 0
    assert not (own.config.parent / "g.sock").exists()


def test_a_second_signal_ends_it_at_once(run: Run, own: Daemon) -> None:
    """Whatever is still held."""
    lease_of(run, "thumbnails=2")
    own.stop(signal.SIGTERM)
    assert any("draining" in line for line in own.log)
    own.stop(signal.SIGTERM)

    assert own.process.wait(BOUND) == 0


def test_a_second_daemon_is_turned_away(run: Run, daemon: Daemon) -> None:
    """One line and exit code 71, be it the state or a socket that is taken; the first one goes on."""
    state = serve("--config", str(daemon.config))
    sockets = serve("--config", str(daemon.config), "--state", str(daemon.config.parent / "other"))

    assert (state.returncode, sockets.returncode) == (71, 71)
    for ended in (state, sockets):
        assert ended.stderr.splitlines()[-1].startswith("governor: ")
        assert "Traceback" not in ended.stderr
    assert run("health").exit == 0


def test_a_port_in_use_is_named(run: Run, tmp_path: Path) -> None:
    """One line and exit code 71."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        config = tmp_path / "governor.yaml"
        config.write_text(f"{{listen: [{address}], http: off, state: {tmp_path}/state}}\n")
        ended = serve("--config", str(config))

    assert ended.returncode == 71
    assert address in ended.stderr.splitlines()[-1]


def test_a_bad_config_is_refused_with_every_mistake(tmp_path: Path) -> None:
    """Exit code 78, and the lines that `check` would say; a missing file is a bad config, too."""
    config = tmp_path / "governor.yaml"
    config.write_text("semaphores:\n  a: {permits: many}\n  b: {permit: 2}\n")
    bad = serve("--config", str(config))
    missing = serve("--config", str(tmp_path / "none.yaml"))

    assert (bad.returncode, missing.returncode) == (78, 78)
    assert f"{config}:2: " in bad.stderr
    assert f"{config}:3: " in bad.stderr
    assert "none.yaml" in missing.stderr


def test_a_bare_file_is_told_how_it_is_named(run: Run) -> None:
    """As a usage error, before anything is read; the words can be pasted."""
    ended = run("serve", "my governor.yaml")

    assert (ended.exit, ended.out) == (2, "")
    assert "governor serve --config 'my governor.yaml'" in ended.err


def test_the_start_names_kinds_as_the_yaml_does(shared: Daemon) -> None:
    """As `check` and the metrics do: one word for one thing."""
    assert "8 resources (1 pool, 1 rate_limit, 6 semaphores)" in "".join(shared.said)


# `governor`, which stops when it is about to load a part that only the daemon needs, until its standard input ends.
LOADS = """
import sys
class Gate:
    def find_spec(self, name, path, target=None):
        if name == "governor.journal":
            print("loading", flush=True)
            sys.stdin.read()
sys.meta_path.insert(0, Gate())
from governor.cli.main import main
sys.exit(main())
"""


@contextmanager
def loading(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """`governor serve`, which is at the gate."""
    (folder / "g.yaml").write_text("{listen: [127.0.0.1:0], http: off}\n")
    pipe = subprocess.PIPE
    arguments = ("serve", "--config", str(folder / "g.yaml"), "--state", str(folder / "state"))
    command = [sys.executable, "-c", LOADS, *arguments]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "loading\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_stop_before_it_is_ready_is_quiet(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """While it still loads: an ending of its own, and not a word."""
    with loading(tmp_path) as process:
        process.send_signal(number)
        _, said = process.communicate(timeout=BOUND)

    assert (process.returncode, said) == (code, "")
    assert not (tmp_path / "state").exists()


def test_a_reload_before_it_is_ready_does_not_end_it(tmp_path: Path) -> None:
    """Sent again and again until it serves; then it ends as ever."""
    with loading(tmp_path) as process:
        process.send_signal(signal.SIGHUP)
        assert process.stdin is not None
        process.stdin.close()
        assert process.stderr is not None
        end = time.monotonic() + BOUND
        while not select.select([process.stderr], [], [], 0.001)[0]:
            assert time.monotonic() < end
            process.send_signal(signal.SIGHUP)
        # The last of them it may have heard, and read its config anew.
        started = any("listening on" in line for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
        process.wait(BOUND)

    assert started
    assert process.returncode == 0
    assert "SIGTERM: stopping" in said


# The log as people see it.
TEXT = ("--log-format", "text")


async def test_odd_headers_leave_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any client can send them, so that they would fill the log; they are refused or passed over."""
    monkeypatch.delenv("GRPC_VERBOSITY", raising=False)  # as an operator has it, not as the tests' own client does
    odd = {"grpc_timeout": "soon", "grpc_encoding": "odd", "grpc_status": "odd", "grpc_previous_rpc_attempts": "odd"}
    with tempfile.TemporaryDirectory(prefix="gov") as folder:
        path = Path(folder) / "g.sock"
        (tmp_path / "g.yaml").write_text(f"{{listen: ['unix:{path}'], http: off}}\n")
        with running(
            "serve", "--config", str(tmp_path / "g.yaml"), "--state", str(tmp_path / "state"), *TEXT
        ) as process:
            assert process.stderr is not None
            assert any("listening on" in line for line in process.stderr)
            wire = await Wire.connect(path)
            for name, value in odd.items():
                wire.call("ListResources", b"", flags=0, **{name: value})
            # Answered after all of them have been read.
            assert await wire.answer(wire.call("ListResources", b"")) is not None
            await wire.close()
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=BOUND)

    assert [line.split()[2] for line in said.splitlines()] == ["INFO", "INFO"]


def test_a_relative_state_folder_is_logged_as_an_absolute_one(tmp_path: Path) -> None:
    """So that it can be found later, wherever the daemon was started."""
    (tmp_path / "g.yaml").write_text("{listen: [127.0.0.1:0], http: off}\n")
    with subprocess.Popen(
        [*COMMAND, "serve", "--config", "g.yaml", "--state", "state", *TEXT],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.kill()

    assert first.endswith(f"state in {tmp_path}/state\n")


def first_line(
    folder: Path, *arguments: str, environ: Mapping[str, str] | None = None, at_terminal: bool = False
) -> str:
    """What a daemon says first."""
    (folder / "g.yaml").write_text("{listen: [127.0.0.1:0], http: off}\n")
    told, tells = pty.openpty() if at_terminal else os.pipe()
    command = [*COMMAND, "serve", "--config", str(folder / "g.yaml"), "--state", str(folder / "state"), *arguments]
    process = NURSERY.begin(command, tells, environ={**os.environ, **(environ or {})})
    os.close(tells)
    with os.fdopen(told, encoding="utf-8") as seen:
        first = seen.readline()
        process.kill()
        process.wait(BOUND)
    return first


@pytest.mark.parametrize(
    ("arguments", "environ", "json"),
    [
        ((), {}, True),
        (("--log-format", "text"), {}, False),
        (("--log-format", "json"), {"GOVERNOR_LOG_FORMAT": "text"}, True),
        ((), {"GOVERNOR_LOG_FORMAT": "text"}, False),
    ],
)
def test_the_log_is_json_unless_somebody_looks_or_says_so(
    tmp_path: Path,
    arguments: tuple[str, ...],
    environ: dict[str, str],
    json: bool,  # noqa: FBT001
) -> None:
    """Standard error is a pipe here."""
    assert first_line(tmp_path, *arguments, environ=environ).startswith("{") is json


def test_at_a_terminal_the_log_is_text(tmp_path: Path) -> None:
    """Without being asked for."""
    assert " INFO    governor " in first_line(tmp_path, at_terminal=True)


def test_a_log_format_that_there_is_not_is_refused(run: Run) -> None:
    """Also in the environment: a daemon whose log nobody can read is worse."""
    ended = run("serve", "--log-format", "xml")
    assert ended.exit == 2
    assert "'xml' is not one of 'auto', 'text', 'json'" in ended.err
