"""A collector of OpenTelemetry, as far as a daemon can tell: it takes spans by OTLP over gRPC, and keeps them."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as pb_grpc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

BOUND: Final = 60.0
Value = str | int | float | bool | list[object]


class Collector(pb_grpc.TraceServiceServicer):
    """``spans`` by when they came, and of whom: the ``resources``. ``headers``: of the last call.

    While it is ``refusing`` it takes none.
    """

    def __init__(self) -> None:
        self.address = ""
        self.spans: list[Span] = []
        self.resources: list[Mapping[str, Value]] = []
        self.headers: Mapping[str, str | bytes] = {}
        self.refusing = threading.Event()
        self._news = threading.Condition()

    def Export(  # noqa: N802 - its name in the contract
        self, request: pb.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> pb.ExportTraceServiceResponse:
        """Take them."""
        if self.refusing.is_set():
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not now")  # nobody tries that again
        with self._news:
            self.headers = dict(context.invocation_metadata())
            for told in request.resource_spans:
                self.resources.append(values(told.resource.attributes))
                for scope in told.scope_spans:
                    self.spans.extend(scope.spans)
            self._news.notify_all()
        return pb.ExportTraceServiceResponse()

    def named(self, name: str, number: int = 1) -> list[Span]:
        """So many spans of this name, when they have come."""

        def found() -> list[Span]:
            return [span for span in self.spans if span.name == name]

        with self._news:
            assert self._news.wait_for(lambda: len(found()) >= number, BOUND), [span.name for span in self.spans]
            return found()


@contextmanager
def collecting() -> "Iterator[Collector]":
    """One that serves, until the block is left."""
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(2), options=(("grpc.so_reuseport", 0),))
    pb_grpc.add_TraceServiceServicer_to_server(collector, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    collector.address = f"127.0.0.1:{port}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(None).wait(BOUND)


def values(attributes: "Sequence[KeyValue]") -> "Mapping[str, Value]":
    """By name."""
    return {attribute.key: _value(attribute.value) for attribute in attributes}


def _value(value: AnyValue) -> "Value":
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case "bool_value":
            return value.bool_value
        case "array_value":
            return [_value(each) for each in value.array_value.values]
        case other:
            raise AssertionError(f"a value of the kind {other}")
