"""Python processes that are forked from one that has loaded all they need: a start costs a fifth of what it would.

It knows how to be ``python -m MODULE ARGUMENTS`` without loading anything twice. It must never know what a module does.
What is about loading, or about how a command is found and begun, starts a Python of its own.

The process that forks has one thread, never speaks gRPC itself, and ends with whoever started it.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from runpy import run_module
from struct import Struct
from tempfile import TemporaryFile
from typing import Final, NoReturn

from governor import garbage, grpc_core

ROOT: Final = Path(__file__).resolve().parents[2]
# Arguments and environment, at most.
_LARGEST: Final = 1 << 20
# Seconds that it may take to load everything, at most.
_BOUND: Final = 120.0
# What is told of each: its process id, and how it ended.
_NUMBER: Final = Struct("i")


class Process:
    """One that was forked: what of `subprocess.Popen` is of use here."""

    def __init__(self, report: int) -> None:
        self._report = report
        self.pid = self._told(_BOUND)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """How it ended, as `subprocess` has it, or None."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """How it ends. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            self.returncode = self._told(timeout)
            os.close(self._report)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _told(self, timeout: float) -> int:
        if not select.select([self._report], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("a forked process", timeout)
        number: int = _NUMBER.unpack(os.read(self._report, _NUMBER.size))[0]
        return number


def can_be(command: Sequence[str]) -> bool:
    """Whether this is a module that this Python is to run, and nothing before it."""
    return tuple(command[:2]) == (sys.executable, "-m")


class Nursery:
    """The process that forks, begun when something is first wanted of it."""

    def __init__(self) -> None:
        self._control: socket.socket | None = None

    def begin(
        self, command: Sequence[str], stderr: int, *, stdout: int | None = None, environ: Mapping[str, str] = os.environ
    ) -> Process:
        """Be ``command``, which is a Python, ``-m`` and its arguments, in the checkout. Both are descriptors."""
        assert can_be(command)
        control = self._control = self._control or _start()
        report, reporting = os.pipe()
        with Path(os.devnull).open("r+b") as null:
            wish = json.dumps([command[2:], dict(environ)]).encode()
            output = null.fileno() if stdout is None else stdout
            socket.send_fds(control, [wish], [null.fileno(), output, stderr, reporting])
        os.close(reporting)
        return Process(report)

    def run(
        self, command: Sequence[str], within: float, *, environ: Mapping[str, str] = os.environ
    ) -> subprocess.CompletedProcess[str]:
        """The same, to its end. Raises subprocess.TimeoutExpired."""
        with TemporaryFile("w+", encoding="utf-8") as out, TemporaryFile("w+", encoding="utf-8") as err:
            process = self.begin(command, err.fileno(), stdout=out.fileno(), environ=environ)
            try:
                code = process.wait(within)
            finally:
                process.kill()
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(command, code, out.read(), err.read())


def _start() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.nursery", str(theirs.fileno())], pass_fds=[theirs.fileno()], cwd=ROOT
        )

    def end() -> None:
        ours.close()
        process.wait(_BOUND)

    atexit.register(end)
    return ours


# One for all tests of a process.
NURSERY: Final = Nursery()


def _serve(control: socket.socket) -> list[str]:
    """Fork until nobody wants anything any more. Comes back in each child, with the module and its arguments."""
    # Ctrl-C at the tests: they end their processes themselves.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(waking)
    reports: dict[int, int] = {}
    while True:
        for ready in select.select([control.fileno(), woken], [], [])[0]:
            if ready == woken:
                os.read(woken, 512)
                _reap(reports)
                continue
            wish, handed, _, _ = socket.recv_fds(control, _LARGEST, 4)
            if not wish:
                raise SystemExit
            *standard, report = handed
            if pid := os.fork():
                reports[pid] = report
                os.write(report, _NUMBER.pack(pid))
                for descriptor in standard:
                    os.close(descriptor)
                continue
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _stand(standard)
            for descriptor in (control.detach(), woken, waking, *handed, *reports.values()):
                os.close(descriptor)
            arguments, environ = json.loads(wish)
            os.environ.clear()
            os.environ.update(environ)
            return list(arguments)


def _reap(reports: dict[int, int]) -> None:
    while reports:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        report = reports.pop(pid)
        with suppress(BrokenPipeError):  # nobody wants to know any more
            os.write(report, _NUMBER.pack(os.waitstatus_to_exitcode(status)))
        os.close(report)


def _stand(standard: list[int]) -> None:
    """Speak to these as one that was started would."""
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
    # Those of whoever forks may have been files, and not pipes as these.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115


def _main(control: int) -> NoReturn:
    garbage.loading()
    grpc_core.tell(os.environ, trusting=True)
    for name in ("governor.cli.main", "governor.cli.serve", "governor.client", "governor.daemon"):
        import_module(name)
    gc.freeze()
    module, *sys.argv[1:] = _serve(socket.socket(fileno=control))
    run_module(module, run_name="__main__", alter_sys=True)
    raise SystemExit


if __name__ == "__main__":
    _main(int(sys.argv[1]))
