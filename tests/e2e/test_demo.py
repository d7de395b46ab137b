"""`make demo`: what it shows is true, and it leaves nothing behind."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.process import is_running

ROOT = Path(__file__).resolve().parent.parent.parent
DEMO = ROOT / "config" / "examples" / "demo.py"
BOUND = 50


@contextmanager
def demo(scratch: Path) -> Iterator[subprocess.Popen[str]]:
    """The demo, its temporary folders in ``scratch``."""
    with subprocess.Popen(
        [sys.executable, str(DEMO)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT)},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_demo_shows_what_it_claims(tmp_path: Path) -> None:
    """All scenes, the death of a holder among them; no colours where nobody sees them; no process, no folder left."""
    with demo(tmp_path) as process:
        out, err = process.communicate(timeout=BOUND)
    daemon = re.search(r"pid (\d+)", out)

    assert process.returncode == 0, f"{out}\n{err}"
    # What `governor release` says of the lease of the dead; no client had anything to complain about.
    assert re.fullmatch(r"governor: lease \d+: expired \S+ ago.*\n", err)
    assert out.count("  ok  ") == 12
    assert "\x1b" not in out
    assert daemon is not None
    assert not is_running(int(daemon[1]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_stopped_clears_the_stage(tmp_path: Path, number: signal.Signals) -> None:
    """As soon as the first client has something, with nothing left behind, and quietly."""
    with demo(tmp_path) as process:
        assert process.stdout is not None
        daemon = 0
        for line in process.stdout:
            if match := re.search(r"pid (\d+)", line):
                daemon = int(match[1])
            if "worker-" in line:
                break
        process.send_signal(number)
        _, err = process.communicate(timeout=BOUND)

    assert (process.returncode, err) == (130, "")
    assert daemon
    assert not is_running(daemon)
    assert list(tmp_path.iterdir()) == []
