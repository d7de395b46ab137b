"""Scene: one daemon after the other on one state, programs that borrow from them, and what those wrote down.

It knows processes. It must never know why one is killed, nor judge anything but that the last daemon ends as it should.
"""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, Self

from tests.e2e.client import Client
from tests.e2e.process import BOUND, ROOT, Daemon, until
from tests.faults.declared import BOUNDS, YAML
from tests.history.log import Declared, History, read
from tests.proxy import Proxy

# What daemons are started as, if not otherwise said.
SPARE: Final = "tests.faults.spare"
HEAD: Final = """\
listen: [unix:{folder}/socket]
http: 127.0.0.1:0
drain_timeout: 100ms
"""
# The programs: what each is started as, and how.
PROGRAMS: Final = (
    ("threads", ("tests.faults.program", "threads")),
    ("tasks", ("tests.faults.program", "tasks")),
    ("calls", ("tests.faults.caller",)),
)
# Whatever a daemon says besides information while it is treated like this.
_USUAL: Final = (r"WARNING .*leases? (is|are) still held", r"WARNING .*paus")


class Scene:
    """In one folder, whose name must be short.

    ``head``: lines of the config before what is declared. ``module``: the daemon, as a `spare`.
    """

    def __init__(self, folder: Path, seed: int, *, head: str = "", module: str = SPARE) -> None:
        self.folder: Final = folder
        self.state: Final = folder / "state"
        self.chance: Final = Random(seed)
        self.daemons: list[Daemon] = []
        self.programs: list[subprocess.Popen[bytes]] = []
        self._seed = seed
        self._module = module
        # The next daemon, loaded, and what it waits for.
        self._spare: tuple[Daemon, Path] | None = None
        self._spares = 0
        self._stack = ExitStack()
        self._socket = f"unix:{folder}/socket"
        self._config = folder / "governor.yaml"
        self._config.write_text(HEAD.format(folder=folder) + head + YAML, encoding="utf-8")
        self.state.mkdir(exist_ok=True)
        self.proxy = Proxy(self._socket)

    def __enter__(self) -> Self:
        try:
            self._stack.enter_context(self.proxy)
            self._stack.callback(self._kill_all)
            self.start()
            self.serves()
            for name, program in PROGRAMS:
                self._program(name, program)
            # All of them are at work before anything breaks.
            until(lambda: all(self._diary(name).exists() for name, _ in PROGRAMS), "every program has begun")
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # --- the daemon -----------------------------------------------------------------------------------------------

    @property
    def daemon(self) -> Daemon:
        """The one that runs, or did last."""
        return self.daemons[-1]

    def kill(self) -> None:
        """SIGKILL, when the next daemon stands ready: what nobody has missed yet can still be found forgotten."""
        if self._spare is not None:
            gate = self._spare[1]
            until(gate.with_suffix(".ready").exists, "the next daemon is loaded")
        self.daemon.kill()

    def start(self) -> None:
        """Another daemon, where the last one was."""
        daemon, gate = self._spare or self._prepare()
        until(lambda: _opened(gate), "the next daemon is loaded")
        self.daemons.append(daemon)
        self._spare = self._prepare()

    def _prepare(self) -> tuple[Daemon, Path]:
        self._spares += 1
        gate = self.folder / f"gate-{self._spares}"
        os.mkfifo(gate)
        command = (sys.executable, "-m", self._module, str(gate))
        return Daemon(self._config, self.state, command=command, forked=True), gate

    def serves(self) -> None:
        """It has begun to."""
        self.daemon.wait_until_it_serves()

    def serves_or_ends(self) -> bool:
        """Whether it has begun to; it may end instead."""
        daemon = self.daemon
        until(lambda: daemon.process.poll() is not None or "listening on http" in daemon.log, "it serves, or ends")
        if daemon.process.poll() is None:
            self.serves()
        return daemon.process.poll() is None

    def sleep(self, least: float, most: float) -> float:
        """For a while between these, in seconds; for how long it was."""
        length = self.chance.uniform(least, most)
        time.sleep(length)
        return length

    # --- the programs ---------------------------------------------------------------------------------------------

    def _program(self, name: str, module: tuple[str, ...]) -> None:
        # Single calls go past the proxy's rules; but it cuts their connections as well.
        arguments = [*module[1:], self.proxy.address, name, str(self._diary(name)), f"{self._seed}-{name}"]
        with (self.folder / f"{name}.err").open("wb") as errors:
            self.programs.append(
                subprocess.Popen([sys.executable, "-m", module[0], *arguments], stderr=errors, cwd=ROOT)
            )

    def at_work(self) -> None:
        """From now on every program is granted something yet: whatever befell them is over."""
        granted = self.told("granted")
        for name, _ in PROGRAMS:
            until(partial(granted, name), f"{name} is granted something again")

    def told(self, result: str) -> Callable[[str], bool]:
        """Tells of a program, by its name, whether it had this answer since now."""
        since = {name: self._diary(name).stat().st_size for name, _ in PROGRAMS}

        def had(name: str) -> bool:
            with self._diary(name).open("rb") as diary:
                diary.seek(since[name])
                return f'"{result}"'.encode() in diary.read()

        return had

    def _diary(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    # --- the end --------------------------------------------------------------------------------------------------

    def finish(self) -> list[str]:
        """Everybody ends; what is wrong with how they did."""
        wrong: list[str] = []
        for program in self.programs:
            program.send_signal(signal.SIGTERM)
        for (name, _), program in zip(PROGRAMS, self.programs, strict=True):
            try:
                code = program.wait(BOUND)
            except subprocess.TimeoutExpired:
                wrong.append(f"{name}: did not end within {BOUND:g} s")
                continue
            if said := (self.folder / f"{name}.err").read_text(encoding="utf-8"):
                wrong.append(f"{name}: {said}")
            elif code:
                wrong.append(f"{name}: ended with {code}")
        with Client(self._socket) as client:
            try:
                until(client.idle, "nothing is in use and nobody waits")
            except AssertionError:
                wrong.append(f"I10: something is left: {client.resources()}")
        if code := self.daemon.end():
            wrong.append(f"the daemon ended with {code}")
        return wrong

    def blemishes(self, expected: Sequence[str]) -> list[str]:
        """What the daemons said that they should not have said."""
        said = []
        for daemon in self.daemons:
            for pattern in (*_USUAL, *expected):
                daemon.expect(pattern)
            if blemishes := daemon.blemishes:
                said.append(f"a daemon said: {blemishes}")
        return said

    def history(self) -> History:
        """All that the programs wrote down."""
        history = History(declared=[Declared(BOUNDS)])
        for name, _ in PROGRAMS:
            with self._diary(name).open(encoding="utf-8") as lines:
                history.calls += read(lines)
        return history

    def keep(self) -> None:
        """For whoever looks into it later: also what the daemons said."""
        for number, daemon in enumerate(self.daemons):
            (self.folder / f"daemon-{number:03}.log").write_text(daemon.log, encoding="utf-8")

    def _kill_all(self) -> None:
        for program in self.programs:
            with suppress(ProcessLookupError):
                program.kill()
            program.wait(BOUND)
        for daemon in [*self.daemons, *([self._spare[0]] if self._spare else [])]:
            daemon.kill()


def _opened(gate: Path) -> bool:
    """Whether somebody waited behind it."""
    try:
        os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return False
    return True
