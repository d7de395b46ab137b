"""The sender: a connection that sends calls in batches, and hears how each of them ends.

It knows frames and header blocks. It must never know what was asked, or whether an answer is right.
"""

import struct
from typing import Final

from hpack import Decoder, HPACKError

from governor.v1 import governor_pb2 as pb
from tests.abuse.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PREFACE,
    RST_STREAM,
    WINDOW_UPDATE,
    Hostile,
    frame,
    message,
    request,
    settings,
)
from tests.fuzz.surface import Sent

_WIDE: Final = PREFACE + settings(window=2**31 - 1) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 70_000))
_ACK: Final = frame(4, 1, 0)
_SANE: Final = request("/grpc.health.v1.Health/Check")


class Sender(Hostile):
    """One connection. ``statuses``: of each call that has ended, its grpc-status and what it says."""

    def __init__(self, address: str) -> None:
        self.statuses: dict[int, tuple[int, str]] = {}
        self._decoder = Decoder()
        super().__init__(address, hello=_WIDE + _ACK)

    def send(self, batch: list[Sent], patience: float) -> bool:
        """All of them, and a last one that makes sense; whether that was answered, or the connection ended."""
        if not self.say(b"".join([sent.bytes() for sent in batch]), patience) and self.open:
            return False
        if not self.open:
            return True
        probe = self.stream()
        self.say(frame(HEADERS, END_HEADERS, probe, _SANE) + frame(DATA, END_STREAM, probe, message(b"")))
        return self.answered(probe, patience) or not self.open

    def forget(self, batch: list[Sent], patience: float) -> None:
        """Give calls a moment to end, and take back those that did not."""
        waiting = [sent.stream for sent in batch if not sent.resets and sent.stream not in self.ended]
        for stream in waiting:
            if not self.answered(stream, patience):
                patience = 0.0
        left = [stream for stream in waiting if stream not in self.ended]
        self.say(b"".join([frame(RST_STREAM, 0, stream, b"\0\0\0\x08") for stream in left]))
        self.bodies.clear()

    def granted(self, batch: list[Sent]) -> list[int]:
        """Ids of leases that calls of these were granted."""
        found: list[int] = []
        for sent in batch:
            body = self.bodies.get(sent.stream, b"")
            if sent.path.endswith("/Acquire") and len(body) > 5:
                found.append(pb.AcquireResponse.FromString(body[5:]).lease.id)
            elif sent.path.endswith("/Session"):
                while len(body) > 5:
                    size = int.from_bytes(body[1:5])
                    if len(body) < 5 + size:
                        break
                    said = pb.SessionResponse.FromString(body[5 : 5 + size])
                    found.extend(grant.lease.id for grant in said.grants)
                    body = body[5 + size :]
        return found

    def _hear(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == GOAWAY:
            self.open = False
        if kind == HEADERS:
            try:
                fields = {str(name): str(value) for name, value in self._decoder.decode(payload, raw=False)}
            except (HPACKError, UnicodeDecodeError) as error:
                fields = {"grpc-status": "-1", "grpc-message": f"unreadable: {error}"}
            if flags & END_STREAM or "grpc-status" in fields:
                status = fields.get("grpc-status", "")
                told = fields.get("grpc-message", "") or f"HTTP {fields.get(':status', '')}"
                self.statuses[stream] = (int(status) if status.lstrip("-").isdecimal() else -2, told)
        super()._hear(kind, flags, stream, payload)
