"""Unsaid: the asks that the daemon has yet to be told of, oldest first, and how they are told.

It knows what an ask looks like on the wire, and how many go into one message. It must never know when one may be sent.
"""

from collections import deque
from typing import Final

from governor.client.asks import SECOND, Ask, Shape
from governor.client.tracing import Trace
from governor.v1 import governor_pb2 as pb

_MOST_SHAPES: Final = 256
_MOST_GIVEN_UP: Final = 256
# Of one message; the daemon takes twice as much, and one ask has at most half as much.
_MOST_BYTES: Final = 128 * 1024
# The answers to all that is under way must be less than the daemon lets lie unread, which is 16,384: a client that has
# asked for more at once than it may be told is cut off, comes back, asks again, and is cut off again.
_MOST_ASKS: Final = 1_000
# More than a few are said in shares, so that we work on the answers to one while the daemon works on the next: with all
# in one message, either would always wait for the other. A quarter more pairs a second for 64 tasks on two cores.
_FEW_ASKS: Final = 32
_SHARES: Final = 2
# What an ask takes at most beside others that are alike.
_OP_BYTES: Final = 10
# What a trace takes at most that has no state: its parent, an op, and what is around them.
_TRACE_BYTES: Final = 80
# What a program does between asking and our thread's next turn is no wait.
_AT_ONCE: Final = SECOND // 10

# A message with one ask, and that ask.
_Template = tuple[pb.SessionRequest, pb.SessionAcquire]


class Unsaid(deque[Ask]):
    """A queue of asks; one that was given up meanwhile is skipped when its turn comes."""

    def __init__(self) -> None:
        super().__init__()
        self._templates: dict[Shape, _Template] = {}
        # As a rule it is the same again, and to look it up costs as much as the rest.
        self._last: tuple[Shape | None, _Template | None] = (None, None)

    def tidy(self, wanted: int) -> None:
        """Have those that were given up take no room, with ``wanted`` asks on their way: their turn may be far off."""
        if len(self) > 2 * wanted + _MOST_GIVEN_UP:
            kept = [ask for ask in self if not ask.given_up]
            self.clear()
            self.extend(kept)

    def skip(self) -> bool:
        """Whether there is one that is still wanted; it is the first then."""
        while self and self[0].given_up:
            self.popleft()
        return bool(self)

    def say(self, parts: list[bytes], number: int, now: int, *, alike: bool, traces: bool) -> None:
        """Add to the parts of this session's message ``number`` what belongs into it.

        ``alike``: the daemon reads asks that are told together. ``traces``: it reads what they follow from.
        """
        size, said = sum([len(part) for part in parts]), 0
        # A hello brings all that is repeated: what a resumed session had and is not asked for with it is taken back.
        most = _MOST_ASKS if number == 1 else max(_FEW_ASKS, len(self) // _SHARES)
        most = min(most, _MOST_ASKS)
        # One after the other: a shape, and the ops of all that come in a row and are of that shape.
        runs: list[tuple[_Template, list[int]]] = []
        last: Shape | None = None
        bytes_of_one, ops = 0, list[int]()
        followed: dict[Trace, list[int]] = {}
        while self and size < _MOST_BYTES and said < most:
            ask = self.popleft()
            if ask.given_up:
                continue
            ask.message = number
            ask.sent_at = now
            said += 1
            if traces and ask.trace is not None:
                followed.setdefault(ask.trace, []).append(ask.op)
                size += _TRACE_BYTES + len(ask.trace[1])
            if ask.adopt:
                parts.append(
                    pb.SessionRequest(adopts=[pb.SessionAdopt(op=ask.op, lease_id=ask.adopt)]).SerializeToString()
                )
                size += len(parts[-1])
                continue
            shape = ask.shape
            if shape.wait and now - ask.asked_at > _AT_ONCE:
                # It waited here, for a connection or for a daemon that keeps up: that counts.
                left = max(0, shape.wait - (now - ask.asked_at))
                shape = Shape(shape.claims, left, shape.lease, shape.labels)
            if shape is not last and shape != last:
                template = self._template(shape) if shape is ask.shape else _template_of(shape)
                bytes_of_one = template[0].ByteSize() + _OP_BYTES
                last, ops = shape, []
                runs.append((template, ops))
            ops.append(ask.op)
            size += bytes_of_one
        # All of them in one way, since the daemon does those first that are told one by one.
        together = alike and 2 * len(runs) <= said
        for template, ops in runs:
            parts += [_together(template, ops)] if together else _one_by_one(template, ops)
        if followed:
            parts.append(_followed(followed))

    def _template(self, shape: Shape) -> _Template:
        """A message of one such ask alone, made once for all of its shape: making one costs more than changing it."""
        last, template = self._last
        if last is shape and template is not None:
            return template
        template = self._templates.get(shape)
        if template is None:
            if len(self._templates) >= _MOST_SHAPES:
                self._templates.clear()
            template = self._templates[shape] = _template_of(shape)
        self._last = shape, template
        return template


def _followed(followed: dict[Trace, list[int]]) -> bytes:
    traces = [
        pb.TraceContext(ops=ops, traceparent=parent, tracestate=state) for (parent, state), ops in followed.items()
    ]
    return pb.SessionRequest(traces=traces).SerializeToString()


def _template_of(shape: Shape) -> _Template:
    message = shape.message()
    return message, message.acquires[0]


def _one_by_one(template: _Template, ops: list[int]) -> list[bytes]:
    message, acquire = template
    made = []
    for op in ops:
        acquire.op = op
        made.append(message.SerializeToString())
    return made


def _together(template: _Template, ops: list[int]) -> bytes:
    _, acquire = template
    acquire.ClearField("op")
    return pb.SessionRequest(alike=[pb.SessionAcquires(ops=ops, ask=acquire)]).SerializeToString()
