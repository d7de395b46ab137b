"""What a client says on its session, read: the first message, and the asks in any.

It knows what a hello may hold. It must never know what becomes of what was read.
"""

from typing import Final, cast

from governor.core.types import Denial, LeaseId
from governor.rpc.fields import MAX_TEXT_BYTES, Malformed, Terms, at_least, bounded, labels_of, terms_of
from governor.sessions import Hello
from governor.v1 import governor_pb2 as pb

_MIN_INSTANCE_BYTES: Final = 16
_MAX_INSTANCE_BYTES: Final = 64


def hello(request: pb.SessionRequest) -> Hello | Denial:
    """Who is there, or which field is wrong and what was expected."""
    if not request.HasField("hello"):
        return Malformed("hello", "who is there, in the first message").denial
    said = request.hello
    try:
        bounded("hello.client", said.client, MAX_TEXT_BYTES, 1)
        at_least("hello.pid", said.pid, 0)
        bounded("hello.host", said.host, MAX_TEXT_BYTES)
        bounded("hello.instance", said.instance, _MAX_INSTANCE_BYTES, _MIN_INSTANCE_BYTES)
        bounded("hello.resume", said.resume, MAX_TEXT_BYTES)
        held = tuple(said.held)
        for index, lease in enumerate(held):
            at_least(f"hello.held[{index}]", lease, 1)
        return Hello(
            said.client,
            said.instance,
            said.pid,
            said.host,
            labels_of(said.labels, "hello.labels"),
            said.resume,
            cast("tuple[LeaseId, ...]", held),
        )
    except Malformed as malformed:
        return malformed.denial


def acquire(request: pb.SessionAcquire) -> Terms | Denial:
    """What is asked for."""
    try:
        at_least("op", request.op, 1)
        return terms_of(request)
    except Malformed as malformed:
        return malformed.denial
