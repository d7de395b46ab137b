"""A daemon, a sample load and a Prometheus that watches it, started and ended together.

It knows in which order they start, where each is, and how to end them all. It must never know what a metric means.
Each writes its log into the folder, where the config and all state are as well, so that nothing else is touched.
"""

import os
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

HERE: Final = Path(__file__).parent
PROMETHEUS: Final = "prometheus"
# For a start; what is right takes far less, also on a busy machine.
_START_S: Final = 30.0
_END_S: Final = 10.0

_CONFIG: Final = """\
global: {{scrape_interval: {interval}, evaluation_interval: {interval}}}
rule_files: ["{rules}/*.yaml"]
scrape_configs:
  - job_name: governor
    static_configs: [{{targets: ["{http}"]}}]
"""
_VEILED: Final = """\
    scheme: https
    tls_config: {{ca_file: {ca}}}
"""


class TogetherError(Exception):
    """One of them could not be started, or has ended: which, and the last it said."""


@dataclass(frozen=True)
class Veil:
    """The files by which the pages of the daemon speak TLS, and whom Prometheus trusts to say that it is the daemon."""

    cert: Path
    key: Path
    ca: Path


@dataclass(frozen=True)
class Places:
    """Where each is: a folder for all, and host:port of what listens. ``interval``: from scrape to scrape.

    ``veil``: None for pages in the clear.
    """

    folder: Path
    grpc: str = "127.0.0.1:7411"
    http: str = "127.0.0.1:7412"
    prometheus: str = "127.0.0.1:9097"
    interval: str = "5s"
    veil: Veil | None = None


@dataclass
class Together:
    """All of them, from the beginning of a `with` block to its end."""

    places: Places
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def __enter__(self) -> Self:
        try:
            self._start_all()
        except BaseException:
            self._end_all()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_all()

    def start_prometheus(self, name: str, address: str, **options: str) -> None:
        """One that scrapes the daemon, with a database of its own; ``options`` as on its command line."""
        program = shutil.which(PROMETHEUS)
        if program is None:
            raise TogetherError(f"there is no `{PROMETHEUS}` on PATH; on Debian: apt-get install prometheus")
        told = {
            "config.file": str(self.places.folder / "prometheus.yaml"),
            "storage.tsdb.path": str(self.places.folder / name),
            "storage.tsdb.retention.time": "1d",
            "web.listen-address": address,
            **{option.replace("_", "-"): value for option, value in options.items()},
        }
        self._start(name, [program, *(f"--{option}={value}" for option, value in told.items())])
        self._wait_for(name, f"http://{address}/-/ready")

    def restart_daemon(self) -> None:
        """In good order, with the same addresses and state."""
        self._end("daemon")
        self._start_daemon()

    def check(self) -> None:
        """Raises `TogetherError` if any of them has ended."""
        for name, process in self.running.items():
            if process.poll() is not None:
                raise TogetherError(self._why(name, process))

    # --- each of them ---------------------------------------------------------------------------------------

    def _start_all(self) -> None:
        self._look_at_ports()
        folder = self.places.folder
        folder.mkdir(parents=True, exist_ok=True)
        sample = (HERE / "sample.yaml").read_text(encoding="utf-8")
        sample = sample.replace("127.0.0.1:7411", self.places.grpc)
        sample = sample.replace("http: 127.0.0.1:7412", self._pages())
        (folder / "governor.yaml").write_text(sample, encoding="utf-8")
        self._start_daemon()
        self._start("load", [sys.executable, "-m", "deploy.monitoring.load", self.places.grpc])
        config = _CONFIG.format(interval=self.places.interval, rules=HERE / "rules", http=self.places.http)
        if self.places.veil is not None:
            config += _VEILED.format(ca=self.places.veil.ca)
        (folder / "prometheus.yaml").write_text(config, encoding="utf-8")
        self.start_prometheus("prometheus", self.places.prometheus)

    def _look_at_ports(self) -> None:
        """Whoever listens there already would answer in the place of what is about to be started."""
        places = self.places
        for option, address in (("grpc", places.grpc), ("http", places.http), ("prometheus", places.prometheus)):
            host, _, port = address.rpartition(":")
            host = host.strip("[]")
            try:
                with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind((host, int(port)))
            except OSError as error:
                other = f"another: {this_python()} -m deploy.monitoring --{option} HOST:PORT"
                raise TogetherError(f"nothing was started: {address}: {error.strerror}; {other}") from error

    def _pages(self) -> str:
        places = self.places
        if places.veil is None:
            return f"http: {places.http}"
        return f"http: tls://{places.http}\ntls: {{cert: {places.veil.cert}, key: {places.veil.key}}}"

    def _start_daemon(self) -> None:
        command = [sys.executable, "-m", "governor.cli", "serve", "--config", str(self.places.folder / "governor.yaml")]
        self._start("daemon", command)
        scheme = "http" if self.places.veil is None else "https"
        self._wait_for("daemon", f"{scheme}://{self.places.http}/-/ready")

    def _start(self, name: str, command: list[str]) -> None:
        with self._log(name).open("ab") as log:
            # In a session of its own: a Ctrl-C at the terminal is for us, and we end them in order.
            self.running[name] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=HERE.parents[1], env=_environ(),
                start_new_session=True,
            )  # fmt: skip

    def _wait_for(self, name: str, url: str) -> None:
        end = time.monotonic() + _START_S
        trusting = None if self.places.veil is None else ssl.create_default_context(cafile=self.places.veil.ca)
        # No proxy of the environment leads here.
        ask = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusting)
        )
        while True:
            self.check()
            try:
                with ask.open(url, timeout=1):
                    return
            except OSError as error:
                if isinstance(error, urllib.error.HTTPError):
                    error.close()  # it listens, and does not answer yet
                if time.monotonic() > end:
                    raise TogetherError(self._why(name, self.running[name])) from None
            time.sleep(0.05)

    def _end_all(self) -> None:
        for name in reversed(list(self.running)):
            self._end(name)

    def _end(self, name: str) -> None:
        process = self.running.pop(name)
        assert process.stdin is not None
        process.stdin.close()  # a load ends with it
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _log(self, name: str) -> Path:
        return self.places.folder / f"{name}.log"

    def _why(self, name: str, process: "subprocess.Popen[bytes]") -> str:
        lines = self._log(name).read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
        how = "does not answer" if process.poll() is None else f"has ended with {process.poll()}"
        return "\n".join([f"the {name} {how}; its log, {self._log(name)}, ends with:", *lines])


def this_python() -> str:
    """As it is called from here: a command with it works whatever environment is active in somebody's shell."""
    program, here = Path(sys.executable), Path.cwd()
    return shlex.quote(str(program.relative_to(here) if program.is_relative_to(here) else program))


def _environ() -> Mapping[str, str]:
    """Modules of this checkout come first, also where another is installed."""
    path = [str(HERE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
