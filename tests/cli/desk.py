"""The service Admin of a daemon that says what a test tells it to."""

# ruff: noqa: N802, D102 - the names are gRPC's, and what each does the proto says

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from governor.v1 import admin_pb2 as pb
from governor.v1.admin_pb2_grpc import AdminServicer

Answer = TypeVar("Answer", bound=Message)
BOUND = 120


@dataclass
class Refusal:
    """A status as the daemon sends it."""

    code: grpc.StatusCode
    details: str
    reason: str = ""
    retry: float | None = None
    metadata: dict[str, str] = field(default_factory=dict)

    def abort(self, context: grpc.ServicerContext) -> NoReturn:
        """End the call with it."""
        details: list[Message] = []
        if self.reason:
            details.append(error_details_pb2.ErrorInfo(reason=self.reason, domain="governor", metadata=self.metadata))
        if self.retry is not None:
            again = error_details_pb2.RetryInfo()
            again.retry_delay.FromNanoseconds(round(self.retry * 1e9))
            details.append(again)
        if not details:
            context.abort(self.code, self.details)
        status = status_pb2.Status(code=self.code.value[0], message=self.details)
        for detail in details:
            status.details.add().Pack(detail)
        context.abort_with_status(rpc_status.to_status(status))


class Desk(AdminServicer):
    """What it is to answer, by the type of the request, and what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[type[Message], Message | Refusal | Sequence[Message]] = {}
        self.asked: list[Message] = []
        # Who said to have asked, for each.
        self.actors: list[str] = []
        # What those are told who come by TCP.
        self.elsewhere: Refusal | None = None
        # A stream goes on until the test closes it, or whoever hears it is gone.
        self.closed = threading.Event()
        # Its last words, then.
        self.later: Sequence[pb.WatchResponse] = ()
        self.left = threading.Event()

    def _answer(self, request: Message, context: grpc.ServicerContext, kind: type[Answer]) -> Answer:
        self._note(request, context)
        answer = self.answers.get(type(request), kind())
        if isinstance(answer, Refusal):
            answer.abort(context)
        assert isinstance(answer, kind)
        return answer

    def _answers(self, request: Message, context: grpc.ServicerContext, kind: type[Answer]) -> Iterator[Answer]:
        self._note(request, context)
        answers = self.answers.get(type(request), [])
        if isinstance(answers, Refusal):
            answers.abort(context)
        assert not isinstance(answers, Message)
        for answer in answers:
            assert isinstance(answer, kind)
            yield answer

    def _note(self, request: Message, context: grpc.ServicerContext) -> None:
        if self.elsewhere is not None and not context.peer().startswith("unix:"):
            self.elsewhere.abort(context)
        self.asked.append(request)
        self.actors += [str(value) for key, value in context.invocation_metadata() if key == "governor-actor"]

    def GetInfo(self, request: pb.GetInfoRequest, context: grpc.ServicerContext) -> pb.GetInfoResponse:
        return self._answer(request, context, pb.GetInfoResponse)

    def GetResource(self, request: pb.GetResourceRequest, context: grpc.ServicerContext) -> pb.GetResourceResponse:
        return self._answer(request, context, pb.GetResourceResponse)

    def Revoke(self, request: pb.RevokeRequest, context: grpc.ServicerContext) -> pb.RevokeResponse:
        return self._answer(request, context, pb.RevokeResponse)

    def PauseResource(self, request: pb.PauseResourceRequest, context: grpc.ServicerContext) -> pb.StandingResponse:
        return self._answer(request, context, pb.StandingResponse)

    def ResumeResource(self, request: pb.ResumeResourceRequest, context: grpc.ServicerContext) -> pb.StandingResponse:
        return self._answer(request, context, pb.StandingResponse)

    def DrainResource(self, request: pb.DrainResourceRequest, context: grpc.ServicerContext) -> pb.StandingResponse:
        return self._answer(request, context, pb.StandingResponse)

    def SetOverride(self, request: pb.SetOverrideRequest, context: grpc.ServicerContext) -> pb.OverrideResponse:
        return self._answer(request, context, pb.OverrideResponse)

    def ClearOverride(self, request: pb.ClearOverrideRequest, context: grpc.ServicerContext) -> pb.OverrideResponse:
        return self._answer(request, context, pb.OverrideResponse)

    def RecycleMembers(self, request: pb.RecycleMembersRequest, context: grpc.ServicerContext) -> pb.MembersResponse:
        return self._answer(request, context, pb.MembersResponse)

    def QuarantineMember(
        self, request: pb.QuarantineMemberRequest, context: grpc.ServicerContext
    ) -> pb.MembersResponse:
        return self._answer(request, context, pb.MembersResponse)

    def RestoreMember(self, request: pb.RestoreMemberRequest, context: grpc.ServicerContext) -> pb.MembersResponse:
        return self._answer(request, context, pb.MembersResponse)

    def Reload(self, request: pb.ReloadRequest, context: grpc.ServicerContext) -> pb.ReloadResponse:
        return self._answer(request, context, pb.ReloadResponse)

    def ListLeases(
        self, request: pb.ListLeasesRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.ListLeasesResponse]:
        yield from self._answers(request, context, pb.ListLeasesResponse)

    def ListWaiters(
        self, request: pb.ListWaitersRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.ListWaitersResponse]:
        yield from self._answers(request, context, pb.ListWaitersResponse)

    def ListSessions(
        self, request: pb.ListSessionsRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.ListSessionsResponse]:
        yield from self._answers(request, context, pb.ListSessionsResponse)

    def Diff(self, request_iterator: Iterator[pb.DiffRequest], context: grpc.ServicerContext) -> pb.DiffResponse:
        parts = list(request_iterator)
        return self._answer(
            pb.DiffRequest(name=parts[0].name, yaml=b"".join(part.yaml for part in parts)), context, pb.DiffResponse
        )

    def Watch(self, request: pb.WatchRequest, context: grpc.ServicerContext) -> Iterator[pb.WatchResponse]:
        context.add_callback(self.left.set)
        yield from self._answers(request, context, pb.WatchResponse)
        while context.is_active() and not self.closed.wait(0.02):
            pass
        yield from self.later


def length(seconds: float) -> Duration:
    """As the wire has it."""
    made = Duration()
    made.FromNanoseconds(round(seconds * 1e9))
    return made
