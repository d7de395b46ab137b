"""A program that borrows from governor over plain gRPC: the clients of `make demo`.

    python demo_client.py ADDRESS NAME PART

PART is one of the functions of PARTS below. What happens to the client is told on stdout, a JSON object a line.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import grpc
from google.protobuf.duration_pb2 import Duration

from governor.v1 import governor_pb2 as pb
from governor.v1.governor_pb2_grpc import GovernorStub

WORK_SECONDS: Final = 0.4
RENEW_SECONDS: Final = 0.5


class Client:
    """One client, by its declared name."""

    def __init__(self, address: str, name: str) -> None:
        self.name = name
        self.governor = GovernorStub(grpc.insecure_channel(address))

    @contextmanager
    def permit(self, resource: str, *, seconds: int | None = None) -> Iterator[pb.Lease]:
        """Hold one permit: wait in line for it, and give it back whatever happens in between."""
        lease = self.acquire(resource, seconds=seconds)
        try:
            yield lease
        finally:
            self.tell("releases", resource, lease)
            self.governor.Release(pb.ReleaseRequest(lease_ids=[lease.id]))

    def acquire(self, resource: str, *, seconds: int | None = None) -> pb.Lease:
        """Wait in line for one permit, for at most 30 s. The lease lasts ``seconds``, or what the config says."""
        self.tell("asks", resource)
        ask = pb.AcquireRequest(
            client=self.name,
            claims=[pb.Claim(resource=resource, permits=1)],
            wait=Duration(seconds=30),
            lease=None if seconds is None else Duration(seconds=seconds),
        )
        lease = self.governor.Acquire(ask).lease
        self.tell("granted", resource, lease)
        return lease

    def tell(self, what: str, resource: str = "", lease: pb.Lease | None = None) -> None:
        """A line for whoever started this process; all processes of a machine share the clock."""
        event = {"at": time.monotonic(), "who": self.name, "what": what, "resource": resource}
        if lease is not None:
            members = [f"{member.id} at {member.attributes['endpoint']}" for member in lease.grants[0].members]
            event |= {"lease": lease.id, "waited": lease.waited.ToNanoseconds() / 1e9, "member": " ".join(members)}
        print(json.dumps(event), flush=True)


def make_thumbnail(client: Client) -> None:
    """A semaphore: only so many at a time."""
    with client.permit("thumbnails"):
        time.sleep(WORK_SECONDS)


def read_orders(client: Client) -> None:
    """A pool: the lease says which member is ours, and what the operator wrote beside it."""
    with client.permit("orders-db"):
        time.sleep(WORK_SECONDS)


def call_payments(client: Client) -> None:
    """A rate limit: what was granted is spent, so there is nothing to give back."""
    for _ in range(3):
        client.acquire("payments-api")


def import_for_ever(client: Client) -> None:
    """A lease is kept by renewing it. Who stops doing so, for whatever reason, loses it."""
    lease = client.acquire("nightly-import")
    while True:
        time.sleep(RENEW_SECONDS)
        client.governor.Renew(pb.RenewRequest(lease_ids=[lease.id]))
        client.tell("renews", "nightly-import", lease)


def import_once(client: Client) -> None:
    """Who cannot renew asks for a lease that is long enough: here, until a line on stdin says to end."""
    with client.permit("nightly-import", seconds=60):
        sys.stdin.readline()


PARTS: Final[dict[str, Callable[[Client], None]]] = {
    part.__name__: part for part in (make_thumbnail, read_orders, call_payments, import_for_ever, import_once)
}

if __name__ == "__main__":
    where, who, part = sys.argv[1:]
    client = Client(where, who)
    # All clients of a scene begin together, however long each took to start.
    client.tell("ready")
    sys.stdin.readline()
    PARTS[part](client)
