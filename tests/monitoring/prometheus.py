"""A real Prometheus of a test: begun with its scrape config, asked once it is ready, and ended."""

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

from tests.e2e.process import BOUND, until
from tests.monitoring.boards import Json, at


@contextmanager
def scraping(program: str, folder: Path, config: str, *flags: str) -> Iterator[str]:
    """Where it answers. It listens long before it answers queries: until it is ready they are met with 503."""
    (folder / "prometheus.yaml").write_text(config, encoding="utf-8")
    said = folder / "prometheus.log"
    command = [
        program,
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--web.listen-address=127.0.0.1:0",
        "--log.format=json",
        *flags,
    ]
    with (
        said.open("wb") as log,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process,
    ):
        try:
            until(lambda: process.poll() is not None or _ready(said), "Prometheus is ready")
            assert process.poll() is None, f"Prometheus has ended:\n{said.read_text(encoding='utf-8')}"
            yield _listening(said)
        finally:
            process.kill()


def data(address: str, path: str, **parameters: str | float) -> Json:
    """What it answers a query of its API."""
    url = f"http://{address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=BOUND) as answer:
        return at(json.loads(answer.read()), "data")


def _ready(said: Path) -> bool:
    address = _listening(said)
    if not address:
        return False
    try:
        with urllib.request.urlopen(f"http://{address}/-/ready", timeout=BOUND) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except urllib.error.HTTPError as not_yet:
        with not_yet:
            return False


def _listening(said: Path) -> str:
    """What it has said of where; empty before."""
    *whole, _ = said.read_text(encoding="utf-8").split("\n")
    lines = [json.loads(line) for line in whole]
    return next((str(line["address"]) for line in lines if line.get("msg") == "Listening on"), "")
