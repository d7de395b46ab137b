"""A crowd of connections that say nothing, under a low limit on files: it takes its share and no more."""

import resource
import socket
import time
from contextlib import ExitStack
from pathlib import Path

from governor.v1 import governor_pb2 as pb
from tests.bench.quiet import cpu
from tests.e2e.client import Client, ask
from tests.e2e.conftest import Start
from tests.e2e.process import BOUND, COMMAND, Daemon, until

YAML = "semaphores: {one: {permits: 1, lease: 1h}}\n"
FILES = 128
FEW_FILES = ("sh", "-c", f'ulimit -n {FILES}; exec "$0" "$@"', *COMMAND)


def test_a_silent_crowd_leaves_room_for_everybody_who_is_there(start: Start) -> None:
    """Holders release, probes are answered, and the log says nothing; when the crowd is gone, others come in."""
    daemon = start(YAML, command=FEW_FILES)
    with ExitStack() as crowd:
        clients = [crowd.enter_context(Client(address)) for address in daemon.addresses]
        held = clients[0].acquire("one").id
        waiting = clients[1].wait_in_line(ask("one"))
        for address in daemon.addresses:
            for _ in range(FILES):
                crowd.enter_context(_connected(address))

        # Those above the bound are closed by gRPC as soon as it has accepted them.
        until(lambda: 30 < _files(daemon) < FILES - 70, "the crowd has its share")
        assert daemon.page("/-/healthy")[0] == 200
        clients[0].release(held)
        clients[1].release(waiting.lease().id)
        assert daemon.metric("process_max_fds") == FILES
        assert _files(daemon) < FILES - 70

    until(lambda: _files(daemon) < 30, "the crowd is gone")
    with Client(daemon.address) as fresh:
        fresh.release(fresh.acquire("one").id)


def test_without_a_file_left_the_log_says_so_once(daemon: Daemon) -> None:
    """The event loop tries to accept what waits a hundred times a second; when files are free again, it is served."""
    daemon.expect("out of file descriptors")
    pid, kind = daemon.pid, resource.RLIMIT_NOFILE
    limits = resource.prlimit(pid, kind)
    resource.prlimit(pid, kind, (len(list(Path(f"/proc/{pid}/fd").iterdir())), limits[1]))
    with _connected(daemon.http) as connection:
        connection.sendall(b"GET /-/healthy HTTP/1.0\r\n\r\n")

        daemon.said("out of file descriptors")
        resource.prlimit(pid, kind, limits)

        connection.settimeout(BOUND)
        assert b" 200 OK" in connection.recv(1000)
    assert daemon.log.count("out of file descriptors") == 1
    assert "Traceback" not in daemon.log


def test_without_a_file_left_holders_go_on(daemon: Daemon) -> None:
    """Over the connections they have, on record and all; nobody spins, and newcomers are in soon."""
    daemon.expect("out of file descriptors")
    pid, kind = daemon.pid, resource.RLIMIT_NOFILE
    limits = resource.prlimit(pid, kind)
    with Client(daemon.address) as me, ExitStack() as crowd:
        held = me.acquire("one").id
        resource.prlimit(pid, kind, (len(list(Path(f"/proc/{pid}/fd").iterdir())), limits[1]))
        for address in (daemon.http, *daemon.addresses):
            for _ in range(3):
                crowd.enter_context(_connected(address))
        daemon.said("out of file descriptors")

        used, began = cpu(pid), time.monotonic()
        time.sleep(1)
        assert cpu(pid) - used < 0.5 * (time.monotonic() - began)
        for _ in range(10):
            assert me.renew(held)[0].state == pb.LeaseResult.RENEWED
            me.release(held)
            held = me.acquire("one").id
        me.release(held)

        resource.prlimit(pid, kind, limits)
        with Client(daemon.address) as fresh:
            fresh.release(fresh.acquire("one").id)
        assert daemon.page("/-/healthy")[0] == 200


def _files(daemon: Daemon) -> int:
    return int(daemon.metric("process_open_fds"))


def _connected(address: str) -> socket.socket:
    if address.startswith("unix:"):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address.removeprefix("unix:"))
        return connection
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)))
