"""One connection of a client and the one to the daemon that belongs to it.

They know HTTP/2 frames, and where one message of a session ends. They must never know why a message is stopped.

Frames pass as they came, but for the DATA of sessions, which is gathered into whole messages and cut into frames anew.
A sender's window counts what it sent: what is swallowed is given back to it, what is held is not. So windows stay
right, and bound what lies here.
"""

import asyncio
import socket
import struct
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Final, Generic, assert_never

from hpack import Decoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from governor.v1 import governor_pb2 as pb
from tests.proxy.rules import Fate, M, Way

SESSION: Final = "/governor.v1.Governor/Session"
# How much of one direction may lie here, behind a message that is held, before no more is read.
MAX_QUEUED: Final = 2**20

_PREFACE: Final = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
_HEAD: Final = 9  # bytes before the body of a frame
_PREFIX: Final = 5  # bytes before a message
_BODY: Final = 16_384  # bytes in a frame that nobody refuses
# What is no part of any stream's order.
_PASS_BY: Final = (PingFrame, SettingsFrame, WindowUpdateFrame)


class Link:
    """Both connections. ``held`` says whether nothing is to move; ``gone`` is told when both are closed."""

    def __init__(
        self,
        up: Way[pb.SessionRequest],
        down: Way[pb.SessionResponse],
        held: Callable[[], bool],
        gone: Callable[["Link"], None],
    ) -> None:
        # The streams that are sessions. A client has few, so none is forgotten.
        self.sessions: set[int] = set()
        self.held: Final = held
        self.near = End(self, up, _PREFACE)
        self.far = End(self, down, 0)
        self._gone = gone

    def other(self, end: object) -> "End[pb.SessionRequest] | End[pb.SessionResponse]":
        """The one across."""
        return self.far if end is self.near else self.near

    def cut(self) -> None:
        """Resets both, whatever is still on its way."""
        self.near.reset()
        self.far.reset()
        self.end()

    def hang_up(self) -> None:
        """Ends both, so that what has been passed on arrives: a reset may overtake it."""
        self.near.hang_up()
        self.far.hang_up()

    def go_on(self) -> None:
        """Or hold on: as it now is."""
        self.near.pump()
        self.far.pump()

    def end(self) -> None:
        """One of them is closed."""
        if self.near.closed and self.far.closed:
            self._gone(self)


