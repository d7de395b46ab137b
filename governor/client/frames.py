"""What of HTTP/2 passes by h2: the messages of one call, and how much of them may be under way.

It knows the frames that carry data, open a window, or say that no more calls are taken (RFC 9113, sections 4.1, 5.2,
6.1, 6.8 and 6.9). It must never know what a message means, nor touch a socket; all other frames are for h2.

The daemon opens two windows for each message that it reads, and h2 takes as long for each of such frames as the client
does for several pairs of acquire and release: with all of them h2's, 64 tasks made a quarter fewer pairs a second.
"""

from struct import Struct
from typing import Final

# The bytes before a frame's payload: its length in three bytes, what it is, its flags, the call that it belongs to.
_HEAD: Final = Struct(">HBBBL")
_DATA: Final = 0
_GOAWAY: Final = 7
_WINDOW_UPDATE: Final = 8
_END_STREAM: Final = 0x1
_PADDED: Final = 0x8
_TAKEN: Final = frozenset({_DATA, _GOAWAY, _WINDOW_UPDATE})
# Longer ones are none that we allow, or say what nobody needs: h2 sees to them.
_LONGEST: Final = 16 * 1024
_FIRST_WINDOW: Final = 65_535
_MOST_WINDOW: Final = (1 << 31) - 1
_CONNECTION: Final = 0
# Bytes of a number in a payload.
_NUMBER: Final = 4


class Frames:
    """Of one call on a connection of its own. What comes of it is in ``received``; whoever reads it cuts it off."""

    def __init__(self, call: int, window: int) -> None:
        """``window``: how many bytes may be under way to us, on the connection and on the call."""
        self.received = bytearray()
        self._call = call
        self._window = window
        # Of what was taken, how much the daemon has not been told of.
        self._taken = 0
        # How much more may be sent.
        self._rooms = {_CONNECTION: _FIRST_WINDOW, call: _FIRST_WINDOW}
        # What came of a frame that is looked at whole, and how much is to come of one that is not.
        self._begun = b""
        self._passing = 0

    def sift(self, data: bytes) -> bytes:
        """All that came but what is taken here. Raises ValueError where it is not HTTP/2."""
        if self._begun:
            data, self._begun = self._begun + data, b""
        rest, start, at, size = list[bytes](), 0, self._passing, len(data)
        while at + _HEAD.size <= size:
            high, low, kind, flags, call = _HEAD.unpack_from(data, at)
            length = high << 8 | low
            begin = at + _HEAD.size
            end = begin + length
            if kind in _TAKEN and length <= _LONGEST:
                if end > size:
                    break
                if self._takes(kind, flags, call, data[begin:end]):
                    rest.append(data[start:at])
                    start = end
            at = end
        self._passing = max(0, at - size)
        self._begun = data[at:]
        rest.append(data[start:at])
        return b"".join(rest)

    def _takes(self, kind: int, flags: int, call: int, payload: bytes) -> bool:
        if kind == _DATA:
            # The one that ends the call is the last, so h2 may add what is in it to all that was taken before.
            if flags & _END_STREAM or call != self._call:
                return False
            self._taken += len(payload)
            self.received += _unpadded(payload) if flags & _PADDED else payload
            return True
        number = int.from_bytes(payload[:_NUMBER], "big")
        if kind == _WINDOW_UPDATE:
            # One that opens nothing, or that of another call, is a fault for h2 to find.
            if not (number and len(payload) == _NUMBER and call in self._rooms):
                return False
            self._open(call, number)
            return True
        # A server that ends says so first, and lets each call come to its end, with all that it has to say on it. For
        # h2 the connection is closed by the announcement: it would let us hear nothing more, nor what came with it.
        return number >= self._call and not any(payload[_NUMBER : 2 * _NUMBER])

    def _open(self, call: int, more: int) -> None:
        self._rooms[call] += more
        if self._rooms[call] > _MOST_WINDOW:
            raise ValueError("a window was opened too far")

    def resize(self, more: int) -> None:
        """Every call may have so much more under way from now on than it could at first, or less."""
        self._open(self._call, more)

    def acknowledge(self) -> bytes:
        """What tells the daemon that it may send more, once it has sent half of what it may."""
        if 2 * self._taken < self._window:
            return b""
        more, self._taken = self._taken.to_bytes(_NUMBER, "big"), 0
        return b"".join([_frame(_WINDOW_UPDATE, call, more) for call in self._rooms])

    def let_out(self, waiting: bytearray, most: int) -> bytes:
        """As much of what waits as the windows take, in frames of ``most`` bytes; it waits no more."""
        frames = list[bytes]()
        while waiting and (size := min(len(waiting), most, *self._rooms.values())) > 0:
            frames.append(_frame(_DATA, self._call, bytes(waiting[:size])))
            del waiting[:size]
            for call in self._rooms:
                self._rooms[call] -= size
        return b"".join(frames)


def _unpadded(payload: bytes) -> bytes:
    padding = payload[0] if payload else 0
    if padding >= len(payload):
        raise ValueError("more padding than there is in a frame")
    return payload[1 : len(payload) - padding]


def _frame(kind: int, call: int, payload: bytes) -> bytes:
    high, low = divmod(len(payload), 1 << 8)
    return _HEAD.pack(high, low, kind, 0, call) + payload
