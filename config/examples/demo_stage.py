"""The stage of `make demo`: a daemon, clients as processes of their own, and everything that they say.

It knows processes and the terminal. It must never know what is played on it: that is demo.py.
"""

import functools
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, TypeVar

import grpc

from governor.v1 import governor_pb2 as pb
from governor.v1.governor_pb2_grpc import GovernorStub

Told = TypeVar("Told")

HERE: Final = Path(__file__).resolve().parent
GOVERNOR: Final = (sys.executable, "-m", "governor.cli")
# More than anything here takes; reached only if something is broken.
PATIENCE: Final = 15.0
LOG_PREFIX: Final = re.compile(r"^[-\d]+ [:.\d]+ INFO +")
LISTENING: Final = re.compile(r"listening on (?:(?P<grpc>\S+) \(gRPC\)|http://(?P<http>\S+))")

STYLED: Final = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
BOLD, DIM, GREEN = "1", "2", "32"
COLOURS: Final = ("36", "33", "35", "34")


def folded(text: str, indent: int) -> str:
    """On a terminal in as many lines as it takes, the first of which begins at ``indent``; no word is cut."""
    if not sys.stdout.isatty():
        return text
    lines = textwrap.wrap(text, max(20, shutil.get_terminal_size().columns - indent), break_long_words=False)
    return f"\n{' ' * indent}".join(lines)


class DemoError(Exception):
    """Something that was claimed did not happen."""


@dataclass(slots=True, frozen=True)
class Event:
    """What a client told; ``at`` is in seconds of the monotonic clock that all processes share."""

    at: float
    who: str
    what: str
    resource: str
    lease: int = 0
    waited: float = 0.0
    member: str = ""

    def __str__(self) -> str:
        thing = self.member or self.resource
        match self.what:
            case "granted":
                waited = f", after {self.waited:.2f}s in line" if self.waited else ""
                return f"has {thing} (lease {self.lease}{waited})"
            case "releases":
                return f"gives {thing} back"
            case other:
                return f"{other} {thing}"