class End(asyncio.Protocol, Generic[M]):
    """One of the connections, and what it says on its way to the other one."""

    def __init__(self, link: Link, way: Way[M], skip: int) -> None:
        """``skip``: how many bytes come before the first frame."""
        self.closed = False
        self._link = link
        self._way = way
        self._skip = skip
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._paths = Decoder()
        self._paths.max_allowed_table_size = 2**20  # what the ends agree on is their affair
        self._block: dict[int, bytes] = {}
        self._gathered: defaultdict[int, bytearray] = defaultdict(bytearray)
        # Frames as they are, and messages with their streams.
        self._queue: deque[bytes | tuple[int, bytes]] = deque()
        self._queued = 0
        self._stopped = False
        self._full = False
        self._deaf = False

    # --- as asyncio calls it --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Nothing is read before both are there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self.closed:  # the link was cut while this one was on its way
            transport.abort()
        self._link.go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """The other one hears of it when it has heard all else."""
        self.closed = True
        if exc is not None:
            self._link.cut()
        self.pump()
        self._link.end()

    def pause_writing(self) -> None:
        """It does not take what is written to it."""
        self._full = True
        self._link.go_on()

    def resume_writing(self) -> None:
        """It does again."""
        self._full = False
        self._link.go_on()

    def data_received(self, data: bytes) -> None:
        """Takes whole frames off what has come."""
        if self._deaf:
            return
        received = self._received
        received += data
        if self._skip and len(received) >= self._skip:
            self._put(bytes(received[: self._skip]))
            del received[: self._skip]
            self._skip = 0
        while not self._skip and len(received) >= _HEAD:
            with memoryview(received) as view:
                frame, size = Frame.parse_frame_header(view[:_HEAD])
            if len(received) < _HEAD + size:
                break
            raw = bytes(received[: _HEAD + size])
            del received[: _HEAD + size]
            frame.parse_body(memoryview(raw)[_HEAD:])
            self._frame(frame, raw)
        self.pump()

    # --- in -------------------------------------------------------------------------------------------------

    def _frame(self, frame: Frame, raw: bytes) -> None:
        stream = frame.stream_id
        if isinstance(frame, DataFrame) and stream in self._link.sessions:
            self._gather(frame)
        elif isinstance(frame, _PASS_BY):
            if self._stopped and self._moves:
                self._write(raw)
            else:
                self._put(raw)
        else:
            if isinstance(frame, (HeadersFrame, ContinuationFrame)) and self is self._link.near:
                self._head(frame)
            if isinstance(frame, RstStreamFrame):
                self._link.other(self).flush(stream)
            self.flush(stream)
            self._put(raw)

    def _head(self, frame: HeadersFrame | ContinuationFrame) -> None:
        """All heads are read, since each one builds on those before it."""
        block = self._block[frame.stream_id] = self._block.get(frame.stream_id, b"") + frame.data
        if "END_HEADERS" in frame.flags:
            del self._block[frame.stream_id]
            if (":path", SESSION) in [(str(name), str(value)) for name, value in self._paths.decode(block)]:
                self._link.sessions.add(frame.stream_id)

    def _gather(self, frame: DataFrame) -> None:
        stream = frame.stream_id
        gathered = self._gathered[stream]
        gathered += frame.data
        if padding := frame.flow_controlled_length - len(frame.data):
            self._give_back(stream, padding)
        while len(gathered) >= _PREFIX:
            size = _PREFIX + int.from_bytes(gathered[1:_PREFIX], "big")
            if len(gathered) < size:
                break
            self._put((stream, bytes(gathered[:size])))
            del gathered[:size]
        if "END_STREAM" in frame.flags:
            self.flush(stream)
            self._put(DataFrame(stream, flags=["END_STREAM"]).serialize())

    def flush(self, stream: int) -> None:
        """There comes no more of a message: the other end gets what there is of it."""
        if gathered := self._gathered.pop(stream, None):
            self._put(_data(stream, bytes(gathered)))

    def _put(self, item: bytes | tuple[int, bytes]) -> None:
        self._queue.append(item)
        self._queued += _size(item)

    # --- out ------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Passes on what may pass."""
        while self._queue and not self._stopped and self._moves:
            item = self._queue.popleft()
            self._queued -= _size(item)
            if isinstance(item, bytes):
                self._write(item)
            else:
                self._judge(*item)
        if self.closed and not self._queue:
            self._link.other(self).close()
        if self._transport is not None and not self._transport.is_closing():
            if self._moves and self._queued <= MAX_QUEUED and not self._link.other(self)._full:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    @property
    def _moves(self) -> bool:
        return not self._link.held() and self._link.other(self)._transport is not None

    def _judge(self, stream: int, raw: bytes) -> None:
        message = self._way.read(raw[_PREFIX:])
        rule = self._way.judge(message)
        if rule is None:
            self._way.passed.append(message)
            self._write(_data(stream, raw))
            return
        # First, since its fate is seen at once; and whatever a test does about it is done after this step.
        rule.note(message)
        match rule.fate:
            case Fate.SWALLOW:
                self._give_back(stream, len(raw))
            case Fate.CUT:
                self._link.hang_up()
            case Fate.HOLD | Fate.DELAY:
                self._stop(message, _data(stream, raw))
                if rule.fate is Fate.HOLD:
                    rule.held.append(self._go_on)
                else:
                    asyncio.get_running_loop().call_later(rule.seconds, self._go_on)
            case _:
                assert_never(rule.fate)

    def _stop(self, message: M, frames: bytes) -> None:
        self._queue.appendleft(frames)
        self._queued += len(frames)
        self._stopped = True
        self._way.passed.append(message)

    def _go_on(self) -> None:
        self._stopped = False
        self.pump()

    def _write(self, data: bytes) -> None:
        transport = self._link.other(self)._transport
        if transport is not None and not transport.is_closing() and not self._deaf:
            transport.write(data)

    def _give_back(self, stream: int, size: int) -> None:
        """To the window of whoever sent it, as if it had been received and used."""
        assert self._transport is not None
        for number in (stream, 0):
            self._transport.write(WindowUpdateFrame(number, window_increment=size).serialize())

    # --- the end --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """All that was to come to it has been written."""
        if self._transport is not None:
            self._transport.close()

    def hang_up(self) -> None:
        """Nothing more is said, nor heard; it is closed when its peer has closed it."""
        self._queue.clear()
        self._queued = 0
        self._deaf = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            self._transport.write_eof()

    def reset(self) -> None:
        """Now; with an RST."""
        self._queue.clear()
        self._queued = 0
        if self._transport is None:
            self.closed = True
        elif not self.closed:
            # With it, the end of a connection is a reset, whatever is still to be sent.
            at_once = struct.pack("ii", 1, 0)
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            self._transport.abort()


def _size(item: bytes | tuple[int, bytes]) -> int:
    return len(item) if isinstance(item, bytes) else len(item[1])


def _data(stream: int, data: bytes) -> bytes:
    pieces = [data[at : at + _BODY] for at in range(0, len(data), _BODY)]
    return b"".join([DataFrame(stream, piece).serialize() for piece in pieces])
