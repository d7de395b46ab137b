"""What a service manager hears from a daemon, over the socket that it would listen on."""

import socket
from contextlib import closing, suppress
from pathlib import Path
from signal import SIGHUP, SIGTERM

from tests.e2e.conftest import Connect, Start
from tests.e2e.process import BOUND, COMMAND


def test_a_service_manager_is_told_of_each_turn(start: Start, folder: Path) -> None:
    """Ready, each reload however it goes, that it stops and how long that may take, and that the loop runs."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as manager:
        manager.bind(str(folder / "notify"))
        manager.settimeout(BOUND)

        def heard() -> str:
            """The next message that is no sign of life."""
            while (said := manager.recv(4096).decode()) == "WATCHDOG=1":
                signs.append(said)
            return said.partition("\n")[0]

        signs: list[str] = []
        variables = (f"NOTIFY_SOCKET={folder / 'notify'}", "WATCHDOG_USEC=200000")
        daemon = start("semaphores: {one: {permits: 1}}\n", command=("env", *variables, *COMMAND))
        assert heard() == "READY=1"
        daemon.signal(SIGHUP)
        assert [heard(), heard()] == ["RELOADING=1", "READY=1"]

        daemon.expect("reload refused")
        daemon.reload("semaphores: 7\n")
        assert [heard(), heard()] == ["RELOADING=1", "READY=1"]

        while not signs:
            signs.append(manager.recv(4096).decode())
        assert set(signs) == {"WATCHDOG=1"}
        daemon.signal(SIGTERM)
        assert heard() == "STOPPING=1"
        assert daemon.exit_code() == 0


def test_a_reload_while_it_ends_is_none_of_the_managers_business(start: Start, connect: Connect, folder: Path) -> None:
    """It takes effect, and nobody is told that the daemon is ready once more."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as manager:
        manager.bind(str(folder / "notify"))
        manager.settimeout(BOUND)
        command = ("env", f"NOTIFY_SOCKET={folder / 'notify'}", *COMMAND)
        daemon = start("semaphores: {one: {permits: 1}}\n", drain=f"{BOUND}s", command=command)
        me = connect(daemon)
        lease = me.acquire("one").id
        daemon.signal(SIGTERM)
        heard = [manager.recv(4096).decode().partition("\n")[0] for _ in range(2)]
        daemon.signal(SIGHUP)
        daemon.said("reloaded")
        me.release(lease)
        assert daemon.exit_code() == 0
        manager.setblocking(False)  # noqa: FBT003
        with suppress(BlockingIOError):
            heard.append(manager.recv(4096).decode())

    assert heard == ["READY=1", "STOPPING=1"]
