"""What a client says on its session, read: who it is, and what it asks for.

It knows what a hello may hold, and which bytes of an ask said what. It must never know what becomes of what was read.
"""

from collections.abc import Sequence
from typing import Final, cast

from governor.belongings import Hello
from governor.core.types import Denial, LeaseId
from governor.rpc.fields import MAX_TEXT_BYTES, Malformed, Terms, at_least, bounded, labels_of, nothing, terms_of
from governor.unopened import leading, unopened
from governor.v1 import governor_pb2 as pb

_MIN_INSTANCE_BYTES: Final = 16
_MAX_INSTANCE_BYTES: Final = 64

# What is remembered of asks is bounded by about a megabyte. When that is full, all of it is forgotten, as in `asks`.
MAX_KNOWN: Final = 1024
MAX_BYTES: Final = 256

Unopened: Final = unopened(pb.SessionRequest, {("SessionRequest", "acquires"), ("SessionAcquires", "ask")})


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
        _all_positive("hello.held", held)
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


class Asks:
    """What the asks of sessions say, by their bytes: but for its op, a program's ask is the same again and again."""

    def __init__(self) -> None:
        self._known: dict[bytes, Terms] = {}

    def __len__(self) -> int:
        return len(self._known)

    def read(self, raw: bytes) -> tuple[int, Terms | Denial]:
        """Its op, and what is asked for or why that is nothing; raises DecodeError."""
        op, rest = leading(pb.SessionAcquire.OP_FIELD_NUMBER, raw)
        known = self._known.get(rest) if op else None
        if known is not None:
            return op, known
        request = pb.SessionAcquire.FromString(raw)
        try:
            at_least("op", request.op, 1)
            terms = terms_of(request)
        except Malformed as malformed:
            return request.op, malformed.denial
        if op == request.op:
            self._know(rest, terms)
        return request.op, terms

    def read_alike(self, ops: Sequence[int], raw: bytes) -> Terms | Denial:
        """What is asked for under each of these ops, or why that is nothing; raises DecodeError."""
        known = self._known.get(raw)
        if known is not None and min(ops, default=1) > 0:
            return known
        request = pb.SessionAcquire.FromString(raw)
        try:
            _all_positive("ops", ops)
            nothing("ask.op", request.op, "the ops are in `ops`")
            terms = terms_of(request)
        except Malformed as malformed:
            return malformed.denial
        self._know(raw, terms)
        return terms

    def _know(self, raw: bytes, terms: Terms) -> None:
        if len(raw) <= MAX_BYTES:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[raw] = terms


def _all_positive(field: str, numbers: Sequence[int]) -> None:
    """None of them is less than 1. There may be very many, so they are looked at one by one only to say which is."""
    if min(numbers, default=1) < 1:
        for index, number in enumerate(numbers):
            at_least(f"{field}[{index}]", number, 1)
