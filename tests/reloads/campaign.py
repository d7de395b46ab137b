"""Campaign: one daemon under the load of several programs, some reloads in a row, and what is wrong in the end.

It knows the order of things, and which declarations may have been in force when. It must never judge what was granted.
"""

import hashlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from governor.v1 import admin_pb2
from governor.v1 import governor_pb2 as pb
from governor.v1.admin_pb2_grpc import AdminStub
from tests.e2e.client import Client
from tests.e2e.process import BOUND, COMMAND, ROOT, Daemon, until
from tests.faults.scene import HEAD, PROGRAMS
from tests.history.check import check
from tests.history.log import NEVER, Bound, Declared, History, Nanos, read
from tests.reloads.ways import AnyWay
from tests.reloads.worlds import World, Worlds, world

KEPT: Final = ROOT / "build" / "reloads"

_PROGRAMS: Final = (*PROGRAMS, ("spender", ("tests.reloads.spender",)))
# How the daemon hears of a change: by itself, or at once as well, by a signal or a call.
_WATCH, _SIGNAL, _CALL = "watch", "signal", "call"


@dataclass
class Outcome:
    """What became of it. ``latest`` is how long each change by watch took to be in force, in nanoseconds."""

    problems: list[str] = field(default_factory=list)
    history: History = field(default_factory=History)
    reloads: int = 0
    refused: int = 0
    ways: dict[str, int] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    latencies: list[Nanos] = field(default_factory=list)
    kept: Path | None = None


class Scene:
    """A daemon and its operator."""

    def __init__(self, folder: Path, seed: int, outcome: Outcome, command: tuple[str, ...], worlds: Worlds) -> None:
        self.folder = folder
        self._worlds = worlds
        self._chance = Random(seed)
        self._outcome = outcome
        self._file = AnyWay(folder / "conf", self._chance)
        self._number = 0
        first = World("semaphores: {one: {permits: 1}}\n", {"one": Bound(1)})
        self._file.path.write_text(self._text(first))
        # What is in force, from when on, and the hash of it.
        self._in_force: tuple[dict[str, Bound], Nanos] = ({"one": Bound(1)}, 0)
        self.daemon = Daemon(self._file.path, folder / "state", command=command)
        self.socket = f"unix:{folder}/socket"

    def _text(self, new: World) -> str:
        return HEAD.format(folder=self.folder) + new.text

    def reload(self, client: Client) -> None:
        """Another world, in any way; when this returns it is in force, or refused."""
        self._number += 1
        new = self._worlds(self._chance, self._number, self._in_force[0])
        text = self._text(new)
        digest = hashlib.sha256(text.encode()).hexdigest()
        how = self._chance.choice((_WATCH, _WATCH, _SIGNAL, _CALL))
        before = client.stub.ListResources(pb.ListResourcesRequest(), timeout=BOUND).config.refused_at
        begun = time.monotonic_ns()
        self._file.write(text)
        if how == _SIGNAL:
            self.daemon.signal(signal.SIGHUP)
        elif how == _CALL:
            AdminStub(client.channel).Reload(admin_pb2.ReloadRequest(), timeout=BOUND)

        def over() -> bool:
            config = client.stub.ListResources(pb.ListResourcesRequest(), timeout=BOUND).config
            return config.hash == digest or (bool(config.problems) and config.refused_at != before)

        until(over, f"reload {self._number} is over")
        self._over(new, digest, begun, client)
        if how == _WATCH:
            self._outcome.latencies.append(time.monotonic_ns() - begun)

    def _over(self, new: World, digest: str, begun: Nanos, client: Client) -> None:
        now = time.monotonic_ns()
        outcome = self._outcome
        config = client.stub.ListResources(pb.ListResourcesRequest(), timeout=BOUND).config
        if config.hash != digest:
            outcome.refused += 1
            if new.bounds is not None and not any("cannot become" in problem for problem in config.problems):
                outcome.problems.append(f"reload {self._number} was refused: {config.problems}\n{new.text}")
            return
        if new.bounds is None:
            outcome.problems.append(f"reload {self._number} is in force: {new.text}")
            return
        outcome.reloads += 1
        bounds, since = self._in_force
        outcome.history.declared.append(Declared(bounds, since, now))
        self._in_force = (new.bounds, begun)

    def finish(self) -> None:
        """The last declaration holds until the end."""
        bounds, since = self._in_force
        self._outcome.history.declared.append(Declared(bounds, since, NEVER))
        self._outcome.ways = self._file.used


