"""A program that borrows, over a connection that it shares with nobody."""

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2
from grpc import StatusCode, aio
from grpc_status import rpc_status

from governor.v1 import governor_pb2 as pb
from governor.v1.governor_pb2_grpc import GovernorStub
from tests.e2e.process import BOUND, until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from governor.v1.governor_pb2_grpc import GovernorAsyncStub

# By default all channels of a process to one address share a connection, and none of them can break it.
OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1),)


def ask(
    *resources: str,
    permits: int = 1,
    wait: float | None = None,
    lease: float | None = None,
    client: str = "",
    request_id: str = "",
) -> pb.AcquireRequest:
    """For so many permits of each; lengths in seconds."""
    return pb.AcquireRequest(
        claims=[pb.Claim(resource=resource, permits=permits) for resource in resources],
        wait=None if wait is None else seconds(wait),
        lease=None if lease is None else seconds(lease),
        client=client,
        request_id=request_id,
    )


def seconds(length: float) -> Duration:
    """As it travels."""
    duration = Duration()
    duration.FromNanoseconds(round(length * 1e9))
    return duration


class Client:
    """One connection of its own."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.insecure_channel(address, OPTIONS)
        self.stub = GovernorStub(self.channel)
        # grpc cancels a call that nobody remembers.
        self._waiting: list[Waiting] = []

    def acquire(
        self,
        *resources: str,
        permits: int = 1,
        wait: float | None = None,
        lease: float | None = None,
        client: str = "",
        request_id: str = "",
    ) -> pb.Lease:
        """A lease; raises grpc.RpcError for a refusal."""
        request = ask(*resources, permits=permits, wait=wait, lease=lease, client=client, request_id=request_id)
        return self.stub.Acquire(request, timeout=BOUND).lease

    def wait_in_line(self, request: pb.AcquireRequest) -> "Waiting":
        """Ask for what is lent; returns when the daemon says that one more waits for the first resource."""
        name = request.claims[0].resource
        before = self.resource(name).waiters
        waiting = self._ask(request)
        until(lambda: self.resource(name).waiters > before, f"somebody waits for {name}")
        return waiting

    def join(self, request: pb.AcquireRequest) -> "Waiting":
        """Ask what somebody asks already, under the same request id; returns when the daemon has it.

        Nothing shows how many wait at one place. But what comes on one connection is read in order, so when a later
        question is answered, this has been read.
        """
        waiting = self._ask(request)
        for _ in range(3):
            self.resources()
        return waiting

    def _ask(self, request: pb.AcquireRequest) -> "Waiting":
        waiting = Waiting(self.stub.Acquire.future(request, timeout=BOUND))
        self._waiting.append(waiting)
        return waiting

    def release(self, *leases: int, outcome: pb.Outcome.ValueType = pb.OUTCOME_UNSPECIFIED) -> list[pb.LeaseResult]:
        """Give back; raises grpc.RpcError when it is one and was not live."""
        request = pb.ReleaseRequest(lease_ids=leases, outcome=outcome)
        return list(self.stub.Release(request, timeout=BOUND).results)

    def renew(self, *leases: int, lease: float | None = None) -> list[pb.LeaseResult]:
        """Extend; raises grpc.RpcError when it is one and was not live."""
        request = pb.RenewRequest(lease_ids=leases, lease=None if lease is None else seconds(lease))
        return list(self.stub.Renew(request, timeout=BOUND).results)

    def resources(self) -> list[pb.Resource]:
        """As they are now."""
        return list(self.stub.ListResources(pb.ListResourcesRequest(), timeout=BOUND).resources)

    def resource(self, name: str) -> pb.Resource:
        """One of them."""
        return next(resource for resource in self.resources() if resource.name == name)

    def counts(self, name: str) -> tuple[int, int]:
        """How much of it is in use, and how many wait for it."""
        resource = self.resource(name)
        return resource.in_use, resource.waiters

    def idle(self) -> bool:
        """Whether nothing is in use and nobody waits."""
        return not any(resource.in_use or resource.waiters for resource in self.resources())

    def close(self) -> None:
        """The connection ends, and whatever is asked on it."""
        self.channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Waiting:
    """An ask that stands in line."""

    def __init__(self, call: "grpc.Future[pb.AcquireResponse]") -> None:
        self._call = call

    def done(self) -> bool:
        """Whether it was answered."""
        return self._call.done()

    def lease(self) -> pb.Lease:
        """What it was granted, which must come within the bound."""
        return self._call.result(BOUND).lease

    def refusal(self) -> grpc.RpcError:
        """Why it was not granted."""
        error = self._call.exception(BOUND)
        assert isinstance(error, grpc.RpcError)
        return error

    def cancel(self) -> None:
        """Leave the line."""
        self._call.cancel()


class AsyncClient:
    """One connection of its own, for many calls at once."""

    def __init__(self, address: str) -> None:
        self.channel = aio.insecure_channel(address, OPTIONS)
        self.stub: GovernorAsyncStub = GovernorStub(self.channel)

    async def counts(self, name: str) -> tuple[int, int]:
        """How much of it is in use, and how many wait for it."""
        answer = await self.stub.ListResources(pb.ListResourcesRequest(), timeout=BOUND)
        resource = next(resource for resource in answer.resources if resource.name == name)
        return resource.in_use, resource.waiters

    async def until_counts(self, name: str, in_use: int, waiters: int) -> None:
        """Look again and again until there are so many; for a time that the caller bounds."""
        while await self.counts(name) != (in_use, waiters):  # noqa: ASYNC110  (the daemon is another process)
            await asyncio.sleep(0.01)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.channel.close()


class Refusal:
    """What a refusal says, to people and to programs."""

    def __init__(self, error: BaseException) -> None:
        assert isinstance(error, grpc.Call), error
        self.code: StatusCode = error.code()
        self.message = error.details() or ""
        self.reason = ""
        self.facts: Mapping[str, str] = {}
        self.retry: float | None = None
        self.field = ""
        status = rpc_status.from_call(error)
        for detail in [] if status is None else status.details:
            info, retry, bad = (
                error_details_pb2.ErrorInfo(),
                error_details_pb2.RetryInfo(),
                error_details_pb2.BadRequest(),
            )
            if detail.Unpack(info):
                self.reason, self.facts = info.reason, dict(info.metadata)
            elif detail.Unpack(retry):
                self.retry = retry.retry_delay.ToNanoseconds() / 1e9
            elif detail.Unpack(bad):
                self.field = bad.field_violations[0].field
