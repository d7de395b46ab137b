"""Reading what a refused call says, as a client would."""

from collections.abc import Awaitable

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc import aio

KINDS = {
    f"type.googleapis.com/{kind.DESCRIPTOR.full_name}": kind
    for kind in (
        error_details_pb2.ErrorInfo,
        error_details_pb2.BadRequest,
        error_details_pb2.QuotaFailure,
        error_details_pb2.PreconditionFailure,
        error_details_pb2.ResourceInfo,
        error_details_pb2.RetryInfo,
    )
}


def unpacked(raw: bytes) -> tuple[status_pb2.Status, dict[str, Message]]:
    """A google.rpc.Status and its details by name; each may be there once."""
    status = status_pb2.Status.FromString(raw)
    details: dict[str, Message] = {}
    for packed in status.details:
        detail = KINDS[packed.type_url]()
        assert packed.Unpack(detail)
        assert details.setdefault(type(detail).__name__, detail) is detail
    return status, details


class Refused:
    """A refusal, taken apart."""

    def __init__(self, error: aio.AioRpcError) -> None:
        self.code = error.code()
        self.message = error.details() or ""
        self.metadata = dict(error.trailing_metadata() or ())
        raw = self.metadata.get("grpc-status-details-bin")
        assert isinstance(raw, bytes)
        status, self.details = unpacked(raw)
        assert (status.code, status.message) == (self.code.value[0], self.message)

    @property
    def info(self) -> error_details_pb2.ErrorInfo:
        """The detail that every refusal has."""
        info = self.details["ErrorInfo"]
        assert isinstance(info, error_details_pb2.ErrorInfo)
        assert info.domain == "governor"
        return info

    @property
    def reason(self) -> str:
        """In capitals."""
        return self.info.reason


async def refused(call: Awaitable[object]) -> Refused:
    """The refusal of a call that must not succeed."""
    with pytest.raises(aio.AioRpcError) as caught:
        await call
    return Refused(caught.value)


async def status_of(call: Awaitable[object]) -> grpc.StatusCode:
    """How a call ended."""
    try:
        await call
    except aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK
