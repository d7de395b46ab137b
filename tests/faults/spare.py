"""A daemon that stands ready: all is loaded, and it begins to serve when its gate is opened, which is a named pipe.

It is `governor serve` but for when it loads. So a daemon that was killed has its successor within milliseconds.
"""

import os
import sys
from pathlib import Path

from governor.cli.main import main


def wait(gate: Path) -> None:
    """Load the daemon, then wait until somebody writes to the pipe, or could."""
    # As `serve` does before it loads the same; gRPC reads it when it is loaded.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    import governor.daemon  # noqa: F401, PLC0415 - it is to be there

    with gate.open("rb"):
        pass


if __name__ == "__main__":
    wait(Path(sys.argv[1]))
    sys.argv = ["governor", "serve", *sys.argv[2:]]
    sys.exit(main())