def run(
    seed: int, reloads: int, *, worlds: Worlds = world, command: tuple[str, ...] = COMMAND, keep: bool = True
) -> Outcome:
    """So many reloads of the daemon that is started so, each to another of the ``worlds``; what is wrong with them."""
    outcome = Outcome()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="governor-")))
        scene = Scene(folder, seed, outcome, command, worlds)
        stack.callback(scene.daemon.kill)
        scene.daemon.wait_until_it_serves()
        programs = [_program(folder, scene.socket, name, module, seed) for name, module in _PROGRAMS]
        for program in programs:
            stack.callback(program.wait)
            stack.callback(program.kill)
        try:
            until(lambda: all(_diary(folder, name).exists() for name, _ in _PROGRAMS), "every program has begun")
            with Client(scene.socket) as client:
                for _ in range(reloads):
                    scene.reload(client)
                _end(folder, programs, client, outcome)
        except AssertionError as error:
            outcome.problems.append(f"it did not come to its end: {error}")
        scene.finish()
        _judge(folder, scene.daemon, outcome)
        if outcome.problems and keep:
            (folder / "daemon.log").write_text(scene.daemon.log, encoding="utf-8")
            outcome.kept = _keep(folder, seed, outcome.problems)
    return outcome


def _program(folder: Path, socket: str, name: str, module: Sequence[str], seed: int) -> "subprocess.Popen[bytes]":
    arguments = [*module[1:], socket, name, str(_diary(folder, name)), f"{seed}-{name}"]
    with (folder / f"{name}.err").open("wb") as errors:
        return subprocess.Popen([sys.executable, "-m", module[0], *arguments], stderr=errors, cwd=ROOT)


def _diary(folder: Path, name: str) -> Path:
    return folder / f"{name}.jsonl"


def _end(folder: Path, programs: "Sequence[subprocess.Popen[bytes]]", client: Client, outcome: Outcome) -> None:
    for program in programs:
        program.send_signal(signal.SIGTERM)
    for (name, _), program in zip(_PROGRAMS, programs, strict=True):
        code = program.wait(BOUND)
        said = (folder / f"{name}.err").read_text(encoding="utf-8")
        if code or said:
            outcome.problems.append(f"{name}: ended with {code}: {said}")
    until(client.idle, "nothing is in use and nobody waits")


def _judge(folder: Path, daemon: Daemon, outcome: Outcome) -> None:
    history = outcome.history
    for name, _ in _PROGRAMS:
        with _diary(folder, name).open(encoding="utf-8") as lines:
            history.calls += read(lines)
    outcome.problems += check(history)
    # Nothing is broken here but the config, so whoever asks is answered within its wait; unless the machine had so much
    # else to do that the daemon did not run, and its clients gave up.
    if "did not run for" not in daemon.log:
        lost = [call for call in history.calls if call.verb == "acquire" and call.answered is None]
        outcome.problems += [f"I3: never answered: {call}" for call in lost]
    if code := daemon.end():
        outcome.problems.append(f"the daemon ended with {code}")
    told = daemon.log.count("reload refused: ")
    refusals = daemon.log.count("ERROR")
    if told != refusals:
        outcome.problems.append(f"it has said something else than {told} refusals: {daemon.log}")
    for call in history.calls:
        outcome.seen[call.result] = outcome.seen.get(call.result, 0) + 1


def _keep(folder: Path, seed: int, problems: list[str]) -> Path:
    kept = KEPT / str(seed)
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(folder, kept, symlinks=True, ignore=shutil.ignore_patterns("socket"))
    (kept / "problems.txt").write_text("\n".join(problems) + "\n", encoding="utf-8")
    return kept
