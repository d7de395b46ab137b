"""What tests start does not outlive them, however they end."""

import subprocess
import sys

from tests.e2e.process import BOUND, ROOT, is_running, until

# A test that fails before the line that would have ended its daemon.
FAILS = """
import pathlib
from tests.e2e.process import Daemon
print(Daemon(pathlib.Path("/"), pathlib.Path("/"), command=("sh", "-c", "exec sleep 600")).pid, flush=True)
raise SystemExit("it failed")
"""


def test_a_daemon_that_nobody_ended_ends_with_whoever_started_it() -> None:
    """Else it would stand in the way of others, for as long as the machine runs."""
    run = subprocess.run(
        [sys.executable, "-c", FAILS], cwd=ROOT, capture_output=True, text=True, timeout=BOUND, check=False
    )

    assert run.stderr == "it failed\n"
    until(lambda: not is_running(int(run.stdout)), "the daemon has ended")
