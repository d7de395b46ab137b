"""A program of its own that borrows and then does nothing, so that a test can kill it."""

import signal
import sys

from tests.e2e.client import Client, ask


def main(address: str, *resources: str) -> None:
    """Take one permit of each, waiting for as long as it takes; say so, and hold it."""
    client = Client(address)
    lease = client.stub.Acquire(ask(*resources)).lease
    sys.stdout.write(f"{lease.id}\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
