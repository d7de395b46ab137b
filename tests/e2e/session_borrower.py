"""A program of its own that borrows on a session and then does nothing, so that a test can kill or stop it."""

import os
import secrets
import signal
import socket
import sys
from collections.abc import Iterator
from queue import SimpleQueue

from governor.v1 import governor_pb2 as pb
from tests.e2e.client import Client


def main(address: str, *resources: str) -> None:
    """Ask for one permit of each, say the id of each lease or 0 for a place in line, and keep the session."""
    said: SimpleQueue[pb.SessionRequest] = SimpleQueue()
    asks = [
        pb.SessionAcquire(op=op, claims=[pb.Claim(resource=resource, permits=1)])
        for op, resource in enumerate(resources, 1)
    ]
    me, host = os.getpid(), socket.gethostname()
    hello = pb.Hello(client="borrower", instance=secrets.token_hex(16), pid=me, host=host)
    said.put(pb.SessionRequest(hello=hello, acquires=asks))

    def messages() -> Iterator[pb.SessionRequest]:
        while True:
            yield said.get()

    # grpc cancels a call that nobody remembers.
    call = Client(address).stub.Session(messages())
    heard = next(call)
    ids = {grant.op: grant.lease.id for grant in heard.grants}
    sys.stdout.write(" ".join(str(ids.get(op, 0)) for op in range(1, len(resources) + 1)) + "\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
