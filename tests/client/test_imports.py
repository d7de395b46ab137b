"""What a program that only imports the client must have installed, and what it loads of governor."""

import os
import subprocess
import sys
from pathlib import Path

from tests.e2e.client import Client as Raw
from tests.e2e.process import BOUND, ROOT, Daemon

YAML = "semaphores: {one: {permits: 1}}\n"


def test_the_client_needs_little_and_loads_nothing_of_the_server(daemon: Daemon, me: Raw) -> None:
    """It works where nothing else is installed, in a process that begins there, and with no argument at all."""
    run = subprocess.run(
        [sys.executable, Path(__file__).with_name("bare.py")],
        env={**os.environ, "GOVERNOR_ADDRESS": daemon.address, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    works, packages, modules = run.stdout.splitlines()

    assert works == "True True"
    assert set(packages.split()) <= {"governor", "google", "h2", "hpack", "hyperframe", *_of_the_interpreter()}
    loaded = {module.split(".")[1] for module in modules.split()}
    assert loaded == {"address", "client", "process", "tls", "token", "unopened", "v1"}


def _of_the_interpreter() -> set[str]:
    """What is loaded before any program begins, such as the hooks of an editable install."""
    listing = subprocess.run(
        [sys.executable, "-c", "import sys; print(*{name.partition('.')[0] for name in sys.modules})"],
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=True,
    )
    return set(listing.stdout.split())
