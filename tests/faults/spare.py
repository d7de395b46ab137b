"""A daemon that stands ready: all is loaded, and it begins to serve when its gate is opened, which is a named pipe.

It is `governor serve` but for when it loads. So a daemon that was killed has its successor within milliseconds.
"""

import os
import sys
from pathlib import Path

from governor.cli.main import main


def wait(gate: Path) -> None:
    """Load the daemon, say so by a file beside the pipe, then wait until somebody could write to the pipe."""
    # As `serve` does before it loads the same; gRPC reads it when it is loaded.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    import governor.daemon  # noqa: F401, PLC0415 - it is to be there

    gate.with_suffix(".ready").touch()
    with gate.open("rb"):
        pass


def begin(arguments: list[str]) -> None:
    """Be `governor serve` with these."""
    sys.argv = ["governor", "serve", *arguments]
    sys.exit(main())


if __name__ == "__main__":
    wait(Path(sys.argv[1]))
    begin(sys.argv[2:])
