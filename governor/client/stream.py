"""One gRPC call with messages both ways, as bytes in and bytes out.

It knows HTTP/2, through h2, and how gRPC frames messages (gRPC over HTTP/2, PROTOCOL-HTTP2.md). It must never know
what a message means, nor touch a socket.
"""

from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    PingAckReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import H2Error
from h2.settings import SettingCodes, Settings
from hpack import NeverIndexedHeaderTuple

from governor.client.frames import Frames

# What may be under way to us unread. The daemon writes small messages and bounds what it keeps for us.
_WINDOW: Final = 4 * 1024 * 1024
# A message of the daemon larger than this is none.
_MAX_MESSAGE: Final = 64 * 1024 * 1024
_PREFIX: Final = 5


class Ended(Exception):  # noqa: N818 - the end of a call need be no error
    """The call is over: ``code`` is its gRPC status, None when the connection ended without one."""

    def __init__(self, code: int | None, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Stream:
    """A call on a connection of its own. What it wants to send is in ``out``; whoever sends it clears it."""

    def __init__(
        self,
        path: str,
        authority: str,
        user_agent: str,
        headers: Iterable[tuple[str, str]] = (),
        *,
        scheme: str = "http",
    ) -> None:
        """``headers``: what it says besides, such as who calls. A secret enters no table that compresses."""
        self._http = H2Connection(
            config=H2Configuration(
                client_side=True,
                header_encoding=None,  # a header that is no text must not hide the others
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self._http.local_settings = Settings(
            client=True, initial_values={SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW, SettingCodes.ENABLE_PUSH: 0}
        )
        self._http.initiate_connection()
        self._http.increment_flow_control_window(_WINDOW)
        self._id = self._http.get_next_available_stream_id()
        self._http.send_headers(
            self._id,
            [
                (":method", "POST"),
                (":scheme", scheme),
                (":path", path),
                (":authority", authority),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("user-agent", user_agent),
                *(NeverIndexedHeaderTuple(name, value) for name, value in headers),
            ],
        )
        self.out = bytearray(self._http.data_to_send())
        self._frames = Frames(self._id, _WINDOW)
        # What the windows do not let out yet.
        self._waiting = bytearray()
        self._ended: Ended | None = None
        # When the last ping was sent, and the last one that was answered; 0 while none was.
        self._pinged_at = self.answered_at = 0

    @property
    def stuck(self) -> int:
        """Bytes that the daemon does not take yet."""
        return len(self._waiting)

    def send(self, message: bytes) -> None:
        """One message. Raises Ended when the call takes none any more."""
        self.check()
        self._waiting += b"\0" + len(message).to_bytes(4, "big") + message
        self._push()

    def ping(self, now: int) -> None:
        """Ask for a sign of life. The answer repeats when it was asked for, however long it lies unread."""
        try:
            self._http.ping(now.to_bytes(8, "big"))
            self._pinged_at = now
        except H2Error as error:
            raise Ended(None, str(error)) from error
        self.out += self._http.data_to_send()

    def receive(self, data: bytes) -> list[bytes]:
        """The whole messages that have come. Raises Ended after the last of them was returned."""
        ended: Ended | None = None
        try:
            if rest := self._frames.sift(data):
                for event in self._http.receive_data(rest):
                    ended = ended or self._handle(event)
                self.out += self._http.data_to_send()
        except (H2Error, ValueError) as error:
            self._ended = Ended(None, f"not HTTP/2: {error}")
            raise self._ended from error
        self.out += self._frames.acknowledge()
        messages, fault = self._messages()
        ended = ended or fault
        if ended is None and self._waiting:
            self._push()
        self._ended = ended
        if not messages:
            self.check()
        return messages

    def check(self) -> None:
        """Raise Ended if the last messages were the last."""
        if self._ended is not None:
            raise self._ended

    def _handle(self, event: Event) -> Ended | None:
        if isinstance(event, DataReceived):
            self._frames.received += event.data
            if event.flow_controlled_length:
                self._http.acknowledge_received_data(event.flow_controlled_length, self._id)
        elif isinstance(event, RemoteSettingsChanged):
            window = event.changed_settings.get(SettingCodes.INITIAL_WINDOW_SIZE)
            if window is not None:
                self._frames.resize(window.new_value - (window.original_value or 0))
        elif isinstance(event, PingAckReceived):
            self.answered_at = min(int.from_bytes(event.ping_data, "big"), self._pinged_at)
        elif isinstance(event, (ResponseReceived, TrailersReceived)):
            return _status(event.headers)
        elif isinstance(event, StreamEnded):
            return Ended(None, "the daemon ended the session")
        elif isinstance(event, StreamReset):
            return Ended(None, f"the daemon reset the session (HTTP/2 error {int(event.error_code)})")
        elif isinstance(event, ConnectionTerminated):
            said = (event.additional_data or b"").decode(errors="replace")
            return Ended(None, f"the daemon closed the connection{': ' + said if said else ''}")
        return None

    def _messages(self) -> tuple[list[bytes], Ended | None]:
        """The whole messages, up to one that nobody would send."""
        messages: list[bytes] = []
        received, at = self._frames.received, 0
        while len(received) - at >= _PREFIX:
            size = int.from_bytes(received[at + 1 : at + _PREFIX], "big")
            if received[at] or size > _MAX_MESSAGE:
                return messages, Ended(None, "not gRPC: a message that is compressed or too large")
            if len(received) - at - _PREFIX < size:
                break
            messages.append(bytes(received[at + _PREFIX : at + _PREFIX + size]))
            at += _PREFIX + size
        if at:
            del received[:at]
        return messages, None

    def _push(self) -> None:
        """Let out as much as the windows take."""
        self.out += self._frames.let_out(self._waiting, self._http.max_outbound_frame_size)


def _status(headers: Iterable[tuple[bytes | str, bytes | str]]) -> Ended | None:
    """The end that these headers or trailers say, if they say one."""
    fields = {_text(name): _text(value) for name, value in headers}
    status = fields.get("grpc-status")
    if status is not None and status.isascii() and status.isdigit():
        return Ended(int(status), unquote(fields.get("grpc-message", "")))
    http = fields.get(":status")
    if http is not None and http != "200":
        return Ended(None, f"HTTP status {http}: no daemon of ours listens there")
    return None


def _text(word: bytes | str) -> str:
    return word if isinstance(word, str) else word.decode(errors="replace")
