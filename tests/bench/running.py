"""A daemon that is measured: on a config of its own, for as long as the block."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.process import Daemon


@contextmanager
def running(yaml: str) -> Iterator[Daemon]:
    """One that serves; it ends afterwards, if it has not yet."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "governor.yaml")
        config.write_text(yaml)
        daemon = Daemon(config, Path(folder, "state"))
        try:
            daemon.wait_until_it_serves()
            yield daemon
        finally:
            daemon.end()
