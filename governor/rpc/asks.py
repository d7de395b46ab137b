"""Asks as they arrive: bytes that were read before need not be read again.

It knows which bytes said what. It must never know what becomes of an ask, and never remember one that cannot come
again: an ask with a request id is one of a kind.

A program asks for the same thing again and again, in the same bytes, and for the daemon reading them costs more than
deciding about them.
"""

from typing import Final

from google.protobuf.message import DecodeError

from governor.core.types import Denial
from governor.rpc import translate
from governor.v1 import governor_pb2 as pb

# What is remembered is bounded by about a megabyte. When that is full, all of it is forgotten: it fills again within
# as many calls, and to keep account of which ask was used last would cost each call more than that.
MAX_KNOWN: Final = 1024
MAX_BYTES: Final = 256


class Asks:
    """What the bytes of an AcquireRequest say."""

    def __init__(self) -> None:
        self._known: dict[bytes, translate.Ask] = {}

    def __len__(self) -> int:
        return len(self._known)

    def read(self, raw: bytes) -> translate.Ask | Denial:
        """The ask, which nobody must change, or why it is none."""
        known = self._known.get(raw)
        if known is not None:
            return known
        try:
            request = pb.AcquireRequest.FromString(raw)
        except DecodeError:
            return translate.undecodable(pb.AcquireRequest)
        ask = translate.ask(request)
        if isinstance(ask, translate.Ask) and not ask.request_id and len(raw) <= MAX_BYTES:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[raw] = ask
        return ask
