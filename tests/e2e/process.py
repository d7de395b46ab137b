"""A daemon of its own process, as an operator would start it, and what it leaves behind when it ends."""

import atexit
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.nursery import NURSERY, Process, can_be

ROOT: Final = Path(__file__).resolve().parents[2]
# For everything that is waited for. What is right takes a hundredth of it, and on the busiest machine less.
BOUND: Final = 120.0

COMMAND: Final = (sys.executable, "-m", "governor.cli", "serve")

_INFO: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} INFO    \S")
_LISTENING: Final = re.compile(r"listening on (\S+) \(gRPC\)")
_HTTP: Final = re.compile(r"listening on https?://(\S+)")

# Of a page over TLS; whether a certificate is right is for the tests that are about that.
_TRUSTING: Final = ssl._create_unverified_context()  # noqa: S323 - as above

Metrics = dict[tuple[str, frozenset[tuple[str, str]]], float]


@dataclass(frozen=True)
class Ended:
    """How a daemon that did not start ended."""

    code: int
    stderr: str


class Daemon:
    """A running `governor serve`. Made by the ``daemon`` fixture, which also ends it and judges its log.

    ``forked``: from a process that has loaded all that it needs, if ``command`` can be. Else it loads all by itself.
    """

    def __init__(
        self,
        config: Path,
        state: Path,
        *,
        command: tuple[str, ...] = COMMAND,
        log_format: str = "text",
        forked: bool = False,
    ) -> None:
        self.config = config
        self.state = state
        told, tells = os.pipe()
        whole = [*command, "--config", str(config), "--state", str(state), "--log-format", log_format]
        self.process = _begin(whole, tells, forked=forked and can_be(command))
        # A test that fails may not come to the line that ends it.
        atexit.register(self.process.kill)
        self._stderr = told
        self._lines: list[str] = []
        self._expected: list[str] = []
        self._news = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process to send signals to."""
        return self.process.pid

    @property
    def log(self) -> str:
        """Everything it has said so far."""
        with self._news:
            return "".join(self._lines)

    # --- the start ------------------------------------------------------------------------------------------

    def wait_until_it_serves(self) -> None:
        """It has said where it listens, and is ready."""
        self.said(r"listening on https?://")
        until(lambda: self.page("/-/ready")[0] == 200, "it is ready")

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it listens for gRPC, in the order of its config, as gRPC clients take it."""
        return tuple(_LISTENING.findall(self.log))

    @property
    def address(self) -> str:
        """The first of them."""
        return self.addresses[0]

    @property
    def http(self) -> str:
        """Where its pages are, as host:port."""
        found = _HTTP.search(self.log)
        assert found is not None
        return found[1]

    # --- signals and the end --------------------------------------------------------------------------------

    def signal(self, number: signal.Signals) -> None:
        """Send it."""
        self.process.send_signal(number)

    def reload(self, text: str) -> None:
        """Another config in the place of its own, and SIGHUP: it does not see the one before it hears of the other.

        Else it would read twice, on a machine that keeps us from running in between.
        """
        self.signal(signal.SIGSTOP)
        new = self.config.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(self.config)
        self.signal(signal.SIGHUP)
        self.signal(signal.SIGCONT)

    def exit_code(self) -> int:
        """Wait for its end, which must come within the bound."""
        code = self.process.wait(BOUND)
        atexit.unregister(self.process.kill)
        self._reader.join(BOUND)
        return code

    def kill(self) -> None:
        """SIGKILL: no last word, and no blame for it."""
        self.process.kill()
        self.exit_code()

    def end(self) -> int:
        """SIGTERM, and once more for leases that are still held; its exit code."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
            self.said(r"SIGTERM: stopping")
            self.signal(signal.SIGTERM)
        return self.exit_code()

    # --- the log --------------------------------------------------------------------------------------------

    def said(self, pattern: str, times: int = 1) -> str:
        """Wait until a line of its log matches, for the ``times``-th time; that line."""
        matcher = re.compile(pattern)

        def found() -> list[str]:
            return [line for line in self._lines if matcher.search(line)]

        with self._news:
            self._news.wait_for(lambda: len(found()) >= times or self._ended, BOUND)
            lines = found()
            assert len(lines) >= times, f"it never said {pattern!r}:\n{''.join(self._lines)}"
            return lines[times - 1].rstrip("\n")

    def expect(self, pattern: str) -> None:
        """A warning or an error that this test is about; all others fail it."""
        self._expected.append(pattern)

    @property
    def blemishes(self) -> str:
        """What a daemon that works does not say: warnings, errors, tracebacks, lines of any other form."""
        with self._news:
            return "".join(
                line
                for line in self._lines
                if not _INFO.match(line) and not any(re.search(pattern, line) for pattern in self._expected)
            )

    def _read(self) -> None:
        with os.fdopen(self._stderr, encoding="utf-8") as stream:
            for line in stream:
                with self._news:
                    self._lines.append(line)
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    # --- its pages ------------------------------------------------------------------------------------------

    def page(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Status and body of one of its HTTP pages."""
        secure = "listening on https://" in self.log
        url = f"https://{self.http}{path}" if secure else f"http://{self.http}{path}"
        request = urllib.request.Request(url, headers=dict(headers or {}))  # noqa: S310  (as below)
        try:
            with urllib.request.urlopen(request, timeout=BOUND, context=_TRUSTING) as answer:  # noqa: S310  (our own)
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def metrics(self) -> Metrics:
        """Every sample of its metrics page, by name and labels."""
        status, text = self.page("/metrics")
        assert status == 200
        return _samples(text)

    def metric(self, name: str, **labels: str) -> float:
        """The one sample with this name and, among others, these labels."""
        status, text = self.page("/metrics")
        assert status == 200
        # Often asked until it changes: reading the other samples each time took more than all else of a test.
        its = "".join(line for line in text.splitlines(keepends=True) if line.startswith((f"{name}{{", f"{name} ")))
        found = [value for (_, pairs), value in _samples(its).items() if labels.items() <= dict(pairs).items()]
        assert len(found) == 1, f"{len(found)} samples are {name} with {labels}"
        return found[0]


def _samples(text: str) -> Metrics:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def serve_to_the_end(config: Path, state: Path) -> Ended:
    """`governor serve` for a start that fails."""
    daemon = Daemon(config, state, forked=True)
    try:
        return Ended(daemon.exit_code(), daemon.log)
    finally:
        daemon.kill()


def _begin(command: Sequence[str], stderr: int, *, forked: bool) -> "Process | subprocess.Popen[bytes]":
    """It has the descriptor for itself."""
    try:
        if forked:
            return NURSERY.begin(command, stderr)
        null = subprocess.DEVNULL
        return subprocess.Popen(command, stdin=null, stdout=null, stderr=stderr, cwd=ROOT)
    finally:
        os.close(stderr)


def is_running(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def until(condition: Callable[[], bool], what: str) -> None:
    """Look again and again, for a bounded time, until it holds."""
    end = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < end, f"it never came to pass that {what}"
        time.sleep(0.005)
