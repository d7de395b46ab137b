"""How long a changed config takes to be in force by itself, for each way in which a file changes.

It knows when the file was written, and when the daemon says that it has it. It must never ask the daemon to look.
"""

import hashlib
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from governor.v1 import governor_pb2 as pb
from tests.bench.figures import Figure, Report
from tests.e2e.client import Client
from tests.e2e.files import WAYS, File
from tests.e2e.process import BOUND, Daemon

_CHANGES: Final = 10  # of each way
_TARGET: Final = 2.0  # seconds
_LOOK: Final = 0.002  # seconds


def run(report: Report) -> None:
    """Measure all of it."""
    report.section(f"reload (of a watched config, changed {_CHANGES} times in each way, until it is in force)")
    slowest: list[float] = []
    for way in WAYS:
        took = _changes(way)
        slowest.append(max(took))
        name = f"{way.__name__}, median"
        report.add(Figure(name, statistics.median(took), "s", at_most=_TARGET, note=f"slowest {max(took):.2f}"))
        report.details[f"seconds until a change by {way.__name__} is in force"] = took
    report.add(Figure("the slowest of all", max(slowest), "s", at_most=_TARGET))


def _changes(way: Callable[[Path], File]) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="governor-") as name:
        folder = Path(name)
        file = way(folder / "conf")
        file.path.write_text(_text(folder, 1))
        daemon = Daemon(file.path, folder / "state")
        try:
            daemon.wait_until_it_serves()
            with Client(f"unix:{folder}/socket") as client:
                return [_change(client, file, _text(folder, number)) for number in range(2, _CHANGES + 2)]
        finally:
            daemon.end()


def _change(client: Client, file: File, text: str) -> float:
    """Seconds."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    file.write(text)
    # A writer has done what is asked of him when all of it is there.
    began = time.monotonic()
    while client.stub.ListResources(pb.ListResourcesRequest(), timeout=BOUND).config.hash != digest:
        assert time.monotonic() - began < BOUND, f"a change by {type(file).__name__} is not in force"
        time.sleep(_LOOK)
    return time.monotonic() - began


def _text(folder: Path, number: int) -> str:
    # Of one length, since `SameStamp` is about files that differ in nothing else.
    return f"listen: [unix:{folder}/socket]\nhttp: 127.0.0.1:0\nsemaphores: {{one: {{permits: {100 + number}}}}}\n"
