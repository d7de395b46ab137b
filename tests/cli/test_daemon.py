"""`governor` against the daemon itself: real processes, real sockets, every exit code that a daemon can cause."""

import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from governor.cli import connection
from governor.v1 import governor_pb2 as pb
from governor.v1.governor_pb2_grpc import GovernorStub
from tests.cli.conftest import Run
from tests.cli.test_process import BOUND, COMMAND, ROOT, running

YAML = """\
listen: [unix:{folder}/g.sock, 127.0.0.1:0]
http: off
state: {folder}/state
drain_timeout: 30s
semaphores:
  thumbnails: {{permits: 2}}
  "a/b & c, größe": {{permits: 1}}
  hurried: {{permits: 1, max_wait: 100ms}}
  crowded: {{permits: 1, max_waiters: 1}}
pools:
  orders-db:
    members:
      primary: {{endpoint: "db1:5432"}}
      replica: {{endpoint: "db2:5432"}}
rate_limits:
  payments-api: {{rate: 1/h, burst: 5}}
"""


@dataclass(slots=True)
class Daemon:
    """A daemon in the background, and what it has said."""

    process: subprocess.Popen[str]
    config: Path
    address: str
    said: list[str]

    def stop(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)


@contextmanager
def serving(folder: Path) -> Iterator[Daemon]:
    """`governor serve`, from the moment it listens."""
    config = folder / "governor.yaml"
    config.write_text(YAML.format(folder=folder))
    with subprocess.Popen(
        [*COMMAND, "serve", "--config", str(config)], stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        daemon = Daemon(process, config, f"unix:{folder}/g.sock", [])
        assert process.stderr is not None
        try:
            for line in process.stderr:
                daemon.said.append(line)
                if "listening on 127.0.0.1:" in line:
                    break
            yield daemon
        finally:
            process.kill()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon for all tests that leave it as they found it."""
    with serving(tmp_path_factory.mktemp("daemon")) as daemon:
        yield daemon


@pytest.fixture
def daemon(shared: Daemon, monkeypatch: pytest.MonkeyPatch, run: Run) -> Daemon:
    """The shared one, which the environment names."""
    monkeypatch.setenv("GOVERNOR_ADDRESS", shared.address)
    return shared


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Iterator[Daemon]:
    """A daemon that the test may treat as it likes."""
    with serving(tmp_path) as daemon:
        monkeypatch.setenv("GOVERNOR_ADDRESS", daemon.address)
        yield daemon


def lease_of(run: Run, *arguments: str) -> int:
    """The id of a lease that is granted."""
    ended = run("acquire", *arguments, "-o", "json")
    assert ended.exit == 0, ended.err
    lease = json.loads(ended.out)["lease"]
    assert isinstance(lease, int)
    return lease


def test_serve_says_where_what_and_how_many(shared: Daemon) -> None:
    """A line for each address, and one for the config with the number of its resources."""
    said = "".join(shared.said)

    assert f"listening on {shared.address}" in said
    assert "listening on 127.0.0.1:" in said
    assert f"config {shared.config}: 6 resources" in said


def test_a_permit_goes_out_and_comes_back(run: Run, daemon: Daemon) -> None:
    """Acquire, status and release tell one story."""
    lease = lease_of(run, "thumbnails=2")
    during = resources(daemon.address)["thumbnails"]
    released = run("release", str(lease))
    after = resources(daemon.address)["thumbnails"]

    assert (during.in_use, during.available, during.leases) == (2, 0, 1)
    assert (released.exit, released.out) == (0, f"lease {lease}: released\n")
    assert (after.in_use, after.available, after.leases) == (0, 2, 0)


def test_the_whole_ask_is_granted_at_once(run: Run, daemon: Daemon) -> None:
    """Over kinds, with the member of the pool and what the operator wrote beside it."""
    ended = run("acquire", "orders-db", "a/b & c, größe=1")
    lines = ended.out.splitlines()
    lease = lines[0].split()[1]

    assert ended.exit == 0
    assert lines[1] == "  orders-db: 1 permit"
    assert lines[2] in {
        "    primary (generation 1)  endpoint=db1:5432",
        "    replica (generation 1)  endpoint=db2:5432",
    }
    assert lines[3] == "  a/b & c, größe: 1 permit"
    assert lines[4] == f"ends in 30s; to give it back: governor release {lease}"
    assert run("release", lease, "--outcome", "ok").exit == 0


def test_a_rate_limit_is_spent(run: Run, daemon: Daemon) -> None:
    """There is nothing to give back, and no more until time brings it."""
    first = run("acquire", "payments-api=5")
    second = run("acquire", "payments-api", "--wait", "0")

    assert first.out.endswith("spent: there is nothing to give back\n")
    assert second.exit == 75
    assert "try again in " in second.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nosuch"], 2, "no such resource"),
        (["thumbnails=3"], 2, "3 permits"),
        (["thumbnails", "--lease", "0s"], 2, "lease"),
        (["thumbnails", "--lease", "3650d"], 2, "lease"),
        (["x" * 100_000], 2, "resource"),
        (["thumbnails", "--client", "x" * 300], 2, "client"),
        (["thumbnails", *(f"r{number}" for number in range(100))], 2, "claims"),
    ],
    ids=lambda value: value[0][:10] if isinstance(value, list) else "",
)
def test_an_ask_that_is_wrong_is_refused_for_good(
    run: Run, daemon: Daemon, arguments: list[str], code: int, said: str
) -> None:
    """Exit code 2 and the daemon's sentence: asking again will not help."""
    ended = run("acquire", *arguments)

    assert (ended.exit, ended.out) == (code, "")
    assert ended.err.startswith("governor: ")
    assert said in ended.err
    assert ended.err.count("\n") == 1


def test_not_now_is_told_from_too_late(run: Run, daemon: Daemon) -> None:
    """Who does not wait is told to try later; whose wait is over has timed out, by own wish or by max_wait."""
    lease = lease_of(run, "hurried")
    at_once = run("acquire", "hurried", "--wait", "0")
    own_wish = run("acquire", "hurried", "--wait", "1ms")
    max_wait = run("acquire", "hurried")
    run("release", str(lease))

    assert (at_once.exit, own_wish.exit, max_wait.exit) == (75, 124, 124)


def test_a_full_line_is_try_later(run: Run, daemon: Daemon) -> None:
    """And Ctrl-C leaves the line at once."""
    lease = lease_of(run, "crowded")
    with running("acquire", "crowded") as waiting:
        stands_in_line(daemon.address, "crowded")
        crowded = run("acquire", "crowded")
        waiting.send_signal(signal.SIGINT)
        waiting.communicate(timeout=BOUND)
        after = resources(daemon.address)["crowded"]
    run("release", str(lease))

    assert (crowded.exit, waiting.returncode) == (75, 130)
    assert "line is full" in crowded.err
    assert after.waiters == 0


def test_a_lease_is_released_once(run: Run, daemon: Daemon) -> None:
    """The second time is told what had become of it, and so is whoever names a lease that never was."""
    lease = str(lease_of(run, "thumbnails"))
    run("release", lease)
    again = run("release", lease)
    record = run("release", lease, "-o", "json")
    several = run("release", lease, "999999999", "-o", "json")

    assert (again.exit, record.exit, several.exit) == (1, 1, 1)
    assert "released" in again.err
    (ended,) = json.loads(record.out)["results"]
    assert (ended["state"], ended["reason"]) == ("ended", "released")
    assert 0 <= ended["ended_seconds_ago"] < BOUND
    assert [result["state"] for result in json.loads(several.out)["results"]] == ["ended", "unknown"]


def test_the_same_request_id_gets_the_same_lease(run: Run, daemon: Daemon) -> None:
    """So that a script may ask again after it lost the answer."""
    first = lease_of(run, "thumbnails", "--request-id", "nightly")
    second = lease_of(run, "thumbnails", "--request-id", "nightly")
    run("release", str(first))

    assert first == second


def test_both_addresses_lead_to_the_same_daemon(run: Run, daemon: Daemon) -> None:
    """The port is one that the kernel chose, and `serve` said which."""
    port = daemon.said[-1].split("127.0.0.1:")[1].split()[0]
    lease = lease_of(run, "thumbnails")

    assert run("release", str(lease), "--address", f"127.0.0.1:{port}").exit == 0


def test_a_killed_holder_loses_its_permit_to_the_next(run: Run, daemon: Daemon) -> None:
    """The command ends without releasing; the lease ends by itself, and whoever waits is granted then."""
    dead = lease_of(run, "crowded", "--lease", "300ms")
    heir = lease_of(run, "crowded")
    late = run("release", str(dead))
    run("release", str(heir))

    assert heir > dead
    assert late.exit == 1
    assert "expired" in late.err


def test_a_daemon_that_hangs_is_noticed_in_the_line(run: Run, own: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before the wait is over: pings tell a long line from a dead daemon."""
    quick = {"grpc.keepalive_time_ms", "grpc.keepalive_timeout_ms", "grpc.http2.ping_timeout_ms"}
    options = tuple((name, 200 if name in quick else value) for name, value in connection.OPTIONS)
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
    assert own.process.stderr is not None
    for line in own.process.stderr:
        if "draining" in line:
            break
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


def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A daemon that will not start."""
    return subprocess.run(
        [*COMMAND, "serve", *arguments], capture_output=True, text=True, timeout=BOUND, check=False, cwd=ROOT
    )


def resources(address: str) -> dict[str, pb.Resource]:
    """What the daemon lists, by name, over plain gRPC."""
    with grpc.insecure_channel(address) as channel:
        listed = GovernorStub(channel).ListResources(pb.ListResourcesRequest(), timeout=BOUND)
    return {entry.name: entry for entry in listed.resources}


def stands_in_line(address: str, name: str) -> None:
    """Returns once somebody waits."""
    late = time.monotonic() + BOUND
    while resources(address)[name].waiters == 0:
        assert time.monotonic() < late, f"nobody came to wait for {name}"
        time.sleep(0.01)


@contextmanager
def once_in_line(daemon: Daemon, name: str, number: signal.Signals) -> Iterator[None]:
    """Sends the daemon a signal as soon as somebody waits, while the body goes on."""

    def send() -> None:
        stands_in_line(daemon.address, name)
        daemon.stop(number)

    thread = threading.Thread(target=send)
    thread.start()
    yield
    thread.join()
