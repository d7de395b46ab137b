"""A program of its own that borrows by the client library: a test kills it, stops it, or lets it end."""

import sys
import threading

from governor import Client, LeaseLost


def main(address: str, resource: str, more: str = "") -> None:
    """Hold one permit and say so; wait for one of ``more``, or end, or hold it until it is lost and say so."""
    gov = Client(address)
    lost = threading.Event()
    lease = gov.acquire(resource, lease=None if resource != "brief" else 1, on_loss=lambda _: lost.set())
    if more == "--end":
        return
    _say("held")
    if more:
        gov.acquire(more, wait=3600)
    lost.wait()
    try:
        with lease:
            pass
    except LeaseLost as error:
        _say(f"lost: {error.reason}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