class Stage:
    """A daemon that listens, and room for clients. ``ends`` clears it, however the play ends."""

    def __init__(self, ends: ExitStack) -> None:
        self._ends = ends
        self._start = self._shown = time.monotonic()
        self._told: queue.Queue[Event | str] = queue.Queue()
        self._clients: dict[str, subprocess.Popen[str]] = {}
        self.address, self.http = self._serve()
        self._stub = GovernorStub(ends.enter_context(grpc.insecure_channel(self.address)))

    def _serve(self) -> tuple[str, str]:
        """Where gRPC and the metrics are served: the ports are free ones, and the daemon says which."""
        state = self._ends.enter_context(tempfile.TemporaryDirectory(prefix="governor-demo-"))
        self.say("demo", "$ governor serve --config demo.yaml")
        daemon = self._spawn(
            *(*GOVERNOR, "serve", "--config", str(HERE / "demo.yaml"), "--state", state, "--log-format", "text"),
            stderr=subprocess.STDOUT,
        )
        lines: queue.Queue[str] = queue.Queue()
        follow(daemon.stdout, lines.put)
        found: dict[str, str] = {}
        while len(found) < LISTENING.groups:
            line = waited_for(lines)
            if not line:
                raise DemoError("the daemon did not start")
            self.say("daemon", LOG_PREFIX.sub("", line))
            if match := LISTENING.search(line):
                found |= {key: where for key, where in match.groupdict().items() if where}
        return found["grpc"], found["http"]

    def enter(self, part: str, *names: str) -> None:
        """Start clients, and let them begin once all are ready."""
        for who in names:
            client = self._spawn(sys.executable, str(HERE / "demo_client.py"), self.address, who, part)
            self._clients[who] = client
            follow(client.stdout, functools.partial(self._hear, who))
        missing = set(names)
        for event in self.events():
            if event.what == "ready":
                missing.discard(event.who)
            if not missing:
                break
        for who in names:
            self.cue(who)

    def _hear(self, who: str, line: str) -> None:
        """The empty line at the end says that this client has nothing more to tell."""
        self._told.put(Event(**json.loads(line)) if line else who)

    def leave(self, who: str) -> None:
        """Wait for a client that has told everything; it must have ended well."""
        if code := self._clients.pop(who).wait(PATIENCE):
            raise DemoError(f"{who} ended with exit code {code}")

    def cue(self, who: str) -> None:
        """Tell a client that waits for a line on its stdin to go on."""
        stdin = self._clients[who].stdin
        assert stdin is not None
        print(file=stdin, flush=True)

    def kill(self, who: str) -> float:
        """End a client as the kernel does when memory runs short: it cannot say goodbye. Gives the instant."""
        client = self._clients.pop(who)
        client.send_signal(signal.SIGKILL)
        client.wait(PATIENCE)
        # Not before: until then it may still have said something.
        at = time.monotonic()
        others = []
        while (told := waited_for(self._told)) != who:
            if isinstance(told, Event) and told.who == who:
                self._show(told)
            else:
                others.append(told)
        for told in others:
            self._told.put(told)
        self.say("demo", f"$ kill -KILL {who}", at=at)
        return at

    def events(self) -> Iterator[Event]:
        """What the clients tell, each shown as it comes, until all of them have ended."""
        while self._clients:
            told = waited_for(self._told)
            if isinstance(told, Event):
                self._show(told)
                yield told
            elif told in self._clients:
                self.leave(told)

    def _show(self, event: Event) -> None:
        if event.what not in {"ready", "asks"}:
            self.say(event.who, str(event), at=event.at)

    def until(self, what: str, who: str) -> Event:
        """Go on until a client has told this."""
        for event in self.events():
            if (event.what, event.who) == (what, who):
                return event
        raise DemoError(f"{who} never said: {what}")

    def resources(self) -> dict[str, pb.Resource]:
        """The resources as they are now, by name."""
        listed = self._stub.ListResources(pb.ListResourcesRequest(), timeout=PATIENCE)
        return {resource.name: resource for resource in listed.resources}

    def line_of(self, name: str, waiters: int) -> None:
        """Wait until so many stand in line."""
        late = time.monotonic() + PATIENCE
        while self.resources()[name].waiters != waiters:
            if time.monotonic() > late:
                raise DemoError(f"the line of {name} never had {waiters} in it")
            time.sleep(0.01)

    # --- the terminal ---------------------------------------------------------------------------------------

    def title(self, text: str) -> None:
        """The next scene."""
        print(f"\n{styled(text, BOLD)}", flush=True)

    def say(self, who: str, text: str, *, at: float | None = None) -> None:
        """A line of the play."""
        # What two processes tell in the same instant arrives in any order; the times that are read go forward.
        self._shown = max(self._shown, time.monotonic() if at is None else at)
        seconds = self._shown - self._start
        colour = {"daemon": DIM, "demo": BOLD}.get(who) or COLOURS[int(who[-1]) % len(COLOURS)]
        print(f"{seconds:6.2f}s  {styled(f'{who:<10}', colour)}  {folded(text, 21)}", flush=True)

    def claim(self, text: str, *, holds: bool) -> None:
        """What the reader should have seen; it had better be so."""
        if not holds:
            raise DemoError(f"this does not hold: {text}")
        print(f"         {styled('ok', GREEN)}  {folded(text, 13)}", flush=True)

    def governor(self, *arguments: str) -> int:
        """A command of governor's own, as one would type it; gives its exit code."""
        self.say("demo", f"$ governor {' '.join(arguments)}")
        command = (*GOVERNOR, "--address", self.address, *arguments)
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False)  # noqa: S603
        return ended.returncode

    def _spawn(self, *command: str, stderr: int | None = None) -> "subprocess.Popen[str]":
        """A process out of the reach of Ctrl-C, which ends with the play instead."""
        process = subprocess.Popen(  # noqa: S603 - the programs of this folder
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
        self._ends.callback(end, process)
        return process


def waited_for(told: "queue.Queue[Told]") -> Told:
    """The next of them; it is late only if something is broken."""
    try:
        return told.get(timeout=PATIENCE)
    except queue.Empty:
        raise DemoError(f"nothing happened for {PATIENCE:g}s") from None


def end(process: "subprocess.Popen[str]") -> None:
    """Ask a process to end, and see to it."""
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def follow(stream: IO[str] | None, tell: Callable[[str], None]) -> None:
    """Tell each line of a stream as it comes, and an empty one at the end."""
    assert stream is not None

    def read() -> None:
        with stream:
            for line in stream:
                tell(line.rstrip("\n"))
        tell("")

    threading.Thread(target=read, daemon=True).start()


def styled(text: str, code: str) -> str:
    """Coloured, on a terminal that has nothing against it."""
    return f"\x1b[{code}m{text}\x1b[0m" if STYLED else text
